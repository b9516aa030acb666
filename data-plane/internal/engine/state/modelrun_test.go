package state

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

// Whatever commands come in whatever order, the engine answers as the oracle does, every job
// is in exactly the indexes of its state, counters equal the sets (INV-9), and in
// the end every job ends.
func TestModel_EngineAndModelAgreeAfterEveryCommand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{t, newReplica(t), newOracle()}
		defer p.close(t)
		g := newGenerator(t, p.replica)
		for range 1 + g.pick(80, "steps") + g.pick(80, "more steps") {
			cmds := g.commands()
			p.step(g.when(cmds), cmds...)
			p.agree()
		}
		p.sweepEverything()
		p.agree()
		p.causes()
		p.settle()
	})
}

// The generator draws every kind of command that the log knows, including those
// added after this test was written.
func TestModel_EveryKindOfCommandIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := map[command.Kind]int{}
	run := rapid.Custom(func(t *rapid.T) int {
		p := &pair{t, newReplica(t), newOracle()}
		defer p.close(t)
		g := newGenerator(t, p.replica)
		for range 60 {
			cmds := g.commands()
			for _, c := range cmds {
				drawn[command.KindOf(c)]++
			}
			p.step(g.when(cmds), cmds...)
		}
		return 0
	})
	for seed := range 40 {
		run.Example(seed)
	}
	for kind := range command.Kind(command.Kinds) {
		end := kind == command.KindOf(&command.EndNamespace{}) || kind == command.KindOf(&command.SweepNamespace{}) // TestEndNamespace draws around them.
		if kind > 0 && drawn[kind] == 0 && !end {
			t.Errorf("commands of kind %d are never drawn", kind)
		}
	}
}

// The same log gives the same bytes and the same digest (INV-16), however its entries
// are batched into transactions, whether or not the machine was restarted in between, and
// whatever was applied in between and not committed.
func TestReplicas_AreByteEqualHoweverEntriesAreGathered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, many := newReplica(t), newReplica(t)
		defer one.close(t)
		defer many.close(t)
		g := newGenerator(t, one)
		var log []logEntry
		for range 1 + g.pick(25, "entries") {
			e := logEntry{now: one.now + g.pass()}
			e.lease = e.now - one.lag
			for range 1 + g.pick(5, "commands") {
				e.cmds = append(e.cmds, g.commands()...)
			}
			one.apply(t, e)
			log = append(log, e)
		}
		for rest := log; len(rest) > 0; {
			n := 1 + g.pick(len(rest), "gathered")
			many.apply(t, rest[:n]...)
			rest = rest[n:]
			switch g.pick(3, "in between") {
			case 0:
				many.machine = New(many.store, nil)
			case 1:
				if len(rest) > 0 {
					many.drop(t, rest[g.pick(len(rest), "dropped"):]...)
				}
			}
		}
		if a, b := one.dump(t), many.dump(t); !bytes.Equal(a, b) {
			t.Fatalf("one by one:\n%s\ngathered:\n%s", a, b)
		}
		if one.digest != many.digest {
			t.Fatalf("digest %x, gathered %x", one.digest, many.digest)
		}
		one.audit(t)
	})
}

// Commands that share an entry do what they do in entries of their own (D8, D9, D10):
// only the nanoseconds differ by which one entry comes after another, and what a queue
// is refused for the length of an entry, which is left out here.
func TestModel_OneByOneEqualsBatched(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, many := &pair{t, newReplica(t), newOracle()}, newReplica(t)
		defer p.close(t)
		defer many.close(t)
		g := newGenerator(t, p.replica)
		g.calm = true
		for range 1 + g.pick(15, "entries") {
			// The odd microsecond keeps times of different entries from meeting.
			e := logEntry{now: max(p.now, many.now) + g.pass() + int64(time.Microsecond)}
			many.lag = p.lag
			for range 1 + g.pick(6, "commands") {
				cmds := g.commands()
				for _, c := range cmds {
					e.cmds = append(e.cmds, many.theirs(t, e.now, c))
				}
				p.step(e.now, cmds...)
			}
			many.apply(t, e)
			p.same(many)
		}
	})
}

// theirs is a command with the time that its due row has in this replica.
func (r *replica) theirs(t tb, now int64, c command.Command) command.Command {
	f, ok := c.(*command.Fire)
	if !ok {
		return c
	}
	rows, err := bothDue(r.store, 0, 1<<62, 1000)
	if err != nil {
		t.Fatalf("read due: %v", err)
	}
	d := f.Due
	if d.Kind == keys.DueDeliver {
		d.At = now // Of this entry, unless it is found.
	}
	for _, row := range rows {
		if row.Kind == d.Kind && row.NS == d.NS && row.ID == d.ID && row.At-f.Due.At < int64(time.Microsecond) && f.Due.At-row.At < int64(time.Microsecond) {
			d = row
		}
	}
	return &command.Fire{Due: d}
}

// same wants another replica to hold the same jobs in the same orders.
func (p *pair) same(many *replica) {
	mine, theirs := p.audit(p.t), many.audit(p.t)
	if len(mine) != len(theirs) {
		p.t.Fatalf("one by one %d jobs, batched %d", len(mine), len(theirs))
	}
	for id, a := range mine {
		b, ok := theirs[id]
		near := func(x, y int64) bool { return x-y < int64(time.Microsecond) && y-x < int64(time.Microsecond) }
		if !ok || a.State != b.State || a.Queue != b.Queue || a.Attempt != b.Attempt || a.Crashes != b.Crashes || a.Reason != b.Reason ||
			a.Flags != b.Flags || a.Iteration != b.Iteration || a.Retry != b.Retry || !near(a.Due, b.Due) || !near(a.ExpireAt, b.ExpireAt) {
			p.t.Fatalf("one by one job %s is %+v, batched %+v", id, a, b)
		}
	}
	p.order(theirs)
}
