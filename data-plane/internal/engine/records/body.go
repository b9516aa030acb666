package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// AgentLimits are those of an agent job; zero for others.
func (b *Body) AgentLimits() command.AgentLimits {
	if b.Agent == nil {
		return command.AgentLimits{}
	}
	return *b.Agent
}

// Body is the part of a job that never changes.
type Body struct {
	Queue          string
	Payload        []byte
	CreatedAt      int64
	ScheduledAt    int64 // As asked; 0 if not scheduled.
	Tags           []command.Tag
	UniqueKey      string
	IdempotencyKey string
	TraceParent    string
	ExpireAt       int64 // 0: never.
	Agent          *command.AgentLimits
	Parent         job.ID
	Batch          job.BatchID
	Chain          job.ChainID
	ChainStep      int // Place in the chain from 0; ChainOnExit, ChainOnFailure.
	Schedule       job.ScheduleID
	Tick           int64 // Of the schedule; 0: run by hand.
	DependsOn      []job.ID
	OnDependency   command.DependencyPolicy
}

// Steps of a chain that have no place in it (contract, domain constants).
const (
	ChainOnExit    = -1
	ChainOnFailure = -2
)

// Parts of a Body. Stored: append only.
const (
	bodyScheduled codec.Mask = 1 << iota
	bodyTags
	bodyUnique
	bodyIdempotency
	bodyTrace
	bodyExpiry
	bodyAgent
	bodyParent
	bodyBatch
	bodyChain
	bodySchedule
	bodyDependsOn
)

func (b *Body) parts() codec.Mask {
	return bodyScheduled.If(b.ScheduledAt != 0) |
		bodyTags.If(len(b.Tags) > 0) |
		bodyUnique.If(b.UniqueKey != "") |
		bodyIdempotency.If(b.IdempotencyKey != "") |
		bodyTrace.If(b.TraceParent != "") |
		bodyExpiry.If(b.ExpireAt != 0) |
		bodyAgent.If(b.Agent != nil) |
		bodyParent.If(!b.Parent.IsZero()) |
		bodyBatch.If(!b.Batch.IsZero()) |
		bodyChain.If(!b.Chain.IsZero()) |
		bodySchedule.If(!b.Schedule.IsZero()) |
		bodyDependsOn.If(len(b.DependsOn) > 0)
}

func (b *Body) Fields(f *codec.Fields) {
	f.Name(&b.Queue)
	f.Bytes(&b.Payload)
	f.Int(&b.CreatedAt)
	parts := f.Parts(b.parts())
	if parts.Has(bodyScheduled) {
		f.Int(&b.ScheduledAt)
	}
	if parts.Has(bodyTags) {
		command.Tags(f, &b.Tags)
	}
	if parts.Has(bodyUnique) {
		f.Text(&b.UniqueKey)
	}
	if parts.Has(bodyIdempotency) {
		f.Text(&b.IdempotencyKey)
	}
	if parts.Has(bodyTrace) {
		f.Text(&b.TraceParent)
	}
	if parts.Has(bodyExpiry) {
		f.Natural(&b.ExpireAt)
	}
	if parts.Has(bodyAgent) {
		codec.Alloc(f, &b.Agent).Fields(f)
	}
	b.relations(f, parts)
	f.Confirm(parts, b.parts())
}

// relations are what the job has to do with others.
func (b *Body) relations(f *codec.Fields, parts codec.Mask) {
	if parts.Has(bodyParent) {
		codec.ID(f, &b.Parent)
	}
	if parts.Has(bodyBatch) {
		codec.ID(f, &b.Batch)
	}
	if parts.Has(bodyChain) {
		codec.ID(f, &b.Chain)
		codec.Signed(f, &b.ChainStep)
	}
	if parts.Has(bodySchedule) {
		codec.ID(f, &b.Schedule)
		f.Natural(&b.Tick)
	}
	if parts.Has(bodyDependsOn) {
		codec.IDs(f, &b.DependsOn)
		codec.Byte(f, &b.OnDependency)
	}
}

func (b *Body) Encode() []byte {
	f := newRecord(64 + len(b.Payload))
	b.Fields(&f)
	return f.Written()
}

// DecodeBody reads what Body.Encode wrote.
func DecodeBody(v []byte) (b Body, err error) {
	f := openRecord(v)
	b.Fields(&f)
	return b, closeRecord("body", &f)
}
