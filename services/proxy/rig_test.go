package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/callstream"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDomain = "corvo.test"

// patience is how long a test waits for what must happen.
const patience = 5 * time.Second

var testSecret = []byte("a secret of the cell under test.")

// cellState is the desired state that every upstream node of a test serves.
type cellState struct {
	mu      sync.Mutex
	index   uint64
	log     []*cellv1.WatchResponse
	floor   uint64 // The log begins behind it.
	all     *snapshot
	changed chan struct{}
	// cell is the cell that this is the state of, and replaced those that it was before.
	cell     string
	replaced []string
	// muted makes watches say nothing at all.
	muted atomic.Bool
	// asked counts the questions for the index.
	asked atomic.Int64
	// confirmed is the newest confirmation of each proxy. Guarded by mu.
	confirmed map[string]*cellv1.ConfirmWatchRequest
}

func newCellState(changes ...*cellv1.Change) *cellState {
	s := &cellState{cell: "cell_a", all: &snapshot{}, changed: make(chan struct{}), confirmed: map[string]*cellv1.ConfirmWatchRequest{}}
	if len(changes) > 0 {
		s.apply(changes...)
	}
	return s
}

func (s *cellState) apply(changes ...*cellv1.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	s.log = append(s.log, &cellv1.WatchResponse{Index: s.index, Changes: changes, CellId: s.cell})
	s.all = s.all.with(changes, s.index)
	close(s.changed)
	s.changed = make(chan struct{})
}

// cut drops the history: watchers that are behind are sent the whole state.
func (s *cellState) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.floor = nil, s.index
}

// whole is the state; mu is held.
func (s *cellState) whole() *cellv1.State {
	state := s.all.state()
	state.CellId, state.ReplacedCells = s.cell, s.replaced
	return state
}

// since is what a watcher at index is to be sent, and what to wait for.
func (s *cellState) since(index uint64) ([]*cellv1.WatchResponse, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index == 0 || index < s.floor {
		return []*cellv1.WatchResponse{{Index: s.index, State: s.whole(), CellId: s.cell}}, s.changed
	}
	var out []*cellv1.WatchResponse
	for _, m := range s.log {
		if m.GetIndex() > index {
			out = append(out, m)
		}
	}
	return out, s.changed
}

// upstream is one node: cell service, worker service, and a mirror for the rest.
type upstream struct {
	cellv1connect.UnimplementedCellServiceHandler
	corvov1connect.UnimplementedWorkerServiceHandler
	t      testing.TB
	id     string
	url    string
	state  *cellState
	signer *identity.Signer
	wrong  atomic.Int64 // Requests of tenants that were for another cell.
	// uses are what proxies told of keys, unless the node is forgetful. Guarded by the state's mu.
	uses      []*cellv1.KeyUse
	refusals  []*cellv1.Refusal // Likewise.
	forgetful bool
	readings  []*cellv1.Readings // What they counted, likewise.
	server    *http.Server
	calls     *callstream.Server
	served    atomic.Int64 // Requests of tenants.
	streams   atomic.Int64 // Open worker streams.
	ready     atomic.Bool
	older     atomic.Bool  // It says only by /readyz whether it is ready,
	probed    atomic.Int64 // for which it was asked so often.
	leads     atomic.Bool  // Shard 2.
	term      atomic.Uint64
	stopped   atomic.Bool
	handle    atomic.Pointer[http.HandlerFunc] // Replaces the mirror.
	faults    *faulttest.Peer                  // Before the mirror.
}

func startUpstream(t testing.TB, id string, state *cellState) *upstream {
	t.Helper()
	return startUpstreamAt(t, "127.0.0.1:0", id, state)
}

func startUpstreamAt(t testing.TB, address, id string, state *cellState) *upstream {
	t.Helper()
	signer, err := identity.NewSigner(cellsecret.Must(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{t: t, id: id, state: state, signer: signer}
	u.ready.Store(true)
	mux := http.NewServeMux()
	mux.Handle(cellv1connect.NewCellServiceHandler(u))
	mux.Handle(corvov1connect.NewWorkerServiceHandler(u))
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		u.probed.Add(1)
		if !u.ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	u.faults = faulttest.New(http.HandlerFunc(u.mirror), nil)
	mux.Handle("/", u.faults)
	u.calls = callstream.NewServer(u.verified(mux), slog.New(slog.DiscardHandler))
	mux.Handle(callstream.Path, u.calls)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	ln := listenAt(t, address)
	u.url = "http://" + ln.Addr().String()
	u.server = &http.Server{Handler: u.verified(mux), Protocols: &protocols, HTTP2: &http.HTTP2Config{MaxReadFrameSize: 16 << 10}, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	done := make(chan struct{})
	go func() { defer close(done); _ = u.server.Serve(ln) }()
	t.Cleanup(func() { u.kill(); <-done })
	return u
}

// kill ends the node and every connection at once.
func (u *upstream) kill() {
	u.stopped.Store(true)
	_ = u.server.Close()
	u.calls.Close()
}

func (u *upstream) node() *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{Id: u.id, ApiUrl: u.url}}}
}

