package cell

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// GroupID is the meta group's number in every cell.
const GroupID uint32 = 1

// errUnknownChange stops the node: replicas would differ if one skipped what
// another version applied.
var errUnknownChange = errors.New("the entry has a change that this version doesn't know")

// Machine is the deterministic part of the meta group. Apply, Committed and Reset
// are called by the group's one applying goroutine; View by anybody.
//
// Its result is an *cellv1.ApplyResponse or a *fault.Error, which wrote nothing.
type Machine struct {
	layout
	store   *statedb.Group
	speaks  cellversion.Range
	view    atomic.Pointer[View]
	pending []*changeSet // Applied, not yet committed; in order.
	// committed is up to where view is known to be complete; 0 after a start, until
	// the first commit.
	committed atomic.Uint64
	changed   group.Notifier // Fires after view or committed moved.
}

var _ group.Machine = (*Machine)(nil)

// changeSet is what one entry changed, as stored.
type changeSet struct {
	index   uint64
	now     time.Time // Of the log.
	changes []*cellv1.Change
	bytes   int // About what it takes in memory and on the wire.
}

// NewMachine makes the machine of the meta group whose state is in store. Its view
// is empty until Reset.
func NewMachine(store *statedb.Group) *Machine {
	m := &Machine{layout: layout{prefix: store.Prefix()}, store: store, speaks: cellversion.Supported()}
	m.view.Store(&View{})
	return m
}

// View is the committed state.
func (m *Machine) View() *View { return m.view.Load() }

// Changed returns a channel that is closed when the view next moves. Take it
// before looking at View.
func (m *Machine) Changed() <-chan struct{} { return m.changed.Wait() }

// reached reports whether View has everything up to index. The group's applied
// index can not tell: it moves a moment before the view does.
func (m *Machine) reached(index uint64) bool {
	return m.View().Index() >= index || m.committed.Load() >= index
}

// Apply runs one entry: all its changes or none.
func (m *Machine) Apply(txn *statedb.Txn, e group.Entry) (any, error) {
	req, err := decode(e.Payload)
	if err != nil {
		return nil, err
	}
	stored, err := m.run(txn, req, e)
	if refused := fault.As(err); refused != nil {
		return refused, nil
	}
	if err != nil {
		return nil, err
	}
	m.pending = append(m.pending, &changeSet{index: e.Index, now: e.Now, changes: stored, bytes: len(e.Payload)})
	return &cellv1.ApplyResponse{Index: e.Index, Stored: stored}, nil
}

// decode reads an entry. Unknown fields inside a record are kept as they are;
// outside a record they are refused, because they could mean anything.
func decode(payload []byte) (*cellv1.ApplyRequest, error) {
	req := &cellv1.ApplyRequest{}
	if err := proto.Unmarshal(payload, req); err != nil {
		return nil, fmt.Errorf("decode change set: %w", err)
	}
	if len(req.ProtoReflect().GetUnknown()) > 0 {
		return nil, errUnknownChange
	}
	for _, c := range req.GetChanges() {
		if c.GetChange() == nil || len(c.ProtoReflect().GetUnknown()) > 0 {
			return nil, errUnknownChange
		}
	}
	return req, nil
}

func (m *Machine) run(txn *statedb.Txn, req *cellv1.ApplyRequest, entry group.Entry) (stored []*cellv1.Change, err error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	if err := allowed(req, entry.Version); err != nil {
		return nil, fmt.Errorf("%w: %s", cellversion.ErrSkew, fault.As(err).Message) // A correct leader never proposes it.
	}
	defer func() { err = statedb.Ended(recover()) }()
	e := newEdit(m.layout, txn, entry.Now, m.speaks)
	e.control(req)
	e.generation(req)
	for _, c := range req.GetChanges() {
		stored = append(stored, e.apply(c, entry.Index))
	}
	e.setNumber(m.key(famMeta, metaChanged), entry.Index)
	e.flush()
	return stored, nil
}

