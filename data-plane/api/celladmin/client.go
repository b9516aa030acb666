package celladmin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

const (
	// TombstonesKept is how long a cell remembers what was deleted, by its own calendar. Longer
	// than CopyKept, so that a proxy that still uses an older state learns of each deletion;
	// and longer than the thirty days for which database backups are usually kept.
	TombstonesKept = 35 * 24 * time.Hour
	// CopyKept is how long a proxy uses a state that no node has confirmed since. After
	// that, a key in it may have been revoked and forgotten.
	CopyKept = 30 * 24 * time.Hour
)

const (
	// messageBytesMax bounds one answer; the largest is the whole state.
	messageBytesMax = 64 << 20
	// readTimeout is how long one node may take to send its state.
	readTimeout = 2 * time.Second
	retryPause  = 100 * time.Millisecond
	// silentFor is how long a call keeps trying while no node can be reached at
	// all. Waiting helps in an election, not with a wrong address.
	silentFor = 3 * time.Second
)

// Options of a Client.
type Options struct {
	// Name appears in the nodes' logs.
	Name string
	// TLS is the cell's mutual TLS; nil speaks h2c.
	TLS *tls.Config
	// Dial opens connections to nodes; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Clock is this machine's; tests replace it.
	Clock cellclock.Clock
	// Logger of what FollowClock finds; nil discards it.
	Logger *slog.Logger
}

// Client speaks to a cell. It is safe for concurrent use.
type Client struct {
	urls      []string
	nodes     []cellv1connect.CellServiceClient
	transport *http.Transport
	http      *http.Client // Signs every call.
	time      *cellclock.Time
	prover    *cellclock.Prover
	logger    *slog.Logger
	// follows is the cell that Control found: nodes of others refuse our calls. Nil: any.
	follows atomic.Pointer[Control]
}

// New makes a client of the cell whose nodes have these API addresses. It does not
// connect before the first call.
func New(secrets *cellsecret.Secrets, urls []string, o Options) (*Client, error) {
	if len(urls) == 0 {
		return nil, errors.New("no node address is set")
	}
	signer, err := identity.NewSigner(secrets)
	if err != nil {
		return nil, err
	}
	prover, err := cellclock.NewProver(secrets)
	if err != nil {
		return nil, err
	}
	c := &Client{transport: forward.NewTransport(forward.TransportOptions{TLS: o.TLS, Dial: o.Dial}), time: cellclock.NewTime(o.Clock), prover: prover, logger: o.Logger}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	hc := &http.Client{Transport: signing{next: c.transport, signer: signer, name: o.Name, time: c.time}}
	c.http = hc
	for _, u := range urls {
		u = strings.TrimRight(u, "/")
		if err := checkURL(u); err != nil {
			return nil, err
		}
		c.urls = append(c.urls, u)
		c.nodes = append(c.nodes, cellv1connect.NewCellServiceClient(hc, u, connect.WithReadMaxBytes(messageBytesMax)))
	}
	return c, nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Path != "" {
		return fmt.Errorf("node address %q isn't http://HOST:PORT or https://HOST:PORT", text)
	}
	return nil
}

// Close frees the connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// FollowClock makes signatures and Now use the time of most of the nodes that New was
// given, until ctx ends; wait blocks until it has stopped. Without it, and until most of
// those nodes have answered, this machine's clock counts.
func (c *Client) FollowClock(ctx context.Context) (wait func()) {
	nodes := make(map[string]string, len(c.urls))
	for _, u := range c.urls {
		nodes[u] = u
	}
	return c.time.Follow(ctx, cellclock.Options{
		Prover: c.prover, Client: &http.Client{Transport: c.transport}, Logger: c.logger, Nodes: func() map[string]string { return nodes },
	})
}

// Now is the cell's time, as far as FollowClock knows it. It waits a short time for
// the first answers.
func (c *Client) Now(ctx context.Context) time.Time {
	c.time.Settle(ctx)
	return c.time.Now()
}

