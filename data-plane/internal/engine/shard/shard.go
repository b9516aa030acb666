package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/nap"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Limits of a shard. Reaching one refuses with OVERLOADED; nothing is queued
// without bound (law 8).
const (
	// Requests admitted but not yet in an entry. Namespaces share them by weight; the whole
	// may be exceeded for those below their share, and is never doubled (see fair.Budget).
	inboxMax      = 8192
	inboxBytesMax = 128 << 20
	entryBytesMax = 1 << 20 // An entry closes once it is this large.
	entryCmdsMax  = 8192
	parkedMax     = 32768 // Like inboxMax.
	firesPerEntry = 512   // By each clock.
	offersMax     = 2048  // Parked fetches that one entry answers.
	requestMax    = 4096  // Commands of one request.
	overloadRetry = 5 * time.Millisecond
)

// No entry has more commands than replicas read: what fills it, and the request that
// overfills it.
const _ = uint(command.CommandsMax - (2*firesPerEntry + entryCmdsMax + requestMax + offersMax))

// Options of a shard.
type Options struct {
	Logger *slog.Logger
	// Fatal ends the process on a storage error; it does not return. Nil panics.
	Fatal func(error)
	// Plan says what a cron schedule that is due does at now: ticks, what is missed and
	// the next tick of the answer count. It must not block. Without it schedules wait.
	Plan func(id job.ScheduleID, s *records.Schedule, now int64) (*command.Tick, error)
	// Namespaces knows which namespaces of the shard were deleted. Nil: none ever is.
	Namespaces Namespaces
	// EventsRead is the number of the last event of a namespace that the lists have read;
	// later ones are not trimmed at once. Nil: none has to be kept for them.
	EventsRead func(job.Namespace) uint64
	// Held is asked for the state of the cell as it is now; what it returns says until when, in
	// calendar time, the plan of a namespace's tenant lets no attempt begin: 0 if it does, and
	// math.MaxInt64 until HoldsMoved. Nil: nothing is held.
	Held func() func(job.Namespace) int64
	// Weight is a namespace's share while several want more than there is; nil: all weigh
	// the same.
	Weight func(job.Namespace) int64
	// RetentionEvery is how often the shard looks for what is kept no longer; 0 takes the
	// default.
	RetentionEvery time.Duration
	// EraseEvery is how often Erase looks for deleted namespaces; 0 takes the default.
	EraseEvery time.Duration
	// LeaderWait is how long a call of which nothing was done is held while leadership
	// moves. 0: it is refused at once.
	LeaderWait time.Duration
	// Nap sleeps for less than the grain of Go's timers; nil asks the operating system.
	Nap func(time.Duration)
}

// Shard is one replica of a job group on this node.
type Shard struct {
	group  *group.Group
	store  *statedb.Group
	opts   Options
	logger *slog.Logger

	term    atomic.Pointer[term]        // Nil while this replica does not lead.
	holdOff atomic.Bool                 // No new leases: the disk stalls or the node leaves.
	moved   atomic.Bool                 // What plans hold may have changed since the term looked.
	full    atomic.Pointer[fault.Error] // Nil, or why no new jobs are taken: a disk is nearly full.
	stats   Stats

	leaving chan struct{} // Closed by leave: no call is held any more.
	leave   func()
}

// Stats counts what the proposal loop did since the process started.
type Stats struct {
	Entries  atomic.Uint64
	Commands atomic.Uint64
	Requests atomic.Uint64
	Parked   atomic.Int64
	Refused  atomic.Uint64 // OVERLOADED.
	Held     atomic.Int64  // Calls that wait for a leader.
}

// New makes the shard of a group opened over the machine of state.New.
func New(g *group.Group, store *statedb.Group, o Options) *Shard {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	if o.Plan == nil {
		o.Plan = func(job.ScheduleID, *records.Schedule, int64) (*command.Tick, error) { return nil, errNoPlan }
	}
	if o.EventsRead == nil {
		o.EventsRead = func(job.Namespace) uint64 { return math.MaxUint64 }
	}
	if o.EraseEvery == 0 {
		o.EraseEvery = eraseEvery
	}
	if o.RetentionEvery == 0 {
		o.RetentionEvery = retentionEvery
	}
	if o.Nap == nil {
		o.Nap = nap.Sleep
	}
	s := &Shard{group: g, store: store, opts: o, logger: o.Logger.With("shard", store.ID()), leaving: make(chan struct{})}
	s.leave = sync.OnceFunc(func() { close(s.leaving) })
	g.Lead(s.lead)
	return s
}

