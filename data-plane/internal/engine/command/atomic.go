package command

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// Atomic makes the next Count commands of the entry atomic: if any enqueue among them
// is refused, all are, with the same refusal.
type Atomic struct{ Count uint32 }

func (c *Atomic) Fields(f *codec.Fields) { f.Uint32(&c.Count) }
