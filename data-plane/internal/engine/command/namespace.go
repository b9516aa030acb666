package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// EndNamespace ends a namespace that was deleted: from this command on nothing of it runs
// and no command about it is taken. What lies apart from its own rows is removed by
// SweepNamespace, piece by piece.
type EndNamespace struct{ NS job.Namespace }

func (c *EndNamespace) Fields(f *codec.Fields) { codec.ID(f, &c.NS) }

// SweepNamespace removes what an ended namespace left among the rows of the group: the
// leader found it, and apply checks it.
type SweepNamespace struct {
	NS  job.Namespace
	Due []keys.Due // At most SweepMax.
	// Done: nothing is left but the note that the namespace was ended.
	Done bool
	// Forget removes that note too: the cell knows nothing of the namespace any more, so
	// that no call about it comes this far. Only after Done.
	Forget bool
}

func (c *SweepNamespace) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	for i := range codec.Items(f, &c.Due, dueBytes) {
		d := &c.Due[i]
		f.Natural(&d.At)
		codec.Byte(f, &d.Kind)
		codec.ID(f, &d.ID)
		d.NS = c.NS
	}
	f.Bool(&c.Done)
	f.Bool(&c.Forget)
}

// dueBytes is what a due row takes in a SweepNamespace, at least.
const dueBytes = 2 + 16
