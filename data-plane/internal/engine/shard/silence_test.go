package shard

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/grouptest"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// A node that must be silent for so short a time that its group hardly notices gives up the entry on
// its way, whose fate it then doesn't know. It serves again afterwards.
func TestSilence_AShardServesAgainAfterAShortOne(t *testing.T) {
	t.Parallel()
	node := health.New(slog.New(slog.DiscardHandler))
	stores := grouptest.Open(t, grouptest.InMemory())
	g := stores.Replica(t, testShardID, grouptest.Setup{Group: group.Options{Health: node}})
	r := &rig{New(g.Group, g.Store, Options{}), stores}
	defer r.stop(t)
	r.waitLeading(t)
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer cancel()
	var m maker
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Do(ctx, Request{After: []command.Command{m.newJob()}}); err != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for i := range 100 {
		node.Set(health.DiskStalled, "")
		for end := time.Now().Add(time.Duration(i%5) * 100 * time.Microsecond); time.Now().Before(end); {
		}
		node.Clear(health.DiskStalled)
		eventually.True(t, patience, "the shard serves again", func() bool { return r.term.Load() != nil })
		time.Sleep(2 * time.Millisecond)
	}
}
