package state

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// How scripts show commands, answers and rows.

var dueNames = map[keys.DueKind]string{
	keys.DueScheduled: "scheduled", keys.DueRetry: "retry", keys.DueLease: "lease",
	keys.DueUnique: "unique", keys.DueIdempotency: "idempotency", keys.DueHold: "hold", keys.DueExpire: "expire",
	keys.DueSchedule: "schedule", keys.DueDeliver: "deliver",
}

var refusalNames = map[Refusal]string{
	Accepted: "ok", NotFound: "NOT FOUND", NotActive: "NOT ACTIVE", LeaseLost: "LEASE LOST", WrongState: "WRONG STATE",
	NotApprover: "NOT APPROVER", Draining: "DRAINING", NotAgent: "NO AGENT", BudgetSpent: "BUDGET SPENT", TooMany: "TOO MANY",
	Exists: "EXISTS", NoDependency: "NO JOB TO WAIT FOR", NoBatch: "NO BATCH", BatchClosed: "BATCH CLOSED",
}

func timeText(at int64) string {
	switch at {
	case 0:
		return "0"
	case 1<<63 - 1:
		return "never"
	}
	return "+" + time.Duration(at-epoch).String()
}

// idText is the name of an id, or for one that was derived all its digits.
func idText(id [16]byte) string {
	name := strings.TrimRight(string(id[:]), "\x00")
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Sprintf("#%x", id)
	}
	return name
}

func posText(p keys.Position) string { return fmt.Sprintf("%d.%d", p.Index, p.Ordinal) }

func sweepText(c *command.Sweep) string {
	s := "sweep " + c.Queue
	for _, id := range c.Jobs {
		s += " job " + idText(id)
	}
	for _, key := range c.Unique {
		s += " unique " + key
	}
	for _, key := range c.Idempotency {
		s += " idempotency " + key
	}
	if c.Done != 0 {
		s += fmt.Sprintf(" done %d", c.Done)
	}
	return s
}

