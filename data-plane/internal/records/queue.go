package records

import (
	"hash/fnv"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
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
}

// Limited reports whether handing out the queue's jobs has a limit.
func (q *QueueConfig) Limited() bool { return q.MaxConcurrency > 0 || !q.Throttle.IsZero() }

// Fingerprint tells settings from other ones, and is never 0. It is about what operators
// set, not about what the queue went through.
func (q *QueueConfig) Fingerprint() uint64 {
	w := newRecord(32)
	w.Bool(q.Paused)
	w.Bool(q.Draining)
	w.Uint(uint64(q.MaxConcurrency))
	command.EncodeThrottle(&w, q.Throttle)
	command.EncodeRetry(&w, q.Retry)
	w.Byte(byte(q.RetrySet))
	h := fnv.New64a()
	_, _ = h.Write(w.Buf) // Never fails.
	return max(h.Sum64(), 1)
}

func (q *QueueConfig) Encode() []byte {
	w := newRecord(32)
	w.Bool(q.Paused)
	w.Int(q.CreatedAt)
	w.Uint(uint64(q.MaxConcurrency))
	command.EncodeThrottle(&w, q.Throttle)
	w.Uint(q.Gen)
	w.Uint(q.Kept)
	w.Bool(q.Draining)
	command.EncodeRetry(&w, q.Retry)
	w.Byte(byte(q.RetrySet))
	return w.Buf
}

func DecodeQueueConfig(v []byte) (QueueConfig, error) {
	r, err := openRecord("queue", v)
	if err != nil {
		return QueueConfig{}, err
	}
	q := QueueConfig{
		Paused: r.Bool(), CreatedAt: r.Int(), MaxConcurrency: r.Uint32(), Throttle: command.DecodeThrottle(r), Gen: r.Uint(), Kept: r.Uint(),
		Draining: r.Bool(), Retry: command.DecodeRetry(r), RetrySet: command.RetryParts(r.Byte()),
	}
	if q.Throttle.IsZero() {
		q.Throttle = command.Throttle{} // One value, one form.
	}
	return q, closeRecord("queue", r)
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

func (c *Counts) Encode() []byte {
	w := newRecord(64 + 8*len(c.Starts))
	for _, n := range c.Jobs {
		w.Int(n)
	}
	w.Int(c.Enqueued)
	w.Int(c.Failed)
	for _, p := range c.Floor {
		command.EncodePosition(&w, p)
	}
	c.Starts.encode(&w)
	return w.Buf
}

func DecodeCounts(v []byte) (Counts, error) {
	r, err := openRecord("counts", v)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	for i := range c.Jobs {
		c.Jobs[i] = r.Int()
	}
	c.Enqueued, c.Failed = r.Int(), r.Int()
	for i := range c.Floor {
		c.Floor[i] = command.DecodePosition(r)
	}
	c.Starts = decodeStarts(r)
	return c, closeRecord("counts", r)
}
