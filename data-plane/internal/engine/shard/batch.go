package shard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/dispatch"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// batch is one entry in the making.
type batch struct {
	requests []*request
	cmds     []command.Command
	now      group.Times
	// holdOff: no job is handed out. It is asked once, because it may end at any time: a fetch that
	// comes would be served before those that wait, to which nothing was offered.
	holdOff bool
	bytes   int
	count   int // Commands and renewals of the requests.
	cost    int64
	offers  []*offer
	// offered is how many bytes the offers take in the entry, about.
	offered int
	// leases is how many jobs those who wait may still be granted. What others fetch is
	// part of the cost for which they were let in.
	leases int
	// requeues: a command so far may put a job into a ready order ahead of the
	// entry's enqueues. Then no enqueue is promised to anybody: the next entry hands
	// all of them out in their order (INV-8).
	requeues bool
	// unpromised are the enqueues that nobody waited for when they came. Who comes to wait later
	// in the entry gets them before what is enqueued after it came (INV-8).
	unpromised []*command.Enqueue
	// followed is how many of cmds were looked at for ends that others follow on.
	followed int
	asks     bool // Some request of it asks the memory: see asksNothing.
	fired    int  // Bytes of the jobs that schedules make and that learn of endings, about.
}

// offer is a parked fetch that this entry may answer.
type offer struct {
	waiter *dispatch.Waiter
	fetch  *command.Fetch
	at     int // Of its Fetch in cmds.
}

func (b *batch) add(q *request) {
	b.requests = append(b.requests, q)
	b.bytes += q.bytes
	b.count += len(q.Settle) + len(q.Renew) + len(q.After) + 1
	b.cost += q.cost()
}

// append adds commands that stand ahead of the entry's enqueues.
func (b *batch) append(cmds ...command.Command) {
	b.cmds = append(b.cmds, cmds...)
	b.requeues = b.requeues || slices.ContainsFunc(cmds, state.MayRequeue)
}

func (b *batch) full() bool { return b.bytes >= entryBytesMax || b.count >= entryCmdsMax }

// takesOffers: one more of those who wait may be offered jobs. It never becomes true again.
func (b *batch) takesOffers() bool {
	return len(b.offers) < offersMax && b.offered < entryBytesMax && b.leases > 0
}

// mostLeases is how many of n jobs a fetch that may wait is granted: none before those who
// have waited.
func (b *batch) mostLeases(n int) int {
	if !b.takesOffers() {
		return 0
	}
	return min(n, b.leases)
}

func (b *batch) offer(w *dispatch.Waiter, taken dispatch.Taken) {
	b.offers = append(b.offers, &offer{waiter: w, fetch: fetchFor(w, taken)})
	b.offered += namesBytes(w.Queues)
	b.grant(len(taken.Jobs))
}

// grant counts jobs for those who wait.
func (b *batch) grant(n int) {
	b.leases -= n
	b.cost += int64(n)
	b.offered += n * len(job.ID{})
}

// build turns the gathered requests, the timers and the parked fetches into the
// commands of one entry.
func (t *term) build(b *batch) error {
	t.table.Shrink()
	b.now, b.holdOff = t.shard.group.Now(), t.shard.holdOff.Load()
	if t.shard.moved.Swap(false) { // First, so that what moves meanwhile is looked at next time.
		t.shard.hold(t.table)
	}
	t.table.Begin(b.now)
	b.leases = int(max(t.company.room(time.Now())-b.cost, entryLeast))
	// Before the timers: a worker that is told it holds its lease must not lose it in
	// the same entry.
	for _, q := range b.requests {
		if err := t.addRenewals(b, q); err != nil {
			return err
		}
	}
	if err := t.addTimers(b); err != nil {
		return err
	}
	if err := t.addMatches(b); err != nil {
		return err
	}
	for _, q := range b.requests {
		if err := t.addRequest(b, q); err != nil {
			return err
		}
	}
	for _, o := range b.offers {
		o.at = len(b.cmds)
		b.cmds = append(b.cmds, o.fetch)
	}
	return nil
}

// addTimers fires what is due.
func (t *term) addTimers(b *batch) error {
	rows, err := t.leases.ripe(t.shard.store, b.now.Lease, firesPerEntry)
	if err != nil {
		return fmt.Errorf("read due leases: %w", err)
	}
	dated, err := t.due.ripe(t.shard.store, b.now.Calendar, firesPerEntry)
	if err != nil {
		return fmt.Errorf("read due rows: %w", err)
	}
	for _, d := range append(rows, dated...) {
		if err := t.addTimer(b, d); err != nil {
			return err
		}
	}
	return nil
}