// Group is the raft group under the shard.
func (s *Shard) Group() *group.Group { return s.group }

// Store is the shard's committed state.
func (s *Shard) Store() *statedb.Group { return s.store }

// Stats are the loop's counters.
func (s *Shard) Stats() *Stats { return &s.stats }

// HoldOff stops (or resumes) granting leases; settlements go on.
func (s *Shard) HoldOff(on bool) {
	s.holdOff.Store(on)
	s.nudge()
}

// HoldsMoved has Options.Held asked again: who waits for jobs that are held no longer gets
// them at once.
func (s *Shard) HoldsMoved() {
	s.moved.Store(true)
	s.nudge()
}

// nudge has the loop look again.
func (s *Shard) nudge() {
	if t := s.term.Load(); t != nil {
		select {
		case t.nudge <- struct{}{}:
		default: // It will look anyway.
		}
	}
}

// RefuseJobs stops taking new jobs, because the disks of these nodes are nearly full, or
// resumes if there are none; everything else goes on.
func (s *Shard) RefuseJobs(full []string) {
	if len(full) == 0 {
		s.full.Store(nil)
		return
	}
	s.full.Store(errDiskFull(full))
}

// TakesJobs is nil, or why the shard takes no new jobs at the moment.
func (s *Shard) TakesJobs() error {
	if full := s.full.Load(); full != nil {
		return full
	}
	return nil
}

// lead runs the loop for a term of leadership, or until it doesn't know what became of an entry.
func (s *Shard) lead(ctx context.Context, ready func()) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	t := newTerm(s)
	s.term.Store(t)
	ready()
	var others sync.WaitGroup
	others.Go(func() { s.sweep(ctx, t) })
	others.Go(func() { s.endNamespaces(ctx) })
	others.Go(func() { s.retain(ctx) })
	others.Go(func() { s.trimReadings(ctx) })
	t.run(ctx)
	s.term.CompareAndSwap(t, nil)
	t.end()
	end()
	others.Wait()
}

func overloaded(retry time.Duration) error {
	return &fault.Error{
		Code: fault.Exhausted, Reason: "OVERLOADED", RetryAfter: retry,
		Message: "the shard is overloaded; nothing was done, try again in a moment",
	}
}

func errDiskFull(nodes []string) *fault.Error {
	return &fault.Error{
		Code: fault.Exhausted, Reason: "DISK_FULL", RetryAfter: time.Minute,
		Message: fmt.Sprintf("the cell's disks are nearly full (%s): new jobs are refused until the operator frees space; other calls still work", strings.Join(nodes, ", ")),
	}
}

var errNamespaceGone = fault.New(fault.NotFound, "NAMESPACE_NOT_FOUND", "the namespace was deleted")

func errNotLeader() error {
	return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node is not the leader of the shard")
}

// Do runs a request and waits for its reply. When ctx ends first, the outcome is
// unknown and said so. A request that fetches is different, because what it was
// granted must be given back: a parked fetch is taken back, any other is waited for,
// and the caller looks at the context itself.
//
// A request of which nothing was done because leadership moves is held (see hold). It
// ends with NotLeader or Unavailable when another replica leads or nobody does.
func (s *Shard) Do(ctx context.Context, r Request) (Reply, error) {
	rep, err := s.heldOnce(ctx, r)
	for n := 1; n < fetchTries && err == nil && len(rep.Grants) == 0 && rep.skipped > 0 && ctx.Err() == nil; n++ {
		more, failed := s.once(ctx, Request{Fetch: r.Fetch})
		if failed != nil {
			break // What was settled is settled: it is answered, and nothing was granted.
		}
		rep.Grants, rep.skipped = more.Grants, more.skipped
		if more.Index > 0 {
			rep.Index, rep.Now = more.Index, more.Now
		}
	}
	return rep, err
}

