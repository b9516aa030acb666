package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// EndNamespace ends a namespace that was deleted: from this command on nothing of it runs
// and no command about it is taken. What lies apart from its own rows is removed by
// SweepNamespace, piece by piece.
type EndNamespace struct{ NS job.Namespace }

// SweepNamespace removes what an ended namespace left among the rows of the group: the
// leader found it, and apply checks it.
type SweepNamespace struct {
	NS job.Namespace
	// Due rows and entries of the feed, at most SweepMax together.
	Due  []keys.Due
	Feed []uint64
	// Done: nothing is left but the note that the namespace was ended.
	Done bool
	// Forget removes that note too: the cell knows nothing of the namespace any more, so
	// that no call about it comes this far. Only after Done.
	Forget bool
}

func (c *EndNamespace) encode(w *codec.Writer) { w.ID(c.NS) }
func (c *EndNamespace) decode(r *codec.Reader) { c.NS = r.ID() }

// dueBytes is what a due row takes in a SweepNamespace, at least.
const dueBytes = 2 + 16

func (c *SweepNamespace) encode(w *codec.Writer) {
	w.ID(c.NS)
	w.Uint(uint64(len(c.Due)))
	for i := range c.Due {
		w.Int(c.Due[i].At)
		w.Byte(byte(c.Due[i].Kind))
		w.ID(c.Due[i].ID)
	}
	w.Uint(uint64(len(c.Feed)))
	for _, index := range c.Feed {
		w.Uint(index)
	}
	w.Bool(c.Done)
	w.Bool(c.Forget)
}

func (c *SweepNamespace) decode(r *codec.Reader) {
	c.NS = r.ID()
	if n := r.Count(dueBytes); n > 0 {
		c.Due = make([]keys.Due, n)
	}
	for i := range c.Due {
		c.Due[i] = keys.Due{At: r.Time(), Kind: keys.DueKind(r.Byte()), NS: c.NS, ID: r.ID()}
	}
	if n := r.Count(1); n > 0 {
		c.Feed = make([]uint64, n)
	}
	for i := range c.Feed {
		c.Feed[i] = r.Uint()
	}
	c.Done, c.Forget = r.Bool(), r.Bool()
}