func (t *term) addTimer(b *batch, d keys.Due) error {
	switch d.Kind {
	case keys.DueSchedule:
		return t.addTick(b, d)
	case keys.DueDeliver:
		return t.addDelivery(b, d)
	case keys.DueLease:
		c, err := t.endLease(d, b.now.Lease)
		if err != nil {
			return err
		}
		b.append(c)
		return nil
	default:
		b.append(&command.Fire{Due: d})
		return nil
	}
}

// endLease lets a lease run out unless its holder renewed it or it is older than
// this leader, which gives it a fresh full length first (R-T3).
func (t *term) endLease(d keys.Due, now int64) (command.Command, error) {
	h, err := stateread.ReadHead(t.shard.store, d.NS, d.ID)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return nil, err
	}
	var until int64
	if r, ok := t.renewals[d.ID]; ok && r.epoch == h.Epoch {
		until = r.until
	}
	if h.Epoch.Index <= t.first {
		until = max(until, t.began+int64(h.Lease))
	}
	if err == nil {
		limit, err := stateread.ReadLeaseLimit(t.shard.store, d.NS, d.ID, &h)
		if err != nil {
			return nil, err
		}
		until = min(until, limit)
	}
	if err == nil && until > now {
		return &command.Extend{NS: d.NS, ID: d.ID, Epoch: h.Epoch, Until: until}, nil
	}
	delete(t.renewals, d.ID)
	return &command.Fire{Due: d}, nil
}

// addMatches offers ready jobs to those who waited longest, before newcomers are served.
func (t *term) addMatches(b *batch) error {
	if b.holdOff {
		return nil
	}
	for b.takesOffers() {
		o, found, err := t.table.Match(b.leases)
		if err != nil {
			return fmt.Errorf("match waiters: %w", err)
		}
		if !found {
			break
		}
		b.offer(o.Waiter, o.Taken)
	}
	return nil
}

func fetchFor(w *dispatch.Waiter, taken dispatch.Taken) *command.Fetch {
	return &command.Fetch{
		NS: w.NS, Jobs: taken.Jobs, Queues: w.Queues, Floors: taken.Floors,
		Worker: w.Worker, Hostname: w.Hostname, Peer: w.Peer, Lease: w.Lease,
	}
}

func (t *term) addRequest(b *batch, q *request) error {
	q.settleAt, q.fetchAt = len(b.cmds), -1
	b.asks = b.asks || !t.asksNothing(q)
	b.append(q.Settle...)
	if f := q.Fetch; f != nil {
		if err := t.table.Frees(q.Settle, f.NS, f.Queues, f.Count); err != nil {
			return fmt.Errorf("look at settled leases: %w", err)
		}
		if err := t.addFetch(b, q); err != nil {
			return err
		}
		if err := t.promiseEarlier(b, f); err != nil {
			return err
		}
	}
	q.afterAt = len(b.cmds)
	b.cmds = append(b.cmds, q.After...)
	for _, c := range q.After {
		b.requeues = b.requeues || state.MayRequeue(c)
		e, ok := c.(*command.Enqueue)
		if !ok || waits(e) || e.ScheduledAt > b.now.Calendar {
			continue
		}
		if err := t.promise(b, e); err != nil {
			return err
		}
	}
	return nil
}

// waits: the job may not be ready as soon as it is there.
func waits(e *command.Enqueue) bool { return len(e.DependsOn) > 0 }

func (t *term) addRenewals(b *batch, q *request) error {
	for _, r := range q.Renew {
		res, err := t.renew(b, r)
		if err != nil {
			return err
		}
		q.reply.Renewals = append(q.reply.Renewals, res)
	}
	return nil
}

// renew keeps a lease in memory; the due row is moved when it comes up. Only one for
// longer than the fetch asked is written at once: a new leader knows of no other
// length than the fetch's.
func (t *term) renew(b *batch, r Renewal) (RenewalResult, error) {
	h, err := stateread.ReadHead(t.shard.store, r.NS, r.ID)
	if errors.Is(err, statedb.ErrNotFound) {
		return RenewalResult{}, nil
	}
	if err != nil {
		return RenewalResult{}, fmt.Errorf("renew lease of job %s: %w", r.ID, err)
	}
	if !h.State.Leased() || !records.Holds(&h, r.By) {
		return RenewalResult{}, nil
	}
	lease := r.Lease
	if lease == 0 {
		lease = h.Lease
	}
	limit, err := stateread.ReadLeaseLimit(t.shard.store, r.NS, r.ID, &h)
	if err != nil {
		return RenewalResult{}, fmt.Errorf("renew lease of job %s: %w", r.ID, err)
	}
	if until := min(b.now.Lease+int64(lease), limit); until > h.Due {
		t.renewals[r.ID] = renewed{h.Epoch, until}
		if lease > h.Lease {
			b.cmds = append(b.cmds, &command.Extend{NS: r.NS, ID: r.ID, Epoch: h.Epoch, Until: until})
		}
	}
	return RenewalResult{Held: true, Cancel: h.State == job.Cancelling, Over: h.StoppedByBudget(), Worker: h.Worker}, nil
}

