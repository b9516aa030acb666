package state

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// Tests named after faults of an earlier engine (docs/traps.md).

// trap is a replica in which one queue has one job that a worker holds.
type trap struct {
	*replica
	t  *testing.T
	ns job.Namespace
}

func newTrap(t *testing.T) *trap {
	r := newReplica(t)
	t.Cleanup(func() { r.close(t) })
	return &trap{replica: r, t: t, ns: job.Namespace{1}}
}

func (p *trap) do(c command.Command) Result {
	p.t.Helper()
	res := p.replica.do(p.t, p.now+int64(time.Second), c)
	p.audit(p.t)
	return res
}

func (p *trap) enqueue(n byte, with func(c *command.Enqueue)) job.ID {
	p.t.Helper()
	c := &command.Enqueue{NS: p.ns, ID: job.ID{n}, Queue: "q", Payload: []byte("{}"), Retry: command.DefaultRetry()}
	if with != nil {
		with(c)
	}
	return p.do(c).ID
}

func (p *trap) fetch(ids ...job.ID) []Grant {
	p.t.Helper()
	return p.do(&command.Fetch{NS: p.ns, Jobs: ids, Worker: "w", Lease: time.Minute}).Grants
}

// A job keeps one place in the ready order, however it got there and however it leaves:
// no way leaves an orphan row behind (the audit of each step looks for one).
func TestTrap29_EveryWayIntoAndOutOfTheOrderLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	into := map[string]func(p *trap, id job.ID){
		"promoted": func(p *trap, id job.ID) {
			p.fetch(id)
			p.do(&command.Fail{NS: p.ns, ID: id})
			h, _ := stateread.ReadHead(p.store, p.ns, id)
			p.now = h.Due
			p.do(&command.Fire{Due: keys.Due{At: h.Due, Kind: keys.DueRetry, NS: p.ns, ID: id}})
		},
		"released": func(p *trap, id job.ID) { p.fetch(id); p.do(&command.Fail{NS: p.ns, ID: id, Release: true}) },
		"retried": func(p *trap, id job.ID) {
			p.fetch(id)
			p.do(&command.Ack{NS: p.ns, ID: id})
			p.do(&command.Retry{NS: p.ns, ID: id})
		},
		"moved": func(p *trap, id job.ID) { p.do(&command.Move{NS: p.ns, ID: id, Queue: "other"}) },
		"approved": func(p *trap, id job.ID) {
			p.do(&command.Hold{NS: p.ns, ID: id})
			p.do(&command.Decide{NS: p.ns, ID: id, Approve: true})
		},
		"reclaimed": func(p *trap, id job.ID) {
			p.fetch(id)
			h, _ := stateread.ReadHead(p.store, p.ns, id)
			p.now = h.Due
			p.do(&command.Fire{Due: keys.Due{At: h.Due, Kind: keys.DueLease, NS: p.ns, ID: id}})
		},
	}
	out := map[string]func(p *trap, id job.ID){
		"fetched":   func(p *trap, id job.ID) { p.fetch(id) },
		"cancelled": func(p *trap, id job.ID) { p.do(&command.Cancel{NS: p.ns, ID: id}) },
		"deleted":   func(p *trap, id job.ID) { p.do(&command.Delete{NS: p.ns, ID: id}) },
		"held":      func(p *trap, id job.ID) { p.do(&command.Hold{NS: p.ns, ID: id}) },
		"moved":     func(p *trap, id job.ID) { p.do(&command.Move{NS: p.ns, ID: id, Queue: "third"}) },
	}
	for in, enter := range into {
		for way, leave := range out {
			t.Run(in+" "+way, func(t *testing.T) {
				t.Parallel()
				p := newTrap(t)
				id := p.enqueue(1, nil)
				enter(p, id)
				if h, err := stateread.ReadHead(p.store, p.ns, id); err != nil || h.State != job.Pending {
					t.Fatalf("%s: %s, %v", in, h.State, err)
				}
				leave(p, id)
			})
		}
	}
}

