package records

import (
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
)

// Policy is one approval policy as stored.
type Policy struct {
	command.Policy
	CreatedAt int64
}

func (p *Policy) Encode() []byte {
	w := newRecord(96)
	w.Int(p.CreatedAt)
	command.EncodePolicy(&w, &p.Policy)
	return w.Buf
}

func DecodePolicy(v []byte) (Policy, error) {
	r, err := openRecord("policy", v)
	if err != nil {
		return Policy{}, err
	}
	p := Policy{CreatedAt: r.Time(), Policy: command.DecodePolicy(r)}
	return p, closeRecord("policy", r)
}

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
