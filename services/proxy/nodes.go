package proxy

import (
	"context"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

const (
	// pollEvery and pollTimeout bound how long a node that stopped serving without
	// closing its connections is still given work.
	pollEvery   = 500 * time.Millisecond
	pollTimeout = time.Second
	// quietPoll is how often a good node is asked once nobody has called for quietAfter, nor
	// is any call under way, as a stream of a worker is. The next call has all nodes asked at
	// once. It leaves a slow node time to answer: answersFor.
	quietPoll  = 1500 * time.Millisecond
	quietAfter = 10 * time.Second
	// freshPoll is how recent a good answer must be to open a stream without asking.
	freshPoll = 2 * pollEvery
	// answersFor is how long ago the last answer of any node may be before the proxy
	// itself is not ready.
	answersFor = 3 * time.Second
)

// node is one data-plane node as the proxy sees it.
type node struct {
	id   string // Empty for a seed the state does not know.
	base *url.URL
	// ready is what it last said of itself.
	ready atomic.Bool
	// answers is whether the last poll got any answer, and no request has failed
	// since. It only changes the order of choice: a client can cause errors, too.
	answers atomic.Bool
	// lastAnswer is when a poll last got an answer, in Unix nanoseconds.
	lastAnswer atomic.Int64
	// cell is the cell that it last said it belongs to; empty if it did not say.
	cell  atomic.Pointer[string]
	seen  otherCell // Belongs to the poller.
	admin cellv1connect.CellServiceClient
	stop  context.CancelFunc
	// soon has it asked before its time.
	soon chan struct{}
}

// otherCell is a node's cell and ours, when they differ.
type otherCell struct{ theirs, ours string }

// claim is a node that says it leads a group in a term.
type claim struct {
	node *node
	term uint64
}

// nodes is the set of nodes and their health.
type nodes struct {
	client *http.Client
	// cell signs calls of cell administration.
	cell  *http.Client
	seeds []*url.URL
	log   *slog.Logger
	now   func() time.Time
	// ours is the cell that the state is of, or empty; met looks at the state of another.
	ours func() string
	met  func(ctx context.Context, n *node) (looked bool)
	// silent is called after each poll while some node does not answer.
	silent func()
	// calling reports whether any call is under way.
	calling func() bool

	// list is replaced whole; order is by base URL.
	list atomic.Pointer[[]*node]
	// leaders maps a shard to the claim of the node last known to lead it. Only a
	// shortcut: other nodes carry a request on to the leader. Written under mu.
	leaders sync.Map

	// began is a fixed point of the monotonic clock, and called how long after it somebody
	// called, to a second.
	began  time.Time
	called atomic.Int64

	mu sync.Mutex // Serialises reconcile, takeClaims and forgetLeaders.
	// pollers are waited for by the proxy's Shutdown.
	pollers sync.WaitGroup
}

func newNodes(transport http.RoundTripper, cell *http.Client, seeds []*url.URL, log *slog.Logger, now func() time.Time) *nodes {
	s := &nodes{client: &http.Client{Transport: transport}, cell: cell, seeds: seeds, log: log, now: now, ours: func() string { return "" }, met: func(context.Context, *node) bool { return true }, silent: func() {}, calling: func() bool { return false }, began: time.Now()}
	s.list.Store(&[]*node{})
	return s
}

// reconcile follows the nodes of the state. Seeds stay: they are the way back when
// all addresses in an old state are wrong.
func (s *nodes) reconcile(ctx context.Context, known []*cellv1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	old := map[string]*node{}
	for _, n := range *s.list.Load() {
		old[n.id+" "+n.base.String()] = n
	}
	var next []*node
	seen := map[string]bool{}
	take := func(id string, base *url.URL) {
		if seen[base.String()] {
			return
		}
		seen[base.String()] = true
		key := id + " " + base.String()
		n := old[key]
		if n == nil {
			n = s.start(ctx, id, base)
		}
		delete(old, key)
		next = append(next, n)
	}
	for _, k := range known {
		base, err := parseNodeURL(k.GetApiUrl())
		if err != nil {
			s.log.Warn("a node has no valid address", "node", k.GetId(), "api_url", k.GetApiUrl(), "err", err)
			continue
		}
		take(k.GetId(), base)
	}
	for _, base := range s.seeds {
		take("", base)
	}
	s.list.Store(&next)
	for _, n := range old {
		n.stop()
	}
}

func (s *nodes) start(ctx context.Context, id string, base *url.URL) *node {
	ctx, cancel := context.WithCancel(ctx)
	n := &node{id: id, base: base, admin: cellv1connect.NewCellServiceClient(s.cell, base.String()), stop: cancel, soon: make(chan struct{}, 1)}
	s.pollers.Go(func() { s.poll(ctx, n) })
	return n
}

// poll asks a node how it is until ctx ends.
func (s *nodes) poll(ctx context.Context, n *node) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-n.soon:
		}
		next.Reset(s.pause(n)) // From here: a slow answer doesn't delay the next question.
		was := n.ready.Load()
		now := s.look(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if slices.ContainsFunc(*s.list.Load(), func(n *node) bool { return !n.answers.Load() }) {
			s.silent()
		}
		if was != now {
			s.log.Info("node changed", "node", n.id, "url", n.base.String(), "ready", now)
		}
	}
}

