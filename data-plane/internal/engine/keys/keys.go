// Package keys owns the layout of a job group's span in the state store: one
// builder per family. Keys sort as bytes; numbers are big-endian; text is
// length-prefixed, so that no name can run into the next field (law 10, D17).
//
//	group 4 | 0x00                                           applied record (package group)
//	group 4 | 0x20 | time 8 | kind 1 | ns 16 | id 16         due by calendar time: what happens when
//	group 4 | 0x21 | time 8 | kind 1 | ns 16 | id 16         due by lease time
//	group 4 | 0x38 | ns 16 | queue                           sweep: what a deleted queue left is to be removed
//	group 4 | 0x3c | number 8                                audit: who administered what, until it is old
//	group 4 | 0x3d                                           where the audit records begin and end
//	group 4 | 0x39 | ns 16                                   ended: the namespace was deleted
//	group 4 | 0x3a | ns 16                                   reading of the namespace's last hour, which is still counted
//	group 4 | 0x3b | hour 8 | ns 16                          reading of an hour before it
//	group 4 | 0x40 | ns 16 | family 1 | …                    everything of a namespace
//
// Families inside a namespace:
//
//	b | job 16                                 body, written once
//	h | job 16                                 head, rewritten per transition
//	r | queue | priority 1 | index 8 | ord 4   ready order -> job
//	e | job 16 | index 8 | ord 4               one failed attempt
//	s | job 16   c | job 16   p | job 16       result, checkpoint, progress
//	u | queue | key                            unique lock -> owner
//	i | queue | key                            idempotency record
//	q | queue                                  queue configuration
//	n | queue                                  queue counters
//	v | number 8                               events of one entry, by the number of the first
//	V                                          number of the namespace's last event
//	w | job                                    what a blocked job waits for
//	d | job 16 | number 8                      a job that waits for a job
//	D | job                                    which of those rows are there
//	o | job                                    why a job is or was held, and who decided
//	j | job                                    usage that a job reported
//	t | job 16 | iteration 4                   one iteration of an agent job
//	g | batch 16                               batch
//	m | batch 16 | job 16                      member of a batch -> how it ended
//	C | batch 16                               what the callback of a batch is to carry, until it is made
//	G                                          how many batches are open
//	l | chain 16                               what follows on what in a chain, written once
//	L | chain 16                               how far a chain has come
//	k | schedule 16                            cron schedule
//	x | name                                   name of a schedule -> schedule
//	y | hour 8 | queue | provider, model       usage in an hour
//	f | day 8 | scope 1 | target               what a budget's day cost
//	z | scope 1 | target                       budget
//	a | policy 16                              approval policy
//	A | number 8                               audit record of the namespace -> its number in the group
//	B                                          where the audit records of the namespace begin and end
//	O | operation 16                           audit record of an act that is not done yet
package keys

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Group-level families.
const (
	familyDue       = 0x20 // By calendar time.
	familyDueLease  = 0x21 // By lease time.
	familySweep     = 0x38
	familyAudit     = 0x3c
	familyAuditMark = 0x3d
	familyEnded     = 0x39
	familyOpen      = 0x3a
	familyReading   = 0x3b
	familyNamespace = 0x40
)

// Families inside a namespace.
const (
	Body        = 'b'
	Head        = 'h'
	ready       = 'r'
	attemptErrs = 'e'
	Result      = 's'
	Checkpoint  = 'c'
	Progress    = 'p'
	Unique      = 'u'
	Idempotency = 'i'
	QueueConfig = 'q'
	QueueCounts = 'n'
	eventRow    = 'v'
	eventMark   = 'V'
	Waits       = 'w'
	Waiters     = 'D'
	dependent   = 'd'
	Hold        = 'o'
	JobUsage    = 'j'
	iteration   = 't'
	batch       = 'g'
	member      = 'm'
	chain       = 'l'
	chainState  = 'L'
	callback    = 'C'
	openBatches = 'G'
	schedule    = 'k'
	schedName   = 'x'
	schedTally  = 'X'
	hourUsage   = 'y'
	budgetDay   = 'f'
	budget      = 'z'
	policy      = 'a'
	auditOf     = 'A'
	auditBook   = 'B'
	auditOpen   = 'O'
)

