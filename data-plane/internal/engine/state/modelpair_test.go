package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// How the oracle and the engine are compared.

// pair is an engine and the oracle that follows it.
type pair struct {
	t tb
	*replica
	m *oracle
}

// step applies one command, or an Atomic with its own, to both and compares the
// answers.
func (p *pair) step(now int64, cmds ...command.Command) {
	p.m.now, p.m.lease = max(p.now+1, now), max(p.lease+1, now-p.lag)
	applied := p.apply(p.t, logEntry{now: now, cmds: cmds})[0]
	p.effects(applied, cmds)
	got := applied.Results
	if l, ok := p.t.(interface{ Logf(string, ...any) }); ok { // What led to a failure.
		for i, c := range cmds {
			l.Logf("%d %T%+v: refusal %d, %s is %s, grants %+v", p.now, c, c, got[i].Refusal, got[i].ID, got[i].State, got[i].Grants)
		}
	}
	if _, ok := cmds[0].(*command.Atomic); ok {
		of := make([]command.Command, len(cmds)-1)
		for i := range of {
			of[i] = cmds[i+1]
		}
		for i, want := range p.m.group(of) {
			p.answers(cmds[i+1], got[i+1], want)
		}
		return
	}
	p.answers(cmds[0], got[0], p.m.apply(cmds[0], got[0]))
}

// effects wants the table to say what its commands do to ready orders: else an enqueue of
// the same entry overtakes a job that was put back, or one that follows on a job that ended.
func (p *pair) effects(a *Applied, cmds []command.Command) {
	for _, r := range a.Ready {
		effect, says := "requeues", MayRequeue
		if p.m.find(r.NS, r.ID) == nil {
			effect, says = "requeues or ends", func(c command.Command) bool {
				e, enqueue := c.(*command.Enqueue)
				_, ends := MayEnd(c)
				return ends || MayRequeue(c) || enqueue && e.ID == r.ID
			}
		}
		if !slices.ContainsFunc(cmds, says) {
			p.t.Fatalf("%T%+v made job %s ready: its row in table.go lacks %s", cmds[0], cmds[0], r.ID, effect)
		}
	}
}

func (p *pair) answers(c command.Command, got, want Result) {
	switch c.(type) {
	case *command.Fire, *command.Sweep, *command.TrimEvents: // It may be wrong or late.
		return
	case *command.Fetch:
		same := func(a, b Grant) bool { return a.ID == b.ID && a.Attempt == b.Attempt && a.Epoch == b.Epoch }
		if !slices.EqualFunc(got.Grants, want.Grants, same) {
			p.t.Fatalf("%T%+v granted\n%+v, want\n%+v (INV-3, INV-6, INV-7)", c, c, got.Grants, want.Grants)
		}
		return
	case *command.Enqueue:
		got = Result{Refusal: got.Refusal, ID: got.ID, State: got.State, Duplicate: got.Duplicate, Replayed: got.Replayed}
		if got.Refusal != Accepted { // It may name the job that is in the way.
			got.ID = job.ID{}
		}
	default:
		got = Result{Refusal: got.Refusal, Requeued: got.Requeued}
	}
	if got.Refusal != want.Refusal || got.ID != want.ID || got.State != want.State || got.Duplicate != want.Duplicate || got.Replayed != want.Replayed || got.Requeued != want.Requeued {
		p.t.Fatalf("%T%+v answered\n%+v, want\n%+v (INV-1, INV-3, INV-5)", c, c, got, want)
	}
}

