package month_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// reapEvery is the mean time between two kills at a random moment.
const reapEvery = 3 * time.Second

// reaper kills processes at random moments, of the nodes one at a time.
type reaper struct {
	*world
	rng  *rand.Rand
	stop func()
}

func startReaper(w *world) *reaper {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reaper{world: w, rng: w.rng(ofKills)}
	var reaping sync.WaitGroup
	reaping.Go(func() { r.reap(ctx) })
	r.stop = func() { cancel(); reaping.Wait() }
	w.t.Cleanup(r.stop)
	return r
}

func (r *reaper) reap(ctx context.Context) {
	for {
		select {
		case <-time.After(time.Duration(r.rng.ExpFloat64() * float64(reapEvery))):
		case <-ctx.Done():
			return
		}
		of := [][]*process{r.nodes, r.proxies, r.controls}[r.rng.IntN(3)]
		p := of[r.rng.IntN(len(of))]
		if p.kind == "node" && r.nodesUp() < len(r.nodes) {
			continue // Two of three nodes have to be there.
		}
		p.kill()
	}
}

func (w *world) nodesUp() (n int) {
	for _, p := range w.nodes {
		if p.isUp() {
			n++
		}
	}
	return n
}

// kills of each kind of process, those at a step included.
func (r *reaper) kills() map[string]int {
	out := make(map[string]int)
	for _, p := range r.all() {
		p.mu.Lock()
		out[p.kind] += p.kills
		p.mu.Unlock()
	}
	return out
}

func (r *reaper) total() (n int) {
	for _, k := range r.kills() {
		n += k
	}
	return n
}
