package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

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

func (b *Body) Encode() []byte {
	w := newRecord(64 + len(b.Payload))
	parts := b.parts()
	w.Text(b.Queue)
	w.Bytes(b.Payload)
	w.Int(b.CreatedAt)
	w.Mask(parts)
	if parts.Has(bodyScheduled) {
		w.Int(b.ScheduledAt)
	}
	if parts.Has(bodyTags) {
		command.EncodeTags(&w, b.Tags)
	}
	if parts.Has(bodyUnique) {
		w.Text(b.UniqueKey)
	}
	if parts.Has(bodyIdempotency) {
		w.Text(b.IdempotencyKey)
	}
	if parts.Has(bodyTrace) {
		w.Text(b.TraceParent)
	}
	if parts.Has(bodyExpiry) {
		w.Int(b.ExpireAt)
	}
	if parts.Has(bodyAgent) {
		command.EncodeAgentLimits(&w, *b.Agent)
	}
	b.encodeTies(&w, parts)
	return w.Buf
}

// encodeTies writes what the job has to do with others.
func (b *Body) encodeTies(w *codec.Writer, parts codec.Mask) {
	if parts.Has(bodyParent) {
		w.ID(b.Parent)
	}
	if parts.Has(bodyBatch) {
		w.ID(b.Batch)
	}
	if parts.Has(bodyChain) {
		w.ID(b.Chain)
		w.Int(int64(b.ChainStep))
	}
	if parts.Has(bodySchedule) {
		w.ID(b.Schedule)
		w.Int(b.Tick)
	}
	if parts.Has(bodyDependsOn) {
		command.EncodeIDs(w, b.DependsOn)
		w.Byte(byte(b.OnDependency))
	}
}

func DecodeBody(v []byte) (Body, error) {
	r, err := openRecord("body", v)
	if err != nil {
		return Body{}, err
	}
	b := Body{Queue: r.Name(), Payload: r.Bytes(), CreatedAt: r.Int()}
	parts := r.Mask()
	if parts.Has(bodyScheduled) {
		b.ScheduledAt = r.Int()
	}
	if parts.Has(bodyTags) {
		b.Tags = command.DecodeTags(r)
	}
	if parts.Has(bodyUnique) {
		b.UniqueKey = r.Text()
	}
	if parts.Has(bodyIdempotency) {
		b.IdempotencyKey = r.Text()
	}
	if parts.Has(bodyTrace) {
		b.TraceParent = r.Text()
	}
	if parts.Has(bodyExpiry) {
		b.ExpireAt = r.Time()
	}
	if parts.Has(bodyAgent) {
		b.Agent = command.DecodeAgentLimits(r)
	}
	b.decodeTies(r, parts)
	r.Confirm(parts, b.parts())
	return b, closeRecord("body", r)
}

func (b *Body) decodeTies(r *codec.Reader, parts codec.Mask) {
	if parts.Has(bodyParent) {
		b.Parent = r.ID()
	}
	if parts.Has(bodyBatch) {
		b.Batch = r.ID()
	}
	if parts.Has(bodyChain) {
		b.Chain, b.ChainStep = r.ID(), int(r.Int())
	}
	if parts.Has(bodySchedule) {
		b.Schedule, b.Tick = r.ID(), r.Time()
	}
	if parts.Has(bodyDependsOn) {
		b.DependsOn, b.OnDependency = command.DecodeIDs(r), command.DependencyPolicy(r.Byte())
	}
}
