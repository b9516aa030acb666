package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// What follows is for records that write and read field by field.

func EncodePosition(w *codec.Writer, p keys.Position) { Position(codec.Writing(w), &p) }

func EncodeThrottle(w *codec.Writer, t Throttle) { t.Fields(codec.Writing(w)) }

func EncodeRetry(w *codec.Writer, p RetryPolicy) { p.Fields(codec.Writing(w)) }

func EncodeTags(w *codec.Writer, tags []Tag) { Tags(codec.Writing(w), &tags) }

func EncodeIDs(w *codec.Writer, ids []job.ID) { codec.List(codec.Writing(w), &ids, 16, codec.ID) }

func EncodeAgentLimits(w *codec.Writer, a AgentLimits) { a.Fields(codec.Writing(w)) }

func EncodeChain(w *codec.Writer, c *Chain) { c.Fields(codec.Writing(w)) }

func EncodeSchedule(w *codec.Writer, s *Schedule) { s.Fields(codec.Writing(w)) }

func EncodeBudget(w *codec.Writer, b *Budget) { b.Fields(codec.Writing(w)) }

func EncodePolicy(w *codec.Writer, p *Policy) { p.Fields(codec.Writing(w)) }

func DecodePosition(r *codec.Reader) (p keys.Position) { Position(codec.Reading(r), &p); return p }

func DecodeThrottle(r *codec.Reader) (t Throttle) { t.Fields(codec.Reading(r)); return t }

func DecodeRetry(r *codec.Reader) (p RetryPolicy) { p.Fields(codec.Reading(r)); return p }

func DecodeTags(r *codec.Reader) (tags []Tag) { Tags(codec.Reading(r), &tags); return tags }

func DecodeAgentLimits(r *codec.Reader) *AgentLimits {
	a := new(AgentLimits)
	a.Fields(codec.Reading(r))
	return a
}

func DecodeChain(r *codec.Reader) *Chain { c := new(Chain); c.Fields(codec.Reading(r)); return c }

func DecodeSchedule(r *codec.Reader) (s Schedule) { s.Fields(codec.Reading(r)); return s }

func DecodeBudget(r *codec.Reader) (b Budget) { b.Fields(codec.Reading(r)); return b }

func DecodePolicy(r *codec.Reader) (p Policy) { p.Fields(codec.Reading(r)); return p }

func DecodeIDs(r *codec.Reader) (ids []job.ID) {
	codec.List(codec.Reading(r), &ids, 16, codec.ID)
	return ids
}
