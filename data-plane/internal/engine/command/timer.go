package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Fire says that the time of a due row has come.
type Fire struct{ Due keys.Due }

func (c *Fire) Fields(f *codec.Fields) {
	f.Natural(&c.Due.At)
	codec.Byte(f, &c.Due.Kind)
	codec.ID(f, &c.Due.NS)
	codec.ID(f, &c.Due.ID)
}