// DueKind says what happens when a due key's time comes. Stored: append only.
type DueKind uint8

const (
	DueScheduled   DueKind = iota + 1 // A scheduled job becomes pending.
	DueRetry                          // A failed job becomes pending again.
	DueLease                          // A lease ends.
	DueUnique                         // A unique lock ends; the value names it.
	DueIdempotency                    // An idempotency record ends; the value names it.
	DueExpire                         // A job's time to live ends.
	DueHold                           // Nobody decided about a held job.
	DueDeliver                        // Jobs that wait for this one learn how it ended.
	DueSchedule                       // A cron schedule ticks; the id is the schedule's.
	DueAudit                          // An act that was never done is recorded as far as it came; the id is the act's.
	dueKindsEnd
)

// OnLeaseTime reports whether a kind waits for lease time, which measures durations; the
// others wait for calendar time, in which people name instants.
func (k DueKind) OnLeaseTime() bool { return k == DueRetry || k == DueLease }

func (k DueKind) family() byte { return dueFamily(k.OnLeaseTime()) }

func dueFamily(lease bool) byte {
	if lease {
		return familyDueLease
	}
	return familyDue
}

// Position is a place in the ready order: where in the log the job became
// ready. Later is always larger.
type Position struct {
	Index   uint64
	Ordinal uint32
}

// Less orders positions.
func (p Position) Less(q Position) bool {
	return p.Index < q.Index || p.Index == q.Index && p.Ordinal < q.Ordinal
}

// IsZero reports whether no position was set; entry indexes start at 1.
func (p Position) IsZero() bool { return p == Position{} }

// Space builds the keys of one group.
type Space struct{ prefix [4]byte }

// In returns the key space of the group with the given prefix.
func In(prefix [4]byte) Space { return Space{prefix} }

// ErrKey is returned when a stored key does not have its family's shape.
var ErrKey = errors.New("malformed key")

func (s Space) family(f byte, room int) []byte {
	k := make([]byte, 0, 5+room)
	k = append(k, s.prefix[:]...)
	return append(k, f)
}

func (s Space) inNamespace(ns job.Namespace, f byte, room int) []byte {
	k := s.family(familyNamespace, 17+room)
	k = append(k, ns[:]...)
	return append(k, f)
}

// Job is the key of a per-job record: Body, Head, Result, Checkpoint, Progress, Waits,
// Waiters, Hold or JobUsage.
func (s Space) Job(ns job.Namespace, family byte, id job.ID) []byte {
	return append(s.inNamespace(ns, family, 16), id[:]...)
}

// Iteration is the key of one iteration of an agent job.
func (s Space) Iteration(ns job.Namespace, id job.ID, n uint32) []byte {
	k := append(s.inNamespace(ns, iteration, 20), id[:]...)
	return binary.BigEndian.AppendUint32(k, n)
}

// Iterations is the span of the iterations of an agent job, in order.
func (s Space) Iterations(ns job.Namespace, id job.ID) (from, to []byte) {
	from = append(s.inNamespace(ns, iteration, 16), id[:]...)
	return from, prefixEnd(from)
}

// IterationOf reads the number of an iteration's key.
func (s Space) IterationOf(key []byte) (uint32, error) {
	const head = 4 + 1 + 16 + 1 + 16
	if len(key) != head+4 || key[21] != iteration {
		return 0, fmt.Errorf("%w: iteration %x", ErrKey, key)
	}
	return binary.BigEndian.Uint32(key[head:]), nil
}

// Dependent is the key of one of the jobs that wait for a job, by number.
func (s Space) Dependent(ns job.Namespace, on job.ID, n uint64) []byte {
	k := append(s.inNamespace(ns, dependent, 24), on[:]...)
	return binary.BigEndian.AppendUint64(k, n)
}

// Batch is the key of a batch, and Batches the span of all.
func (s Space) Batch(ns job.Namespace, id job.BatchID) []byte {
	return append(s.inNamespace(ns, batch, 16), id[:]...)
}

// Batches is the span of the batches before one, and of all before the zero id.
func (s Space) Batches(ns job.Namespace, before job.BatchID) (from, to []byte) {
	return s.familyBefore(ns, batch, before)
}