func TestTrap34_ACancelledActiveJobKeepsItsSlotUntilItsWorkerLetsGo(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	p.do(&command.SetQueue{NS: p.ns, Queue: "q", Set: command.SetConcurrency, MaxConcurrency: 1})
	one, two := p.enqueue(1, nil), p.enqueue(2, nil)
	p.fetch(one)
	for name, stop := range map[string]command.Command{
		"cancel": &command.Cancel{NS: p.ns, ID: one}, "hold": &command.Hold{NS: p.ns, ID: one},
	} {
		p.do(stop)
		if got := p.fetch(two); len(got) != 0 {
			t.Fatalf("%s freed the slot of a worker that still runs", name)
		}
	}
	p.do(&command.Fail{NS: p.ns, ID: one, Error: "stopped"})
	if got := p.fetch(two); len(got) != 1 {
		t.Fatal("the slot of a worker that let go is not free")
	}
}

func TestTrap35_AUniqueKeyIsFreeAfterEveryEndAndOnlyItsOwnerFreesIt(t *testing.T) {
	t.Parallel()
	unique := func(c *command.Enqueue) { c.UniqueKey, c.UniqueFor = "u", time.Minute }
	ends := map[string]func(p *trap, id job.ID){
		"completed": func(p *trap, id job.ID) { p.fetch(id); p.do(&command.Ack{NS: p.ns, ID: id}) },
		"cancelled": func(p *trap, id job.ID) { p.do(&command.Cancel{NS: p.ns, ID: id}) },
		"terminal": func(p *trap, id job.ID) {
			p.fetch(id)
			p.do(&command.Fail{NS: p.ns, ID: id, Terminal: true})
		},
		"rejected": func(p *trap, id job.ID) {
			p.do(&command.Hold{NS: p.ns, ID: id})
			p.do(&command.Decide{NS: p.ns, ID: id})
		},
		"deleted": func(p *trap, id job.ID) { p.do(&command.Delete{NS: p.ns, ID: id}) },
		"cleared": func(p *trap, _ job.ID) { p.do(&command.ClearQueue{NS: p.ns, Queue: "q"}) },
		"moved":   func(p *trap, id job.ID) { p.do(&command.Move{NS: p.ns, ID: id, Queue: "other"}) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTrap(t)
			end(p, p.enqueue(1, unique))
			if got := p.enqueue(2, unique); got != (job.ID{2}) {
				t.Fatalf("%s: the key is still held by %s", name, got)
			}
			// The first owner, should it be there, ends once more: the key is another's.
			p.do(&command.Retry{NS: p.ns, ID: job.ID{1}})
			p.do(&command.Cancel{NS: p.ns, ID: job.ID{1}})
			if got := p.enqueue(3, unique); got != (job.ID{2}) {
				t.Fatalf("%s: the key went from its owner to %s", name, got)
			}
		})
	}
}

// However high the attempt and the delays are, the next attempt is neither at once nor
// in the past, and two jobs do not come at the same time.
func TestTrap37_BackoffNeitherOverflowsNorComesAllAtOnce(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	policy := func(c *command.Enqueue) {
		c.Retry = command.RetryPolicy{MaxRetries: 1 << 31, Backoff: job.BackoffExponential, BaseDelay: 1 << 62, MaxDelay: 1<<63 - 1}
	}
	one, two := p.enqueue(1, policy), p.enqueue(2, policy)
	var at [2]int64
	for i, id := range []job.ID{one, two} {
		p.fetch(id)
		at[i] = p.do(&command.Fail{NS: p.ns, ID: id}).NextAt
		if at[i] <= p.now {
			t.Fatalf("the next attempt is due at %d, it is %d", at[i], p.now)
		}
	}
	short := func(c *command.Enqueue) {
		c.Retry = command.RetryPolicy{MaxRetries: 100, Backoff: job.BackoffFixed, BaseDelay: time.Minute, MaxDelay: time.Minute}
	}
	three, four := p.enqueue(3, short), p.enqueue(4, short)
	p.fetch(three, four)
	due := p.apply(t, logEntry{now: p.now, cmds: []command.Command{&command.Fail{NS: p.ns, ID: three}, &command.Fail{NS: p.ns, ID: four}}})[0]
	if due.Results[0].NextAt == due.Results[1].NextAt {
		t.Fatal("two jobs that fail together come back together")
	}
}

