package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Limits of a page of an export.
const (
	ExportDefault = 100
	ExportMax     = 1000
	// exportBytesMax is what the jobs of a page carry, or one job that has more.
	exportBytesMax = 4 << 20
	// exportLooked is how many jobs are looked at for a page.
	exportLooked = 10_000
)

// ExportInput says which jobs are exported; empty lists want all.
type ExportInput struct {
	Queue  string
	States []wire.State
	After  job.ID // Zero begins with the oldest.
	Limit  int
	only   []string // Patterns of queues; nil: all.
}

// Export reads a page of whole jobs by id, oldest first. It reads the state and not the
// lists: nothing is missing while these are late. A job that comes or goes meanwhile may
// be in it or not.
func (v *Views) Export(ctx context.Context, c Caller, in ExportInput) (wire.ExportPage, error) {
	if fields := in.check(); len(fields) > 0 {
		return wire.ExportPage{}, fault.InvalidFields(fields)
	}
	only, err := c.within(in.Queue, permission.JobList)
	if err != nil {
		return wire.ExportPage{}, err
	}
	in.only = only
	page, err := shard.Read(ctx, v.shard, func(g *statedb.Group) (wire.ExportPage, error) {
		out := wire.ExportPage{Jobs: []wire.Job{}}
		wanted, last, done, err := in.choose(g, c.Namespace)
		if err != nil {
			return out, err
		}
		keeping, left := v.service.keeping(g, &c), exportBytesMax
		for _, id := range wanted {
			j, err := stateread.ReadJob(g, c.Namespace, id)
			if errors.Is(err, statedb.ErrNotFound) {
				continue // Deleted since.
			}
			if err != nil {
				return out, err
			}
			if left -= carried(&j); left < 0 && len(out.Jobs) > 0 {
				out.HasMore = true
				return out, nil
			}
			shown, err := keeping.view(id, &j)
			if err != nil {
				return out, err
			}
			out.Jobs, out.LastID = append(out.Jobs, shown), id.String()
		}
		out.HasMore = !done
		if !last.IsZero() {
			out.LastID = last.String()
		}
		return out, nil
	})
	if err != nil {
		return page, err
	}
	return page, v.service.noteRead(ctx, &c, readOfJobs(page.Jobs))
}

func (in *ExportInput) check() (fields []fault.Field) {
	if in.Limit < 1 || in.Limit > ExportMax {
		fields = append(fields, fault.Field{Path: "limit", Message: rangeMessage("jobs", 1, ExportMax, in.Limit)})
	}
	if in.Queue != "" {
		if msg := checkQueueName(in.Queue); msg != "" {
			fields = append(fields, fault.Field{Path: "queue", Message: msg})
		}
	}
	for _, s := range in.States {
		if !slices.Contains(wire.States(), s) {
			fields = append(fields, fault.Field{Path: "state", Message: fmt.Sprintf("%q is not a state; use %s", s, stateWords())})
		}
	}
	return fields
}

// choose finds the next jobs that are wanted. It ends at last; done tells that there are no
// more.
func (in *ExportInput) choose(g *statedb.Group, ns job.Namespace) (wanted []job.ID, last job.ID, done bool, err error) {
	reader := stateread.NewHeadReader(g)
	last = in.After
	for looked := 0; looked < exportLooked && !done; {
		step := min(in.Limit, exportLooked-looked)
		var heads []stateread.IDHead
		var end job.ID
		if heads, end, done, err = reader.Heads(ns, last, step); err != nil {
			return nil, job.ID{}, false, err
		}
		looked += step
		for i := range heads {
			if !in.wants(&heads[i].Head) {
				continue
			}
			wanted = append(wanted, heads[i].ID)
			if len(wanted) == in.Limit {
				return wanted, heads[i].ID, done && i == len(heads)-1, nil
			}
		}
		if !end.IsZero() {
			last = end
		}
	}
	return wanted, last, done, nil
}

func (in *ExportInput) wants(h *records.Head) bool {
	return (in.Queue == "" || h.Queue == in.Queue) && readmodel.InQueues(in.only, h.Queue) && (len(in.States) == 0 || slices.Contains(in.States, stateOf(h.State)))
}