func resultText(c command.Command, r Result) string {
	words := []string{refusalNames[r.Refusal]}
	add := func(when bool, format string, args ...any) {
		if when {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	_, enqueue := c.(*command.Enqueue)
	_, tick := c.(*command.Tick)
	add(enqueue || tick && !r.ID.IsZero(), "job %s", idText(r.ID))
	add(r.State != 0, "%s", r.State)
	add(r.Duplicate, "duplicate")
	add(r.Replayed, "replayed")
	add(r.NextAt != 0, "next at %s", timeText(r.NextAt))
	if _, fail := c.(*command.Fail); fail {
		add(r.Refusal == Accepted, "remaining %d", r.Remaining)
	}
	if _, beat := c.(*command.Heartbeat); beat && r.Refusal == Accepted {
		add(true, "lease %s of %s", posText(r.Epoch), r.Lease)
	}
	add(r.Cancel, "please let go")
	add(r.Over, "for it costs too much")
	add(r.Removed != 0, "removed %d", r.Removed)
	add(r.Requeued != 0, "requeued %d", r.Requeued)
	if _, move := c.(*command.Move); move {
		add(r.Refusal == Exists, "by %s", idText(r.ID))
	}
	if _, group := c.(*command.Atomic); group {
		add(r.Refusal != Accepted, "for command %d", r.Culprit)
	}
	for _, g := range r.Grants {
		add(true, "grant %s token %d@%s of %d", idText(g.ID), g.Attempt, posText(g.Epoch), g.MaxRetries)
		add(g.HasCheckpoint, "(checkpoint)")
		add(g.Iteration > 0, "(iteration %d)", g.Iteration)
	}
	for _, id := range r.Skipped {
		add(true, "skip %s", idText(id))
	}
	return strings.Join(words, " ")
}

func appliedText(b *strings.Builder, a *Applied) {
	for _, r := range a.Ready {
		fmt.Fprintf(b, "  ready %s/%s %s %s\n", r.Queue, r.Priority, posText(r.Pos), idText(r.ID))
	}
	for _, r := range a.Unready {
		fmt.Fprintf(b, "  unready %s/%s %s %s\n", r.Queue, r.Priority, posText(r.Pos), idText(r.ID))
	}
	if at := a.FirstDue.Lease; at != 0 {
		fmt.Fprintf(b, "  first due %s\n", timeText(at))
	}
	if at := a.FirstDue.Calendar; at != 0 {
		fmt.Fprintf(b, "  first due %s\n", timeText(at))
	}
	for _, q := range a.Queues {
		fmt.Fprintf(b, "  queue %s paused %v%s\n", q.Queue, q.Paused, limitsText(&q, a.Now))
	}
	for _, of := range a.Budgets {
		fmt.Fprintf(b, "  budget of scope %d %q shuts other jobs\n", of.Scope, of.Target)
	}
	if a.Sweep {
		fmt.Fprintf(b, "  something to sweep\n")
	}
}

func limitsText(q *stateread.QueueState, now stateread.Times) string {
	var s string
	if n, ok := q.Slots(); ok {
		s += fmt.Sprintf(", slots %d", n)
	}
	if n, ok := q.Starts(now); ok {
		s += fmt.Sprintf(", starts %d", n)
		if n == 0 {
			at := q.Opens(now)
			s += " until " + timeText(max(at.Lease, at.Calendar))
		}
	}
	if q.Rewind {
		s += ", read it anew"
	}
	return s
}

// eventsText shows what the store holds for the entry, as a reader of the feed gets it.
func eventsText(b *strings.Builder, t *testing.T, g *statedb.Group, index uint64) {
	for _, row := range rowsOf(t, g) {
		for _, e := range row.Events {
			if row.Index == index {
				fmt.Fprintf(b, "  event %s\n", eventText(e))
			}
		}
	}
}

// rowsOf reads the events of all namespaces, one after the other.
func rowsOf(t tb, g *statedb.Group) (rows []feed.Row) {
	t.Helper()
	list, err := stateread.ReadNamespaces(g, job.Namespace{}, math.MaxInt)
	if err != nil {
		t.Fatalf("list namespaces: %v", err)
	}
	for _, ns := range list {
		if _, err := feed.Walk(g, ns, 0, func(r *feed.Row) bool { rows = append(rows, *r); return true }); err != nil {
			t.Fatalf("read the events of %s: %v", ns, err)
		}
	}
	return rows
}

func eventText(e feed.Event) string {
	if e.ID.IsZero() {
		return fmt.Sprintf("%s %s", e.Type, e.Queue)
	}
	s, from := "gone", ""
	if e.State != 0 {
		s = e.State.String()
	}
	if e.From != 0 {
		from = e.From.String() + " "
	}
	return fmt.Sprintf("%s %s/%s %s-> %s, attempt %d", e.Type, e.Queue, idText(e.ID), from, s, e.Attempt)
}

func (s *script) feed(after uint64) string {
	var ns job.Namespace
	copy(ns[:], "n1")
	var b strings.Builder
	lost, err := feed.Walk(s.r.store, ns, after, func(r *feed.Row) bool {
		for _, e := range r.Events {
			fmt.Fprintf(&b, "%d in entry %d %s %s\n", e.Seq, r.Index, timeText(r.Now), eventText(e))
		}
		return true
	})
	switch {
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	case lost:
		return "lost\n" + b.String()
	case b.Len() == 0:
		return "nothing\n"
	}
	return b.String()
}

// dumpText shows every row of the group, in key order. Feed rows are shown by
// the entries that wrote them.
func dumpText(t *testing.T, g *statedb.Group) string {
	d := dumper{space: keys.In(g.Prefix())}
	from, to := d.space.All()
	err := g.Scan(from, to, func(k, v []byte) (bool, error) { return true, d.row(k, v) })
	if err != nil {
		t.Fatalf("dump: %v", err)
	}
	if d.b.Len() == 0 {
		return "nothing\n"
	}
	return d.b.String()
}

type dumper struct {
	space keys.Space
	b     strings.Builder
}

func (d *dumper) row(k, v []byte) error {
	switch k[4] {
	case 0x20, 0x21:
		due, err := d.space.ParseDue(k)
		fmt.Fprintf(&d.b, "due %s %s %s\n", timeText(due.At), dueNames[due.Kind], idText(due.ID))
		return err
	case 0x38:
		ns, queue, err := d.space.ParseSweep(k)
		if err != nil {
			return err
		}
		m, err := records.DecodeSweepMark(v)
		fmt.Fprintf(&d.b, "%s is swept of what came before %d, deleted at %s\n", strings.TrimPrefix(idText(ns)+"/"+queue, "n1/"), m.Gen, timeText(m.At))
		return err
	case 0x3a, 0x3b:
		return d.reading(k, v)
	case 0x40:
		ns := idText([16]byte(k[5:21]))
		if ns == "n1" {
			ns = ""
		} else {
			ns += " "
		}
		d.b.WriteString(ns)
		return d.namespaceRow(k[21], k[22:], v)
	default:
		return fmt.Errorf("key %x is of no family", k)
	}
}

func (d *dumper) reading(k, v []byte) error {
	r, err := records.DecodeReading(v)
	ns := strings.TrimPrefix(idText([16]byte(k[len(k)-16:]))+" ", "n1 ")
	fmt.Fprintf(&d.b, "%sreading of %s", ns, hourText(r.Hour))
	if k[4] == 0x3a {
		d.b.WriteString(", open")
	}
	fmt.Fprintf(&d.b, ": entry %d, jobs %d, executions %d, payloads %d, %d byte-ms in %s; open jobs %d, stored %d", r.Seq, r.Jobs, r.Executions, r.PayloadBytes,
		r.Kept, time.Duration(r.Until)*time.Millisecond, r.OpenJobs, r.StoredBytes)
	if q := r.Quiet; q.From != 0 {
		fmt.Fprintf(&d.b, "; quiet since %s with %d jobs of %d bytes, until entry %d", hourText(q.From), q.OpenJobs, q.StoredBytes, q.Seq)
	}
	d.b.WriteByte('\n')
	return err
}

// hourText is an hour as distance from the one in which the log begins.
func hourText(hour uint64) string { return fmt.Sprintf("hour %d", hour-records.HourOf(epoch)) }

func (d *dumper) namespaceRow(family byte, k, v []byte) error {
	switch family {
	case keys.Body:
		return d.body(k, v)
	case keys.Head:
		return d.head(k, v)
	case keys.Unique, keys.Idempotency:
		return d.lock(family, k, v)
	case keys.QueueCounts:
		return d.counts(k, v)
	case keys.QueueConfig:
		c, err := records.DecodeQueueConfig(v)
		fmt.Fprintf(&d.b, "queue %s paused %v since %s", k[1:], c.Paused, timeText(c.CreatedAt))
		if c.MaxConcurrency > 0 {
			fmt.Fprintf(&d.b, " max %d", c.MaxConcurrency)
		}
		if !c.Throttle.IsZero() {
			fmt.Fprintf(&d.b, " throttle %d/%s", c.Throttle.Limit, c.Throttle.Window)
		}
		if c.Draining {
			d.b.WriteString(" draining")
		}
		if c.RetrySet != 0 {
			fmt.Fprintf(&d.b, " retry %s", retryText(c.Retry, c.RetrySet))
		}
		if c.Retention != (command.QueueRetention{}) {
			fmt.Fprintf(&d.b, " retention %s", retentionText(c.Retention))
		}
		if c.Gen != 0 {
			fmt.Fprintf(&d.b, " generation %d", c.Gen)
		}
		if c.Kept != 0 {
			fmt.Fprintf(&d.b, " keeping %d", c.Kept-1)
		}
		d.b.WriteByte('\n')
		return err
	case 'X':
		n, err := records.DecodeTally(v)
		fmt.Fprintf(&d.b, "%d schedules\n", n)
		return err
	case 'G':
		n, err := records.DecodeTally(v)
		fmt.Fprintf(&d.b, "%d open batches\n", n)
		return err
	case 'r':
		n := int(k[0])
		pos, err := d.space.ReadyPosition(append(make([]byte, 22), k...))
		fmt.Fprintf(&d.b, "ready %s/%s %s -> %s\n", k[1:1+n], job.Priority(k[1+n]), posText(pos), idText([16]byte(v)))
		return err
	case 'v':
		return nil // Shown by the entries that wrote them.
	case 'V':
		m, err := feed.DecodeMark(v)
		fmt.Fprintf(&d.b, "%d events, the last at %s\n", m.Seq, timeText(m.At))
		return err
	case 'e':
		e, err := records.DecodeAttemptError(v)
		fmt.Fprintf(&d.b, "error of %s: attempt %d by %s at %s %q %q\n", idText([16]byte(k[:16])), e.Attempt, e.Worker, timeText(e.At), e.Text(), e.Backtrace)
		return err
	case keys.Hold:
		return d.hold(k, v)
	case 'k':
		return d.schedule(k, v)
	case 'x':
		id, err := records.DecodeScheduleID(v)
		fmt.Fprintf(&d.b, "schedule called %s -> %s\n", k, idText(id))
		return err
	case keys.Result, keys.Checkpoint, keys.Progress:
		name := map[byte]string{keys.Result: "result", keys.Checkpoint: "checkpoint", keys.Progress: "progress"}[family]
		fmt.Fprintf(&d.b, "%s of %s: %s\n", name, idText([16]byte(k)), v)
		return nil
	default:
		known, err := d.money(family, k, v)
		if !known {
			known, err = d.tie(family, k, v)
		}
		if !known {
			err = fmt.Errorf("family %q is unknown", family)
		}
		return err
	}
}

// retryText is the parts of a policy as scripts write them.
func retryText(p command.RetryPolicy, parts command.RetryParts) string {
	words := []string{fmt.Sprint(p.MaxRetries), p.Backoff.String(), p.BaseDelay.String(), p.MaxDelay.String()}
	for i := range words {
		if parts&(1<<i) == 0 {
			words[i] = "-"
		}
	}
	return strings.Join(words, ",")
}

// retentionText is what setQueue of a script reads.
func retentionText(r command.QueueRetention) string {
	words := []string{r.Completed.String(), r.Dead.String(), r.Cancelled.String(), fmt.Sprint(r.Max)}
	for i, word := range words {
		if word == "0s" || word == "0" {
			words[i] = "-"
		}
	}
	return strings.Join(words, ",")
}

func (d *dumper) schedule(k, v []byte) error {
	s, err := records.DecodeSchedule(v)
	fmt.Fprintf(&d.b, "schedule %s: %s %s version %d created %s updated %s", idText([16]byte(k)), s.Cron, s.Zone, s.Version, timeText(s.CreatedAt), timeText(s.UpdatedAt))
	if s.Paused {
		d.b.WriteString(" paused")
	}
	fmt.Fprintf(&d.b, " next %s missed %d", timeText(s.Next), s.Missed)
	if s.Since != s.Next {
		fmt.Fprintf(&d.b, " since %s", timeText(s.Since))
	}
	if !s.LastJob.IsZero() {
		fmt.Fprintf(&d.b, " last %s at %s", idText(s.LastJob), timeText(s.LastRun))
	}
	d.b.WriteByte('\n')
	return err
}

func (d *dumper) body(k, v []byte) error {
	b, err := records.DecodeBody(v)
	fmt.Fprintf(&d.b, "body %s: queue %s payload %s created %s", idText([16]byte(k)), b.Queue, b.Payload, timeText(b.CreatedAt))
	if b.ScheduledAt != 0 {
		fmt.Fprintf(&d.b, " scheduled %s", timeText(b.ScheduledAt))
	}
	for _, t := range b.Tags {
		fmt.Fprintf(&d.b, " tag %s:%s", t.Key, t.Value)
	}
	if b.UniqueKey != "" {
		fmt.Fprintf(&d.b, " unique %s", b.UniqueKey)
	}
	if !b.Schedule.IsZero() {
		fmt.Fprintf(&d.b, " tick %s of %s", timeText(b.Tick), idText(b.Schedule))
	}
	if b.IdempotencyKey != "" {
		fmt.Fprintf(&d.b, " idempotency %s", b.IdempotencyKey)
	}
	d.b.WriteByte('\n')
	return err
}

func (d *dumper) head(k, v []byte) error {
	h, err := records.DecodeHead(v)
	fmt.Fprintf(&d.b, "head %s: %s %s/%s attempt %d of %d", idText([16]byte(k)), h.State, h.Queue, h.Priority, h.Attempt, h.Retry.MaxRetries)
	add := func(when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&d.b, " "+format, args...)
		}
	}
	if usual := command.DefaultRetry(); h.Retry.Backoff != usual.Backoff || h.Retry.BaseDelay != usual.BaseDelay || h.Retry.MaxDelay != usual.MaxDelay {
		add(true, "retry %s", retryText(h.Retry, command.RetryAll))
	}
	add(h.Crashes != 0, "crashes %d", h.Crashes)
	add(!h.Pos.IsZero(), "place %s", posText(h.Pos))
	add(h.Due != 0, "due %s", timeText(h.Due))
	add(!h.Epoch.IsZero(), "lease %s of %s by %s@%s peer %d", posText(h.Epoch), h.Lease, h.Worker, h.Hostname, h.Peer)
	add(h.Started != 0, "started %s", timeText(h.Started))
	add(h.FailedAt != 0, "failed %s", timeText(h.FailedAt))
	add(h.Finished != 0, "finished %s", timeText(h.Finished))
	add(h.Reason != records.NotDead, "reason %s", h.Reason)
	add(h.Iteration > 0, "iteration %d", h.Iteration)
	add(h.Has(records.FlagIterated), "over")
	add(h.Has(records.FlagUnique), "holds-unique")
	add(h.Has(records.FlagBlocked), "waits")
	add(h.Has(records.FlagDependents), "waited-for")
	add(h.Has(records.FlagHoldNext), "then-held")
	add(h.Has(records.FlagExpired), "then-expired")
	add(h.ExpireAt != 0, "expires %s", timeText(h.ExpireAt))
	add(h.Gen != 0, "generation %d", h.Gen)
	add(h.Metered, "stored %d", h.Stored)
	var line []string
	for _, m := range h.Timeline {
		line = append(line, fmt.Sprintf("%s %s #%d", timeText(m.At), m.What, m.Attempt))
	}
	fmt.Fprintf(&d.b, "\n  %s\n", strings.Join(line, ", "))
	return err
}