// Committed publishes every entry up to index.
func (m *Machine) Committed(index uint64) {
	n := 0
	for n < len(m.pending) && m.pending[n].index <= index {
		n++
	}
	if n > 0 {
		m.view.Store(m.view.Load().with(m.pending[:n]))
		m.pending = append([]*changeSet(nil), m.pending[n:]...)
	}
	m.committed.Store(index)
	m.changed.Fire()
}

// Reset reads the view anew from the store.
func (m *Machine) Reset() error {
	m.pending = nil
	v, err := m.load()
	if err != nil {
		return fmt.Errorf("read the cell's state: %w", err)
	}
	m.view.Store(v)
	m.changed.Fire()
	return nil
}

func (m *Machine) load() (*View, error) {
	snap := m.store.View()
	v, err := m.read(snap)
	return v, errors.Join(err, snap.Close())
}

func (m *Machine) read(p *statedb.View) (*View, error) {
	v := &View{}
	b, err := p.Get(m.key(famMeta, metaChanged))
	switch {
	case errors.Is(err, statedb.ErrNotFound):
		return v, nil
	case err != nil:
		return nil, err
	case len(b) != 8:
		return nil, fmt.Errorf("index of the last change has %d bytes", len(b))
	}
	v.index = binary.BigEndian.Uint64(b)
	v.floor, v.ends = v.index, v.index
	e := newViewEdit(v)
	for _, read := range [...]func() error{
		func() error { return readFamily(p, m.layout, famTenant, e.tenant) },
		func() error { return readFamily(p, m.layout, famNamespace, e.namespace) },
		func() error { return readFamily(p, m.layout, famKey, e.key) },
		func() error { return readFamily(p, m.layout, famNode, e.node) },
		func() error { return readFamily(p, m.layout, famTokenKey, e.tokenKey) },
		func() error { return m.readGone(p, e) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	var shards cellv1.Shards
	var cutoffs cellv1.UserCutoffs
	var version cellv1.CellVersion
	err = errors.Join(readMeta(p, m.key(famMeta, metaShards), &shards), readMeta(p, m.key(famMeta, metaCutoffs), &cutoffs),
		readMeta(p, m.key(famMeta, metaVersion), &version))
	v.shards, v.cutoffs, v.version = shards.GetIds(), cutoffs.GetList(), version.GetVersion()
	return v, err
}

// readControl reads which control plane writes the cell's desired state.
func (m *Machine) readControl(into *cellv1.GetIndexResponse) error {
	snap := m.store.View()
	err := readMeta(snap, m.key(famMeta, metaControl), into)
	return errors.Join(err, snap.Close())
}

// StoredView reads the view from a node's folder before the meta group is open.
func StoredView(store *statedb.Group) (*View, error) {
	m := NewMachine(store)
	if err := m.Reset(); err != nil {
		return nil, err
	}
	return m.View(), nil
}

// readGone reads which node ids were removed.
func (m *Machine) readGone(p *statedb.View, e *viewEdit) error {
	from, to := m.layout.span(famGoneNode)
	return p.Scan(from, to, func(key, _ []byte) (bool, error) {
		e.gone.set(string(key[len(from):]), struct{}{})
		return true, nil
	})
}

// readFamily hands every record of a family to put.
func readFamily[T any, M interface {
	*T
	proto.Message
}](p *statedb.View, l layout, family byte, put func(M)) error {
	from, to := l.span(family)
	return p.Scan(from, to, func(key, value []byte) (bool, error) {
		r := M(new(T))
		if err := proto.Unmarshal(value, r); err != nil {
			return false, fmt.Errorf("decode record %x: %w", key, err)
		}
		put(r)
		return true, nil
	})
}

// readMeta reads a single record; one that is not there leaves r as it is.
func readMeta(p *statedb.View, key []byte, r proto.Message) error {
	b, err := p.Get(key)
	if errors.Is(err, statedb.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(b, r); err != nil {
		return fmt.Errorf("decode record %x: %w", key, err)
	}
	return nil
}

// namespaceID parses the id of a stored namespace, which validate has checked.
func namespaceID(n *cellv1.Namespace) job.Namespace {
	id, err := job.ParseNamespace(n.GetId())
	if err != nil {
		panic(fmt.Sprintf("cell: stored namespace %q: %v", n.GetId(), err))
	}
	return id
}