// addFetch takes ready jobs for the request, or parks it.
func (t *term) addFetch(b *batch, q *request) error {
	f := q.Fetch
	w := &dispatch.Waiter{
		NS: f.NS, Queues: f.Queues, Count: f.Count,
		Worker: f.Worker, Hostname: f.Hostname, Peer: f.Peer, Lease: f.Lease,
	}
	most := f.Count
	if f.Wait {
		most = b.mostLeases(most)
	}
	if !b.holdOff {
		taken, err := t.table.Take(f.NS, f.Queues, most)
		if err != nil {
			return fmt.Errorf("take ready jobs: %w", err)
		}
		if len(taken.Jobs) > 0 {
			if f.Wait {
				b.grant(len(taken.Jobs))
			}
			q.fetchAt = len(b.cmds)
			b.cmds = append(b.cmds, fetchFor(w, taken))
			return nil
		}
	}
	if f.Wait && !q.cancelled {
		return t.park(q, w)
	}
	return nil
}

func (t *term) park(q *request, w *dispatch.Waiter) error {
	switch ended, err := stateread.IsEnded(t.shard.store, w.NS); {
	case err != nil:
		return fmt.Errorf("park fetch: %w", err)
	case ended:
		q.reply.Err = errNamespaceGone
		return nil
	}
	if !t.parking.Take(w.NS, 1) {
		q.reply.Err = overloaded(retryMost)
		return nil
	}
	if err := t.table.Park(w); err != nil {
		return fmt.Errorf("park fetch: %w", err)
	}
	q.waiter = w
	t.parked[w] = q
	t.shard.stats.Parked.Add(1)
	return nil
}

// promise lets the grant of a job ride in the entry that enqueues it.
func (t *term) promise(b *batch, e *command.Enqueue) error {
	w, first, err := t.promisedTo(b, e)
	switch {
	case err != nil:
		return err
	case w == nil:
		b.unpromised = append(b.unpromised, e)
		return nil
	case first:
		b.offer(w, dispatch.Taken{})
	}
	b.grant(1)
	o := b.offerTo(w)
	o.fetch.Jobs = append(o.fetch.Jobs, e.ID)
	return nil
}

// promisedTo is who waits for the job, if anybody does; first says that this is the waiter's first in the entry.
func (t *term) promisedTo(b *batch, e *command.Enqueue) (w *dispatch.Waiter, first bool, err error) {
	if b.requeues || b.holdOff || b.leases <= 0 || !t.table.Awaited(e.NS, e.Queue) {
		return nil, false, nil
	}
	if err := t.lookForFollowers(b); err != nil || b.requeues {
		return nil, false, err
	}
	w, first = t.table.Promise(e.NS, e.Queue, b.takesOffers())
	return w, first, nil
}

