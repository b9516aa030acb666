package group

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Copy is this replica's state of one moment and its applied record, for a node that
// repairs its own. It waits for the node's turn to send.
func (g *Group) Copy(ctx context.Context) (applied []byte, size int64, data io.ReadCloser, err error) {
	x, err := g.fsm.store.Export(ctx, appliedKey(g.fsm.store), func([]byte) bool { return false })
	if err != nil {
		return nil, 0, nil, fmt.Errorf("copy the state of group %d: %w", g.id, err)
	}
	return x.Label, x.Size, x, nil
}

// ErrCopyTooOld: a copy of the state ends before the log begins.
var ErrCopyTooOld = errors.New("the copy is older than what this node's log begins with")

// Repair replaces the state of a group that is not open by a copy from another member.
// Term, vote and log stay: what this replica has confirmed it still has (R11). It returns the
// index of the copy.
func Repair(ctx context.Context, store *statedb.Group, log LogStore, record []byte, data io.Reader) (uint64, error) {
	a, err := decodeApplied(record)
	if err != nil {
		return 0, fmt.Errorf("applied record of the copy: %w", err)
	}
	first, err := log.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("read log bounds: %w", err)
	}
	if first > a.index+1 {
		return 0, fmt.Errorf("%w: it ends at %d, and the log begins at %d", ErrCopyTooOld, a.index, first)
	}
	if err := receive(store, data, func(in *statedb.Import) error {
		// Before the state moves ahead of the log, the log's shortness is excused.
		if err := store.MarkCovered(applied{index: a.index, term: a.term}.encode()); err != nil {
			return err
		}
		return in.Install(ctx)
	}); err != nil {
		return 0, err
	}
	if got, err := loadApplied(store); err != nil || got.index != a.index {
		return 0, errors.Join(fmt.Errorf("the installed state stands at %d, and was said to stand at %d", got.index, a.index), err)
	}
	return a.index, dropConflict(log, a)
}

// receive stages and checks a copy before it is installed.
func receive(store *statedb.Group, data io.Reader, install func(*statedb.Import) error) error {
	in, err := store.Import()
	if err != nil {
		return err
	}
	if _, err := io.Copy(in, data); err != nil {
		return errors.Join(fmt.Errorf("receive the state of group %d: %w", store.ID(), err), in.Abort())
	}
	if err := in.Finish(); err != nil {
		return err
	}
	return install(in)
}

// dropConflict drops a log that has another entry where the state stands: that one and
// those behind it were never committed, and what came before is in the state. Raft
// would have to cut it below what was applied, which stops a node.
func dropConflict(log LogStore, a applied) error {
	first, err := log.FirstIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	last, err := log.LastIndex()
	if err != nil {
		return fmt.Errorf("read log bounds: %w", err)
	}
	if first == 0 || a.index < first || a.index > last {
		return nil
	}
	var here raft.Log
	if err := log.GetLog(a.index, &here); err != nil {
		return fmt.Errorf("read entry %d: %w", a.index, err)
	}
	if here.Term == a.term {
		return nil
	}
	if err := log.DeleteRange(first, last); err != nil {
		return fmt.Errorf("drop what was never committed: %w", err)
	}
	return nil
}