func (d *dumper) hold(k, v []byte) error {
	h, err := records.DecodeHold(v)
	fmt.Fprintf(&d.b, "hold of %s: %q by %q at %s", idText([16]byte(k)), h.Cause.String(), h.By, timeText(h.At))
	if h.Until != 0 {
		fmt.Fprintf(&d.b, " until %s", timeText(h.Until))
	}
	if h.Decision != records.Undecided {
		fmt.Fprintf(&d.b, ", %s by %q at %s %q", h.Decision, h.DecidedBy, timeText(h.DecidedAt), h.Comment)
	}
	d.b.WriteByte('\n')
	return err
}

func (d *dumper) lock(family byte, k, v []byte) error {
	l, err := records.DecodeLock(v)
	n := int(k[0])
	name := "unique"
	if family == keys.Idempotency {
		name = "idempotency"
	}
	fmt.Fprintf(&d.b, "%s %s/%s -> %s by %s until %s", name, k[1:1+n], k[1+n:], idText(l.Owner), idText(l.By), timeText(l.Expires))
	if l.State != 0 {
		fmt.Fprintf(&d.b, " answered %s", l.State)
	}
	if l.Duplicate {
		d.b.WriteString(" duplicate")
	}
	if l.Gen != 0 {
		fmt.Fprintf(&d.b, " generation %d", l.Gen)
	}
	d.b.WriteByte('\n')
	return err
}

func (d *dumper) counts(k, v []byte) error {
	c, err := records.DecodeCounts(v)
	fmt.Fprintf(&d.b, "counts %s:", k[1:])
	for _, s := range job.States() {
		if c.Jobs[s] != 0 {
			fmt.Fprintf(&d.b, " %s %d", s, c.Jobs[s])
		}
	}
	fmt.Fprintf(&d.b, " enqueued %d failed %d", c.Enqueued, c.Failed)
	for p, f := range c.Floor {
		if !f.IsZero() {
			fmt.Fprintf(&d.b, " floor %s %s", job.Priority(p), posText(f))
		}
	}
	for _, r := range c.Starts {
		fmt.Fprintf(&d.b, " started %d at %s", r.N, timeText(r.Last))
	}
	d.b.WriteByte('\n')
	return err
}
