package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// Token proves a lease: the attempt and the place in the log where it was granted.
type Token struct {
	Attempt uint32
	Epoch   keys.Position
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

func encodeHolder(w *codec.Writer, h Holder) {
	w.Uint(uint64(h.Token.Attempt))
	EncodePosition(w, h.Token.Epoch)
	w.Text(h.Worker)
	w.Fixed64(h.Peer)
}

func decodeHolder(r *codec.Reader) Holder {
	return Holder{Token: Token{Attempt: r.Uint32(), Epoch: DecodePosition(r)}, Worker: r.Text(), Peer: r.Fixed64()}
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

// Floor: no ready job of the queue and priority stands before Pos.
type Floor struct {
	Queue    string
	Priority job.Priority
	Pos      keys.Position
}

func (c *Fetch) encode(w *codec.Writer) {
	w.ID(c.NS)
	EncodeIDs(w, c.Jobs)
	encodeTexts(w, c.Queues)
	w.Text(c.Worker)
	w.Text(c.Hostname)
	w.Fixed64(c.Peer)
	w.Uint(uint64(c.Lease))
	w.Uint(uint64(len(c.Floors)))
	for _, f := range c.Floors {
		w.Text(f.Queue)
		w.Byte(byte(f.Priority))
		EncodePosition(w, f.Pos)
	}
}

func (c *Fetch) decode(r *codec.Reader) {
	c.NS, c.Jobs, c.Queues = r.ID(), DecodeIDs(r), decodeTexts(r)
	c.Worker, c.Hostname, c.Peer, c.Lease = r.Text(), r.Text(), r.Fixed64(), duration(r)
	if n := r.Count(4); n > 0 {
		c.Floors = make([]Floor, n)
	}
	for i := range c.Floors {
		c.Floors[i] = Floor{Queue: r.Name(), Priority: job.Priority(r.Byte()), Pos: DecodePosition(r)}
	}
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

func (c *Ack) encode(w *codec.Writer) {
	parts := c.parts()
	w.ID(c.NS)
	w.ID(c.ID)
	encodeHolder(w, c.By)
	w.Mask(parts)
	if parts.Has(ackResult) {
		w.Bytes(c.Result)
	}
	if parts.Has(ackCheckpoint) {
		w.Bytes(c.Checkpoint)
	}
	if parts.Has(ackUsage) {
		encodeUsage(w, c.Usage)
	}
	if parts.Has(ackAgent) {
		w.Byte(byte(c.Agent))
		w.Text(c.HoldReason)
	}
	if parts.Has(ackStep) {
		w.Byte(byte(c.Step))
		w.Text(c.ExitReason)
	}
}

func (c *Ack) decode(r *codec.Reader) {
	c.NS, c.ID, c.By = r.ID(), r.ID(), decodeHolder(r)
	parts := r.Mask()
	if parts.Has(ackResult) {
		c.Result = r.Bytes()
	}
	if parts.Has(ackCheckpoint) {
		c.Checkpoint = r.Bytes()
	}
	if parts.Has(ackUsage) {
		c.Usage = decodeUsage(r)
	}
	if parts.Has(ackAgent) {
		c.Agent, c.HoldReason = AgentStatus(r.Enum(byte(agentStatusesEnd))), r.Text()
	}
	if parts.Has(ackStep) {
		c.Step, c.ExitReason = StepStatus(r.Enum(byte(stepStatusesEnd))), r.Text()
	}
	r.Confirm(parts, c.parts())
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

func (c *Fail) encode(w *codec.Writer) {
	parts := c.parts()
	w.ID(c.NS)
	w.ID(c.ID)
	encodeHolder(w, c.By)
	w.Text(c.Error)
	w.Mask(parts)
	if parts.Has(failBacktrace) {
		w.Text(c.Backtrace)
	}
	if parts.Has(failDelay) {
		w.Uint(uint64(*c.Delay))
	}
	if parts.Has(failUsage) {
		encodeUsage(w, c.Usage)
	}
}

func (c *Fail) decode(r *codec.Reader) {
	c.NS, c.ID, c.By, c.Error = r.ID(), r.ID(), decodeHolder(r), r.Text()
	parts := r.Mask()
	if parts.Has(failBacktrace) {
		c.Backtrace = r.Text()
	}
	c.Release, c.Terminal = parts.Has(failRelease), parts.Has(failTerminal)
	if parts.Has(failDelay) {
		delay := duration(r)
		c.Delay = &delay
	}
	if parts.Has(failUsage) {
		c.Usage = decodeUsage(r)
	}
	r.Confirm(parts, c.parts())
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

func (c *Heartbeat) encode(w *codec.Writer) {
	parts := c.parts()
	w.ID(c.NS)
	w.ID(c.ID)
	encodeHolder(w, c.By)
	w.Mask(parts)
	if parts.Has(heartbeatProgress) {
		w.Bytes(c.Progress)
	}
	if parts.Has(heartbeatCheckpoint) {
		w.Bytes(c.Checkpoint)
	}
	if parts.Has(heartbeatUsage) {
		encodeUsage(w, c.Usage)
	}
}

func (c *Heartbeat) decode(r *codec.Reader) {
	c.NS, c.ID, c.By = r.ID(), r.ID(), decodeHolder(r)
	parts := r.Mask()
	if parts.Has(heartbeatProgress) {
		c.Progress = r.Bytes()
	}
	if parts.Has(heartbeatCheckpoint) {
		c.Checkpoint = r.Bytes()
	}
	if parts.Has(heartbeatUsage) {
		c.Usage = decodeUsage(r)
	}
	r.Confirm(parts, c.parts())
}

// Extend moves the end of a lease that its holder renewed with the leader.
type Extend struct {
	NS    job.Namespace
	ID    job.ID
	Epoch keys.Position // The lease it is about; another one is left alone.
	Until int64
}

func (c *Extend) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	EncodePosition(w, c.Epoch)
	w.Int(c.Until)
}

func (c *Extend) decode(r *codec.Reader) {
	c.NS, c.ID, c.Epoch, c.Until = r.ID(), r.ID(), DecodePosition(r), r.Time()
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
	for _, n := range []int64{u.Input, u.Output, u.CacheCreation, u.CacheRead, u.Cost} {
		w.Int(n)
	}
	w.Text(u.Model)
	w.Text(u.Provider)
	w.Bool(u.Total)
}

func decodeUsage(r *codec.Reader) *Usage {
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