// Callback is the key of what the callback of a batch is to carry.
func (s Space) Callback(ns job.Namespace, id job.BatchID) []byte {
	return append(s.inNamespace(ns, callback, 16), id[:]...)
}

// Tail is the id with which a key of Batch, Member, Chain or ChainState ends.
func (s Space) Tail(key []byte) (id [16]byte, err error) {
	if len(key) < 4+1+16+1+16 {
		return id, fmt.Errorf("%w: %x has no id", ErrKey, key)
	}
	return [16]byte(key[len(key)-16:]), nil
}

// Member is the key of a job in a batch, and Members the span of all of a batch.
func (s Space) Member(ns job.Namespace, id job.BatchID, of job.ID) []byte {
	return append(append(s.inNamespace(ns, member, 32), id[:]...), of[:]...)
}

// Members is the span of a batch's members after one.
func (s Space) Members(ns job.Namespace, id job.BatchID, after job.ID) (from, to []byte) {
	all := append(s.inNamespace(ns, member, 33), id[:]...)
	from = append(append([]byte(nil), all...), after[:]...)
	if !after.IsZero() {
		from = append(from, 0)
	}
	return from, prefixEnd(all)
}

// OpenBatches is the key of the number of batches that are not sealed.
func (s Space) OpenBatches(ns job.Namespace) []byte { return s.inNamespace(ns, openBatches, 0) }

// ScheduleTally is the key of the number of schedules.
func (s Space) ScheduleTally(ns job.Namespace) []byte { return s.inNamespace(ns, schedTally, 0) }

// Chain is the key of what a chain's steps are.
func (s Space) Chain(ns job.Namespace, id job.ChainID) []byte {
	return append(s.inNamespace(ns, chain, 16), id[:]...)
}

// ChainState is the key of how far a chain has come.
func (s Space) ChainState(ns job.Namespace, id job.ChainID) []byte {
	return append(s.inNamespace(ns, chainState, 16), id[:]...)
}

// Chains is the span of the keys made by ChainState of the chains before one, and of
// all before the zero id.
func (s Space) Chains(ns job.Namespace, before job.ChainID) (from, to []byte) {
	return s.familyBefore(ns, chainState, before)
}

// Schedule is the key of a cron schedule.
func (s Space) Schedule(ns job.Namespace, id job.ScheduleID) []byte {
	return append(s.inNamespace(ns, schedule, 16), id[:]...)
}

// SchedulesAfter is the span of the cron schedules after an id, and ScheduleID reads
// whose record one of its keys is.
func (s Space) SchedulesAfter(ns job.Namespace, after job.ScheduleID) (from, to []byte) {
	from, to = s.familyOf(ns, schedule)
	if !after.IsZero() {
		from = append(s.Schedule(ns, after), 0)
	}
	return from, to
}

// ScheduleID reads the schedule of its record's key.
func (s Space) ScheduleID(key []byte) (job.ScheduleID, error) {
	if len(key) != 4+1+16+1+16 || key[21] != schedule {
		return job.ScheduleID{}, fmt.Errorf("%w: schedule %x", ErrKey, key)
	}
	return job.ScheduleID(key[22:]), nil
}

// ScheduleName is the key by which a schedule's name finds it.
func (s Space) ScheduleName(ns job.Namespace, name string) []byte {
	return append(s.inNamespace(ns, schedName, len(name)), name...)
}

// Usage is the key of what a model was used for in an hour (since 1970) by the jobs
// of a queue.
func (s Space) Usage(ns job.Namespace, hour uint64, queue, provider, model string) []byte {
	k := binary.BigEndian.AppendUint64(s.inNamespace(ns, hourUsage, 10+len(queue)+len(provider)+len(model)), hour)
	k = appendName(appendName(k, queue), provider)
	return append(k, model...)
}

// UsageBetween is the span of the usage of the hours in [from, to).
func (s Space) UsageBetween(ns job.Namespace, from, to uint64) (lower, upper []byte) {
	return binary.BigEndian.AppendUint64(s.inNamespace(ns, hourUsage, 8), from),
		binary.BigEndian.AppendUint64(s.inNamespace(ns, hourUsage, 8), to)
}