// Clock is how this machine's clock compares with the cell's.
func (c *Client) Clock() cellclock.State { return c.time.State() }

// signing signs every call as a part of the cell.
type signing struct {
	next   http.RoundTripper
	signer *identity.Signer
	name   string
	time   *cellclock.Time
}

// RoundTrip implements http.RoundTripper.
func (s signing) RoundTrip(r *http.Request) (*http.Response, error) {
	s.time.Settle(r.Context()) // Otherwise the first calls of a client with a wrong clock would fail.
	out := r.Clone(r.Context())
	if err := s.signer.SignRequest(out, identity.CellPrincipal(s.name, s.time.Now())); err != nil {
		return nil, fmt.Errorf("sign call to %s: %w", r.URL.Host, err)
	}
	return s.next.RoundTrip(out)
}

// call tries node after node until one answers with more than "not now", or ctx
// ends. Every call of the cell's administration may be repeated: it says how things
// should be, not how they should change.
func call[Req, Res any](
	ctx context.Context, c *Client, in *Req,
	method func(cellv1connect.CellServiceClient, context.Context, *connect.Request[Req]) (*connect.Response[Res], error),
) (*Res, error) {
	lastReached := time.Now()
	for {
		var last error
		for i, node := range c.nodes {
			req := connect.NewRequest(in)
			if f := c.follows.Load(); f != nil {
				req.Header().Set(headerCell, f.CellID)
			}
			res, err := method(node, ctx, req)
			if err == nil {
				return res.Msg, nil
			}
			other := reasonOf(err) == "WRONG_CELL"
			if connect.CodeOf(err) != connect.CodeUnavailable && !other || ctx.Err() != nil {
				return nil, err
			}
			if !other && !forward.NeverSent(err) {
				lastReached = time.Now()
			}
			last = fmt.Errorf("node %s: %w", c.urls[i], err)
		}
		if time.Since(lastReached) > silentFor {
			return nil, last
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil, last
		}
	}
}

// Apply writes desired state, all or none, and returns the index it has there.
func (c *Client) Apply(ctx context.Context, changes ...*cellv1.Change) (index uint64, err error) {
	res, err := call(ctx, c, &cellv1.ApplyRequest{Changes: changes}, cellv1connect.CellServiceClient.Apply)
	return res.GetIndex(), err
}

const (
	// metaReason is the metadata of an error that names why the cell refused.
	metaReason = "Corvo-Reason"
	// headerCell is the cell that a call is for.
	headerCell = "Corvo-Cell"
)

func reasonOf(err error) string {
	var refused *connect.Error
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Meta().Get(metaReason)
}

// StaleError says that this generation of a source, or a newer one, was applied
// before. After a call with an unknown outcome it means that the call was done.
type StaleError struct {
	Source     string
	Generation uint64
	// Index is an index at which the cell's state has that generation; 0 if no node
	// gave one.
	Index uint64
	// Refusal is the cell's own answer.
	Refusal error
}

// Error implements error.
func (e *StaleError) Error() string {
	return fmt.Sprintf("generation %d of %q isn't new: %v", e.Generation, e.Source, e.Refusal)
}

// Unwrap gives the cell's answer.
func (e *StaleError) Unwrap() error { return e.Refusal }

// ApplyAs writes desired state, all or none, as one generation of a source: the cell
// takes generations of a source only upwards, so that a late writer cannot undo a
// newer write; it gets a *StaleError. Sources are distinguished by their exact text,
// for ever: use one for each resource, not for each call.
func (c *Client) ApplyAs(ctx context.Context, source string, generation uint64, changes ...*cellv1.Change) (index uint64, err error) {
	return c.ApplyFor(ctx, Writer{Source: source, Generation: generation}, changes...)
}

// Writer is who writes desired state, and the generation of the write.
type Writer struct {
	Source     string
	Generation uint64
	// Incarnation of the control plane's database, and the one that it replaces.
	Incarnation, Replaces string
}