// promiseEarlier lets those who wait for the queues of f have what the entry enqueued before f
// came: f may wait for it, or its settlements made room.
func (t *term) promiseEarlier(b *batch, f *Fetch) error {
	mine := func(e *command.Enqueue) bool {
		return e.NS == f.NS && slices.Contains(f.Queues, e.Queue) && t.table.Awaited(e.NS, e.Queue)
	}
	if len(b.unpromised) == 0 || b.requeues || !slices.ContainsFunc(b.unpromised, mine) {
		return nil
	}
	earlier := b.unpromised
	b.unpromised = nil
	for p := range job.Priority(job.Priorities) {
		for _, e := range earlier {
			if e.Priority != p {
				continue
			}
			if err := t.promise(b, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookForFollowers finds out whether a command so far may end a job on which another
// one follows: that one would stand before the entry's enqueues. It is asked only when
// somebody waits for an enqueue.
func (t *term) lookForFollowers(b *batch) error {
	for ; b.followed < len(b.cmds) && !b.requeues; b.followed++ {
		id, ends := state.MayEnd(b.cmds[b.followed])
		if !ends {
			continue
		}
		ns, _ := command.NamespaceOf(b.cmds[b.followed])
		follows, err := stateread.ReadFollows(t.shard.store, ns, id)
		if err != nil {
			return fmt.Errorf("look at job %s: %w", id, err)
		}
		b.requeues = follows
	}
	return nil
}

// offerTo finds the offer of a waiter that has one; mostly it is the last.
func (b *batch) offerTo(w *dispatch.Waiter) *offer {
	for _, o := range slices.Backward(b.offers) {
		if o.waiter == w {
			return o
		}
	}
	panic("shard: a waiter was offered jobs without an offer")
}

// absorb learns from the applied entry.
func (t *term) absorb(b *batch, a *state.Applied) error {
	if err := t.table.Absorb(a); err != nil {
		return err
	}
	t.due.added(a.FirstDue.Calendar)
	t.leases.added(a.FirstDue.Lease)
	for _, ns := range a.Ended {
		t.endFetches(ns)
	}
	if a.Sweep {
		select {
		case t.deleted <- struct{}{}:
		default: // It will look anyway.
		}
	}
	if len(t.renewals) > 0 {
		t.forgetRenewals(b, a)
	}
	return nil
}

// endFetches answers those who wait for jobs of a namespace that was deleted.
func (t *term) endFetches(ns job.Namespace) {
	for w, q := range t.parked {
		if w.NS == ns {
			t.dropWaiter(q)
			q.done <- Reply{Err: errNamespaceGone}
		}
	}
}

// forgetRenewals drops what was kept for settled leases. A refused settlement
// says nothing about the lease that stands.
func (t *term) forgetRenewals(b *batch, a *state.Applied) {
	for i, c := range b.cmds {
		// A repetition is accepted too: then somebody else may hold the job by now.
		if a.Results[i].Refusal != state.Accepted || a.Results[i].State.Leased() {
			continue
		}
		state.EachUnleased(c, func(id job.ID) { delete(t.renewals, id) })
	}
}

// answer gives every caller its part. Parked fetches without a grant stay. underWay is how many
// callers the entry has that followed this one.
func (t *term) answer(b *batch, a *state.Applied, index uint64, underWay int) {
	var results []state.Result
	if a != nil {
		results = a.Results
	}
	now := time.Now()
	inLine, before := t.inbox.answering(now)
	t.pace.returned(before, now)
	answered := 0
	for _, o := range b.offers {
		if t.answerOffer(o, results[o.at].Grants, a.Now.Calendar, index) {
			answered++
		}
	}
	for _, q := range b.requests {
		if q.waiter == nil && t.answerRequest(q, results, a, index) {
			answered++
		}
	}
	t.inbox.answered(answered)
	t.pace.answered(answered, inLine+underWay, !b.asks, now)
}

func (t *term) answerOffer(o *offer, grants []state.Grant, now int64, index uint64) bool {
	q, ok := t.parked[o.waiter]
	if !ok {
		return false
	}
	if len(grants) == 0 {
		t.table.Unmatch(o.waiter)
		return false
	}
	t.dropWaiter(q)
	q.done <- Reply{Index: index, Now: now, Grants: grants}
	return true
}

// answerRequest answers a request that is not parked, or parks it.
func (t *term) answerRequest(q *request, results []state.Result, a *state.Applied, index uint64) bool {
	rep := q.reply
	if a != nil {
		rep.Index, rep.Now = index, a.Now.Calendar
		rep.Settled = results[q.settleAt : q.settleAt+len(q.Settle)]
		rep.After = results[q.afterAt : q.afterAt+len(q.After)]
		if q.fetchAt >= 0 {
			rep.Grants, rep.skipped = results[q.fetchAt].Grants, len(results[q.fetchAt].Skipped)
		}
		if slices.ContainsFunc(results[q.settleAt:q.afterAt+len(q.After)], isGone) {
			q.done <- Reply{Err: errNamespaceGone} // A request is of one namespace.
			return true
		}
	}
	if q.fetchAt >= 0 && len(rep.Grants) == 0 && q.Fetch.Wait {
		t.parkSkipped(q)
		return false
	}
	q.done <- rep
	return true
}

func isGone(r state.Result) bool { return r.Refusal == state.NamespaceGone }

// parkSkipped lets a waiting fetch wait whose jobs turned out not to be ready,
// unless its caller gave up meanwhile.
func (t *term) parkSkipped(q *request) {
	if q.cancelled {
		q.done <- Reply{}
		return
	}
	f := q.Fetch
	w := &dispatch.Waiter{
		NS: f.NS, Queues: f.Queues, Count: f.Count,
		Worker: f.Worker, Hostname: f.Hostname, Peer: f.Peer, Lease: f.Lease,
	}
	if err := t.park(q, w); err != nil {
		q.done <- Reply{Err: err}
		return
	}
	if q.waiter == nil { // Over the limit of parked fetches.
		q.done <- q.reply
	}
}