// UsageOf reads a key made by Usage.
func (s Space) UsageOf(key []byte) (hour uint64, queue, provider, model string, err error) {
	const head = 4 + 1 + 16 + 1 + 8
	var rest []byte
	if len(key) > head && key[head-9] == hourUsage {
		hour, rest = binary.BigEndian.Uint64(key[head-8:]), key[head:]
		if queue, rest, err = cutName(rest); err == nil {
			provider, rest, err = cutName(rest)
		}
		return hour, queue, provider, string(rest), err
	}
	return 0, "", "", "", fmt.Errorf("%w: usage %x", ErrKey, key)
}

// cutName reads what appendName wrote.
func cutName(k []byte) (name string, rest []byte, err error) {
	if len(k) == 0 || len(k) < 1+int(k[0]) {
		return "", nil, fmt.Errorf("%w: name in %x", ErrKey, k)
	}
	n := 1 + int(k[0])
	return string(k[1:n]), k[n:], nil
}

// BudgetDay is the key of what a budget's scope cost in a day (since 1970).
func (s Space) BudgetDay(ns job.Namespace, day uint64, scope byte, target string) []byte {
	k := binary.BigEndian.AppendUint64(s.inNamespace(ns, budgetDay, 9+len(target)), day)
	return append(append(k, scope), target...)
}

// BudgetDayOf reads the day of a budget day's key.
func (s Space) BudgetDayOf(key []byte) (day uint64, err error) {
	const head = 4 + 1 + 16 + 1
	if len(key) < head+9 || key[head-1] != budgetDay {
		return 0, fmt.Errorf("%w: budget day %x", ErrKey, key)
	}
	return binary.BigEndian.Uint64(key[head:]), nil
}

// BudgetDays is the span of the budget days before a day.
func (s Space) BudgetDays(ns job.Namespace, before uint64) (from, to []byte) {
	return s.inNamespace(ns, budgetDay, 0), binary.BigEndian.AppendUint64(s.inNamespace(ns, budgetDay, 8), before)
}

// Budget is the key of a budget, and Budgets the span of all.
func (s Space) Budget(ns job.Namespace, scope byte, target string) []byte {
	return append(append(s.inNamespace(ns, budget, 1+len(target)), scope), target...)
}

// Budgets is the span of all budgets.
func (s Space) Budgets(ns job.Namespace) (from, to []byte) { return s.familyOf(ns, budget) }

// Policy is the key of an approval policy, and Policies the span of all.
func (s Space) Policy(ns job.Namespace, id job.PolicyID) []byte {
	return append(s.inNamespace(ns, policy, 16), id[:]...)
}

// Policies is the span of all approval policies.
func (s Space) Policies(ns job.Namespace) (from, to []byte) { return s.familyOf(ns, policy) }

func (s Space) familyBefore(ns job.Namespace, f byte, before [16]byte) (from, to []byte) {
	from, to = s.familyOf(ns, f)
	if before != [16]byte{} {
		to = append(from[:len(from):len(from)], before[:]...)
	}
	return from, to
}

// HeadsBetween is the span of the heads of a namespace's jobs from an id up to another
// one, which is zero for the end of all.
func (s Space) HeadsBetween(ns job.Namespace, from, to [16]byte) (lower, upper []byte) {
	return s.between(ns, Head, from, to)
}

// BatchesBetween is the span of the batches from an id up to another one.
func (s Space) BatchesBetween(ns job.Namespace, from, to [16]byte) (lower, upper []byte) {
	return s.between(ns, batch, from, to)
}

// ChainsBetween is the span of the chain states from an id up to another one.
func (s Space) ChainsBetween(ns job.Namespace, from, to [16]byte) (lower, upper []byte) {
	return s.between(ns, chainState, from, to)
}

func (s Space) between(ns job.Namespace, f byte, from, to [16]byte) (lower, upper []byte) {
	lower, upper = s.familyOf(ns, f)
	lower = append(lower, from[:]...)
	if to != [16]byte{} {
		upper = append(s.inNamespace(ns, f, 16), to[:]...)
	}
	return lower, upper
}

func (s Space) familyOf(ns job.Namespace, f byte) (from, to []byte) {
	return s.inNamespace(ns, f, 0), s.inNamespace(ns, f+1, 0)
}

