package records

import (
	"hash/fnv"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

// ForgetWaiting counts the jobs that no worker holds down to none.
func (c *Counts) ForgetWaiting() (n int64) {
	for _, s := range job.States() {
		if !s.Leased() {
			n += c.Jobs[s]
			c.Jobs[s] = 0
		}
	}
	return n
}

// HasRoom reports whether one more lease may begin at a lease time.
func (c *QueueConfig) HasRoom(n *Counts, lease int64) bool {
	if c.MaxConcurrency > 0 && n.Leased() >= int64(c.MaxConcurrency) {
		return false
	}
	return c.Throttle.IsZero() || n.Starts.Room(lease, c.Throttle) > 0
}

// QueueConfig is what an operator set for a queue.
type QueueConfig struct {
	Paused    bool
	CreatedAt int64
	// MaxConcurrency is how many of its jobs workers may hold at a time; 0 is no limit.
	MaxConcurrency uint32
	Throttle       command.Throttle
	Gen            uint64 // See Head.
	// kept, if not 0, is the generation after the oldest whose leased jobs are still
	// there: clearing a queue lets a generation pass without them.
	Kept     uint64
	Draining bool // Takes no more jobs.
	// Retry is for the parts that a producer leaves open, if RetrySet names them.
	Retry    command.RetryPolicy
	RetrySet command.RetryParts
	// Retention is of its finished jobs; parts that are 0 are the namespace's.
	Retention command.QueueRetention
}

// Limited reports whether handing out the queue's jobs has a limit.
func (q *QueueConfig) Limited() bool { return q.MaxConcurrency > 0 || !q.Throttle.IsZero() }

// Fingerprint tells settings from other ones, and is never 0. It is about what operators
// set, not about what the queue went through.
func (q *QueueConfig) Fingerprint() uint64 {
	set := *q
	h := fnv.New64a()
	_, _ = h.Write(encode(32, (*settings)(&set))) // Never fails.
	return max(h.Sum64(), 1)
}

// settings are the part of a queue's configuration that operators set.
type settings QueueConfig

func (q *settings) Fields(f *codec.Fields) {
	f.Bool(&q.Paused)
	f.Bool(&q.Draining)
	f.Uint32(&q.MaxConcurrency)
	q.Throttle.Fields(f)
	q.Retry.Fields(f)
	codec.Byte(f, &q.RetrySet)
	q.Retention.Fields(f)
}

func (q *QueueConfig) Fields(f *codec.Fields) {
	f.Bool(&q.Paused)
	f.Int(&q.CreatedAt)
	f.Uint32(&q.MaxConcurrency)
	q.Throttle.Fields(f)
	f.Uint(&q.Gen)
	f.Uint(&q.Kept)
	f.Bool(&q.Draining)
	q.Retry.Fields(f)
	codec.Byte(f, &q.RetrySet)
	q.Retention.Fields(f)
}

func (q *QueueConfig) Encode() []byte {
	f := newRecord(32)
	q.Fields(&f)
	return f.Written()
}

// DecodeQueueConfig reads what QueueConfig.Encode wrote.
func DecodeQueueConfig(v []byte) (q QueueConfig, err error) {
	f := openRecord(v)
	q.Fields(&f)
	if q.Throttle.IsZero() {
		q.Throttle = command.Throttle{} // One value, one form.
	}
	return q, closeRecord("queue", &f)
}

// StateSlots is the size of a per-state table; slot 0 is unused.
const StateSlots = int(job.Cancelled) + 1

// Counts are the exact numbers of a queue, changed in the batch that changes the
// jobs, and the floors of its ready orders.
type Counts struct {
	Jobs     [StateSlots]int64 // By job.State.
	Enqueued int64             // Ever.
	Failed   int64             // Failed attempts, ever.
	// Floor: no ready job of the priority stands before it.
	Floor [job.Priorities]keys.Position
	// Starts is what a throttle counts; empty without one.
	Starts Starts
}

// Leased is how many jobs workers hold: the active set that a limit of concurrency
// is about (R-C1).
func (c *Counts) Leased() int64 { return c.Jobs[job.Active] + c.Jobs[job.Cancelling] }

func (c *Counts) Fields(f *codec.Fields) {
	for i := range c.Jobs {
		f.Int(&c.Jobs[i])
	}
	f.Int(&c.Enqueued)
	f.Int(&c.Failed)
	for i := range c.Floor {
		command.Position(f, &c.Floor[i])
	}
	c.Starts.fields(f)
}

func (c *Counts) Encode() []byte {
	f := newRecord(64 + 8*len(c.Starts))
	c.Fields(&f)
	return f.Written()
}

// DecodeCounts reads what Counts.Encode wrote.
func DecodeCounts(v []byte) (c Counts, err error) {
	f := openRecord(v)
	c.Fields(&f)
	return c, closeRecord("counts", &f)
}
