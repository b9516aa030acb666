package state

import (
	"fmt"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// How scripts write and show batches, chains and jobs that wait for others.

var onDependency = map[string]command.DependencyPolicy{"": command.DependencyFail, "run": command.DependencyRun, "cancel": command.DependencyCancel}

// ties reads what a job has to do with others: batch=b, after=A,B unmet=run, and
// chain=c steps=r:{"n":2},s on-failure=bad on-exit=end go-on=true, where the job is the first step.
func (l *scriptLine) ties(c *command.Enqueue) {
	if v := l.text("batch", ""); v != "" {
		c.Batch = job.BatchID(idOf(v))
	}
	if v := l.text("after", ""); v != "" {
		for name := range strings.SplitSeq(v, ",") {
			c.DependsOn = append(c.DependsOn, idOf(name))
		}
		policy, ok := onDependency[l.text("unmet", "")]
		if !ok {
			l.fail("unmet")
		}
		c.OnDependency = policy
	}
	v := l.text("chain", "")
	if v == "" {
		return
	}
	ch := &command.Chain{
		ID: job.ChainID(idOf(v)), Steps: []command.Step{{Queue: c.Queue, Payload: c.Payload}},
		OnFailure: l.step("on-failure"), OnExit: l.step("on-exit"), GoOn: l.text("go-on", "") == "true",
	}
	if v := l.text("steps", ""); v != "" {
		for word := range strings.SplitSeq(v, ",") {
			ch.Steps = append(ch.Steps, stepOf(word))
		}
	}
	c.Chain = ch
}

// step reads queue:payload, or nothing.
func (l *scriptLine) step(key string) *command.Step {
	v := l.text(key, "")
	if v == "" {
		return nil
	}
	s := stepOf(v)
	return &s
}

func stepOf(v string) command.Step {
	queue, payload, ok := strings.Cut(v, ":")
	s := command.Step{Queue: queue}
	if ok {
		s.Payload = []byte(payload)
	}
	return s
}

// tie shows a row of a batch, a chain or a job that waits; known is false for others.
func (d *dumper) tie(family byte, k, v []byte) (known bool, err error) {
	if len(k) < 16 {
		return false, nil
	}
	first, last := idText([16]byte(k[:16])), idText([16]byte(k[len(k)-16:]))
	switch family {
	case 'g':
		return true, d.batch(first, v)
	case 'C':
		payload, err := records.DecodeCallback(v)
		fmt.Fprintf(&d.b, "callback of %s: %q\n", first, payload)
		return true, err
	case 'm':
		o, err := records.DecodeOutcome(v)
		ended := "open"
		if o != records.NoOutcome {
			ended = o.String()
		}
		fmt.Fprintf(&d.b, "member %s of %s: %s\n", last, first, ended)
		return true, err
	case 'l':
		return true, d.chain(first, v)
	case 'L':
		return true, d.chainState(first, v)
	case keys.Waits:
		ids, err := records.DecodeIDs("waits", v)
		fmt.Fprintf(&d.b, "%s waits for%s\n", first, idsText(ids))
		return true, err
	case 'd':
		fmt.Fprintf(&d.b, "%s is waited for by %s\n", first, idText(job.ID(v)))
		return true, nil
	case keys.Waiters:
		w, err := records.DecodeWaiters(v)
		fmt.Fprintf(&d.b, "%s told %d of %d\n", first, w.Told, w.Made)
		return true, err
	default:
		return false, nil
	}
}

func idsText(ids []job.ID) (s string) {
	for _, id := range ids {
		s += " " + idText(id)
	}
	return s
}

func (d *dumper) batch(name string, v []byte) error {
	b, err := records.DecodeBatch(v)
	fmt.Fprintf(&d.b, "batch %s: sealed %v, %d of %d open", name, b.Sealed, b.Open, b.Total)
	for o := records.OutcomeCompleted; o < records.OutcomesEnd; o++ {
		if n := b.Counts[o]; n > 0 {
			fmt.Fprintf(&d.b, ", %d %s", n, o)
		}
	}
	if b.Fired() {
		fmt.Fprintf(&d.b, ", fired at %s", timeText(b.FinishedAt))
	}
	if !b.CallbackID.IsZero() {
		fmt.Fprintf(&d.b, " as %s", idText(b.CallbackID))
	}
	d.b.WriteByte('\n')
	return err
}

func (d *dumper) chain(name string, v []byte) error {
	c, err := records.DecodeChain(v)
	if err != nil {
		return err
	}
	fmt.Fprintf(&d.b, "steps of chain %s:", name)
	for _, s := range c.Steps {
		d.b.WriteString(" " + s.Queue)
	}
	if c.OnFailure != nil {
		d.b.WriteString(", on failure " + c.OnFailure.Queue)
	}
	if c.OnExit != nil {
		d.b.WriteString(", on exit " + c.OnExit.Queue)
	}
	if c.GoOn {
		d.b.WriteString(", goes on")
	}
	d.b.WriteByte('\n')
	return nil
}

func (d *dumper) chainState(name string, v []byte) error {
	s, err := records.DecodeChainState(v)
	fmt.Fprintf(&d.b, "chain %s: %s, %d of %d steps:%s", name, s.Status, len(s.Jobs), s.Steps, idsText(s.Jobs))
	if !s.OnFailure.IsZero() {
		fmt.Fprintf(&d.b, ", on failure %s", idText(s.OnFailure))
	}
	if !s.OnExit.IsZero() {
		fmt.Fprintf(&d.b, ", on exit %s", idText(s.OnExit))
	}
	if s.ExitReason != "" {
		fmt.Fprintf(&d.b, " %q", s.ExitReason)
	}
	if s.FinishedAt != 0 {
		fmt.Fprintf(&d.b, " at %s", timeText(s.FinishedAt))
	}
	d.b.WriteByte('\n')
	return err
}
