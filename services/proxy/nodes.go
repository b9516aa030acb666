package proxy

import (
	"context"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	// pollEvery and pollTimeout bound how long a node that stopped serving without
	// closing its connections is still given work.
	pollEvery   = 500 * time.Millisecond
	pollTimeout = time.Second
	// freshPoll is how recent a good answer must be to open a stream without asking.
	freshPoll = 2 * pollEvery

	// headerLeaderNode is how a node may say which node leads the namespace's
	// shard. A hint only.
	headerLeaderNode = "X-Corvo-Leader-Node"
)

// node is one data-plane node as the proxy sees it.
type node struct {
	id   string // Empty for a seed the state does not know.
	base *url.URL
	// ready is the last answer of /readyz.
	ready atomic.Bool
	// suspect is set by an error of a request and cleared by a good poll. It only
	// changes the order of choice: a client can cause errors, too.
	suspect atomic.Bool
	// lastOK is when the node last answered, in Unix nanoseconds.
	lastOK atomic.Int64
	stop   context.CancelFunc
}

// nodes is the set of nodes and their health.
type nodes struct {
	client *http.Client
	seeds  []*url.URL
	log    *slog.Logger
	now    func() time.Time

	// list is replaced whole; order is by base URL.
	list atomic.Pointer[[]*node]
	// leaders maps a shard to the id of the node last known to lead it.
	leaders sync.Map

	mu sync.Mutex // Serialises reconcile.
	// pollers are waited for by the proxy's Shutdown.
	pollers sync.WaitGroup
}

func newNodes(transport http.RoundTripper, seeds []*url.URL, log *slog.Logger, now func() time.Time) *nodes {
	s := &nodes{client: &http.Client{Transport: transport}, seeds: seeds, log: log, now: now}
	s.list.Store(&[]*node{})
	return s
}

// reconcile follows the nodes of the state. Seeds stay: they are the way back
// when every address in an old state is wrong.
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
			s.log.Warn("node has no usable address", "node", k.GetId(), "api_url", k.GetApiUrl(), "err", err)
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
	n := &node{id: id, base: base, stop: cancel}
	s.pollers.Go(func() { s.poll(ctx, n) })
	return n
}

// poll asks a node for its readiness until ctx ends.
func (s *nodes) poll(ctx context.Context, n *node) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		was := n.ready.Load()
		now := s.probe(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if was != now {
			s.log.Info("node changed", "node", n.id, "url", n.base.String(), "ready", now)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe asks once and records the answer.
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
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // Only so that the stream ends well.
	_ = resp.Body.Close()
	ok := resp.StatusCode == http.StatusOK
	n.lastOK.Store(s.now().UnixNano())
	n.suspect.Store(!ok)
	n.ready.Store(ok)
	return ok
}

// reachable reports whether n answers, asking it if its last answer is not recent.
func (s *nodes) reachable(ctx context.Context, n *node) bool {
	if n.good() && s.now().Sub(time.Unix(0, n.lastOK.Load())) < freshPoll {
		return true
	}
	s.probe(ctx, n)
	return s.now().Sub(time.Unix(0, n.lastOK.Load())) < freshPoll
}

// lost takes a node out of the first choice until it answers a poll again.
func (s *nodes) lost(n *node, err error) {
	if !n.suspect.Swap(true) {
		s.log.Warn("node lost", "node", n.id, "url", n.base.String(), "err", err)
	}
}

func (n *node) good() bool { return n.ready.Load() && !n.suspect.Load() }

// candidates are the nodes to try for a namespace: the leader if known, then
// ready ones beginning at one that the namespace always begins at, then the rest,
// which may be better than their last poll.
func (s *nodes) candidates(shard uint32, namespaceID string) []*node {
	list := *s.list.Load()
	out := make([]*node, 0, len(list))
	if len(list) == 0 {
		return out
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespaceID)) // Never fails.
	first := int(h.Sum32() % uint32(len(list)))
	leader, _ := s.leaders.Load(shard)
	for _, want := range [...]func(*node) bool{
		func(n *node) bool { return n.good() && n.id != "" && n.id == leader },
		(*node).good,
		func(*node) bool { return true },
	} {
		for i := range list {
			n := list[(first+i)%len(list)]
			if want(n) && !contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

func contains(list []*node, n *node) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}

// learn takes a node's hint about who leads shard.
func (s *nodes) learn(shard uint32, leader string) {
	if shard == 0 || leader == "" {
		return
	}
	if cur, ok := s.leaders.Load(shard); !ok || cur != leader {
		s.leaders.Store(shard, leader)
	}
}

func (s *nodes) anyReady() bool {
	for _, n := range *s.list.Load() {
		if n.ready.Load() {
			return true
		}
	}
	return false
}

// bases are the addresses to watch, ready ones first.
func (s *nodes) bases() []string {
	var ready, rest []string
	for _, n := range *s.list.Load() {
		base := strings.TrimSuffix(n.base.String(), "/")
		if n.ready.Load() {
			ready = append(ready, base)
		} else {
			rest = append(rest, base)
		}
	}
	return append(ready, rest...)
}