// Queue is the key of a per-queue record: QueueConfig or QueueCounts.
func (s Space) Queue(ns job.Namespace, family byte, queue string) []byte {
	return appendName(s.inNamespace(ns, family, 1+len(queue)), queue)
}

// Queues is the span of all records of one per-queue family of a namespace.
func (s Space) Queues(ns job.Namespace, family byte) (from, to []byte) {
	return s.inNamespace(ns, family, 0), s.inNamespace(ns, family+1, 0)
}

// QueueName reads the queue of a key made by Queue.
func (s Space) QueueName(key []byte) (string, error) {
	const head = 4 + 1 + 16 + 1
	if len(key) <= head || int(key[head]) != len(key)-head-1 {
		return "", fmt.Errorf("%w: queue record %x", ErrKey, key)
	}
	return string(key[head+1:]), nil
}

// EventMark is the key of a namespace's event numbers.
func (s Space) EventMark(ns job.Namespace) []byte { return s.inNamespace(ns, eventMark, 0) }

// Events is the key of the events of one entry, of which first is the lowest number.
func (s Space) Events(ns job.Namespace, first uint64) []byte {
	return binary.BigEndian.AppendUint64(s.inNamespace(ns, eventRow, 8), first)
}

// EventsBetween is the span of the keys made by Events from one number up to another.
func (s Space) EventsBetween(ns job.Namespace, from, to uint64) (lower, upper []byte) {
	return s.Events(ns, from), s.Events(ns, to)
}

// EventsFrom is the span of the keys made by Events from a number on.
func (s Space) EventsFrom(ns job.Namespace, from uint64) (lower, upper []byte) {
	_, upper = s.familyOf(ns, eventRow)
	return s.Events(ns, from), upper
}

// EventNumber reads the number of a key made by Events.
func (s Space) EventNumber(key []byte) (uint64, error) {
	const head = 4 + 1 + 16 + 1
	if len(key) != head+8 || key[head-1] != eventRow {
		return 0, fmt.Errorf("%w: events %x", ErrKey, key)
	}
	return binary.BigEndian.Uint64(key[head:]), nil
}

// Namespaces is the span in which every namespace from ns on has its rows, and
// NamespaceOf reads whose row one of its keys is.
func (s Space) Namespaces(ns job.Namespace) (from, to []byte) {
	return s.inNamespace(ns, 0, 0)[:4+1+16], s.family(familyNamespace+1, 0)
}

// NamespaceOf reads the namespace of a key of one.
func (s Space) NamespaceOf(key []byte) (job.Namespace, error) {
	if len(key) < 4+1+16+1 || key[4] != familyNamespace {
		return job.Namespace{}, fmt.Errorf("%w: namespace row %x", ErrKey, key)
	}
	return job.Namespace(key[5:21]), nil
}

// Heads is the span of the heads of a namespace's jobs after an id, and HeadID
// reads whose head one of its keys is.
func (s Space) Heads(ns job.Namespace, after job.ID) (from, to []byte) {
	from = s.Job(ns, Head, after)
	if !after.IsZero() {
		from = append(from, 0)
	}
	return from, s.inNamespace(ns, Head+1, 0)
}

// HeadID reads the job of a head's key.
func (s Space) HeadID(key []byte) (job.ID, error) {
	if len(key) != 4+1+16+1+16 || key[21] != Head {
		return job.ID{}, fmt.Errorf("%w: head %x", ErrKey, key)
	}
	return job.ID(key[22:]), nil
}

// Lock is the key of a unique lock or an idempotency record.
func (s Space) Lock(ns job.Namespace, family byte, queue, key string) []byte {
	k := appendName(s.inNamespace(ns, family, 1+len(queue)+len(key)), queue)
	return append(k, key...)
}

// Locks is the span of the locks of one family and queue from a key on.
func (s Space) Locks(ns job.Namespace, family byte, queue, from string) (lower, upper []byte) {
	all := s.Lock(ns, family, queue, "")
	return s.Lock(ns, family, queue, from), prefixEnd(all)
}

