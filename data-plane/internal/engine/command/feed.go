package command

import "github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"

// TrimFeed removes the events of entries before an index.
type TrimFeed struct{ Before uint64 }

func (c *TrimFeed) Fields(f *codec.Fields) { f.Uint(&c.Before) }
