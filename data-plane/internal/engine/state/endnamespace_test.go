package state

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// sweepNamespace sweeps what is left of a namespace, as the leader does, in pieces that
// are bounded.
func (r *replica) sweepNamespace(t tb, ns job.Namespace) {
	t.Helper()
	for s := (&stateread.NamespaceSweep{NS: ns}); ; {
		c, err := s.Next(r.store)
		if err != nil {
			t.Fatalf("sweep: %v", err)
		}
		if c == nil {
			continue
		}
		if n := len(c.Due); n > command.SweepMax {
			t.Fatalf("a piece of %d", n)
		}
		r.do(t, r.now, c)
		if c.Done {
			return
		}
	}
}

// acts reports whether a command only records who did what.
func acts(c command.Command) bool {
	f, ok := c.(*command.Fire)
	return ok && f.Due.Kind == keys.DueAudit
}

func mustRead[V any](v V, err error) func(tb) V {
	return func(t tb) V {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
		return v
	}
}

// tells reports whether any row of the store names a namespace.
func (r *replica) tells(t tb, ns job.Namespace) bool {
	return bytes.Contains(r.dump(t), []byte(hex.EncodeToString(ns[:])))
}

// Nothing of a namespace happens after its end: every command about it
// is refused, due rows do nothing, and in the end no row refers to it.
// Its neighbour goes on.
func TestEndNamespace_NothingOfItHappensAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, gathered := newReplica(t), newReplica(t)
		defer r.close(t)
		defer gathered.close(t)
		g := newGenerator(t, r)
		ended, other := testNamespaces[0], testNamespaces[1]
		var log []logEntry
		apply := func(cmds ...command.Command) *Applied {
			t.Helper()
			e := logEntry{now: g.when(cmds), cmds: cmds}
			e.lease = e.now - r.lag
			log = append(log, e)
			return r.apply(t, log[len(log)-1])[0]
		}
		for range rapid.IntRange(1, 40).Draw(t, "before") {
			apply(g.commands()...)
		}
		// Other commands in the same entry, before and after: what they wrote must not come back.
		first, last := g.commands(), g.commands()
		at := len(first)
		a := apply(slices.Concat(first, []command.Command{&command.EndNamespace{NS: ended}}, last)...)
		for i, c := range last {
			if ns, ok := command.NamespaceOf(c); ok && ns == ended && !acts(c) && a.Results[at+1+i].Refusal != NamespaceGone {
				t.Fatalf("%T in the entry of the end: %+v", c, a.Results[at+1+i])
			}
		}
		if len(a.Ended) != 1 || a.Ended[0] != ended {
			t.Fatalf("ended: %v", a.Ended)
		}
		none := func() {
			t.Helper()
			for id, h := range r.audit(t) {
				if _, err := stateread.ReadHead(r.store, ended, id); err == nil {
					t.Fatalf("job %s is %s", id, h.State)
				}
			}
			if due, err := stateread.ReadSchedules(r.store, ended, job.ScheduleID{}, 1); err != nil || len(due) > 0 {
				t.Fatalf("schedules %v, %v", due, err)
			}
		}
		none()
		if rapid.Bool().Draw(t, "restart") {
			if err := r.machine.Reset(); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "after") {
			cmds := g.commands()
			res := apply(cmds...).Results
			for i, c := range cmds {
				if ns, ok := command.NamespaceOf(c); ok && ns == ended && !acts(c) && res[i].Refusal != NamespaceGone {
					t.Fatalf("%T after the end: %+v", c, res[i])
				}
			}
			none()
		}
		apply(&command.Enqueue{NS: other, ID: job.ID{0xff}, Queue: "a", Retry: command.DefaultRetry()})
		// However entries are batched, it is the same.
		gathered.apply(t, log...)
		if !bytes.Equal(gathered.dump(t), r.dump(t)) || gathered.digest != r.digest {
			t.Fatalf("entries that share a transaction came to something else:\n%s\none by one:\n%s", gathered.dump(t), r.dump(t))
		}
		r.sweepNamespace(t, ended)
		r.do(t, r.now, &command.EndNamespace{NS: ended}) // Repeated by another leader.
		if list, err := stateread.ReadEndedNamespaces(r.store); err != nil || len(list) != 1 || !list[0].Swept {
			t.Fatalf("ended: %+v, %v", list, err)
		}
		if due, err := bothDue(r.store, 0, 1<<62, 1000); err != nil {
			t.Fatal(err)
		} else {
			for _, d := range due {
				if d.NS == ended && d.Kind != keys.DueAudit {
					t.Fatalf("a due row is left: %+v", d)
				}
			}
		}
		// Audit records are kept until they were collected, and then for a while.
		later := r.now + 2*auditKeep
		for _, d := range mustRead(bothDue(r.store, 0, later, 1000))(t) {
			if d.NS == ended {
				r.do(t, later, &command.Fire{Due: d})
			}
		}
		r.do(t, later+2*auditKeep, &command.AuditCollected{Through: 1 << 40})
		if audited := mustRead(stateread.IsAudited(r.store, ended))(t); audited {
			t.Fatal("old records are left that were taken")
		}
		r.do(t, r.now, &command.SweepNamespace{NS: ended, Forget: true})
		// It is still to be billed, and kept until that was done.
		kept := int64(records.ReadingHoursKept+1) * int64(time.Hour)
		r.do(t, r.now+kept, &command.TrimReadings{Before: math.MaxUint64, Idle: []job.Namespace{ended, other}})
		if r.tells(t, ended) {
			t.Fatalf("something is left:\n%s", r.dump(t))
		}
		if !r.tells(t, other) {
			t.Fatal("nothing is left of the neighbour")
		}
		r.audit(t)
	})
}

// A namespace is not forgotten before it is swept, and one entry does not sweep all of it.
func TestEndNamespace_IsForgottenOnlyWhenSwept(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns := job.Namespace{7}
	const jobs = 3 * command.SweepMax
	for n := range jobs {
		r.do(t, r.now, &command.Enqueue{NS: ns, ID: job.ID{byte(n >> 8), byte(n), 1}, Queue: "q", Retry: command.DefaultRetry(), ScheduledAt: r.now + int64(time.Hour)})
	}
	if res := r.do(t, r.now, &command.SweepNamespace{NS: ns, Done: true, Forget: true}); res.Refusal != WrongState {
		t.Fatalf("a namespace that lives was swept: %+v", res)
	}
	r.do(t, r.now, &command.EndNamespace{NS: ns})
	r.do(t, r.now, &command.SweepNamespace{NS: ns, Forget: true})
	if list, err := stateread.ReadEndedNamespaces(r.store); err != nil || len(list) != 1 {
		t.Fatalf("forgotten before it was swept: %v, %v", list, err)
	}
	before := r.index
	r.sweepNamespace(t, ns)
	if pieces := r.index - before; pieces < jobs/command.SweepMax {
		t.Fatalf("%d pieces for %d due rows", pieces, jobs)
	}
	from, to := keys.In(r.store.Prefix()).EventsFrom(ns, 0)
	if err := r.store.Scan(from, to, func(k, _ []byte) (bool, error) { t.Errorf("event %x is left", k); return false, nil }); err != nil {
		t.Fatal(err)
	}
}
