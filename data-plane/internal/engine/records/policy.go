package records

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

// Policy is one approval policy as stored.
type Policy struct {
	command.Policy
	CreatedAt int64
}

func (p *Policy) Fields(f *codec.Fields) {
	f.Natural(&p.CreatedAt)
	p.Policy.Fields(f)
}

func (p *Policy) Encode() []byte { return encode(96, p) }

// DecodePolicy reads what Policy.Encode wrote.
func DecodePolicy(v []byte) (Policy, error) { return decode[Policy]("policy", v) }

// Matches reports whether a job of a queue, with these tags, waits for an approval.
func (p *Policy) Matches(queue string, tags []command.Tag) bool {
	byQueue := p.Queue == queue
	byTag := slices.ContainsFunc(tags, func(t command.Tag) bool {
		return t.Key == p.TagKey && (p.TagValue == "" || t.Value == p.TagValue)
	})
	if p.Any {
		return p.Queue != "" && byQueue || p.TagKey != "" && byTag
	}
	return (p.Queue == "" || byQueue) && (p.TagKey == "" || byTag)
}
