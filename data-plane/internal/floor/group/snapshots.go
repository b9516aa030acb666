package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// snapshots is the virtual raft.SnapshotStore: what it lists is the state store
// itself, at the index the applied record says (law 3). Only a snapshot that is
// sent or received is ever a file.
type snapshots struct {
	fsm *fsm
	// firstIndex is that of the log.
	firstIndex func() (uint64, error)
	// sending begins what this replica sends in the term that it leads.
	sending func() (context.Context, context.CancelFunc)

	mu       sync.Mutex
	incoming map[string]*received // Complete transfers not yet installed, by id.
	seq      int
}

const (
	liveID     = "live"
	incomingID = "incoming-"
)

// List reports the state as the one snapshot there is, if it holds anything.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.fsm.mu.RLock()
	a := s.fsm.applied
	s.fsm.mu.RUnlock()
	if a.index == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{metaOf(a)}, nil
}

func metaOf(a applied) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: liveID, Index: a.index, Term: a.term,
		Configuration: a.configuration(), ConfigurationIndex: a.configIndex,
	}
}

// Open gives the live state as a transfer, or a received one for installation.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if id == liveID {
		return s.export()
	}
	if !strings.HasPrefix(id, incomingID) {
		return nil, nil, fmt.Errorf("no snapshot %q", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in, ok := s.incoming[id]
	if !ok {
		return nil, nil, fmt.Errorf("no received snapshot %q", id)
	}
	delete(s.incoming, id)
	return in.meta, in, nil
}

// export gives the state of one moment; the applied record inside it is exactly the
// index that the metadata names. It waits for the node's turn to send, shares what is
// being sent to another follower, and ends with the term: a leader who lost it
// has nothing to send.
func (s *snapshots) export() (*raft.SnapshotMeta, io.ReadCloser, error) {
	ctx, cancel := s.sending()
	x, err := s.fsm.store.Export(ctx, appliedKey(s.fsm.store), s.continues)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	a, err := decodeApplied(x.Label)
	if err != nil {
		cancel()
		return nil, nil, errors.Join(err, x.Close())
	}
	meta := metaOf(a)
	meta.Size = x.Size
	return meta, sent{x, cancel}, nil
}

// sent is a transfer on its way to a follower.
type sent struct {
	*statedb.Export
	cancel context.CancelFunc
}

func (s sent) Close() error {
	err := s.Export.Close()
	s.cancel()
	return err
}

// continues says whether the log goes on from where a transfer ends, or nothing newer
// could be sent: a follower that gets it needs no other one.
func (s *snapshots) continues(label []byte) bool {
	a, err := decodeApplied(label)
	if err != nil {
		return false
	}
	if a.index == s.fsm.appliedIndex.Load() {
		return true
	}
	first, err := s.firstIndex()
	return err == nil && first > 0 && a.index >= first // An empty log starts at 0.
}

// Create makes the sink of a local snapshot, or of one that is being received.
// The library calls it for both; which it is shows in whether bytes are written.
func (s *snapshots) Create(_ raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	s.mu.Lock()
	s.seq++
	id := fmt.Sprintf("%s%d", incomingID, s.seq)
	s.mu.Unlock()
	return &markSink{store: s, meta: raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: id, Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

// markSink is a snapshot being made (mark, no bytes) or received (bytes).
type markSink struct {
	store *snapshots
	meta  raft.SnapshotMeta
	data  *statedb.Import // Set by the first Write.
}

func (m *markSink) ID() string { return m.meta.ID }

func (m *markSink) mark() error { return m.store.fsm.raise(m.meta.Index, m.meta.Term) }

func (m *markSink) Write(p []byte) (int, error) {
	if m.data == nil {
		in, err := m.store.fsm.store.Import()
		if err != nil {
			return 0, err
		}
		m.data = in
	}
	n, err := m.data.Write(p)
	m.meta.Size += int64(n)
	return n, err
}

// Close completes the snapshot: a received one is checked and kept for Open.
func (m *markSink) Close() error {
	if m.data == nil {
		return nil
	}
	if err := m.data.Finish(); err != nil {
		return err
	}
	meta := m.meta
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	for id, old := range m.store.incoming { // A newer transfer replaces one that was never installed.
		delete(m.store.incoming, id)
		if err := old.data.Abort(); err != nil {
			return err
		}
	}
	m.store.incoming[meta.ID] = &received{meta: &meta, data: m.data}
	return nil
}

// Cancel drops the snapshot.
func (m *markSink) Cancel() error {
	if m.data == nil {
		return nil
	}
	return m.data.Abort()
}

// received is a complete transfer on its way into the state store. The library
// reads nothing from it: fsm.Restore installs the staged file itself.
type received struct {
	meta *raft.SnapshotMeta
	data *statedb.Import
}

func (r *received) Read([]byte) (int, error) {
	return 0, errors.New("a received snapshot is installed, not read")
}

func (r *received) Close() error { return r.data.Abort() }
