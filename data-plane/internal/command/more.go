package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// What most jobs do not have travels in kinds of its own: a plain enqueue, ack, fail
// or heartbeat costs the log what it always did. More is nil in those, and never nil
// in the others, so that one value has one form.

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

// EnqueueMore is what only some jobs are enqueued with.
type EnqueueMore struct {
	// Open are the parts of Retry that the producer left open: the queue decides. A
	// plain enqueue leaves all open if its MaxRetries is 0, and none otherwise.
	Open      RetryParts
	ExpireAt  int64        // Unix nanoseconds; 0: never.
	Agent     *AgentLimits // nil: not an agent job.
	Parent    job.ID
	Batch     job.BatchID // The job joins this open batch.
	Chain     *Chain      // The job is the first step of this chain.
	DependsOn []job.ID
	// OnDependency matters with DependsOn.
	OnDependency DependencyPolicy
}

// IsZero reports whether the options say nothing, so that a plain command will do.
func (m *EnqueueMore) IsZero() bool {
	return m.Open == 0 && m.ExpireAt == 0 && m.Agent == nil && m.Parent.IsZero() && m.Batch.IsZero() &&
		m.Chain == nil && len(m.DependsOn) == 0
}

func (m *EnqueueMore) encode(w *codec.Writer) {
	w.Byte(byte(m.Open))
	w.Int(m.ExpireAt)
	w.Bool(m.Agent != nil)
	if m.Agent != nil {
		EncodeAgentLimits(w, *m.Agent)
	}
	w.ID(m.Parent)
	w.ID(m.Batch)
	w.Bool(m.Chain != nil)
	if m.Chain != nil {
		m.Chain.encode(w)
	}
	w.Uint(uint64(len(m.DependsOn)))
	for _, id := range m.DependsOn {
		w.ID(id)
	}
	w.Byte(byte(m.OnDependency))
}

func (m *EnqueueMore) decode(r *codec.Reader) {
	m.Open, m.ExpireAt = RetryParts(r.Byte()), r.Time()
	if r.Bool() {
		a := DecodeAgentLimits(r)
		m.Agent = &a
	}
	m.Parent, m.Batch = r.ID(), r.ID()
	if r.Bool() {
		m.Chain = new(Chain)
		m.Chain.decode(r)
	}
	if n := r.Count(16); n > 0 {
		m.DependsOn = make([]job.ID, n)
		for i := range m.DependsOn {
			m.DependsOn[i] = r.ID()
		}
	}
	m.OnDependency = DependencyPolicy(r.Enum(byte(dependencyPoliciesEnd)))
}

// EncodeAgentLimits and DecodeAgentLimits are shared with the records of state.
func EncodeAgentLimits(w *codec.Writer, a AgentLimits) {
	w.Uint(uint64(a.MaxIterations))
	w.Int(a.MaxCost)
	w.Uint(uint64(a.IterationTimeout))
}

// DecodeAgentLimits reads what EncodeAgentLimits wrote.
func DecodeAgentLimits(r *codec.Reader) AgentLimits {
	return AgentLimits{MaxIterations: r.Uint32(), MaxCost: r.Time(), IterationTimeout: duration(r)}
}

// Usage is what a model was used for a job. Counts are not negative.
type Usage struct {
	Input, Output, CacheCreation, CacheRead int64 // Tokens.
	Cost                                    int64 // Nano-dollars.
	Model, Provider                         string
	// Total: the numbers count from the start of the attempt, and take the place of
	// what the attempt reported before for the same model. Otherwise they are added.
	Total bool
}

func encodeUsage(w *codec.Writer, u *Usage) {
	w.Bool(u != nil)
	if u == nil {
		return
	}
	for _, n := range []int64{u.Input, u.Output, u.CacheCreation, u.CacheRead, u.Cost} {
		w.Int(n)
	}
	w.Text(u.Model)
	w.Text(u.Provider)
	w.Bool(u.Total)
}

func decodeUsage(r *codec.Reader) *Usage {
	if !r.Bool() {
		return nil
	}
	return &Usage{
		Input: r.Time(), Output: r.Time(), CacheCreation: r.Time(), CacheRead: r.Time(), Cost: r.Time(),
		Model: r.Text(), Provider: r.Text(), Total: r.Bool(),
	}
}

// AgentStatus is what a worker says of the loop of an agent job. Stored: append only.
type AgentStatus uint8

const (
	AgentUnsaid   AgentStatus = iota // Done.
	AgentContinue                    // One more iteration.
	AgentDone
	AgentHold // A person must decide whether there is one more.
	agentStatusesEnd
)

// StepStatus is what a worker says of the chain of its job. Stored: append only.
type StepStatus uint8

const (
	StepContinue StepStatus = iota
	StepExit                // The remaining steps are left out.
	stepStatusesEnd
)

// AckMore is what only some acks say.
type AckMore struct {
	Usage      *Usage
	Agent      AgentStatus
	HoldReason string
	Step       StepStatus
	ExitReason string
}

func (m *AckMore) encode(w *codec.Writer) {
	encodeUsage(w, m.Usage)
	w.Byte(byte(m.Agent))
	w.Text(m.HoldReason)
	w.Byte(byte(m.Step))
	w.Text(m.ExitReason)
}

func (m *AckMore) decode(r *codec.Reader) {
	m.Usage = decodeUsage(r)
	m.Agent, m.HoldReason = AgentStatus(r.Enum(byte(agentStatusesEnd))), r.Text()
	m.Step, m.ExitReason = StepStatus(r.Enum(byte(stepStatusesEnd))), r.Text()
}

// FailMore is what only some fails say.
type FailMore struct {
	Terminal bool // Dead, whatever attempts are left.
	// HasDelay: the next attempt is due after Delay, instead of the backoff.
	HasDelay bool
	Delay    time.Duration
	Usage    *Usage
}

func (m *FailMore) encode(w *codec.Writer) {
	w.Bool(m.Terminal)
	w.Bool(m.HasDelay)
	w.Uint(uint64(m.Delay))
	encodeUsage(w, m.Usage)
}

func (m *FailMore) decode(r *codec.Reader) {
	m.Terminal, m.HasDelay, m.Delay, m.Usage = r.Bool(), r.Bool(), duration(r), decodeUsage(r)
}

// HeartbeatMore is what only some heartbeats say.
type HeartbeatMore struct{ Usage *Usage }

func (m *HeartbeatMore) encode(w *codec.Writer) { encodeUsage(w, m.Usage) }
func (m *HeartbeatMore) decode(r *codec.Reader) { m.Usage = decodeUsage(r) }

// QueueMore is what only some changes of a queue's settings say; Settings names the
// parts that count.
type QueueMore struct {
	Draining bool
	// Retry is what the queue's jobs get for the parts that their producers leave
	// open; RetrySet names the parts that the queue has something to say about.
	Retry    RetryPolicy
	RetrySet RetryParts
	// IfSettings, if not 0, is the fingerprint of the settings that the caller has seen: with
	// others nothing is changed.
	IfSettings uint64
}

func (m *QueueMore) encode(w *codec.Writer) {
	w.Bool(m.Draining)
	EncodeRetry(w, m.Retry)
	w.Byte(byte(m.RetrySet))
	w.Uint(m.IfSettings)
}

func (m *QueueMore) decode(r *codec.Reader) {
	m.Draining, m.Retry, m.RetrySet = r.Bool(), DecodeRetry(r), RetryParts(r.Byte())
	m.IfSettings = r.Uint()
}