// LockKey reads the lock's own key out of a key made by Lock.
func (s Space) LockKey(key []byte) (string, error) {
	const head = 4 + 1 + 16 + 1
	if len(key) <= head || len(key) < head+1+int(key[head]) {
		return "", fmt.Errorf("%w: lock %x", ErrKey, key)
	}
	return string(key[head+1+int(key[head]):]), nil
}

// Sweep is the key that says that a deleted queue's leftovers are to be removed.
func (s Space) Sweep(ns job.Namespace, queue string) []byte {
	k := append(s.family(familySweep, 17+len(queue)), ns[:]...)
	return appendName(k, queue)
}

// Sweeps is the span of the keys made by Sweep.
func (s Space) Sweeps() (from, to []byte) {
	return s.family(familySweep, 0), s.family(familySweep+1, 0)
}

// SweepsOf is the part of Sweeps of one namespace.
func (s Space) SweepsOf(ns job.Namespace) (from, to []byte) {
	from = append(s.family(familySweep, 17), ns[:]...)
	return from, prefixEnd(from)
}

// SweepsAfter is where the span of Sweeps goes on behind a namespace: no name is as long
// as the byte that ends it.
func (s Space) SweepsAfter(ns job.Namespace) (from []byte) {
	return append(append(s.family(familySweep, 17), ns[:]...), 0xff)
}

// ParseSweep reads a key made by Sweep.
func (s Space) ParseSweep(key []byte) (job.Namespace, string, error) {
	const head = 4 + 1 + 16
	if len(key) <= head || key[4] != familySweep || int(key[head]) != len(key)-head-1 {
		return job.Namespace{}, "", fmt.Errorf("%w: sweep %x", ErrKey, key)
	}
	return job.Namespace(key[5:head]), string(key[head+1:]), nil
}

// Ended is the key that says that a namespace was deleted, and Endeds the span of all.
func (s Space) Ended(ns job.Namespace) []byte {
	return append(s.family(familyEnded, 16), ns[:]...)
}

// Endeds is the span of the keys made by Ended.
func (s Space) Endeds() (from, to []byte) {
	return s.family(familyEnded, 0), s.family(familyEnded+1, 0)
}

// EndedOf reads the namespace of a key made by Ended.
func (s Space) EndedOf(key []byte) (job.Namespace, error) {
	if len(key) != 4+1+16 || key[4] != familyEnded {
		return job.Namespace{}, fmt.Errorf("%w: ended %x", ErrKey, key)
	}
	return job.Namespace(key[5:]), nil
}

// OpenReading is the key of what is counted for a namespace. It outlives the namespace,
// which is still to be billed.
func (s Space) OpenReading(ns job.Namespace) []byte {
	return append(s.family(familyOpen, 16), ns[:]...)
}

// OpenReadings is the span of the keys made by OpenReading from a namespace on.
func (s Space) OpenReadings(from job.Namespace) (lower, upper []byte) {
	return s.OpenReading(from), s.family(familyOpen+1, 0)
}

// OpenReadingOf reads the namespace of a key made by OpenReading.
func (s Space) OpenReadingOf(key []byte) (job.Namespace, error) {
	if len(key) != 4+1+16 || key[4] != familyOpen {
		return job.Namespace{}, fmt.Errorf("%w: open reading %x", ErrKey, key)
	}
	return job.Namespace(key[5:]), nil
}

// Reading is the key of what was counted for a namespace in an hour (since 1970) that is
// over.
func (s Space) Reading(hour uint64, ns job.Namespace) []byte {
	k := binary.BigEndian.AppendUint64(s.family(familyReading, 24), hour)
	return append(k, ns[:]...)
}

// Readings is the span of the keys made by Reading from an hour and a namespace on.
func (s Space) Readings(hour uint64, ns job.Namespace) (lower, upper []byte) {
	return s.Reading(hour, ns), s.family(familyReading+1, 0)
}

// ReadingsBefore is the span of the keys made by Reading for the hours before one.
func (s Space) ReadingsBefore(hour uint64) (lower, upper []byte) {
	return s.family(familyReading, 0), binary.BigEndian.AppendUint64(s.family(familyReading, 8), hour)
}

