package group

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// LogState is how far this replica is, for other nodes to remember.
func (g *Group) LogState() transport.LogState {
	last := g.raft.LastIndex()
	return transport.LogState{Group: g.id, Term: g.raft.CurrentTerm(), Last: last, Committed: min(last, g.raft.CommitIndex())}
}

// keyTerm is where hashicorp/raft keeps the current term.
const keyTerm = "CurrentTerm"

// LogStateOf is how far the folder is in a group that is not open.
func LogStateOf(store *statedb.Group, log LogStore) (transport.LogState, error) {
	s := transport.LogState{Group: store.ID()}
	var err error
	if s.Last, err = log.LastIndex(); err != nil {
		return s, fmt.Errorf("read log bounds: %w", err)
	}
	a, err := loadApplied(store)
	if err != nil {
		return s, err
	}
	covered, err := coveredOf(store, a)
	if err != nil {
		return s, err
	}
	s.Last = max(s.Last, covered)
	if s.Term, err = log.GetUint64([]byte(keyTerm)); err != nil {
		return s, fmt.Errorf("read term: %w", err)
	}
	return s, nil
}