// What ages a finished job is when it ended, not when it was made.
func TestTrap44_AnEndedJobKnowsWhenItEnded(t *testing.T) {
	t.Parallel()
	ends := map[string]func(p *trap, id job.ID){
		"cancelled": func(p *trap, id job.ID) { p.do(&command.Cancel{NS: p.ns, ID: id}) },
		"completed": func(p *trap, id job.ID) { p.fetch(id); p.do(&command.Ack{NS: p.ns, ID: id}) },
		"rejected": func(p *trap, id job.ID) {
			p.do(&command.Hold{NS: p.ns, ID: id})
			p.do(&command.Decide{NS: p.ns, ID: id})
		},
	}
	for name, end := range ends {
		p := newTrap(t)
		id := p.enqueue(1, nil)
		end(p, id)
		if h, err := stateread.ReadHead(p.store, p.ns, id); err != nil || h.Finished != p.now {
			t.Errorf("%s at %d: the job says %d, %v", name, p.now, h.Finished, err)
		}
		p.do(&command.Retry{NS: p.ns, ID: id})
		if h, err := stateread.ReadHead(p.store, p.ns, id); err != nil || h.Finished != 0 {
			t.Errorf("%s and retried: the job ended at %d, %v", name, h.Finished, err)
		}
	}
}

func TestTrap116_ARepeatedAckWithTheSameTokenIsTheSameSuccess(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	id := p.enqueue(1, nil)
	g := p.fetch(id)[0]
	ack := &command.Ack{NS: p.ns, ID: id, By: command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}}}
	for range 3 {
		if res := p.do(ack); res.Refusal != Accepted || res.State != job.Completed {
			t.Fatalf("%+v", res)
		}
	}
}

// An answer that was lost may be asked for again after the job's next attempt is due.
func TestTrap116_ARepeatedFailOrReleaseIsTheSameSuccessUntilTheNextAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]command.Fail{"failed": {}, "released": {Release: true}} {
		t.Run(name, func(t *testing.T) {
			p := newTrap(t)
			id := p.enqueue(1, nil)
			g := p.fetch(id)[0]
			fail := c
			fail.NS, fail.ID, fail.Delay = p.ns, id, new(time.Second)
			fail.By = command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}}
			for _, want := range []job.State{job.Retrying, job.Pending, job.Pending} {
				if res := p.do(&fail); res.Refusal != Accepted || res.State != want {
					t.Fatalf("in state %s: %+v", want, res)
				}
				if h, _ := stateread.ReadHead(p.store, p.ns, id); h.State == job.Retrying {
					p.do(&command.Fire{Due: keys.Due{At: h.Due, Kind: keys.DueRetry, NS: p.ns, ID: id}})
				}
			}
			p.fetch(id)
			if res := p.do(&fail); res.Refusal != LeaseLost {
				t.Errorf("in the next attempt: %+v", res)
			}
		})
	}
}

// The same job twice in one entry is counted once.
func TestD9_AJobTwiceInABatchOfAcksIsCountedOnce(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	one, two := p.enqueue(1, nil), p.enqueue(2, nil)
	g := p.fetch(one, two)
	ack := func(i int) command.Command {
		return &command.Ack{NS: p.ns, ID: g[i].ID, By: command.Holder{Token: command.Token{Attempt: g[i].Attempt, Epoch: g[i].Epoch}}}
	}
	p.apply(t, logEntry{now: p.now, cmds: []command.Command{ack(0), ack(0), ack(1), ack(0)}})
	p.audit(t)
	if c, err := stateread.ReadCounts(p.store, p.ns, "q"); err != nil || c.Jobs[job.Completed] != 2 || c.Leased() != 0 {
		t.Fatalf("%+v, %v", c.Jobs, err)
	}
}