// ReadingOf reads a key made by Reading.
func (s Space) ReadingOf(key []byte) (hour uint64, ns job.Namespace, err error) {
	if len(key) != 4+1+8+16 || key[4] != familyReading {
		return 0, ns, fmt.Errorf("%w: reading %x", ErrKey, key)
	}
	return binary.BigEndian.Uint64(key[5:]), job.Namespace(key[13:]), nil
}

// Dues is the span of the due rows of both clocks after one; of all after the zero one.
func (s Space) Dues(after Due) (from, to []byte) {
	from = s.family(familyDue, 0)
	if after != (Due{}) {
		from = append(s.Due(after), 0)
	}
	return from, s.family(familyDueLease+1, 0)
}

// Ready is the key of a place in the ready order.
func (s Space) Ready(ns job.Namespace, queue string, p job.Priority, pos Position) []byte {
	k := s.readyPrefix(ns, queue, p)
	k = binary.BigEndian.AppendUint64(k, pos.Index)
	return binary.BigEndian.AppendUint32(k, pos.Ordinal)
}

// ReadyFrom is the span of the ready order of one queue and priority from pos on.
func (s Space) ReadyFrom(ns job.Namespace, queue string, p job.Priority, pos Position) (from, to []byte) {
	to = s.readyPrefix(ns, queue, p)
	to[len(to)-1]++
	return s.Ready(ns, queue, p, pos), to
}

// ReadyOf is the span of all ready orders of a queue.
func (s Space) ReadyOf(ns job.Namespace, queue string) (from, to []byte) {
	from = appendName(s.inNamespace(ns, ready, 1+len(queue)), queue)
	return from, prefixEnd(from)
}

func (s Space) readyPrefix(ns job.Namespace, queue string, p job.Priority) []byte {
	k := appendName(s.inNamespace(ns, ready, 2+len(queue)+12), queue)
	return append(k, byte(p))
}

// ReadyPosition reads the position of a key made by Ready.
func (s Space) ReadyPosition(key []byte) (Position, error) {
	if len(key) < 4+1+16+1+1+1+12 {
		return Position{}, fmt.Errorf("%w: ready %x", ErrKey, key)
	}
	tail := key[len(key)-12:]
	return Position{binary.BigEndian.Uint64(tail), binary.BigEndian.Uint32(tail[8:])}, nil
}

// AttemptError is the key of one failed attempt of a job.
func (s Space) AttemptError(ns job.Namespace, id job.ID, pos Position) []byte {
	k := append(s.inNamespace(ns, attemptErrs, 28), id[:]...)
	k = binary.BigEndian.AppendUint64(k, pos.Index)
	return binary.BigEndian.AppendUint32(k, pos.Ordinal)
}

// AttemptErrors is the span of a job's failed attempts, in order.
func (s Space) AttemptErrors(ns job.Namespace, id job.ID) (from, to []byte) {
	from = append(s.inNamespace(ns, attemptErrs, 16), id[:]...)
	to = append(s.inNamespace(ns, attemptErrs, 28), id[:]...)
	for range 12 {
		to = append(to, 0xff)
	}
	return from, append(to, 0)
}

// Due is a point in time at which something happens to a job or a lock.
type Due struct {
	At   int64 // Of the kind's clock, Unix nanoseconds, not negative.
	Kind DueKind
	NS   job.Namespace
	ID   job.ID // For locks: the owner.
}

const dueLen = 4 + 1 + 8 + 1 + 16 + 16

// Due builds the key of d.
func (s Space) Due(d Due) []byte {
	if d.At < 0 {
		panic(fmt.Sprintf("keys: due time %d of %s is before 1970", d.At, d.ID))
	}
	k := s.family(d.Kind.family(), dueLen-5)
	k = binary.BigEndian.AppendUint64(k, uint64(d.At))
	k = append(k, byte(d.Kind))
	k = append(k, d.NS[:]...)
	return append(k, d.ID[:]...)
}

// ParseDue reads a key made by Due.
func (s Space) ParseDue(key []byte) (Due, error) {
	if len(key) != dueLen {
		return Due{}, fmt.Errorf("%w: due %x", ErrKey, key)
	}
	d := Due{At: int64(binary.BigEndian.Uint64(key[5:])), Kind: DueKind(key[13])}
	if d.At < 0 || d.Kind == 0 || d.Kind >= dueKindsEnd || key[4] != d.Kind.family() {
		return Due{}, fmt.Errorf("%w: due %x", ErrKey, key)
	}
	copy(d.NS[:], key[14:])
	copy(d.ID[:], key[30:])
	return d, nil
}

