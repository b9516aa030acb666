package records

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Moment is one line of a job's short history.
type Moment struct {
	What    feed.Type
	At      int64
	Attempt uint32
}

// TimelineMax moments are kept: the first, and the latest of the others.
const TimelineMax = 16

// Note never changes the moments that are there: copies of the head share them.
func (h *Head) Note(what feed.Type, at int64) {
	keep := h.Timeline
	if len(keep) == TimelineMax {
		keep = append(append(make([]Moment, 0, TimelineMax), keep[0]), keep[2:]...)
	}
	h.Timeline = append(keep[:len(keep):len(keep)], Moment{what, at, h.Attempt})
}

func timeline(f *codec.Fields, moments *[]Moment) {
	last := int64(0)
	for i := range codec.Items(f, moments, 3) {
		m := &(*moments)[i]
		codec.Byte(f, &m.What)
		f.Since(&m.At, last)
		f.Uint32(&m.Attempt)
		last = m.At
	}
}
