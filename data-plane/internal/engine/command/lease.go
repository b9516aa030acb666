package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Token proves a lease: the attempt and the place in the log where it was granted.
type Token struct {
	Attempt uint32
	Epoch   keys.Position
}

func (t *Token) Fields(f *codec.Fields) {
	f.Uint32(&t.Attempt)
	Position(f, &t.Epoch)
}

// IsZero reports whether the caller showed no token.
func (t Token) IsZero() bool { return t == Token{} }

// Holder says who settles a lease: the token if there is one, and what
// identifies the caller otherwise (law 5).
type Holder struct {
	Token  Token
	Worker string // Worker id, if the call names one.
	Peer   uint64 // Hash of key and peer address.
}

func (h *Holder) Fields(f *codec.Fields) {
	h.Token.Fields(f)
	f.Text(&h.Worker)
	f.Fixed64(&h.Peer)
}

// Position is a place in the log, as commands and records write it.
func Position(f *codec.Fields, p *keys.Position) {
	f.Uint(&p.Index)
	f.Uint32(&p.Ordinal)
}

// Fetch leases the named jobs, which the leader's dispatch chose, to one worker.
// Jobs that are not ready any more are skipped.
type Fetch struct {
	NS   job.Namespace
	Jobs []job.ID
	// Queues are those the worker asked for; none: any queue will do. A job may be moved in
	// the same entry, and a worker that does not know its queue would not know what to do
	// with it.
	Queues   []string
	Worker   string
	Hostname string
	Peer     uint64
	Lease    time.Duration
	// Floors tell from where on the ready orders still have jobs, so that a new
	// leader need not walk over what was consumed.
	Floors []Floor
}

func (c *Fetch) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.IDs(f, &c.Jobs)
	f.Texts(&c.Queues)
	f.Text(&c.Worker)
	f.Text(&c.Hostname)
	f.Fixed64(&c.Peer)
	f.Duration(&c.Lease)
	for i := range codec.Items(f, &c.Floors, 4) {
		c.Floors[i].Fields(f)
	}
}

// Floor: no ready job of the queue and priority stands before Pos.
type Floor struct {
	Queue    string
	Priority job.Priority
	Pos      keys.Position
}

func (l *Floor) Fields(f *codec.Fields) {
	f.Name(&l.Queue)
	codec.Byte(f, &l.Priority)
	Position(f, &l.Pos)
}

// Ack completes a job.
type Ack struct {
	NS         job.Namespace
	ID         job.ID
	By         Holder
	Result     []byte
	Checkpoint []byte
	Usage      *Usage
	Agent      AgentStatus
	HoldReason string
	Step       StepStatus
	ExitReason string
}

// Parts of an Ack. Stored: append only.
const (
	ackResult codec.Mask = 1 << iota
	ackCheckpoint
	ackUsage
	ackAgent
	ackStep
)

func (c *Ack) parts() codec.Mask {
	return ackResult.If(len(c.Result) > 0) |
		ackCheckpoint.If(len(c.Checkpoint) > 0) |
		ackUsage.If(c.Usage != nil) |
		ackAgent.If(c.Agent != AgentUnsaid || c.HoldReason != "") |
		ackStep.If(c.Step != StepContinue || c.ExitReason != "")
}

func (c *Ack) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	c.By.Fields(f)
	parts := f.Parts(c.parts())
	if parts.Has(ackResult) {
		f.Bytes(&c.Result)
	}
	if parts.Has(ackCheckpoint) {
		f.Bytes(&c.Checkpoint)
	}
	if parts.Has(ackUsage) {
		codec.Alloc(f, &c.Usage).Fields(f)
	}
	if parts.Has(ackAgent) {
		codec.Enum(f, &c.Agent, agentStatusesEnd)
		f.Text(&c.HoldReason)
	}
	if parts.Has(ackStep) {
		codec.Enum(f, &c.Step, stepStatusesEnd)
		f.Text(&c.ExitReason)
	}
	f.Confirm(parts, c.parts())
}

// Fail ends an attempt without success.
type Fail struct {
	NS        job.Namespace
	ID        job.ID
	By        Holder
	Error     string
	Backtrace string
	Release   bool           // The attempt is given back unspent.
	Terminal  bool           // Dead, whatever attempts are left.
	Delay     *time.Duration // To the next attempt, instead of the backoff.
	Usage     *Usage
}

// Parts of a Fail; two of them say all that there is to say. Stored: append only.
const (
	failBacktrace codec.Mask = 1 << iota
	failRelease
	failTerminal
	failDelay
	failUsage
)

func (c *Fail) parts() codec.Mask {
	return failBacktrace.If(c.Backtrace != "") |
		failRelease.If(c.Release) |
		failTerminal.If(c.Terminal) |
		failDelay.If(c.Delay != nil) |
		failUsage.If(c.Usage != nil)
}

func (c *Fail) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	c.By.Fields(f)
	f.Text(&c.Error)
	parts := f.Parts(c.parts())
	if parts.Has(failBacktrace) {
		f.Text(&c.Backtrace)
	}
	f.Flag(&c.Release, parts, failRelease)
	f.Flag(&c.Terminal, parts, failTerminal)
	if parts.Has(failDelay) {
		f.Duration(codec.Alloc(f, &c.Delay))
	}
	if parts.Has(failUsage) {
		codec.Alloc(f, &c.Usage).Fields(f)
	}
	f.Confirm(parts, c.parts())
}

// Heartbeat stores news of a running job.
type Heartbeat struct {
	NS         job.Namespace
	ID         job.ID
	By         Holder
	Progress   []byte
	Checkpoint []byte
	Usage      *Usage
}

// Parts of a Heartbeat. Stored: append only.
const (
	heartbeatProgress codec.Mask = 1 << iota
	heartbeatCheckpoint
	heartbeatUsage
)

func (c *Heartbeat) parts() codec.Mask {
	return heartbeatProgress.If(len(c.Progress) > 0) |
		heartbeatCheckpoint.If(len(c.Checkpoint) > 0) |
		heartbeatUsage.If(c.Usage != nil)
}

func (c *Heartbeat) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	c.By.Fields(f)
	parts := f.Parts(c.parts())
	if parts.Has(heartbeatProgress) {
		f.Bytes(&c.Progress)
	}
	if parts.Has(heartbeatCheckpoint) {
		f.Bytes(&c.Checkpoint)
	}
	if parts.Has(heartbeatUsage) {
		codec.Alloc(f, &c.Usage).Fields(f)
	}
	f.Confirm(parts, c.parts())
}

// Extend moves the end of a lease that its holder renewed with the leader.
type Extend struct {
	NS    job.Namespace
	ID    job.ID
	Epoch keys.Position // The lease it is about; another one is left alone.
	Until int64
}

func (c *Extend) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	codec.ID(f, &c.ID)
	Position(f, &c.Epoch)
	f.Natural(&c.Until)
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

func (u *Usage) Fields(f *codec.Fields) {
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheCreation, &u.CacheRead, &u.Cost} {
		f.Natural(n)
	}
	f.Text(&u.Model)
	f.Text(&u.Provider)
	f.Bool(&u.Total)
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