// agree fails unless engine and oracle hold the same.
func (p *pair) agree() {
	a := p.look(p.t) // INV-9, INV-13.
	there := 0
	for _, j := range p.m.jobs {
		if j.gone {
			continue
		}
		there++
		h, ok := a.heads[j.ID]
		if !ok {
			p.t.Fatalf("job %s is lost (INV-1)", j.ID)
		}
		if got, want := textOfHead(&h), j.text(); got != want {
			p.t.Fatalf("job %s is %s\nwant %s (INV-3)", j.ID, got, want)
		}
		p.costs(j, &h)
	}
	if len(a.heads) != there {
		p.t.Fatalf("there are %d jobs, want %d (INV-1)", len(a.heads), there)
	}
	p.order(a.heads)
	p.unique(a.heads)
	p.batches(a)
	p.chains(a)
	p.schedules(a)
	p.money(a)
	p.billed(a)
}

const jobText = "%s in %s, %s, attempt %d, crashes %d, due %d, expires %d, reason %s, blocked %v, policy %v, iteration %d, too dear %v"

func textOfHead(h *records.Head) string {
	expires, iteration := h.ExpireAt, h.Iteration
	if h.State.Terminal() {
		expires = 0 // Of no meaning any more.
	}
	if h.Has(records.FlagIterated) {
		iteration++
	}
	return fmt.Sprintf(jobText, h.State, h.Queue, h.Priority, h.Attempt, h.Crashes, h.Due, expires, h.Reason, h.Has(records.FlagBlocked), h.Retry, iteration, h.Has(records.FlagOverBudget))
}

func (j *modelJob) text() string {
	expires, iteration := j.expire, 0
	if j.state.Terminal() {
		expires = 0
	}
	if j.Agent != nil {
		iteration = len(j.iterations) + 1 // The next one, or the one that runs.
	}
	return fmt.Sprintf(jobText, j.state, j.Queue, j.Priority, j.attempt, j.crashes, j.due, expires, j.reason, j.blocked(), j.Retry, iteration, j.dearer)
}

// costs compares what a job reported, and its iterations.
func (p *pair) costs(j *modelJob, h *records.Head) {
	u, err := stateread.ReadJobUsage(p.store, j.NS, j.ID)
	if err != nil {
		p.t.Fatalf("usage of job %s: %v", j.ID, err)
	}
	if u == nil {
		u = &records.JobUsage{}
	}
	if want := p.m.used(j, 0); u.Sum() != want {
		p.t.Fatalf("job %s used %+v, want %+v", j.ID, u.Sum(), want)
	}
	if !h.Has(records.FlagIterations) && len(j.iterations) == 0 {
		return
	}
	list, _, err := stateread.ReadIterations(p.store, j.NS, j.ID, 0, len(j.iterations)+1)
	if err != nil || len(list) != len(j.iterations) {
		p.t.Fatalf("job %s has iterations %+v, %v, want %+v", j.ID, list, err, j.iterations)
	}
	for i, want := range j.iterations {
		if got := list[i]; got.Number != uint32(i+1) || got.Status != want.status || got.Usage != want.usage || got.Lease != want.lease {
			p.t.Fatalf("iteration %d of job %s is %+v, want %+v", i+1, j.ID, got, want)
		}
	}
}

// order checks INV-8: the ready order of a queue and priority is that in which its
// jobs became ready.
func (p *pair) order(heads map[job.ID]records.Head) {
	type line struct {
		queueKey
		job.Priority
	}
	lines := map[line][]*modelJob{}
	for _, j := range p.m.jobs {
		if !j.gone && j.state == job.Pending && !j.blocked() {
			l := line{j.queue(), j.Priority}
			lines[l] = append(lines[l], j)
		}
	}
	for l, jobs := range lines {
		slices.SortFunc(jobs, func(a, b *modelJob) int { return cmp.Compare(a.turn, b.turn) })
		for i, j := range jobs[1:] {
			if before := heads[jobs[i].ID]; !before.Pos.Less(heads[j.ID].Pos) {
				p.t.Fatalf("in %v job %s stands before %s (INV-8)", l, j.ID, jobs[i].ID)
			}
		}
	}
}