// ApplyFor is ApplyAs for a control plane: the cell also refuses an incarnation of the
// database other than its current one.
func (c *Client) ApplyFor(ctx context.Context, w Writer, changes ...*cellv1.Change) (index uint64, err error) {
	if w.Source == "" {
		return 0, errors.New("apply desired state: a source must have a name")
	}
	res, err := call(ctx, c, &cellv1.ApplyRequest{
		Changes: changes, Source: w.Source, Generation: w.Generation, Incarnation: w.Incarnation, ReplacesIncarnation: w.Replaces,
	}, cellv1connect.CellServiceClient.Apply)
	if reasonOf(err) == "STALE_GENERATION" {
		stale := &StaleError{Source: w.Source, Generation: w.Generation, Refusal: err}
		if now, err := c.Index(ctx); err == nil {
			stale.Index = now
		}
		return 0, stale
	}
	return res.GetIndex(), err
}

// Control is the control plane that writes a cell's state.
type Control struct {
	Incarnation string // Of its database; empty: none yet.
	Generation  uint64 // The highest that was written.
	// Forgotten is the highest generation of a deletion that the cell has forgotten.
	Forgotten uint64
	// CellID is the cell's id, and Replaced those that it had before it was recovered from
	// one folder, the newest last: it may lack what it had acknowledged under them.
	CellID   string
	Replaced []string
}

// Control asks which control plane writes the cell's state. All nodes are asked, because some
// may be of a cell that was replaced; from then on calls go to the newest cell only.
func (c *Client) Control(ctx context.Context) (Control, error) {
	found, err := c.newestControl(ctx)
	if err != nil {
		return found, err
	}
	if f := c.follows.Load(); found.CellID != "" && (f == nil || f.CellID != found.CellID && !slices.Contains(f.Replaced, found.CellID)) {
		c.follows.Store(&found)
	}
	return found, nil
}

func (c *Client) newestControl(ctx context.Context) (Control, error) {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answers := make([]*cellv1.GetIndexResponse, len(c.nodes))
	var asked sync.WaitGroup
	for i, node := range c.nodes {
		asked.Go(func() {
			if res, err := node.GetIndex(limited, connect.NewRequest(&cellv1.GetIndexRequest{})); err == nil {
				answers[i] = res.Msg
			}
		})
	}
	asked.Wait()
	var newest *cellv1.GetIndexResponse
	for _, a := range answers {
		if a != nil && (newest == nil || slices.Contains(a.GetReplacedCells(), newest.GetCellId())) {
			newest = a
		}
	}
	if newest == nil { // Perhaps there is no leader at the moment: it is waited for.
		var err error
		if newest, err = call(ctx, c, &cellv1.GetIndexRequest{}, cellv1connect.CellServiceClient.GetIndex); err != nil {
			return Control{}, err
		}
	}
	return Control{
		Incarnation: newest.GetIncarnation(), Generation: newest.GetGeneration(), Forgotten: newest.GetForgottenGeneration(),
		CellID: newest.GetCellId(), Replaced: newest.GetReplacedCells(),
	}, nil
}

// Index asks the cell's leader for the index of the newest state.
func (c *Client) Index(ctx context.Context) (uint64, error) {
	res, err := call(ctx, c, &cellv1.GetIndexRequest{}, cellv1connect.CellServiceClient.GetIndex)
	return res.GetIndex(), err
}

// State is the newest state that any node has. A node of a cell that was replaced has none.
func (c *Client) State(ctx context.Context) (*cellv1.State, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	states := make([]*cellv1.State, len(c.nodes))
	errs := make([]error, len(c.nodes))
	var asked sync.WaitGroup
	for i, node := range c.nodes {
		asked.Go(func() {
			res, err := node.GetState(ctx, connect.NewRequest(&cellv1.GetStateRequest{}))
			if err != nil {
				errs[i] = err
				return
			}
			states[i] = res.Msg.GetState()
		})
	}
	asked.Wait()
	var newest *cellv1.State
	for _, s := range states {
		if s != nil && (newest == nil || newer(s, newest)) {
			newest = s
		}
	}
	if newest == nil {
		return nil, errors.Join(errs...)
	}
	return newest, nil
}

