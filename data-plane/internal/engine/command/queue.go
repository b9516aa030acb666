package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// ClearQueue removes, at once for everybody who asks, all jobs of a queue that no
// worker holds. What they leave in the store is removed by Sweep, piece by piece.
type ClearQueue struct {
	NS    job.Namespace
	Queue string
}

func (c *ClearQueue) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Name(&c.Queue)
}

// Pause stops (or resumes) handing out the jobs of a queue.
type Pause struct {
	NS     job.Namespace
	Queue  string
	Paused bool
}

func (c *Pause) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Name(&c.Queue)
	f.Bool(&c.Paused)
}

// Settings names settings of a queue. Stored: append only.
type Settings uint8

const (
	SetPaused Settings = 1 << iota
	SetConcurrency
	SetThrottle
	SetDraining
	SetRetry
	SetRetention
)

// SetQueue makes a queue exist and changes the settings that Set names.
type SetQueue struct {
	NS             job.Namespace
	Queue          string
	Set            Settings
	Paused         bool
	MaxConcurrency uint32 // Leases at a time; 0 is no limit.
	Throttle       Throttle
	Draining       bool
	// Retry is what the queue's jobs get for the parts that their producers leave
	// open; RetrySet names the parts that the queue has something to say about.
	Retry    RetryPolicy
	RetrySet RetryParts
	// Retention is how long the queue's finished jobs are kept.
	Retention QueueRetention
	// IfSettings, if not 0, is the fingerprint of the settings that the caller has seen: with
	// others nothing is changed.
	IfSettings uint64
}

func (c *SetQueue) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Name(&c.Queue)
	codec.Byte(f, &c.Set)
	f.Bool(&c.Paused)
	f.Uint32(&c.MaxConcurrency)
	c.Throttle.Fields(f)
	f.Bool(&c.Draining)
	c.Retry.Fields(f)
	codec.Byte(f, &c.RetrySet)
	c.Retention.Fields(f)
	f.Uint(&c.IfSettings)
}

// QueueRetention is how long finished jobs of a queue are kept after they ended, by how
// they ended, and how many of them at most. What is 0 the namespace decides.
type QueueRetention struct {
	Completed, Dead, Cancelled time.Duration
	Max                        int64
}

func (r *QueueRetention) Fields(f *codec.Fields) {
	f.Duration(&r.Completed)
	f.Duration(&r.Dead)
	f.Duration(&r.Cancelled)
	f.Int(&r.Max)
}

// Throttle allows Limit leases to begin in any Window; zero is no limit.
type Throttle struct {
	Limit  uint32
	Window time.Duration
}

func (t *Throttle) Fields(f *codec.Fields) {
	f.Uint32(&t.Limit)
	f.Duration(&t.Window)
}

// IsZero reports whether nothing is limited.
func (t Throttle) IsZero() bool { return t.Limit == 0 || t.Window <= 0 }

// DeleteQueue removes a queue and, at once for everybody who asks, all its jobs.
// What they leave in the store is removed by Sweep, piece by piece.
type DeleteQueue struct {
	NS    job.Namespace
	Queue string
}

func (c *DeleteQueue) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Name(&c.Queue)
}

// SweepMax bounds the jobs and locks of one Sweep.
const SweepMax = 512

// Sweep removes what a deleted queue left behind: the leader found it, and apply
// checks each item. A queue of the same name that lives now is not touched.
type Sweep struct {
	NS          job.Namespace
	Queue       string
	Jobs        []job.ID
	Unique      []string // Keys of unique locks.
	Idempotency []string
	// Done, if not 0, says that nothing is left of what came before this generation.
	Done uint64
}

func (c *Sweep) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Name(&c.Queue)
	codec.IDs(f, &c.Jobs)
	f.Texts(&c.Unique)
	f.Texts(&c.Idempotency)
	f.Uint(&c.Done)
}
