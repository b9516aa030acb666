package bench

import (
	"fmt"
	"time"
)

// unsynced says in words why a run can't be of a server that syncs every job before it
// acknowledges it. It is as strict as the account of other queues: what a server says of itself,
// then what it can't have done with the delay and the number of its syncs. A server that
// we didn't start may do without; the report says so.
func (r *run) unsynced(report *Report) []string {
	d, p := report.Durability, report.Phase
	ours := d.Spawned && !r.target.relaxed
	switch {
	case ours && d.Sync != syncWord(false):
		return []string{"the server does not sync its log"}
	case ours && !d.Reported && r.target.nodes == 0:
		return []string{"the server did not say whether it syncs its log"}
	case d.Sync != syncWord(false):
		return nil
	case ours && d.SyncDelayMS != milliseconds(r.target.syncDelay):
		return []string{fmt.Sprintf("the server adds %g ms to every sync and was told to add %g", d.SyncDelayMS, milliseconds(r.target.syncDelay))}
	}
	if p.Jobs == 0 {
		return nil
	}
	var all []string
	together := r.opts.Connections * r.opts.Concurrency * r.opts.Batch // As many jobs can wait for the same sync.
	if delay := d.SyncDelayMS; delay > 0 {
		if p.Latency.P50 < delay {
			all = append(all, fmt.Sprintf("half of the calls took less than %.3f ms, and a sync takes more than %g ms", p.Latency.P50, delay))
		}
		if most := float64(together) / delay * milliseconds(time.Second); p.PerSecond > most {
			all = append(all, fmt.Sprintf("%.0f jobs/s, and callers that wait for syncs of %g ms do at most %.0f", p.PerSecond, delay, most))
		}
	}
	if p.Syncs >= 0 && p.Syncs*int64(together) < int64(p.Jobs) {
		all = append(all, fmt.Sprintf("%d syncs for %d jobs, and at most %d can wait for the same: not every job was synced before it was acknowledged", p.Syncs, p.Jobs, together))
	}
	return all
}
