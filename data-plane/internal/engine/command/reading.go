package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// TrimReadingsMax bounds the namespaces of one TrimReadings.
const TrimReadingsMax = 512

// TrimReadings removes what was counted long ago: whoever bills has read it. Apply keeps
// the latest hours, whatever the command says.
type TrimReadings struct {
	// Before is the first hour (since 1970) that stays.
	Before uint64
	// Idle are namespaces that had nothing since: nothing is left of them, unless that
	// changed since the leader looked.
	Idle []job.Namespace
}

func (c *TrimReadings) Fields(f *codec.Fields) {
	f.Uint(&c.Before)
	codec.IDs(f, &c.Idle)
}
