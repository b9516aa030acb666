package group

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// snapshots is the virtual raft.SnapshotStore: what it lists is the state store
// itself, at the index the applied record says (law 3). Only a snapshot that is
// sent or received is ever a file.
type snapshots struct {
	fsm *fsm

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

// export builds the transfer from one consistent view, so that the applied
// record inside it is exactly the index the metadata names. The lock keeps an
// install from swapping the span underneath the view; entries are applied
// meanwhile, however long it takes.
func (s *snapshots) export() (_ *raft.SnapshotMeta, _ io.ReadCloser, err error) {
	s.fsm.span.RLock()
	defer s.fsm.span.RUnlock()
	v := s.fsm.store.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	a, err := readApplied(v.Get, s.fsm.store)
	if err != nil {
		return nil, nil, err
	}
	x, err := s.fsm.store.Export(v)
	if err != nil {
		return nil, nil, err
	}
	meta := metaOf(a)
	meta.Size = x.Size
	return meta, x, nil
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
