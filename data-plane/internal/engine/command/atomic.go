package command

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// Together says that the next Count commands of the entry are one: if any enqueue
// among them is refused, all are, with the same refusal.
type Together struct{ Count uint32 }

func (c *Together) Fields(f *codec.Fields) { f.Uint32(&c.Count) }
