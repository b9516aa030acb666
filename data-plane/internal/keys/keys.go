// Package keys owns the layout of a job group's span in the state store: one
// builder per family. Keys sort as bytes; numbers are big-endian; text is
// length-prefixed, so that no name can run into the next field (law 10, D17).
//
//	group 4 | 0x00                                           applied record (package group)
//	group 4 | 0x20 | time 8 | kind 1 | ns 16 | id 16         due: what happens when
//	group 4 | 0x30 | index 8                                 feed: events of one entry
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
package keys

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// Group-level families.
const (
	familyDue       = 0x20
	familyFeed      = 0x30
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
)

// DueKind says what happens when a due key's time comes. Stored: append only.
type DueKind uint8

const (
	DueScheduled   DueKind = iota + 1 // A scheduled job becomes pending.
	DueRetry                          // A failed job becomes pending again.
	DueLease                          // A lease ends.
	DueUnique                         // A unique lock ends; the value names it.
	DueIdempotency                    // An idempotency record ends; the value names it.
	dueKindsEnd
)

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

// Job is the key of a per-job record: Body, Head, Result, Checkpoint or Progress.
func (s Space) Job(ns job.Namespace, family byte, id job.ID) []byte {
	return append(s.inNamespace(ns, family, 16), id[:]...)
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

// Lock is the key of a unique lock or an idempotency record.
func (s Space) Lock(ns job.Namespace, family byte, queue, key string) []byte {
	k := appendName(s.inNamespace(ns, family, 1+len(queue)+len(key)), queue)
	return append(k, key...)
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
	At   int64 // Unix nanoseconds, not negative.
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
	k := s.family(familyDue, dueLen-5)
	k = binary.BigEndian.AppendUint64(k, uint64(d.At))
	k = append(k, byte(d.Kind))
	k = append(k, d.NS[:]...)
	return append(k, d.ID[:]...)
}

// ParseDue reads a key made by Due.
func (s Space) ParseDue(key []byte) (Due, error) {
	if len(key) != dueLen || key[4] != familyDue {
		return Due{}, fmt.Errorf("%w: due %x", ErrKey, key)
	}
	d := Due{At: int64(binary.BigEndian.Uint64(key[5:])), Kind: DueKind(key[13])}
	if d.At < 0 || d.Kind == 0 || d.Kind >= dueKindsEnd {
		return Due{}, fmt.Errorf("%w: due %x", ErrKey, key)
	}
	copy(d.NS[:], key[14:])
	copy(d.ID[:], key[30:])
	return d, nil
}

// DueBetween is the span of everything due in [from, to).
func (s Space) DueBetween(from, to int64) (lower, upper []byte) {
	lower = binary.BigEndian.AppendUint64(s.family(familyDue, 8), uint64(max(from, 0)))
	upper = binary.BigEndian.AppendUint64(s.family(familyDue, 8), uint64(max(to, 0)))
	return lower, upper
}

// DueAll is the span of the whole due family.
func (s Space) DueAll() (lower, upper []byte) {
	return s.family(familyDue, 0), s.family(familyDue+1, 0)
}

// Feed is the key of the events of one entry.
func (s Space) Feed(index uint64) []byte {
	return binary.BigEndian.AppendUint64(s.family(familyFeed, 8), index)
}

// FeedFrom is the span of the feed from index on.
func (s Space) FeedFrom(index uint64) (from, to []byte) {
	return s.Feed(index), s.family(familyFeed+1, 0)
}

// FeedIndex reads the index of a key made by Feed.
func (s Space) FeedIndex(key []byte) (uint64, error) {
	if len(key) != 13 || key[4] != familyFeed {
		return 0, fmt.Errorf("%w: feed %x", ErrKey, key)
	}
	return binary.BigEndian.Uint64(key[5:]), nil
}

// NamespaceSpan is everything of one namespace but its due and feed rows.
func (s Space) NamespaceSpan(ns job.Namespace) (from, to []byte) {
	return s.inNamespace(ns, 0, 0), s.inNamespace(ns, 0xff, 0)
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