// fetchTries bounds how often a fetch that does not wait is tried whose jobs turned out
// not to be ready when they were to start: a budget holds them, for example.
const fetchTries = 16

func (s *Shard) heldOnce(ctx context.Context, r Request) (Reply, error) {
	h := hold{shard: s}
	for {
		rep, err := s.once(ctx, r)
		if h.again(ctx, err) {
			continue
		}
		if fault.NothingDone(err) && r.Fetch != nil && r.Fetch.Wait && ctx.Err() != nil {
			err = ctx.Err() // No job came in time.
		}
		return rep, err
	}
}

func (s *Shard) once(ctx context.Context, r Request) (Reply, error) {
	t := s.term.Load()
	if t == nil {
		return Reply{}, errNotLeader()
	}
	if err := s.TakesJobs(); err != nil && len(r.After) > 0 {
		return Reply{}, err
	}
	if n := len(r.Settle) + len(r.Renew) + len(r.After); n > requestMax {
		return Reply{}, fault.New(fault.TooLarge, "", "the request has %d parts; at most %d are allowed, so split it", n, requestMax)
	}
	if err := s.checkVersion(&r); err != nil {
		return Reply{}, err
	}
	q := newRequest(r)
	if !t.inbox.put(q) {
		s.stats.Refused.Add(1)
		return Reply{}, overloaded(t.inbox.retryAfter(q.ns))
	}
	select {
	case rep := <-q.done:
		return rep, rep.Err
	case <-t.ended:
		return q.afterTerm()
	case <-ctx.Done():
		return s.giveUp(ctx, t, q)
	}
}

// afterTerm: the loop has answered everything it took; what it did not take was
// never proposed.
func (q *request) afterTerm() (Reply, error) {
	select {
	case rep := <-q.done:
		return rep, rep.Err
	default:
		return Reply{}, errNotLeader()
	}
}

func (s *Shard) giveUp(ctx context.Context, t *term, q *request) (Reply, error) {
	if q.Fetch == nil {
		return Reply{}, fault.New(fault.UnknownOutcome, "UNKNOWN_OUTCOME",
			"no response in time: the call may or may not have taken effect; repeat it with the same idempotency key or lease token")
	}
	// A fetch that takes what is ready is in an entry by now or soon: the caller
	// must learn what it was granted, to give it back.
	if q.Fetch.Wait {
		select {
		case t.cancels <- q:
		case <-t.ended:
			return q.afterTerm()
		}
	}
	select {
	case rep := <-q.done:
		if q.Fetch.Wait && rep.Err == nil && len(rep.Grants) == 0 {
			rep.Err = ctx.Err()
		}
		return rep, rep.Err
	case <-t.ended:
		return q.afterTerm()
	}
}

// Read runs f over the committed state and confirms afterwards that this replica
// still led, so that the answer is not stale (R22). Like a request, a read is held while
// leadership moves: f may run more than once, and its last result is the answer.
func Read[T any](ctx context.Context, s *Shard, f func(*statedb.Group) (T, error)) (T, error) {
	h := hold{shard: s}
	for {
		v, err := readOnce(ctx, s, f)
		if !h.again(ctx, err) {
			return v, err
		}
	}
}

type afterwards struct{}

// Afterwards is a context for reading what a request has just written: its node has applied
// that, and whether it still leads doesn't matter.
func Afterwards(ctx context.Context) context.Context {
	return context.WithValue(ctx, afterwards{}, true)
}

func readOnce[T any](ctx context.Context, s *Shard, f func(*statedb.Group) (T, error)) (v T, err error) {
	if ctx.Value(afterwards{}) != nil {
		return f(s.store)
	}
	if !s.group.Leading() {
		return v, errNotLeader()
	}
	v, err = f(s.store)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return v, err
	}
	// That something is not there is an answer too.
	if verr := s.group.VerifyLeader(); verr != nil {
		return v, verr
	}
	return v, err
}
