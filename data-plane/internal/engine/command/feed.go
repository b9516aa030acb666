package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// TrimEvents deletes the events of a namespace before a number.
type TrimEvents struct {
	NS     job.Namespace
	Before uint64
}

func (c *TrimEvents) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Uint(&c.Before)
}