type identityKey struct{}

func (u *upstream) verified(next http.Handler) http.Handler {
	prover, err := cellclock.NewProver(cellsecret.Must(testSecret))
	if err != nil {
		u.t.Fatal(err)
	}
	clock := prover.Handler(cellclock.NewMachineClock())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			next.ServeHTTP(w, r)
			return
		case cellclock.Path:
			clock.ServeHTTP(w, r)
			return
		}
		id, err := u.signer.VerifyRequest(r, time.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if theirs := r.Header.Get(identity.HeaderCell); theirs != "" && theirs != u.state.cell {
			u.wrong.Add(1)
			w.Header().Set(identity.HeaderOutcome, identity.OutcomeCell)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if !id.IsCell() {
			u.served.Add(1)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
	})
}

// seen is what the mirror answers: what arrived at the node.
type seen struct {
	Node     string
	Method   string
	Path     string
	Query    string
	Host     string
	Identity identity.Identity
	Header   http.Header
	Body     string
}

// does has a handler answer instead of the mirror, or nil for the mirror again.
func (u *upstream) does(h http.HandlerFunc) { u.handle.Store(&h) }

func (u *upstream) mirror(w http.ResponseWriter, r *http.Request) {
	if h := u.handle.Load(); h != nil && *h != nil {
		(*h)(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id, _ := r.Context().Value(identityKey{}).(identity.Identity)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Corvo-Index", "41")
	w.Header().Set("X-Corvo-Debug", u.id)
	w.Header().Set("X-Corvo-Forwarded", "1")
	_ = json.NewEncoder(w).Encode(seen{
		Node: u.id, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Host: r.Host,
		Identity: id, Header: r.Header, Body: string(body),
	})
}

// Watch implements CellServiceHandler.
func (u *upstream) Watch(ctx context.Context, req *connect.Request[cellv1.WatchRequest], stream *connect.ServerStream[cellv1.WatchResponse]) error {
	if id, _ := ctx.Value(identityKey{}).(identity.Identity); !id.IsCell() {
		return connect.NewError(connect.CodePermissionDenied, errors.New("not the cell"))
	}
	at := req.Msg.GetAfterIndex()
	switch theirs := req.Msg.GetCellId(); {
	case slices.Contains(u.state.replaced, theirs):
		at = 0
	case theirs != "" && theirs != u.state.cell:
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("WRONG_CELL"))
	}
	beat := time.NewTicker(50 * time.Millisecond)
	defer beat.Stop()
	for {
		msgs, changed := u.state.since(at)
		for _, m := range msgs {
			if u.state.muted.Load() {
				break
			}
			if err := stream.Send(m); err != nil {
				return err
			}
			at = m.GetIndex()
		}
		select {
		case <-changed:
		case <-beat.C:
			if u.state.muted.Load() {
				continue
			}
			if err := stream.Send(&cellv1.WatchResponse{Index: at, CellId: u.state.cell}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// GetIndex implements CellServiceHandler.
func (u *upstream) GetIndex(context.Context, *connect.Request[cellv1.GetIndexRequest]) (*connect.Response[cellv1.GetIndexResponse], error) {
	u.state.asked.Add(1)
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	return connect.NewResponse(&cellv1.GetIndexResponse{Index: u.state.index, CellId: u.state.cell, ReplacedCells: u.state.replaced}), nil
}

// GetState implements CellServiceHandler.
func (u *upstream) GetState(context.Context, *connect.Request[cellv1.GetStateRequest]) (*connect.Response[cellv1.GetStateResponse], error) {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	return connect.NewResponse(&cellv1.GetStateResponse{State: u.state.whole()}), nil
}

// ReportSightings implements CellServiceHandler.
func (u *upstream) ReportSightings(_ context.Context, req *connect.Request[cellv1.ReportSightingsRequest]) (*connect.Response[cellv1.ReportSightingsResponse], error) {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	if u.forgetful {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("not now"))
	}
	u.uses = append(u.uses, req.Msg.GetUses()...)
	u.refusals = append(u.refusals, req.Msg.GetRefusals()...)
	return connect.NewResponse(&cellv1.ReportSightingsResponse{}), nil
}

// ReportReadings implements CellServiceHandler.
func (u *upstream) ReportReadings(_ context.Context, req *connect.Request[cellv1.ReportReadingsRequest]) (*connect.Response[cellv1.ReportReadingsResponse], error) {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	if u.forgetful {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("not now"))
	}
	u.readings = append(u.readings, req.Msg.GetReadings())
	return connect.NewResponse(&cellv1.ReportReadingsResponse{}), nil
}

// ConfirmWatch implements CellServiceHandler.
func (u *upstream) ConfirmWatch(_ context.Context, req *connect.Request[cellv1.ConfirmWatchRequest]) (*connect.Response[cellv1.ConfirmWatchResponse], error) {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	u.state.confirmed[req.Msg.GetProxyId()] = req.Msg
	return connect.NewResponse(&cellv1.ConfirmWatchResponse{}), nil
}

// GetNodeStatus implements CellServiceHandler.
func (u *upstream) GetNodeStatus(context.Context, *connect.Request[cellv1.GetNodeStatusRequest]) (*connect.Response[cellv1.GetNodeStatusResponse], error) {
	role := "follower"
	if u.leads.Load() {
		role = "leader"
	}
	res := connect.NewResponse(&cellv1.GetNodeStatusResponse{Status: &cellv1.NodeStatus{
		Groups: []*cellv1.GroupStatus{{Group: 2, Role: role, Term: 1 + u.term.Load()}},
	}})
	if !u.older.Load() {
		res.Msg.Ready = new(u.ready.Load())
	}
	res.Header().Set(headerCell, u.state.cell)
	return res, nil
}

// Subscribe tells one event and then nothing.
func (u *upstream) Subscribe(ctx context.Context, req *connect.Request[corvov1.SubscribeRequest], to *connect.ServerStream[corvov1.SubscribeEvent]) error {
	u.streams.Add(1)
	defer u.streams.Add(-1)
	id, _ := ctx.Value(identityKey{}).(identity.Identity)
	if err := to.Send(&corvov1.SubscribeEvent{Seq: req.Msg.GetLastEventId() + 1, Queue: id.TenantName}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// StreamLifecycle echoes request ids with the tenant's name.
func (u *upstream) StreamLifecycle(ctx context.Context, stream *connect.BidiStream[corvov1.LifecycleStreamRequest, corvov1.LifecycleStreamResponse]) error {
	u.streams.Add(1)
	defer u.streams.Add(-1)
	id, _ := ctx.Value(identityKey{}).(identity.Identity)
	if stream.RequestHeader().Get(identity.HeaderProxyStream) != "1" {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("NOT_LEADER"))
	}
	stream.ResponseTrailer().Set("Test-Trailer", "end")
	for {
		req, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if req.GetRequestId() == 99 { // The node ends the stream first.
			return nil
		}
		if err := stream.Send(&corvov1.LifecycleStreamResponse{RequestId: req.GetRequestId(), LeaderAddr: id.TenantName}); err != nil {
			return err
		}
	}
}

// GetServerInfo answers the namespace, as a unary RPC to test with.
func (u *upstream) GetServerInfo(ctx context.Context, _ *connect.Request[corvov1.GetServerInfoRequest]) (*connect.Response[corvov1.GetServerInfoResponse], error) {
	id, _ := ctx.Value(identityKey{}).(identity.Identity)
	return connect.NewResponse(&corvov1.GetServerInfoResponse{ServerVersion: id.Namespace}), nil
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return listenAt(t, "127.0.0.1:0")
}

func listenAt(t testing.TB, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// tenantRig is a tenant of the test with a key for all of it.
type tenantRig struct {
	name   string
	id     string
	key    apikey.Key
	record *cellv1.Key
}

// newTenant makes a tenant with the namespaces default and other, all names equal
// between tenants but its own.
// granted is what a key with these roles may do.
func granted(roles ...string) []*cellv1.Grant {
	return celladmin.GrantsOf(permission.Grants{{Permissions: celladmin.RoleSet(roles)}})
}

func newTenant(t testing.TB, name string, n byte) (tenantRig, []*cellv1.Change) {
	t.Helper()
	key, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		t.Fatal(err)
	}
	digest := key.Digest()
	r := tenantRig{name: name, id: "tn_" + strings.Repeat(string('A'+rune(n)), 26), key: key}
	r.record = &cellv1.Key{Id: key.ID(), TenantId: r.id, Digests: [][]byte{digest[:]}, Grants: granted("admin"), Name: "all"}
	return r, []*cellv1.Change{
		{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: r.id, Name: name, Limits: &cellv1.Limits{PayloadBytesMax: 1000}}}},
		{Change: &cellv1.Change_Namespace{Namespace: r.namespace("default")}},
		{Change: &cellv1.Change_Namespace{Namespace: r.namespace("other")}},
		keyChange(r.record),
	}
}

func (r tenantRig) namespace(name string) *cellv1.Namespace {
	id := "ns_" + strings.ToUpper(r.id[3:10]) + fmt.Sprintf("%019X", []byte(name))[:19]
	return &cellv1.Namespace{Id: id, TenantId: r.id, Name: name, Shard: 2}
}

func keyChange(k *cellv1.Key) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Key{Key: k}}
}

