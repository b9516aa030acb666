package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// EndedMax bounds the jobs, batches and chains of one DeleteEnded together.
const EndedMax = 512

// DeleteEnded deletes what ended long enough ago: the leader found it, and apply checks
// each. Which settings say so is the leader's business: the log has what was decided.
type DeleteEnded struct {
	NS job.Namespace
	// Before, in calendar time: what ended later than that, because it was retried since
	// the leader looked, stays.
	Before  int64
	Jobs    []job.ID
	Batches []job.BatchID
	Chains  []job.ChainID
	// UsageBefore is the first hour (since 1970) of which the usage stays; 0: all do.
	UsageBefore uint64
}

func (c *DeleteEnded) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	f.Natural(&c.Before)
	codec.IDs(f, &c.Jobs)
	codec.IDs(f, &c.Batches)
	codec.IDs(f, &c.Chains)
	f.Uint(&c.UsageBefore)
}