// pause is how long a node is not asked.
func (s *nodes) pause(n *node) time.Duration {
	if n.good() && s.quietFor() > quietAfter && !s.calling() {
		return quietPoll
	}
	return pollEvery
}

// quietFor is for how long nobody has called.
func (s *nodes) quietFor() time.Duration {
	return time.Since(s.began) - time.Duration(s.called.Load())
}

// callCame ends a quiet time: what was last heard of the nodes may be older than calls
// should go by.
func (s *nodes) callCame() {
	quiet := s.quietFor()
	if quiet < time.Second { // Not every call has something to write.
		return
	}
	s.called.Store(int64(time.Since(s.began)))
	if quiet <= quietAfter {
		return
	}
	for _, n := range *s.list.Load() {
		select {
		case n.soon <- struct{}{}:
		default: // It is about to be asked.
		}
	}
}

// look asks a node whether it is ready, and which groups it leads, with one call if the node is not
// an older one.
func (s *nodes) look(ctx context.Context, n *node) (ready bool) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	resp, err := n.status(ctx)
	if err != nil {
		s.log.Debug("can't get the status of a node", "node", n.id, "err", err)
		return s.probe(ctx, n) // It may answer all the same, for instance that it waits for a cell.
	}
	if ready = resp.Msg.GetReady(); resp.Msg.Ready == nil {
		ready = s.probe(ctx, n)
	} else {
		s.answered(n, ready)
	}
	if ready {
		s.takeStatus(ctx, n, resp)
	}
	return ready
}

// status leaves time to ask in the other way.
func (n *node) status(ctx context.Context) (*connect.Response[cellv1.GetNodeStatusResponse], error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout/2)
	defer cancel()
	return n.admin.GetNodeStatus(ctx, connect.NewRequest(&cellv1.GetNodeStatusRequest{}))
}

// answered records an answer of a node.
func (s *nodes) answered(n *node, ready bool) {
	n.lastAnswer.Store(s.now().UnixNano())
	n.ready.Store(ready)
	n.answers.Store(true)
}

// probe asks a node's /readyz, and records the answer.
func (s *nodes) probe(ctx context.Context, n *node) bool {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.base.JoinPath("/readyz").String(), nil)
	if err != nil {
		return false
	}
	resp, err := s.client.Do(req)
	if err != nil {
		n.ready.Store(false)
		n.answers.Store(false)
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // Only to end the stream in order.
	_ = resp.Body.Close()
	ok := resp.StatusCode == http.StatusOK
	s.answered(n, ok)
	return ok
}

// takeStatus learns which cell n is of, and which groups it leads.
func (s *nodes) takeStatus(ctx context.Context, n *node, resp *connect.Response[cellv1.GetNodeStatusResponse]) {
	cell := resp.Header().Get(headerCell)
	n.cell.Store(&cell)
	if pair := (otherCell{cell, s.ours()}); s.foreign(n) && n.seen != pair && s.met(ctx, n) {
		n.seen = pair
	}
	s.takeClaims(n, resp.Msg.GetStatus().GetGroups())
}

