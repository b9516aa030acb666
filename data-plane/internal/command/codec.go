package command

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// EncodePosition and DecodePosition are shared with the records of state.
func EncodePosition(w *codec.Writer, p keys.Position) {
	w.Uint(p.Index)
	w.Uint(uint64(p.Ordinal))
}

// DecodePosition reads what EncodePosition wrote.
func DecodePosition(r *codec.Reader) keys.Position {
	return keys.Position{Index: r.Uint(), Ordinal: r.Uint32()}
}

// duration reads a non-negative duration; one beyond the range becomes the longest.
func duration(r *codec.Reader) time.Duration { return time.Duration(min(r.Uint(), 1<<63-1)) }

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
	w.Bool(c.Draining)
	EncodeRetry(w, c.Retry)
	w.Byte(byte(c.RetrySet))
	w.Uint(c.IfSettings)
}

func (c *SetQueue) decode(r *codec.Reader) {
	c.NS, c.Queue, c.Set, c.Paused = r.ID(), r.Name(), Settings(r.Byte()), r.Bool()
	c.MaxConcurrency, c.Throttle = r.Uint32(), DecodeThrottle(r)
	c.Draining, c.Retry, c.RetrySet, c.IfSettings = r.Bool(), DecodeRetry(r), RetryParts(r.Byte()), r.Uint()
}

func (c *DeleteQueue) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
}

func (c *DeleteQueue) decode(r *codec.Reader) { c.NS, c.Queue = r.ID(), r.Name() }

func (c *Sweep) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Text(c.Queue)
	EncodeIDs(w, c.Jobs)
	encodeTexts(w, c.Unique)
	encodeTexts(w, c.Idempotency)
	w.Uint(c.Done)
}

func (c *Sweep) decode(r *codec.Reader) {
	c.NS, c.Queue, c.Jobs = r.ID(), r.Name(), DecodeIDs(r)
	c.Unique, c.Idempotency, c.Done = decodeTexts(r), decodeTexts(r), r.Uint()
}

func encodeTexts(w *codec.Writer, texts []string) {
	w.Uint(uint64(len(texts)))
	for _, t := range texts {
		w.Text(t)
	}
}

// decodeTexts reads what encodeTexts wrote; nil when there are none.
func decodeTexts(r *codec.Reader) []string {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	texts := make([]string, n)
	for i := range texts {
		texts[i] = r.Text()
	}
	return texts
}