// DueBetween is the span of everything due in [from, to) of lease or calendar time.
func (s Space) DueBetween(lease bool, from, to int64) (lower, upper []byte) {
	lower = binary.BigEndian.AppendUint64(s.family(dueFamily(lease), 8), uint64(max(from, 0)))
	upper = binary.BigEndian.AppendUint64(s.family(dueFamily(lease), 8), uint64(max(to, 0)))
	return lower, upper
}

// DueAll is the span of both due families.
func (s Space) DueAll() (lower, upper []byte) {
	return s.family(familyDue, 0), s.family(familyDueLease+1, 0)
}

// NamespaceButAudit is what of NamespaceSpan is no audit record.
func (s Space) NamespaceButAudit(ns job.Namespace) [][2][]byte {
	from, to := s.NamespaceSpan(ns)
	return [][2][]byte{
		{from, s.inNamespace(ns, auditOf, 0)},
		{s.inNamespace(ns, auditBook+1, 0), s.inNamespace(ns, auditOpen, 0)},
		{s.inNamespace(ns, auditOpen+1, 0), to},
	}
}

// NamespaceSpan is everything of one namespace but its due and sweep rows.
func (s Space) NamespaceSpan(ns job.Namespace) (from, to []byte) {
	return s.inNamespace(ns, 0, 0), s.inNamespace(ns, 0xff, 0)
}

// Audit is the key of an audit record, and AuditFrom the span from one on.
func (s Space) Audit(number uint64) []byte {
	return binary.BigEndian.AppendUint64(s.family(familyAudit, 8), number)
}

// AuditFrom is the span of the audit records from a number on.
func (s Space) AuditFrom(number uint64) (from, to []byte) {
	return s.Audit(number), s.family(familyAudit+1, 0)
}

// AuditNumber reads the number of a key made by Audit.
func (s Space) AuditNumber(key []byte) (uint64, error) {
	if len(key) != 13 || key[4] != familyAudit {
		return 0, fmt.Errorf("%w: audit %x", ErrKey, key)
	}
	return binary.BigEndian.Uint64(key[5:]), nil
}

// AuditMark is the key of where the audit records of the group begin and end.
func (s Space) AuditMark() []byte { return s.family(familyAuditMark, 0) }

// AuditOf is the key by which a namespace finds its own audit records, which it numbers
// without gaps, and AuditsOf the span of all before a number.
func (s Space) AuditOf(ns job.Namespace, number uint64) []byte {
	return binary.BigEndian.AppendUint64(s.inNamespace(ns, auditOf, 8), number)
}

// AuditsOf is the span of the keys made by AuditOf for the numbers before one.
func (s Space) AuditsOf(ns job.Namespace, before uint64) (from, to []byte) {
	return s.inNamespace(ns, auditOf, 0), s.AuditOf(ns, before)
}

// AuditBook is the key of where the audit records of a namespace begin and end.
func (s Space) AuditBook(ns job.Namespace) []byte { return s.inNamespace(ns, auditBook, 0) }

// AuditOpen is the key of the record of an act that is not done yet.
func (s Space) AuditOpen(ns job.Namespace, op job.ID) []byte {
	return append(s.inNamespace(ns, auditOpen, 16), op[:]...)
}

// All is the whole span of the group.
func (s Space) All() (from, to []byte) {
	from = s.prefix[:]
	return append([]byte(nil), from...), append(append([]byte(nil), from...), 0xff)
}

// appendName writes a name of at most 255 bytes with its length in front.
func appendName(k []byte, name string) []byte {
	if len(name) > 255 {
		panic(fmt.Sprintf("keys: name of %d bytes", len(name)))
	}
	k = append(k, byte(len(name)))
	return append(k, name...)
}

// prefixEnd is the first key after all keys that begin with p. No prefix here is
// all 0xff: it begins with a family.
func prefixEnd(p []byte) []byte {
	end := append([]byte(nil), p...)
	for end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	end[len(end)-1]++
	return end
}