// takeClaims learns which groups n leads, if it is of our cell.
func (s *nodes) takeClaims(n *node, groups []*cellv1.GroupStatus) {
	s.mu.Lock() // No claim of a cell that was replaced comes after forgetLeaders.
	defer s.mu.Unlock()
	if s.foreign(n) {
		return
	}
	for _, g := range groups {
		old, _ := s.leaders.Load(g.GetGroup())
		was, _ := old.(claim)
		switch now := (claim{n, g.GetTerm()}); {
		case g.GetRole() == roleLeader && now != was && now.term >= was.term:
			s.leaders.Store(g.GetGroup(), now)
		case g.GetRole() != roleLeader && was.node == n:
			s.leaders.Delete(g.GetGroup())
		}
	}
}

// forgetLeaders is for a cell that replaced ours: its terms may be lower, and are in no order
// with those known.
func (s *nodes) forgetLeaders() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaders.Clear()
}

// headerCell is in every answer of a node's administration.
const headerCell = "Corvo-Cell"

// foreign reports whether a node said that it belongs to another cell: it is no node of ours.
func (s *nodes) foreign(n *node) bool {
	cell, ours := n.cell.Load(), s.ours()
	return cell != nil && *cell != "" && ours != "" && *cell != ours
}

const roleLeader = "leader"

// anyLeads reports whether some node that answers is known to lead a group.
func (s *nodes) anyLeads() (known bool) {
	s.leaders.Range(func(_, v any) bool {
		c, _ := v.(claim)
		known = c.node.good()
		return !known
	})
	return known
}

// reachable reports whether n answers, asking it if its last answer is not recent.
func (s *nodes) reachable(ctx context.Context, n *node) bool {
	if n.good() && s.now().Sub(time.Unix(0, n.lastAnswer.Load())) < freshPoll {
		return true
	}
	s.probe(ctx, n)
	return n.answers.Load()
}

// lost makes a node a later choice until it answers a poll again.
func (s *nodes) lost(n *node, err error) {
	if n.answers.Swap(false) {
		s.log.Warn("node lost", "node", n.id, "url", n.base.String(), "err", err)
	}
}

func (n *node) good() bool { return n.ready.Load() && n.answers.Load() }

// candidates are the nodes to try for a namespace: the leader if known, then ready
// ones, always starting at the same one for a namespace, then those that answer at
// all (without a leader none is ready), then the rest, which may be better than
// their last poll.
func (s *nodes) candidates(shard uint32, namespaceID string) []*node {
	s.callCame()
	list := *s.list.Load()
	out := make([]*node, 0, len(list))
	if len(list) == 0 {
		return out
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespaceID)) // Never fails.
	first := int(h.Sum32() % uint32(len(list)))
	leader := s.leader(shard)
	for _, want := range [...]func(*node) bool{
		func(n *node) bool { return n == leader.node && n.good() },
		(*node).good,
		func(n *node) bool { return n.answers.Load() },
		func(*node) bool { return true },
	} {
		for i := range list {
			n := list[(first+i)%len(list)]
			if want(n) && !slices.Contains(out, n) && !s.foreign(n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// leader is who is last known to lead a shard; its node is nil if nobody is.
func (s *nodes) leader(shard uint32) claim {
	known, _ := s.leaders.Load(shard)
	c, _ := known.(claim)
	return c
}

// anyAnswers reports whether some node answered a poll recently.
func (s *nodes) anyAnswers() bool {
	return slices.ContainsFunc(*s.list.Load(), func(n *node) bool { return s.now().Sub(time.Unix(0, n.lastAnswer.Load())) < answersFor })
}

// othersBetter reports whether the node at base is not ready while another is.
func (s *nodes) othersBetter(base string) bool {
	better := false
	for _, n := range *s.list.Load() {
		switch {
		case n.base.String() != base:
			better = better || n.good() && !s.foreign(n)
		case n.ready.Load():
			return false
		}
	}
	return better
}

// bases are the addresses to watch, ready ones first.
func (s *nodes) bases() []string {
	var ready, rest []string
	for _, n := range *s.list.Load() {
		base := n.base.String()
		if n.ready.Load() {
			ready = append(ready, base)
		} else {
			rest = append(rest, base)
		}
	}
	return append(ready, rest...)
}
