package stateread

import (
	"bytes"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Dead is a walk over the dead jobs of a queue, in pieces, in the order of their ids.
// No index lists them; it reads the heads of the namespace. Each job is met once.
type Dead struct {
	NS    job.Namespace
	Queue string
	// Until ends the walk: jobs made later are not met, or one that dies of itself at
	// once could keep it going for ever.
	Until job.ID

	after job.ID
	done  bool
}

// Next returns some of the dead jobs, possibly none, and whether there may be more.
func (d *Dead) Next(g *statedb.Group) (ids []job.ID, more bool, err error) {
	if d.done {
		return nil, false, nil
	}
	heads, last, done, err := NewHeadReader(g).Heads(d.NS, d.after, HeadsWalked)
	if err != nil {
		return nil, false, err
	}
	d.after, d.done = last, done
	for i := range heads {
		if bytes.Compare(heads[i].ID[:], d.Until[:]) > 0 {
			d.done = true
			break
		}
		if heads[i].State != job.Dead || heads[i].Queue != d.Queue {
			continue
		}
		if ids = append(ids, heads[i].ID); len(ids) == command.RequeueMax {
			d.after, d.done = heads[i].ID, false
			break
		}
	}
	return ids, !d.done, nil
}