// unique checks INV-5: a unique key has at most one live holder, which knows the key.
func (p *pair) unique(heads map[job.ID]records.Head) {
	holders := map[answerKey]job.ID{}
	for _, j := range p.m.jobs {
		if j.gone || j.UniqueKey == "" || j.keyUntil <= p.m.now {
			continue
		}
		k := answerKey{j.queue(), j.UniqueKey}
		if other, twice := holders[k]; twice || j.state.Terminal() {
			p.t.Fatalf("key %v is held by %s (%s) and %s (INV-5)", k, j.ID, j.state, other)
		}
		holders[k] = j.ID
		if h := heads[j.ID]; !h.Has(records.FlagUnique) {
			p.t.Fatalf("job %s does not know that it holds %v (INV-5)", j.ID, k)
		}
	}
}

func (p *pair) batches(a *auditor) {
	if len(a.groups.batches) != len(p.m.batches) {
		p.t.Fatalf("there are %d batches, want %d", len(a.groups.batches), len(p.m.batches))
	}
	for id, b := range p.m.batches {
		got, there := a.groups.batches[id]
		counts, total := p.m.members(id), uint64(0)
		for _, n := range counts {
			total += n
		}
		if b.fired {
			counts = b.counts
		}
		want := records.Batch{
			Sealed: b.sealed, Total: total, Open: counts[records.NoOutcome], Counts: counts,
			CreatedAt: got.CreatedAt, FinishedAt: got.FinishedAt, Callback: got.Callback, CallbackID: got.CallbackID,
		}
		want.Counts[records.NoOutcome] = 0
		if !there || got != want || got.Fired() != b.fired || got.CallbackID.IsZero() == (b.fired && b.callback != nil) {
			p.t.Fatalf("%s is %+v, there %v; want %+v, fired %v (INV-10)", id, got, there, want, b.fired)
		}
	}
}

func (p *pair) chains(a *auditor) {
	if len(a.groups.chains) != len(p.m.chains) {
		p.t.Fatalf("there are %d chains, want %d", len(a.groups.chains), len(p.m.chains))
	}
	for id, c := range p.m.chains {
		got := a.groups.chains[id]
		if got.Status != c.status || !slices.Equal(got.Jobs, c.jobs) || got.OnFailure.IsZero() == c.failed || got.OnExit.IsZero() == c.exited {
			p.t.Fatalf("%s is %+v; want %+v (INV-11)", id, got, c)
		}
	}
}

func (p *pair) schedules(a *auditor) {
	if len(a.schedules) != len(p.m.schedules) {
		p.t.Fatalf("schedules %v, want %v (INV-12)", a.schedules, p.m.schedules)
	}
	for k, s := range p.m.schedules {
		got := a.schedules[keys.Due{NS: k.ns, ID: job.ID(k.id)}]
		if got.Version != s.version || got.Next != s.next || got.Since != s.since || got.LastJob != s.last || got.Missed != s.missed {
			p.t.Fatalf("schedule %s is %+v, want %+v (INV-12)", k.id, got, s)
		}
	}
}

// money compares what the hours and the days count with all that was reported.
func (p *pair) money(a *auditor) {
	type line struct {
		ns   job.Namespace
		hour stateread.HourUsage
	}
	hours := map[line]records.Meter{}
	for _, r := range p.m.reports {
		l := line{r.of.NS, stateread.HourUsage{Hour: records.HourOf(r.at), Queue: r.queue, Model: r.model}}
		hours[l] = hours[l].Plus(r.Meter)
	}
	for i, u := range a.spent.rows {
		l := line{a.spent.of[i], stateread.HourUsage{Hour: u.Hour, Queue: u.Queue, Model: u.Model}}
		if hours[l] != u.Meter {
			p.t.Fatalf("%+v counts %+v, want %+v", l, u.Meter, hours[l])
		}
		delete(hours, l)
	}
	if len(hours) > 0 {
		p.t.Fatalf("hours that nobody counts: %+v", hours)
	}
	for _, b := range p.m.budgets {
		v, err := p.store.Get(a.space.BudgetDay(b.ns, records.DayOf(p.now), byte(b.Scope), b.Target))
		d := records.BudgetDay{}
		if err == nil {
			d, err = records.DecodeBudgetDay(v)
		}
		if err != nil && !errors.Is(err, statedb.ErrNotFound) || d.Cost != p.m.today(b) || d.Told != (b.told == records.DayOf(p.now)) {
			p.t.Fatalf("the day of %+v is %+v, %v; want %d", b, d, err, p.m.today(b))
		}
	}
}

