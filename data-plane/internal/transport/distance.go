package transport

import (
	"log/slog"
	"sync"
	"time"
)

// Distances.
const (
	// nearEnough is how many round trips must fit into the heartbeat time-out: the
	// leader's lease is half of it, and one lost packet must not cost the leadership.
	nearEnough = 4
	// tellEvery bounds how often a node says that another is too far away.
	tellEvery = time.Minute
)

// distances remembers how far the other nodes are, as their connections were opened.
type distances struct {
	heartbeat time.Duration // 0: nobody minds.
	log       *slog.Logger

	mu   sync.Mutex // Guards told.
	told map[string]time.Time
}

// note takes the round trip of an open. With more than the time-outs allow the cell would
// elect leaders for ever and never say why.
func (d *distances) note(node string, trip time.Duration, now time.Time) {
	if d.heartbeat == 0 || trip*nearEnough <= d.heartbeat {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.told[node]; ok && now.Sub(last) < tellEvery {
		return
	}
	d.told[node] = now
	d.log.Warn("node is too far away for the heartbeat time-out: leaders may not last; start all nodes with a longer --heartbeat",
		"node", node, "round_trip", trip.Round(time.Millisecond), "heartbeat", d.heartbeat, "needed", (trip * nearEnough).Round(100*time.Millisecond))
}
