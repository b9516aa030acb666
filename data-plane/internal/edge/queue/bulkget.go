package queue

import (
	"context"
	"errors"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Limits of getting many jobs at once.
const (
	BulkGetMax = 1000
	// BulkGetBytesMax bounds what the jobs of one answer carry.
	BulkGetBytesMax = 32 << 20
)

// Jobs reads whole jobs, in the order of ids, each once. Ids of no job in the
// namespace are left out.
func (v *Views) Jobs(ctx context.Context, c Caller, ids []string) (wire.Jobs, error) {
	if len(ids) > BulkGetMax {
		return wire.Jobs{}, fault.InvalidFields([]fault.Field{{Path: "job_ids", Message: rangeMessage("items", 0, BulkGetMax, len(ids))}})
	}
	shown, err := shard.Read(ctx, v.shard, func(g *statedb.Group) (wire.Jobs, error) {
		out := wire.Jobs{Jobs: []wire.Job{}}
		left := BulkGetBytesMax
		seen := make(map[job.ID]bool, len(ids))
		keeping := v.service.keeping(g, &c)
		for _, text := range ids {
			id, err := job.ParseID(text)
			if err != nil || seen[id] {
				continue
			}
			seen[id] = true
			j, err := stateread.ReadJob(g, c.Namespace, id)
			if errors.Is(err, statedb.ErrNotFound) {
				continue
			}
			if err != nil {
				return out, err
			}
			if c.mayOn(permission.JobRead, j.Head.Queue, errNoJob(id)) != nil {
				continue
			}
			if left -= carried(&j); left < 0 {
				return out, fault.New(fault.TooLarge, "PAYLOAD_TOO_LARGE",
					"these jobs add up to more than %d MiB; ask for at most %d of them at a time", BulkGetBytesMax>>20, max(len(out.Jobs), 1))
			}
			shown, err := keeping.view(id, &j)
			if err != nil {
				return out, err
			}
			out.Jobs = append(out.Jobs, shown)
		}
		return out, nil
	})
	if err != nil {
		return shown, err
	}
	return shown, v.service.noteRead(ctx, &c, readOfJobs(shown.Jobs))
}

// carried is how many bytes of client data a job has.
func carried(j *stateread.Job) int {
	n := len(j.Body.Payload) + len(j.Result) + len(j.Checkpoint) + len(j.Progress)
	for i := range j.Errors {
		n += len(j.Errors[i].Error) + len(j.Errors[i].Backtrace)
	}
	return n
}