// rig is a proxy with its nodes and two tenants.
type rig struct {
	t          testing.TB
	proxy      *Proxy
	base       string
	state      *cellState
	up         []*upstream
	acme, beta tenantRig
	http1, h2c *http.Client
}

// rigOptions changes what startRig makes.
type rigOptions struct {
	nodes   int
	options func(*Options)
	// noWait returns before the proxy has a state.
	noWait bool
}

func startRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t}
	var a, b []*cellv1.Change
	r.acme, a = newTenant(t, "acme", 0)
	r.beta, b = newTenant(t, "beta", 1)
	r.state = newCellState(append(a, b...)...)
	opts := Options{Domain: testDomain, CellSecrets: cellsecret.Must(testSecret)}
	if testing.Verbose() {
		opts.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for i := range max(1, o.nodes) {
		u := startUpstream(t, fmt.Sprintf("n%d", i+1), r.state)
		r.up = append(r.up, u)
		r.state.apply(u.node())
		opts.Nodes = append(opts.Nodes, u.url)
	}
	if o.options != nil {
		o.options(&opts)
	}
	r.serve(opts)
	if !o.noWait {
		eventually.True(t, patience, "the proxy is ready", func() bool {
			for _, n := range *r.proxy.nodes.list.Load() {
				if !n.good() || n.id == "" {
					return false
				}
			}
			knows := r.proxy.time == nil || r.proxy.time.Known() // Until then nothing is refused for its time.
			return knows && r.proxy.Ready() && r.proxy.view.current().index == r.state.index
		})
	}
	return r
}

