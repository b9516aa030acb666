package calibrate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

const (
	self       = "n1"
	entryBytes = 200 // An enqueue of 100 bytes in the log.
	leadMax    = 10 * time.Second
)

// Raft is how many entries a second a group of one member applies, proposed by so many
// callers that each wait for theirs. Its log is a node's; its machine does nothing.
func (d Disk) Raft(ctx context.Context, callers int, lasting time.Duration) (perSecond float64, err error) {
	dir := filepath.Join(d.Dir, "raft")
	log, err := raftlog.Open(filepath.Join(dir, "log"), raftlog.Options{FS: d.fs()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close(), vfs.Default.RemoveAll(dir)) }()
	state, err := statedb.Open(filepath.Join(dir, "state"), statedb.Options{FS: vfs.Default})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	g, err := group.Open(state.Group(1), log.Group(1), newNowhere(), idle{}, group.Options{NodeID: self, Bootstrap: []string{self}, Alone: true,
		CellVersion: func() cellversion.Version { return cellversion.Highest }})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.Shutdown()) }()
	if err := lead(ctx, g); err != nil {
		return 0, err
	}
	entry := make([]byte, entryBytes)
	applied, took, err := during(lasting, callers, func() error {
		_, _, err := g.ProposeAndWait(ctx, entry)
		return err
	})
	return float64(applied) / took.Seconds(), err
}

func lead(ctx context.Context, g *group.Group) error {
	leads := make(chan struct{})
	g.Lead(func(ctx context.Context, ready func()) { // One term: it has nobody to lose to.
		ready()
		close(leads)
		<-ctx.Done()
	})
	select {
	case <-leads:
		return nil
	case <-time.After(leadMax):
		return fmt.Errorf("no leader within %s", leadMax)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// nowhere is a transport to nobody.
type nowhere struct{ *raft.InmemTransport }

func newNowhere() nowhere {
	_, t := raft.NewInmemTransport(self)
	return nowhere{t}
}

func (nowhere) Bind(transport.Raft) {}

// idle is a state machine without a state.
type idle struct{}

func (idle) Apply(*statedb.Txn, group.Entry) (any, error) { return nil, nil }
func (idle) Committed(uint64)                             {}
func (idle) Reset() error                                 { return nil }