func newer(s, than *cellv1.State) bool {
	if s.GetCellId() != than.GetCellId() {
		return slices.Contains(s.GetReplacedCells(), than.GetCellId())
	}
	return s.GetIndex() > than.GetIndex()
}

// StateAt is a state at least as new as index.
func (c *Client) StateAt(ctx context.Context, index uint64) (*cellv1.State, error) {
	for {
		s, err := c.State(ctx)
		if err == nil && s.GetIndex() >= index {
			return s, nil
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the state at index %d: %w", index, ctx.Err()), err)
		}
	}
}

// Nodes lists the nodes of the cell and the status of their groups.
func (c *Client) Nodes(ctx context.Context) ([]*cellv1.NodeStatus, error) {
	res, err := call(ctx, c, &cellv1.ListNodesRequest{}, cellv1connect.CellServiceClient.ListNodes)
	return res.GetNodes(), err
}

// Status is Nodes with the version of the cell.
func (c *Client) Status(ctx context.Context) (*cellv1.ListNodesResponse, error) {
	return call(ctx, c, &cellv1.ListNodesRequest{}, cellv1connect.CellServiceClient.ListNodes)
}

// EachNode is what each node that New was given says of itself. Those that do not answer are left
// out. Nodes asks one node, which knows of another only what it hears from it.
func (c *Client) EachNode(ctx context.Context) []*cellv1.NodeStatus {
	said := make([]*cellv1.NodeStatus, len(c.nodes))
	var asked sync.WaitGroup
	for i, node := range c.nodes {
		asked.Go(func() {
			if res, err := node.GetNodeStatus(ctx, connect.NewRequest(&cellv1.GetNodeStatusRequest{})); err == nil {
				said[i] = res.Msg.GetStatus()
			}
		})
	}
	asked.Wait()
	return slices.DeleteFunc(said, func(s *cellv1.NodeStatus) bool { return s == nil })
}

// RaiseVersion switches the cell to a newer version, 0 for the newest that every node
// speaks, and returns the version it has then. There is no way back.
func (c *Client) RaiseVersion(ctx context.Context, to uint32) (version uint32, raised bool, err error) {
	res, err := call(ctx, c, &cellv1.RaiseVersionRequest{Version: to}, cellv1connect.CellServiceClient.RaiseVersion)
	return res.GetVersion(), res.GetRaised(), err
}

// AddNode adds a node and returns when it votes in every group; added is false if
// it did before.
func (c *Client) AddNode(ctx context.Context, n *cellv1.Node) (added bool, err error) {
	res, err := call(ctx, c, &cellv1.AddNodeRequest{Node: n}, cellv1connect.CellServiceClient.AddNode)
	return res.GetAdded(), err
}

// RemoveNode removes a node from every group.
func (c *Client) RemoveNode(ctx context.Context, id string) error {
	_, err := call(ctx, c, &cellv1.RemoveNodeRequest{NodeId: id}, cellv1connect.CellServiceClient.RemoveNode)
	return err
}

// Transfer moves the leadership of a group to a node; empty lets the cell choose.
func (c *Client) Transfer(ctx context.Context, group uint32, toNode string) error {
	_, err := call(ctx, c, &cellv1.TransferLeadershipRequest{Group: group, ToNodeId: toNode}, cellv1connect.CellServiceClient.TransferLeadership)
	return err
}

// Audit lists the administrative acts on a shard's queues and jobs after a number,
// oldest first. The caller must have stored those up to after: the shard drops them
// when they are old.
func (c *Client) Audit(ctx context.Context, group uint32, after uint64) ([]*cellv1.AuditEvent, error) {
	res, err := call(ctx, c, &cellv1.ListAuditRequest{Group: group, After: after}, cellv1connect.CellServiceClient.ListAudit)
	return res.GetEvents(), err
}
