package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// The order of the fields below is the format; a new field goes behind a new
// version or a new kind.

func (c *Enqueue) kind() kind     { return either(c.More != nil, kindEnqueueMore, kindEnqueue) }
func (c *Fetch) kind() kind       { return either(c.Queues != nil, kindFetchFrom, kindFetch) }
func (c *Ack) kind() kind         { return either(c.More != nil, kindAckMore, kindAck) }
func (c *Fail) kind() kind        { return either(c.More != nil, kindFailMore, kindFail) }
func (c *Heartbeat) kind() kind   { return either(c.More != nil, kindHeartbeatMore, kindHeartbeat) }
func (c *Extend) kind() kind      { return kindExtend }
func (c *Fire) kind() kind        { return kindFire }
func (c *Pause) kind() kind       { return kindPause }
func (c *Cancel) kind() kind      { return kindCancel }
func (c *Retry) kind() kind       { return kindRetry }
func (c *Delete) kind() kind      { return kindDelete }
func (c *TrimFeed) kind() kind    { return kindTrimFeed }
func (c *SetQueue) kind() kind    { return either(c.More != nil, kindSetQueueMore, kindSetQueue) }
func (c *DeleteQueue) kind() kind { return kindDeleteQueue }
func (c *Sweep) kind() kind       { return kindSweep }

func (c *Together) kind() kind       { return kindTogether }
func (c *Hold) kind() kind           { return kindHold }
func (c *Decide) kind() kind         { return kindDecide }
func (c *Move) kind() kind           { return kindMove }
func (c *ClearQueue) kind() kind     { return kindClearQueue }
func (c *MakeBatch) kind() kind      { return kindMakeBatch }
func (c *SealBatch) kind() kind      { return kindSealBatch }
func (c *PutSchedule) kind() kind    { return kindPutSchedule }
func (c *DeleteSchedule) kind() kind { return kindDeleteSchedule }
func (c *Tick) kind() kind           { return kindTick }
func (c *PutBudget) kind() kind      { return kindPutBudget }
func (c *DeleteBudget) kind() kind   { return kindDeleteBudget }
func (c *PutPolicy) kind() kind      { return kindPutPolicy }
func (c *DeletePolicy) kind() kind   { return kindDeletePolicy }
func (c *Requeue) kind() kind        { return kindRequeue }
func (c *Prioritize) kind() kind     { return kindPrioritize }

func either(more bool, yes, no kind) kind {
	if more {
		return yes
	}
	return no
}

// EncodePosition and DecodePosition are shared with the records of state.
func EncodePosition(w *codec.Writer, p keys.Position) {
	w.Uint(p.Index)
	w.Uint(uint64(p.Ordinal))
}

// DecodePosition reads what EncodePosition wrote.
func DecodePosition(r *codec.Reader) keys.Position {
	return keys.Position{Index: r.Uint(), Ordinal: r.Uint32()}
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

// duration reads a non-negative duration; one beyond the range becomes the longest.
func duration(r *codec.Reader) time.Duration { return time.Duration(min(r.Uint(), 1<<63-1)) }

func encodeHolder(w *codec.Writer, h Holder) {
	w.Uint(uint64(h.Token.Attempt))
	EncodePosition(w, h.Token.Epoch)
	w.Text(h.Worker)
	w.Fixed64(h.Peer)
}

func decodeHolder(r *codec.Reader) Holder {
	return Holder{Token: Token{Attempt: r.Uint32(), Epoch: DecodePosition(r)}, Worker: r.Text(), Peer: r.Fixed64()}
}

func (c *Enqueue) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	w.Text(c.Queue)
	w.Bytes(c.Payload)
	w.Bytes(c.Checkpoint)
	w.Byte(byte(c.Priority))
	EncodeRetry(w, c.Retry)
	w.Int(c.ScheduledAt)
	EncodeTags(w, c.Tags)
	w.Text(c.UniqueKey)
	w.Uint(uint64(c.UniqueFor))
	w.Text(c.IdempotencyKey)
	w.Uint(uint64(c.IdempotencyFor))
	w.Text(c.TraceParent)
	if c.More != nil {
		c.More.encode(w)
	}
}

func (c *Enqueue) decode(r *codec.Reader) {
	c.NS, c.ID, c.Queue = r.ID(), r.ID(), r.Name()
	c.Payload, c.Checkpoint = r.Bytes(), r.Bytes()
	c.Priority = job.Priority(r.Byte())
	c.Retry = DecodeRetry(r)
	c.ScheduledAt = r.Time()
	c.Tags = DecodeTags(r)
	c.UniqueKey, c.UniqueFor = r.Text(), duration(r)
	c.IdempotencyKey, c.IdempotencyFor = r.Text(), duration(r)
	c.TraceParent = r.Text()
	if c.More != nil {
		c.More.decode(r)
	}
}

func (c *Fetch) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Uint(uint64(len(c.Jobs)))
	for _, id := range c.Jobs {
		w.ID(id)
	}
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
	if c.Queues != nil {
		w.Uint(uint64(len(c.Queues)))
		for _, name := range c.Queues {
			w.Text(name)
		}
	}
}

func (c *Fetch) decode(r *codec.Reader) {
	c.NS = r.ID()
	c.Jobs = make([]job.ID, r.Count(16))
	for i := range c.Jobs {
		c.Jobs[i] = r.ID()
	}
	c.Worker, c.Hostname, c.Peer, c.Lease = r.Text(), r.Text(), r.Fixed64(), duration(r)
	c.Floors = make([]Floor, r.Count(4))
	for i := range c.Floors {
		c.Floors[i] = Floor{Queue: r.Name(), Priority: job.Priority(r.Byte()), Pos: DecodePosition(r)}
	}
	if c.Queues != nil {
		c.Queues = make([]string, r.Count(1))
		for i := range c.Queues {
			c.Queues[i] = r.Name()
		}
	}
}

