package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

// fakeCell answers the cell's administration with the rules that a reconciler meets:
// generations of a source go upwards, all changes of a call or none, names are unique,
// references must exist.
type fakeCell struct {
	cellv1connect.UnimplementedCellServiceHandler

	mu      sync.Mutex
	state   *cellv1.State
	sources map[string]uint64
	// incarnation and highest are those of the control plane that it goes by.
	incarnation string
	highest     uint64
	// id and replaced are the cell's id and those before its recoveries.
	id       string
	replaced []string
	applied  int
	acts     map[uint32][]*cellv1.AuditEvent
	noActs   bool                    // It doesn't answer who asks for them.
	nodes    []*cellv1.NodeSightings // Told to who has none of their cursors.
	kept     map[uint32]uint64       // Up to where acts are known to be stored elsewhere.
	// proxyAt is the index that the one proxy has confirmed; behind says that it does
	// not follow by itself.
	proxyAt uint64
	behind  bool
	// Hooks run without the lock; an error is the call's answer.
	before, after, watchers func() error
}

func newFakeCell(t *testing.T) (*fakeCell, *celladmin.Client) {
	t.Helper()
	f := &fakeCell{state: &cellv1.State{}, sources: make(map[string]uint64)}
	_, handler := cellv1connect.NewCellServiceHandler(f)
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	client, err := celladmin.New(cellsecret.Must(make([]byte, 32)), []string{server.URL}, celladmin.Options{Name: "control"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return f, client
}

func (f *fakeCell) hook(pick func(*fakeCell) func() error) error {
	f.mu.Lock()
	h := pick(f)
	f.mu.Unlock()
	if h == nil {
		return nil
	}
	return h()
}

func (f *fakeCell) set(change func(*fakeCell)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func refuse(code connect.Code, reason string) error {
	e := connect.NewError(code, errors.New(reason))
	e.Meta().Set("Corvo-Reason", reason)
	return e
}

func (f *fakeCell) Apply(_ context.Context, r *connect.Request[cellv1.ApplyRequest]) (*connect.Response[cellv1.ApplyResponse], error) {
	if err := f.hook(func(f *fakeCell) func() error { return f.before }); err != nil {
		return nil, err
	}
	index, err := f.apply(r.Msg)
	if err != nil {
		return nil, err
	}
	if err := f.hook(func(f *fakeCell) func() error { return f.after }); err != nil {
		return nil, err
	}
	return connect.NewResponse(&cellv1.ApplyResponse{Index: index}), nil
}

func (f *fakeCell) apply(r *cellv1.ApplyRequest) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.GetGeneration() <= f.sources[r.GetSource()] {
		return 0, refuse(connect.CodeFailedPrecondition, "STALE_GENERATION")
	}
	if f.incarnation != "" && r.GetIncarnation() != f.incarnation && r.GetReplacesIncarnation() != f.incarnation {
		return 0, refuse(connect.CodeFailedPrecondition, "OTHER_INCARNATION")
	}
	next, _ := proto.Clone(f.state).(*cellv1.State)
	for _, c := range r.GetChanges() {
		if err := applyChange(next, c); err != nil {
			return 0, err
		}
	}
	next.Index++
	f.state, f.sources[r.GetSource()] = next, r.GetGeneration()
	f.incarnation, f.highest = r.GetIncarnation(), max(f.highest, r.GetGeneration())
	f.applied++
	if !f.behind {
		f.proxyAt = next.GetIndex()
	}
	return next.GetIndex(), nil
}

func applyChange(s *cellv1.State, c *cellv1.Change) error {
	switch c := c.GetChange().(type) {
	case *cellv1.Change_Tenant:
		if c.Tenant.GetName() == "poison" {
			return refuse(connect.CodeInvalidArgument, "INVALID_ARGUMENT")
		}
		s.Tenants = put(s.Tenants, c.Tenant)
	case *cellv1.Change_Namespace:
		n := c.Namespace
		if !slices.ContainsFunc(s.Tenants, func(t *cellv1.Tenant) bool { return t.GetId() == n.GetTenantId() }) {
			return refuse(connect.CodeNotFound, "TENANT_NOT_FOUND")
		}
		taken := func(o *cellv1.Namespace) bool {
			return o.GetId() != n.GetId() && o.GetTenantId() == n.GetTenantId() && o.GetName() == n.GetName() && !o.GetDeleted() && !n.GetDeleted()
		}
		if slices.ContainsFunc(s.Namespaces, taken) {
			return refuse(connect.CodeFailedPrecondition, "NAME_TAKEN")
		}
		if n.GetName() == "poison" {
			return refuse(connect.CodeInvalidArgument, "INVALID_ARGUMENT")
		}
		placed, _ := proto.Clone(n).(*cellv1.Namespace)
		placed.Shard = 2
		s.Namespaces = put(s.Namespaces, placed)
	case *cellv1.Change_Key:
		for _, g := range c.Key.GetGrants() {
			for _, id := range g.GetNamespaceIds() {
				if !slices.ContainsFunc(s.Namespaces, func(n *cellv1.Namespace) bool { return n.GetId() == id }) {
					return refuse(connect.CodeNotFound, "NAMESPACE_NOT_FOUND")
				}
			}
		}
		if len(c.Key.GetDigests()) == 0 && !c.Key.GetRevoked() {
			return refuse(connect.CodeInvalidArgument, "INVALID_ARGUMENT")
		}
		s.Keys = put(s.Keys, c.Key)
	case *cellv1.Change_TokenKey:
		s.TokenKeys = slices.DeleteFunc(s.TokenKeys, func(k *cellv1.TokenKey) bool { return k.GetId() == c.TokenKey.GetId() })
		if !c.TokenKey.GetDeleted() {
			s.TokenKeys = append(s.TokenKeys, c.TokenKey)
		}
	case *cellv1.Change_UserCutoff:
		s.UserCutoffs = append(s.UserCutoffs, c.UserCutoff)
	}
	return nil
}

func put[T interface{ GetId() string }](list []T, v T) []T {
	i := slices.IndexFunc(list, func(o T) bool { return o.GetId() == v.GetId() })
	if i < 0 {
		return append(list, v)
	}
	list[i] = v
	return list
}

func (f *fakeCell) GetState(context.Context, *connect.Request[cellv1.GetStateRequest]) (*connect.Response[cellv1.GetStateResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, _ := proto.Clone(f.state).(*cellv1.State)
	s.CellId, s.ReplacedCells = f.id, f.replaced
	return connect.NewResponse(&cellv1.GetStateResponse{State: s}), nil
}

func (f *fakeCell) ListWatchers(context.Context, *connect.Request[cellv1.ListWatchersRequest]) (*connect.Response[cellv1.ListWatchersResponse], error) {
	if err := f.hook(func(f *fakeCell) func() error { return f.watchers }); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return connect.NewResponse(&cellv1.ListWatchersResponse{Watchers: []*cellv1.Watcher{{ProxyId: "p", Index: f.proxyAt, Ready: true}}, Nodes: 3}), nil
}

func (f *fakeCell) GetIndex(context.Context, *connect.Request[cellv1.GetIndexRequest]) (*connect.Response[cellv1.GetIndexResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return connect.NewResponse(&cellv1.GetIndexResponse{Index: f.state.GetIndex(), Incarnation: f.incarnation, Generation: f.highest, CellId: f.id, ReplacedCells: f.replaced}), nil
}

func (f *fakeCell) ListSightings(_ context.Context, r *connect.Request[cellv1.ListSightingsRequest]) (*connect.Response[cellv1.ListSightingsResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &cellv1.ListSightingsResponse{}
	for _, n := range f.nodes {
		if r.Msg.GetCursors()[n.GetNodeId()] == n.GetCursor() {
			n = &cellv1.NodeSightings{NodeId: n.GetNodeId(), Cursor: n.GetCursor()}
		}
		res.Nodes = append(res.Nodes, n)
	}
	return connect.NewResponse(res), nil
}

func (f *fakeCell) ListAudit(ctx context.Context, r *connect.Request[cellv1.ListAuditRequest]) (*connect.Response[cellv1.ListAuditResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noActs {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
	}
	if f.kept == nil {
		f.kept = make(map[uint32]uint64)
	}
	f.kept[r.Msg.GetGroup()] = max(f.kept[r.Msg.GetGroup()], r.Msg.GetAfter())
	res := &cellv1.ListAuditResponse{}
	for _, e := range f.acts[r.Msg.GetGroup()] {
		if e.GetNumber() > r.Msg.GetAfter() && len(res.Events) < 3 {
			res.Events = append(res.Events, e)
		}
	}
	return connect.NewResponse(res), nil
}

// current is the cell's state without its index.
func (f *fakeCell) current() *cellv1.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, _ := proto.Clone(f.state).(*cellv1.State)
	s.Index = 0
	return s
}

func (f *fakeCell) appliedCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}
