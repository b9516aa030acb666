// Package command owns every change that can be asked of the jobs of a shard, as
// typed values, and the one versioned codec by which they enter the raft log. A
// command is complete: ids, times and every choice were made by the proposer, so
// that applying it needs nothing but the state (law 2).
//
// It knows neither how a command is applied (state) nor who proposes it (shard).
// Kind numbers are append-only; an unknown kind stops the node, it is never
// skipped. What only some commands of a kind say stands behind a mask of its parts, so
// that a plain one stays short.
package command

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Command is one of the types of this package.
type Command interface {
	kind() Kind // The same for all commands of a type, a nil pointer included.
	// namespace is what the command is about; false for those that are about the shard,
	// and for Together, which is about the commands behind it.
	namespace() (job.Namespace, bool)
	Fields(f *codec.Fields)
}

// Fire says that the time of a due row has come.
type Fire struct{ Due keys.Due }

func (c *Fire) Fields(f *codec.Fields) {
	f.Natural(&c.Due.At)
	codec.Byte(f, &c.Due.Kind)
	codec.ID(f, &c.Due.NS)
	codec.ID(f, &c.Due.ID)
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

// Cancel ends a job, or asks its worker to let go.
type Cancel struct {
	NS job.Namespace
	ID job.ID
}

func (c *Cancel) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}

// Retry makes a finished job pending again, with fresh counters, or one that waits for its
// time pending now, with its own.
type Retry struct {
	NS job.Namespace
	ID job.ID
}

func (c *Retry) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}

// Delete removes a job that no worker holds.
type Delete struct {
	NS job.Namespace
	ID job.ID
}

func (c *Delete) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
}

// TrimFeed removes the events of entries before an index.
type TrimFeed struct{ Before uint64 }

func (c *TrimFeed) Fields(f *codec.Fields) { f.Uint(&c.Before) }

// Settings names settings of a queue. Stored: append only.
type Settings uint8

const (
	SetPaused Settings = 1 << iota
	SetConcurrency
	SetThrottle
	SetDraining
	SetRetry
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
	f.Uint(&c.IfSettings)
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
	codec.List(f, &c.Jobs, 16, codec.ID)
	f.Texts(&c.Unique)
	f.Texts(&c.Idempotency)
	f.Uint(&c.Done)
}

const (
	version = 1
	// CommandsMax bounds one entry; the proposer closes a batch before it.
	CommandsMax = 16384
)

// ErrMalformed is returned for bytes that are not a list of known commands.
var ErrMalformed = errors.New("malformed commands")

// Encode writes the payload of one log entry.
func Encode(cmds []Command) []byte {
	w := codec.Writer{Buf: make([]byte, 0, 64+96*len(cmds))}
	w.Byte(version)
	w.Uint(uint64(len(cmds)))
	f := codec.Writing(&w)
	for _, c := range cmds {
		w.Byte(byte(c.kind()))
		c.Fields(f)
	}
	return w.Buf
}

// Size is how many bytes commands take in an entry.
func Size(cmds []Command) int {
	if len(cmds) == 0 {
		return 0
	}
	m := measures.Get().(*measure)
	defer measures.Put(m)
	n := 0
	for _, c := range cmds {
		m.w.Buf, m.w.Left = m.w.Buf[:0], 0
		c.Fields(m.f)
		n += 1 + len(m.w.Buf) + m.w.Left
	}
	return n
}

// measures spares every call a buffer. None grows beyond the largest command without its
// texts.
var measures = sync.Pool{New: func() any {
	w := &codec.Writer{Measure: true}
	return &measure{w, codec.Writing(w)}
}}

type measure struct {
	w *codec.Writer
	f *codec.Fields
}

// Decode reads the payload of one log entry. Byte slices alias b.
func Decode(b []byte) ([]Command, error) {
	r := codec.NewReader(b)
	if v := r.Byte(); v != version {
		return nil, fmt.Errorf("%w: version %d, this node knows %d", ErrMalformed, v, version)
	}
	n := r.Count(1)
	if n > CommandsMax {
		return nil, fmt.Errorf("%w: %d commands", ErrMalformed, n)
	}
	cmds := make([]Command, 0, n)
	f := codec.Reading(r)
	for range n {
		c, err := newCommand(Kind(r.Byte()))
		if err != nil {
			return nil, err
		}
		c.Fields(f)
		if r.Err() != nil {
			break
		}
		cmds = append(cmds, c)
	}
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return cmds, nil
}