func (c *Ack) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	encodeHolder(w, c.By)
	w.Bytes(c.Result)
	w.Bytes(c.Checkpoint)
	if c.More != nil {
		c.More.encode(w)
	}
}

func (c *Ack) decode(r *codec.Reader) {
	c.NS, c.ID, c.By, c.Result, c.Checkpoint = r.ID(), r.ID(), decodeHolder(r), r.Bytes(), r.Bytes()
	if c.More != nil {
		c.More.decode(r)
	}
}

func (c *Fail) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	encodeHolder(w, c.By)
	w.Text(c.Error)
	w.Text(c.Backtrace)
	w.Bool(c.Release)
	if c.More != nil {
		c.More.encode(w)
	}
}

func (c *Fail) decode(r *codec.Reader) {
	c.NS, c.ID, c.By, c.Error, c.Backtrace, c.Release = r.ID(), r.ID(), decodeHolder(r), r.Text(), r.Text(), r.Bool()
	if c.More != nil {
		c.More.decode(r)
	}
}

func (c *Heartbeat) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.ID(c.ID)
	encodeHolder(w, c.By)
	w.Bytes(c.Progress)
	w.Bytes(c.Checkpoint)
	if c.More != nil {
		c.More.encode(w)
	}
}

func (c *Heartbeat) decode(r *codec.Reader) {
	c.NS, c.ID, c.By, c.Progress, c.Checkpoint = r.ID(), r.ID(), decodeHolder(r), r.Bytes(), r.Bytes()
	if c.More != nil {
		c.More.decode(r)
	}
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

func (c *Fire) encode(w *codec.Writer) {
	w.Int(c.Due.At)
	w.Byte(byte(c.Due.Kind))
	w.ID(c.Due.NS)
	w.ID(c.Due.ID)
}

func (c *Fire) decode(r *codec.Reader) {
	c.Due = keys.Due{At: r.Time(), Kind: keys.DueKind(r.Byte()), NS: r.ID(), ID: r.ID()}
}

func (c *Pause) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
	w.Bool(c.Paused)
}

func (c *Pause) decode(r *codec.Reader) { c.NS, c.Queue, c.Paused = r.ID(), r.Name(), r.Bool() }

func encodeTarget(w *codec.Writer, ns job.Namespace, id job.ID) {
	w.ID(ns)
	w.ID(id)
}

func (c *Cancel) encode(w *codec.Writer) { encodeTarget(w, c.NS, c.ID) }
func (c *Cancel) decode(r *codec.Reader) { c.NS, c.ID = r.ID(), r.ID() }
func (c *Retry) encode(w *codec.Writer)  { encodeTarget(w, c.NS, c.ID) }
func (c *Retry) decode(r *codec.Reader)  { c.NS, c.ID = r.ID(), r.ID() }
func (c *Delete) encode(w *codec.Writer) { encodeTarget(w, c.NS, c.ID) }
func (c *Delete) decode(r *codec.Reader) { c.NS, c.ID = r.ID(), r.ID() }

func (c *TrimFeed) encode(w *codec.Writer) { w.Uint(c.Before) }
func (c *TrimFeed) decode(r *codec.Reader) { c.Before = r.Uint() }

// EncodeThrottle and DecodeThrottle are shared with the records of state.
func EncodeThrottle(w *codec.Writer, t Throttle) {
	w.Uint(uint64(t.Limit))
	w.Uint(uint64(t.Window))
}

// DecodeThrottle reads what EncodeThrottle wrote.
func DecodeThrottle(r *codec.Reader) Throttle {
	return Throttle{Limit: r.Uint32(), Window: duration(r)}
}

func (c *SetQueue) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
	w.Byte(byte(c.Set))
	w.Bool(c.Paused)
	w.Uint(uint64(c.MaxConcurrency))
	EncodeThrottle(w, c.Throttle)
	if c.More != nil {
		c.More.encode(w)
	}
}

func (c *SetQueue) decode(r *codec.Reader) {
	c.NS, c.Queue, c.Set, c.Paused = r.ID(), r.Name(), Settings(r.Byte()), r.Bool()
	c.MaxConcurrency, c.Throttle = r.Uint32(), DecodeThrottle(r)
	if c.More != nil {
		c.More.decode(r)
	}
}

func (c *DeleteQueue) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
}

func (c *DeleteQueue) decode(r *codec.Reader) { c.NS, c.Queue = r.ID(), r.Name() }

func (c *Sweep) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
	w.Uint(uint64(len(c.Jobs)))
	for _, id := range c.Jobs {
		w.ID(id)
	}
	for _, list := range [][]string{c.Unique, c.Idempotency} {
		w.Uint(uint64(len(list)))
		for _, key := range list {
			w.Text(key)
		}
	}
	w.Uint(c.Done)
}

func (c *Sweep) decode(r *codec.Reader) {
	c.NS, c.Queue = r.ID(), r.Name()
	c.Jobs = make([]job.ID, r.Count(16))
	for i := range c.Jobs {
		c.Jobs[i] = r.ID()
	}
	for _, list := range []*[]string{&c.Unique, &c.Idempotency} {
		*list = make([]string, r.Count(1))
		for i := range *list {
			(*list)[i] = r.Text()
		}
	}
	c.Done = r.Uint()
}