// serve starts a proxy that is shut down with the test.
func (r *rig) serve(opts Options) {
	r.t.Helper()
	p, err := New(opts)
	if err != nil {
		r.t.Fatal(err)
	}
	ln := listen(r.t)
	served := make(chan error, 1)
	go func() { served <- p.Serve(ln) }()
	r.proxy, r.base = p, "http://"+ln.Addr().String()
	r.http1 = newClient(r.t, false)
	r.h2c = newClient(r.t, true)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = p.Shutdown(ctx) // A test may leave streams open: then it is late.
		if err := <-served; err != nil {
			r.t.Error(err)
		}
	})
}

func newClient(t testing.TB, h2 bool) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	tr := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   string
	seen   seen
}

// ask sends one request; edit may change it before.
func (r *rig) ask(client *http.Client, method, path string, body string, edit func(*http.Request)) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if edit != nil {
		edit(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return readAnswer(r.t, resp)
}

// open begins to read something of acme's; the caller reads on.
func (r *rig) open(client *http.Client, path string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequest("GET", r.base+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	withKey(r.acme.key)(req)
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func readAnswer(t testing.TB, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(data)}
	if resp.StatusCode == http.StatusOK && bytes.HasPrefix(data, []byte(`{"Node"`)) {
		if err := json.Unmarshal(data, &a.seen); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func withKey(k apikey.Key) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-API-Key", k.Reveal()) }
}

// worker is an RPC client with key.
func (r *rig) worker(key apikey.Key, opts ...connect.ClientOption) corvov1connect.WorkerServiceClient {
	tr := newClient(r.t, true).Transport
	client := &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
		return tr.RoundTrip(req)
	})}
	return corvov1connect.NewWorkerServiceClient(client, r.base, opts...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// apply changes the state and waits until the proxy has it.
func (r *rig) apply(changes ...*cellv1.Change) {
	r.t.Helper()
	r.state.apply(changes...)
	eventually.True(r.t, patience, "the proxy follows", func() bool { return r.proxy.view.current().index == r.state.index })
}

func mustParse(t testing.TB, text string) apikey.Key {
	t.Helper()
	k, err := apikey.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// checksumOf is the published checksum, written a second time on purpose.
func checksumOf(text string) string {
	n := crc32.ChecksumIEEE([]byte(text))
	out := ""
	for range 6 {
		out = string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[n%62]) + out
		n /= 62
	}
	return out
}
