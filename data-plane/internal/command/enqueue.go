package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// Enqueue adds a job.
type Enqueue struct {
	NS       job.Namespace
	ID       job.ID
	Queue    string
	Payload  []byte
	Priority job.Priority
	Retry    RetryPolicy
	// RetryOpen are the parts of Retry that the producer left open: the queue decides. If
	// it names none and MaxRetries is 0, all are open.
	RetryOpen      RetryParts
	ScheduledAt    int64 // Unix nanoseconds; 0: at once.
	ExpireAt       int64 // Unix nanoseconds; 0: never.
	Tags           []Tag
	UniqueKey      string
	UniqueFor      time.Duration
	IdempotencyKey string
	IdempotencyFor time.Duration
	TraceParent    string
	Checkpoint     []byte
	Agent          *AgentLimits // nil: not an agent job.
	Parent         job.ID
	Batch          job.BatchID // The job joins this open batch.
	Chain          *Chain      // The job is the first step of this chain.
	DependsOn      []job.ID
	OnDependency   DependencyPolicy // Matters with DependsOn.
}

// Parts of an Enqueue, the usual ones first: seven fit the first byte. Stored: append only.
const (
	enqueueRetry codec.Mask = 1 << iota
	enqueueSchedule
	enqueueTags
	enqueueUnique
	enqueueIdempotency
	enqueueTrace
	enqueueExpiry
	enqueueRetryOpen
	enqueueCheckpoint
	enqueueAgent
	enqueueParent
	enqueueBatch
	enqueueChain
	enqueueDependsOn
)

func (c *Enqueue) parts() codec.Mask {
	return enqueueRetry.If(c.Retry != RetryPolicy{}) |
		enqueueSchedule.If(c.ScheduledAt != 0) |
		enqueueTags.If(len(c.Tags) > 0) |
		enqueueUnique.If(c.UniqueKey != "" || c.UniqueFor != 0) |
		enqueueIdempotency.If(c.IdempotencyKey != "" || c.IdempotencyFor != 0) |
		enqueueTrace.If(c.TraceParent != "") |
		enqueueExpiry.If(c.ExpireAt != 0) |
		enqueueRetryOpen.If(c.RetryOpen != 0) |
		enqueueCheckpoint.If(len(c.Checkpoint) > 0) |
		enqueueAgent.If(c.Agent != nil) |
		enqueueParent.If(!c.Parent.IsZero()) |
		enqueueBatch.If(!c.Batch.IsZero()) |
		enqueueChain.If(c.Chain != nil) |
		enqueueDependsOn.If(len(c.DependsOn) > 0 || c.OnDependency != 0)
}

func (c *Enqueue) encode(w *codec.Writer) {
	parts := c.parts()
	w.ID(c.NS)
	w.ID(c.ID)
	w.Text(c.Queue)
	w.Bytes(c.Payload)
	w.Byte(byte(c.Priority))
	w.Mask(parts)
	if parts.Has(enqueueRetry) {
		EncodeRetry(w, c.Retry)
	}
	if parts.Has(enqueueSchedule) {
		w.Int(c.ScheduledAt)
	}
	if parts.Has(enqueueTags) {
		EncodeTags(w, c.Tags)
	}
	if parts.Has(enqueueUnique) {
		w.Text(c.UniqueKey)
		w.Uint(uint64(c.UniqueFor))
	}
	if parts.Has(enqueueIdempotency) {
		w.Text(c.IdempotencyKey)
		w.Uint(uint64(c.IdempotencyFor))
	}
	if parts.Has(enqueueTrace) {
		w.Text(c.TraceParent)
	}
	if parts >= enqueueExpiry {
		c.encodeRare(w, parts)
	}
}

func (c *Enqueue) encodeRare(w *codec.Writer, parts codec.Mask) {
	if parts.Has(enqueueExpiry) {
		w.Int(c.ExpireAt)
	}
	if parts.Has(enqueueRetryOpen) {
		w.Byte(byte(c.RetryOpen))
	}
	if parts.Has(enqueueCheckpoint) {
		w.Bytes(c.Checkpoint)
	}
	if parts.Has(enqueueAgent) {
		EncodeAgentLimits(w, *c.Agent)
	}
	if parts.Has(enqueueParent) {
		w.ID(c.Parent)
	}
	if parts.Has(enqueueBatch) {
		w.ID(c.Batch)
	}
	if parts.Has(enqueueChain) {
		EncodeChain(w, c.Chain)
	}
	if parts.Has(enqueueDependsOn) {
		EncodeIDs(w, c.DependsOn)
		w.Byte(byte(c.OnDependency))
	}
}

func (c *Enqueue) decode(r *codec.Reader) {
	c.NS, c.ID, c.Queue, c.Payload = r.ID(), r.ID(), r.Name(), r.Bytes()
	c.Priority = job.Priority(r.Byte())
	parts := r.Mask()
	if parts.Has(enqueueRetry) {
		c.Retry = DecodeRetry(r)
	}
	if parts.Has(enqueueSchedule) {
		c.ScheduledAt = r.Time()
	}
	if parts.Has(enqueueTags) {
		c.Tags = DecodeTags(r)
	}
	if parts.Has(enqueueUnique) {
		c.UniqueKey, c.UniqueFor = r.Text(), duration(r)
	}
	if parts.Has(enqueueIdempotency) {
		c.IdempotencyKey, c.IdempotencyFor = r.Text(), duration(r)
	}
	if parts.Has(enqueueTrace) {
		c.TraceParent = r.Text()
	}
	if parts >= enqueueExpiry {
		c.decodeRare(r, parts)
	}
	r.Confirm(parts, c.parts())
}