// causes checks INV-4 in the events: between two starts of a job is an event that allows
// the second.
func (p *pair) causes() {
	allowed := map[feed.Type]bool{feed.Retrying: true, feed.Released: true, feed.LeaseExpired: true, feed.Retried: true, feed.Approved: true, feed.Continued: true}
	may := map[job.ID]bool{} // Of jobs whose beginning was not trimmed away.
	for _, row := range rowsOf(p.t, p.store) {
		for _, e := range row.Events {
			_, known := may[e.ID]
			switch {
			case e.Type == feed.Enqueued || e.Type == feed.Scheduled || known && allowed[e.Type]:
				may[e.ID] = true
			case known && e.Type == feed.Started:
				if !may[e.ID] {
					p.t.Fatalf("job %s started again and no event says why (INV-4)", e.ID)
				}
				may[e.ID] = false
			}
		}
	}
}

// sweepEverything removes what deleted queues left, as the leader does, until nothing
// is left: jobs that follow from a swept job may enter a queue, but none is deleted.
func (p *pair) sweepEverything() {
	for {
		queues, err := stateread.ReadSweeps(p.store)
		if err != nil {
			p.t.Fatalf("read sweeps: %v", err)
		}
		if len(queues) == 0 {
			return
		}
		for done := false; !done; {
			c, err := queues[0].Next(p.store)
			if err != nil {
				p.t.Fatalf("sweep: %v", err)
			}
			if c != nil {
				p.step(p.now, c)
				done = c.Done != 0
			}
		}
	}
}

// settle checks INV-2: once people decide, queues are open and workers work, every
// job ends, within so many rounds.
func (p *pair) settle() {
	const rounds = 300
	p.open()
	for range rounds {
		p.agree()
		now := p.now + int64(10*time.Second)
		for _, d := range p.ripe(p.t, now) {
			p.step(now, &command.Fire{Due: d})
		}
		left := 0
		for _, j := range p.m.jobs {
			if j.gone || j.state.Terminal() {
				continue
			}
			left++
			switch {
			case j.state == job.Held:
				p.step(now, &command.Decide{NS: j.NS, ID: j.ID, Approve: true, By: approver})
			case j.state.Leased():
				p.step(now, &command.Ack{NS: j.NS, ID: j.ID, By: command.Holder{Token: command.Token{Attempt: j.attempt, Epoch: j.epoch}}})
			case j.state == job.Pending && !j.blocked():
				p.step(now, &command.Fetch{NS: j.NS, Jobs: []job.ID{j.ID}, Worker: "w", Lease: time.Minute})
			}
		}
		if left == 0 {
			p.agree()
			return
		}
	}
	p.t.Fatalf("jobs do not end (INV-2): %+v", p.m.jobs)
}

// open removes everything that holds jobs back, or makes new ones.
func (p *pair) open() {
	for k := range p.m.queues {
		p.step(p.now, &command.SetQueue{NS: k.ns, Queue: k.name, Set: command.SetPaused | command.SetConcurrency | command.SetThrottle})
	}
	for _, b := range p.m.budgets {
		p.step(p.now, &command.DeleteBudget{NS: b.ns, Scope: b.Scope, Target: b.Target})
	}
	for k := range p.m.schedules {
		p.step(p.now, &command.DeleteSchedule{NS: k.ns, ID: k.id})
	}
}
