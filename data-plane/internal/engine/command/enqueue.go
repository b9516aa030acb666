package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
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

func (c *Enqueue) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	f.Name(&c.Queue)
	f.Bytes(&c.Payload)
	codec.Byte(f, &c.Priority)
	parts := f.Parts(c.parts())
	if parts.Has(enqueueRetry) {
		c.Retry.Fields(f)
	}
	if parts.Has(enqueueSchedule) {
		f.Natural(&c.ScheduledAt)
	}
	if parts.Has(enqueueTags) {
		Tags(f, &c.Tags)
	}
	if parts.Has(enqueueUnique) {
		f.Text(&c.UniqueKey)
		f.Duration(&c.UniqueFor)
	}
	if parts.Has(enqueueIdempotency) {
		f.Text(&c.IdempotencyKey)
		f.Duration(&c.IdempotencyFor)
	}
	if parts.Has(enqueueTrace) {
		f.Text(&c.TraceParent)
	}
	if parts >= enqueueExpiry {
		c.rareFields(f, parts)
	}
	f.Confirm(parts, c.parts())
}

func (c *Enqueue) rareFields(f *codec.Fields, parts codec.Mask) {
	if parts.Has(enqueueExpiry) {
		f.Natural(&c.ExpireAt)
	}
	if parts.Has(enqueueRetryOpen) {
		codec.Byte(f, &c.RetryOpen)
	}
	if parts.Has(enqueueCheckpoint) {
		f.Bytes(&c.Checkpoint)
	}
	if parts.Has(enqueueAgent) {
		codec.Alloc(f, &c.Agent).Fields(f)
	}
	if parts.Has(enqueueParent) {
		codec.ID(f, &c.Parent)
	}
	if parts.Has(enqueueBatch) {
		codec.ID(f, &c.Batch)
	}
	if parts.Has(enqueueChain) {
		codec.Alloc(f, &c.Chain).Fields(f)
	}
	if parts.Has(enqueueDependsOn) {
		codec.IDs(f, &c.DependsOn)
		codec.Enum(f, &c.OnDependency, dependencyPoliciesEnd)
	}
}

// Tag is one tag of a job. Lists of tags are sorted by key.
type Tag struct{ Key, Value string }

func (t *Tag) Fields(f *codec.Fields) {
	f.Text(&t.Key)
	f.Text(&t.Value)
}

// Tags are the tags of a job, as commands and records write them.
func Tags(f *codec.Fields, tags *[]Tag) {
	for i := range codec.Items(f, tags, 2) {
		(*tags)[i].Fields(f)
	}
}

// RetryPolicy says how often and when a job is tried again.
type RetryPolicy struct {
	MaxRetries uint32 // Total attempts.
	Backoff    job.Backoff
	BaseDelay  time.Duration
	MaxDelay   time.Duration
}

func (p *RetryPolicy) Fields(f *codec.Fields) {
	f.Uint32(&p.MaxRetries)
	codec.Byte(f, &p.Backoff)
	f.Duration(&p.BaseDelay)
	f.Duration(&p.MaxDelay)
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

func (a *AgentLimits) Fields(f *codec.Fields) {
	f.Uint32(&a.MaxIterations)
	f.Natural(&a.MaxCost)
	f.Duration(&a.IterationTimeout)
}
