package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// How scripts show commands, answers and rows.

var dueNames = map[keys.DueKind]string{
	keys.DueScheduled: "scheduled", keys.DueRetry: "retry", keys.DueLease: "lease",
	keys.DueUnique: "unique", keys.DueIdempotency: "idempotency",
}

var refusalNames = map[Refusal]string{
	Accepted: "ok", NotFound: "NOT FOUND", NotActive: "NOT ACTIVE", LeaseLost: "LEASE LOST", WrongState: "WRONG STATE",
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

func idText(id [16]byte) string      { return strings.TrimRight(string(id[:]), "\x00") }
func posText(p keys.Position) string { return fmt.Sprintf("%d.%d", p.Index, p.Ordinal) }

func commandText(c command.Command) string {
	switch c := c.(type) {
	case *command.Enqueue:
		return "enqueue " + idText(c.ID)
	case *command.Fetch:
		return "fetch"
	case *command.Ack:
		return "ack " + idText(c.ID)
	case *command.Fail:
		if c.Release {
			return "release " + idText(c.ID)
		}
		return "fail " + idText(c.ID)
	case *command.Heartbeat:
		return "heartbeat " + idText(c.ID)
	case *command.Extend:
		return "extend " + idText(c.ID)
	case *command.Fire:
		return "fire " + dueNames[c.Due.Kind] + " " + idText(c.Due.ID)
	case *command.Pause:
		if c.Paused {
			return "pause " + c.Queue
		}
		return "resume " + c.Queue
	case *command.Cancel:
		return "cancel " + idText(c.ID)
	case *command.Retry:
		return "retry " + idText(c.ID)
	case *command.Delete:
		return "delete " + idText(c.ID)
	case *command.TrimFeed:
		return fmt.Sprintf("trim before %d", c.Before)
	default:
		return fmt.Sprintf("%T", c)
	}
}

func resultText(c command.Command, r Result) string {
	words := []string{refusalNames[r.Refusal]}
	add := func(when bool, format string, args ...any) {
		if when {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	_, enqueue := c.(*command.Enqueue)
	add(enqueue, "job %s", idText(r.ID))
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
	for _, g := range r.Grants {
		add(true, "grant %s token %d@%s of %d", idText(g.ID), g.Attempt, posText(g.Epoch), g.MaxRetries)
		add(g.HasCheckpoint, "(checkpoint)")
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
	if a.FirstDue != 0 {
		fmt.Fprintf(b, "  first due %s\n", timeText(a.FirstDue))
	}
	for _, q := range a.Queues {
		fmt.Fprintf(b, "  queue %s paused %v\n", q.Queue, q.Paused)
	}
}

// eventsText shows what the store holds for the entry, as a reader of the feed gets it.
func eventsText(b *strings.Builder, t *testing.T, g *statedb.Group, index uint64) {
	v, err := g.Get(keys.In(g.Prefix()).Feed(index))
	if errors.Is(err, statedb.ErrNotFound) {
		return
	}
	if err != nil {
		t.Fatalf("read feed %d: %v", index, err)
	}
	_, events, err := feed.Decode(v)
	if err != nil {
		t.Fatalf("feed %d: %v", index, err)
	}
	for _, e := range events {
		fmt.Fprintf(b, "  event %s\n", eventText(e))
	}
}

func eventText(e feed.Event) string {
	if e.ID.IsZero() {
		return fmt.Sprintf("%s %s", e.Type, e.Queue)
	}
	s := "gone"
	if e.State != 0 {
		s = e.State.String()
	}
	return fmt.Sprintf("%s %s/%s -> %s, attempt %d", e.Type, e.Queue, idText(e.ID), s, e.Attempt)
}

func (s *script) feed(after uint64) string {
	batches, err := feed.Read(s.r.store, after, 100)
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	var b strings.Builder
	for _, batch := range batches {
		for _, e := range batch.Events {
			fmt.Fprintf(&b, "%d %s %s\n", batch.Index, timeText(batch.Now), eventText(e))
		}
	}
	if b.Len() == 0 {
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
	case 0x20:
		due, err := d.space.ParseDue(k)
		fmt.Fprintf(&d.b, "due %s %s %s\n", timeText(due.At), dueNames[due.Kind], idText(due.ID))
		return err
	case 0x30:
		index, err := d.space.FeedIndex(k)
		if index == 0 {
			fmt.Fprintf(&d.b, "feed trimmed before %d\n", v[7])
		}
		return err
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
		c, err := decodeQueueConfig(v)
		fmt.Fprintf(&d.b, "queue %s paused %v since %s\n", k[1:], c.Paused, timeText(c.CreatedAt))
		return err
	case 'r':
		n := int(k[0])
		pos, err := d.space.ReadyPosition(append(make([]byte, 22), k...))
		fmt.Fprintf(&d.b, "ready %s/%s %s -> %s\n", k[1:1+n], job.Priority(k[1+n]), posText(pos), idText([16]byte(v)))
		return err
	case 'e':
		e, err := decodeAttemptError(v)
		fmt.Fprintf(&d.b, "error of %s: attempt %d at %s %q %q\n", idText([16]byte(k[:16])), e.Attempt, timeText(e.At), e.Error, e.Backtrace)
		return err
	case keys.Result, keys.Checkpoint, keys.Progress:
		name := map[byte]string{keys.Result: "result", keys.Checkpoint: "checkpoint", keys.Progress: "progress"}[family]
		fmt.Fprintf(&d.b, "%s of %s: %s\n", name, idText([16]byte(k)), v)
		return nil
	default:
		return fmt.Errorf("family %q is unknown", family)
	}
}

func (d *dumper) body(k, v []byte) error {
	b, err := decodeBody(v)
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
	if b.IdempotencyKey != "" {
		fmt.Fprintf(&d.b, " idempotency %s", b.IdempotencyKey)
	}
	d.b.WriteByte('\n')
	return err
}

func (d *dumper) head(k, v []byte) error {
	h, err := decodeHead(v)
	fmt.Fprintf(&d.b, "head %s: %s %s/%s attempt %d of %d", idText([16]byte(k)), h.State, h.Queue, h.Priority, h.Attempt, h.Retry.MaxRetries)
	add := func(when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&d.b, " "+format, args...)
		}
	}
	add(h.Crashes != 0, "crashes %d", h.Crashes)
	add(!h.Pos.IsZero(), "place %s", posText(h.Pos))
	add(h.Due != 0, "due %s", timeText(h.Due))
	add(!h.Epoch.IsZero(), "lease %s of %s by %s@%s peer %d", posText(h.Epoch), h.Lease, h.Worker, h.Hostname, h.Peer)
	add(h.Started != 0, "started %s", timeText(h.Started))
	add(h.FailedAt != 0, "failed %s", timeText(h.FailedAt))
	add(h.Finished != 0, "finished %s", timeText(h.Finished))
	add(h.Reason != NotDead, "reason %s", h.Reason)
	add(h.has(flagUnique), "holds-unique")
	var line []string
	for _, m := range h.Timeline {
		line = append(line, fmt.Sprintf("%s %s #%d", timeText(m.At), m.What, m.Attempt))
	}
	fmt.Fprintf(&d.b, "\n  %s\n", strings.Join(line, ", "))
	return err
}

func (d *dumper) lock(family byte, k, v []byte) error {
	l, err := decodeLock(v)
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
	d.b.WriteByte('\n')
	return err
}

func (d *dumper) counts(k, v []byte) error {
	c, err := decodeCounts(v)
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
	d.b.WriteByte('\n')
	return err
}
