package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Survey is what a folder has of a group that is not open.
type Survey struct {
	Group   uint32
	Term    uint64
	Last    uint64 // In the log, or of the state where that is beyond it.
	Applied uint64
	// LastAt is when the last entry was appended by its leader, or the last one was applied;
	// zero if that is not known.
	LastAt time.Time
	Voters []string
}

// Look surveys a group of a folder.
func Look(store *statedb.Group, log LogStore) (Survey, error) {
	s := Survey{Group: store.ID()}
	state, err := LogStateOf(store, log)
	if err != nil {
		return s, err
	}
	a, err := loadApplied(store)
	if err != nil {
		return s, err
	}
	s.Term, s.Last, s.Applied = state.Term, max(state.Last, a.index), a.index
	if a.now.Calendar != 0 {
		s.LastAt = time.Unix(0, a.now.Calendar)
	}
	newest, err := lastEntry(log)
	if err != nil {
		return s, err
	}
	if newest != nil && newest.AppendedAt.After(s.LastAt) {
		s.LastAt = newest.AppendedAt
	}
	members, err := membersOf(a, log)
	for _, m := range members.Servers {
		if m.Suffrage == raft.Voter {
			s.Voters = append(s.Voters, string(m.ID))
		}
	}
	return s, err
}

func lastEntry(log LogStore) (*raft.Log, error) {
	last, err := log.LastIndex()
	if err != nil || last == 0 {
		return nil, err
	}
	var l raft.Log
	if err := log.GetLog(last, &l); err != nil {
		return nil, fmt.Errorf("read entry %d: %w", last, err)
	}
	return &l, nil
}

// membersOf is the raft configuration as a start would find it: the newest in the log, or
// the state's.
func membersOf(a applied, log LogStore) (raft.Configuration, error) {
	first, err := log.FirstIndex()
	if err != nil {
		return raft.Configuration{}, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return raft.Configuration{}, err
	}
	for i := last; i >= max(first, a.index+1) && i > 0; i-- {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return raft.Configuration{}, fmt.Errorf("read entry %d: %w", i, err)
		}
		if l.Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(l.Data), nil
		}
	}
	return a.configuration(), nil
}

// MakeAlone makes a node the only voter of a group that is not open. It adds one entry
// behind the log; all entries before it count as committed from then on. It may be
// repeated, and returns when that is durable.
func MakeAlone(store *statedb.Group, log LogStore, nodeID string) error {
	s, err := Look(store, log)
	if err != nil {
		return err
	}
	if s.Last == 0 || len(s.Voters) == 1 && s.Voters[0] == nodeID {
		return nil
	}
	if s.Term == 0 {
		return errors.New("the log has no term")
	}
	alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(nodeID), Address: raft.ServerAddress(nodeID)}}}
	return log.StoreLogs([]*raft.Log{{
		Index: s.Last + 1, Term: s.Term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(alone), AppendedAt: time.Now(),
	}})
}