func (c *Enqueue) decodeRare(r *codec.Reader, parts codec.Mask) {
	if parts.Has(enqueueExpiry) {
		c.ExpireAt = r.Time()
	}
	if parts.Has(enqueueRetryOpen) {
		c.RetryOpen = RetryParts(r.Byte())
	}
	if parts.Has(enqueueCheckpoint) {
		c.Checkpoint = r.Bytes()
	}
	if parts.Has(enqueueAgent) {
		c.Agent = DecodeAgentLimits(r)
	}
	if parts.Has(enqueueParent) {
		c.Parent = r.ID()
	}
	if parts.Has(enqueueBatch) {
		c.Batch = r.ID()
	}
	if parts.Has(enqueueChain) {
		c.Chain = DecodeChain(r)
	}
	if parts.Has(enqueueDependsOn) {
		c.DependsOn = DecodeIDs(r)
		c.OnDependency = DependencyPolicy(r.Enum(byte(dependencyPoliciesEnd)))
	}
}

// Tag is one tag of a job. Lists of tags are sorted by key.
type Tag struct{ Key, Value string }

// RetryPolicy says how often and when a job is tried again.
type RetryPolicy struct {
	MaxRetries uint32 // Total attempts.
	Backoff    job.Backoff
	BaseDelay  time.Duration
	MaxDelay   time.Duration
}

// DefaultRetry is the policy of a job that names none.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{job.DefaultMaxRetries, job.BackoffExponential, job.DefaultBaseDelay, job.DefaultMaxDelay}
}

// RetryParts names parts of a RetryPolicy. Stored: append only.
type RetryParts uint8

const (
	RetryMax RetryParts = 1 << iota
	RetryBackoff
	RetryBaseDelay
	RetryMaxDelay
	RetryAll = RetryMax | RetryBackoff | RetryBaseDelay | RetryMaxDelay
)

// DependencyPolicy says what becomes of a job when one that it depends on ends in
// another way than completed. Stored: append only.
type DependencyPolicy uint8

const (
	DependencyFail   DependencyPolicy = iota // Dead.
	DependencyRun                            // As if it had completed.
	DependencyCancel                         // Cancelled.
	dependencyPoliciesEnd
)

// AgentLimits bound the loop of an agent job; zeros are no limit.
type AgentLimits struct {
	MaxIterations    uint32
	MaxCost          int64 // Nano-dollars.
	IterationTimeout time.Duration
}

// EncodeAgentLimits and DecodeAgentLimits are shared with the records of state.
func EncodeAgentLimits(w *codec.Writer, a AgentLimits) {
	w.Uint(uint64(a.MaxIterations))
	w.Int(a.MaxCost)
	w.Uint(uint64(a.IterationTimeout))
}

// DecodeAgentLimits reads what EncodeAgentLimits wrote.
func DecodeAgentLimits(r *codec.Reader) *AgentLimits {
	return &AgentLimits{MaxIterations: r.Uint32(), MaxCost: r.Time(), IterationTimeout: duration(r)}
}

// EncodeIDs and DecodeIDs are shared with the records of state.
func EncodeIDs(w *codec.Writer, ids []job.ID) {
	w.Uint(uint64(len(ids)))
	for _, id := range ids {
		w.ID(id)
	}
}

// DecodeIDs reads what EncodeIDs wrote; nil when there are none.
func DecodeIDs(r *codec.Reader) []job.ID {
	n := r.Count(16)
	if n == 0 {
		return nil
	}
	ids := make([]job.ID, n)
	for i := range ids {
		ids[i] = r.ID()
	}
	return ids
}

// EncodeRetry and DecodeRetry are shared with the records of state.
func EncodeRetry(w *codec.Writer, p RetryPolicy) {
	w.Uint(uint64(p.MaxRetries))
	w.Byte(byte(p.Backoff))
	w.Uint(uint64(p.BaseDelay))
	w.Uint(uint64(p.MaxDelay))
}

// DecodeRetry reads what EncodeRetry wrote.
func DecodeRetry(r *codec.Reader) RetryPolicy {
	return RetryPolicy{MaxRetries: r.Uint32(), Backoff: job.Backoff(r.Byte()), BaseDelay: duration(r), MaxDelay: duration(r)}
}

// EncodeTags and DecodeTags are shared with the records of state.
func EncodeTags(w *codec.Writer, tags []Tag) {
	w.Uint(uint64(len(tags)))
	for _, t := range tags {
		w.Text(t.Key)
		w.Text(t.Value)
	}
}

// DecodeTags reads what EncodeTags wrote; nil when there are none.
func DecodeTags(r *codec.Reader) []Tag {
	n := r.Count(2)
	if n == 0 {
		return nil
	}
	tags := make([]Tag, n)
	for i := range tags {
		tags[i] = Tag{Key: r.Text(), Value: r.Text()}
	}
	return tags
}
