package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/e2e/history"
	"github.com/corvo-cloud/corvo/services/proxy"
)

const (
	raftPort, apiPort = ":7000", ":7001"
	proxyHost         = "10.0.1.1"
	proxyAddress      = proxyHost + ":8080"
	adminHost         = "10.0.2.1"
	tenantName        = "acme"
	startPatience     = 60 * time.Second
	closePatience     = 5 * time.Second
	lookPatience      = time.Second
)

// world is everything that is simulated.
type world struct {
	t       *testing.T
	seed    uint64
	net     *network
	secrets *cellsecret.Secrets
	temp    string
	admin   atomic.Pointer[celladmin.Client]
	// watched are all nodes that there are, those that are about to join or to leave, too.
	watched   atomic.Pointer[celladmin.Client]
	replicas  *history.Replicas
	bothSides atomic.Int64 // Looks in which two answered that did not hear each other.
	proxy     *proxy.Proxy
	began     time.Time
	clients   atomic.Int32 // Hosts of clients that there were.
	// wrongClocks is when a clock was wrong for the first time; 0 is never.
	wrongClocks atomic.Int64
	shards      int
	logBytes    uint64       // Of each node's logs; 0 is what they keep by default.
	heavy       bool         // The load of the first tenant.
	installs    atomic.Int64 // States that nodes took over whole.

	mu       sync.Mutex // Guards the rest.
	hosts    []*host
	breaches []string
}

// host is a machine: its disk, its clock and the node that runs on it, if any.
type host struct {
	w      *world
	number int
	id     string
	ip     string
	disk   *disk
	clock  *clock
	join   string // The API of a node that it joins by.
	runs   int

	holds   atomic.Int32 // Faults that keep it down.
	leaving atomic.Bool  // Its node is being removed.
	removed atomic.Bool
	// damaged: bits of its disk were changed. Its node may end itself, and is replaced.
	damaged atomic.Bool

	mu   sync.Mutex   // Guards the rest.
	now  *process     // Nil while it is down.
	next []*diskFault // What the next process meets.
}

// process is one run of a node.
type process struct {
	host  *host
	mount *mount
	dir   string
	node  atomic.Pointer[node.Node] // Nil while it starts.
	alive atomic.Bool
	// wronged: a fault was injected that may make the node end itself.
	wronged   atomic.Bool
	failed    atomic.Bool // A sync of its stores or a write of a log has.
	discarded atomic.Bool
	rng       *rand.Rand // Of what survives if it ends itself.
}

func newWorld(t *testing.T, seed uint64, nodes int, temp string) *world {
	w := &world{
		t: t, seed: seed, net: newNetwork(rand.New(rand.NewPCG(seed, 1))), secrets: cellsecret.Must([]byte("a secret of the simulated cell")),
		temp: temp, began: time.Now(), replicas: history.NewReplicas(),
	}
	for range nodes {
		w.addHost("")
	}
	return w
}

func (w *world) addHost(join string) *host {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.watched.Store(w.adminOf(w.hosts)) }()
	i := len(w.hosts) + 1
	h := &host{w: w, number: i, id: fmt.Sprintf("n%d", i), ip: fmt.Sprintf("10.0.0.%d", i), disk: newDisk(), clock: newClock(), join: join}
	w.hosts = append(w.hosts, h)
	return h
}

// all are all hosts there ever were.
func (w *world) all() []*host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hosts)
}

// members are the hosts whose nodes were not removed.
func (w *world) members() []*host {
	return slices.DeleteFunc(w.all(), func(h *host) bool { return h.gone() })
}

// supervise starts what is down and not held, as a service manager does.
func (w *world) supervise() {
	for {
		time.Sleep(500 * time.Millisecond)
		for _, h := range w.members() {
			if h.process() == nil && h.holds.Load() == 0 {
				h.start()
			}
		}
	}
}

func (w *world) say(format string, args ...any) {
	fmt.Printf("%9.3fs %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func (w *world) breach(format string, args ...any) {
	w.say(breachMark+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaches = append(w.breaches, fmt.Sprintf(format, args...))
}

// told are the breaches so far.
func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.breaches)
}

func (w *world) logger(name string) *slog.Logger {
	var shown slog.Handler = slog.DiscardHandler
	if os.Getenv("CORVO_TEST_LOG") != "" {
		shown = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	return slog.New(&installCounter{shown, &w.installs}).With("at", name)
}

// installCounter counts what the raft library says when a node took over a whole state.
type installCounter struct {
	slog.Handler
	count *atomic.Int64
}

// Enabled implements slog.Handler.
func (c *installCounter) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (c *installCounter) Handle(ctx context.Context, r slog.Record) error {
	if strings.EqualFold(r.Message, "installed remote snapshot") {
		c.count.Add(1)
	}
	if !c.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c *installCounter) WithAttrs(a []slog.Attr) slog.Handler {
	return &installCounter{c.Handler.WithAttrs(a), c.count}
}

// WithGroup implements slog.Handler.
func (c *installCounter) WithGroup(name string) slog.Handler {
	return &installCounter{c.Handler.WithGroup(name), c.count}
}

func (h *host) hold() { h.holds.Add(1) }

// meetNext has the next process of the host meet a fault.
func (h *host) meetNext(f *diskFault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = append(h.next, f)
}

// mend ends a fault, whether a process has met it yet or not.
func (h *host) mend(f *diskFault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = slices.DeleteFunc(h.next, func(o *diskFault) bool { return o == f })
	if h.now != nil {
		h.now.mount.remove(f)
	}
}

func (h *host) release()   { h.holds.Add(-1) }
func (h *host) gone() bool { return h.removed.Load() }

// leave says that the node may be told to end; remove takes its machine away.
func (h *host) leave() { h.leaving.Store(true) }
func (h *host) remove() {
	h.removed.Store(true)
	h.kill(h.process(), func() {})
}

func (h *host) peer() node.Peer {
	return node.Peer{ID: h.id, RaftAddress: h.ip + raftPort, APIURL: "http://" + h.ip + apiPort}
}

// start starts the host's node on the disk as it is.
func (h *host) start() {
	h.runs++
	p := &process{
		host: h, dir: filepath.Join(h.w.temp, fmt.Sprintf("%s-%d", h.id, h.runs)),
		rng: rand.New(rand.NewPCG(h.w.seed, uint64(h.number)<<32|uint64(h.runs))),
	}
	p.mount = h.disk.mount(p)
	p.alive.Store(true)
	h.mu.Lock()
	h.now = p
	for _, f := range h.next {
		p.meet(f)
	}
	h.next = nil
	h.mu.Unlock()
	api, raft := h.w.net.listen(h.ip+apiPort), h.w.net.listen(h.ip+raftPort)
	go p.run(api, raft)
}

// meet adds a fault to the process's disk.
func (p *process) meet(f *diskFault) {
	if f.fail != nil || f.unreadable > 0 || f.held != nil {
		p.wronged.Store(true)
	}
	p.mount.add(f)
}

const (
	// failLimit is how long a node may go on after a sync of its stores, or a write of a log, has failed (R6).
	failLimit = 10 * time.Second
	// stallLimit is how long a sync of the raft log may take of a node that goes on: after ten
	// seconds the watchdog ends it (R4), which looks now and then.
	stallLimit = 12 * time.Second
)

// hasFailed: a sync of the stores or a write of a log has failed, so the node must end itself.
func (p *process) hasFailed(step string) {
	if p.failed.CompareAndSwap(false, true) {
		time.AfterFunc(failLimit, func() {
			if p.alive.Load() {
				p.host.w.breach("%s goes on %s after a %s has failed (R6)", p.host.id, failLimit, step)
			}
		})
	}
}

// hasWaited: a write or a sync was held up, and the node is there all the same.
func (p *process) hasWaited(step string, took time.Duration) {
	if step == "raftlog sync log" && took > stallLimit {
		p.host.w.breach("%s waited %s for a %s, and goes on (R4)", p.host.id, took, step)
	}
}

func (p *process) run(api, raft net.Listener) {
	h := p.host
	cfg := node.Config{
		ID: h.id, Dir: p.dir, API: api, Raft: raft, Secrets: h.w.secrets, FS: p.mount, Clock: h.clock, Nap: time.Sleep, Join: h.join, Self: h.peer(),
		Dial: h.w.net.dialer(h.ip, p.alive.Load), Logger: h.w.logger(h.id), Fatal: p.fatal, LogBytesMax: h.w.logBytes, Shards: h.w.shards,
	}
	if h.join == "" {
		for _, other := range h.w.all() {
			if other.join == "" {
				cfg.Peers = append(cfg.Peers, other.peer())
			}
		}
	}
	n, err := node.Start(context.Background(), cfg)
	if err != nil {
		p.end(fmt.Errorf("start: %w", err))
		return
	}
	p.node.Store(n)
	if !p.alive.Load() {
		p.discard()
	}
}

// fatal ends the process as the real one does: whoever called it does not go on.
func (p *process) fatal(err error) {
	p.end(err)
	select {}
}

func (p *process) end(err error) {
	if !p.host.kill(p, func() { p.host.disk.crash(p.rng.IntN(101), p.rng) }) {
		return // It is dead already.
	}
	p.host.w.say("%s ends itself: %v", p.host.id, err)
	if p.host.damaged.Load() {
		p.host.hold() // Nobody starts it again.
		return
	}
	// The library may never forget a transfer that a lost term interrupted: only a restart helps (R5).
	stuck := strings.Contains(err.Error(), "a leadership transfer has not ended")
	switch {
	case strings.Contains(err.Error(), "applying an entry panicked"): // No fault of a disk explains that.
		p.host.w.breach("%s: %v", p.host.id, err)
	case !p.wronged.Load() && !p.host.leaving.Load() && !stuck:
		p.host.w.breach("%s ended itself without a fault of its disk: %v", p.host.id, err)
	}
}

// kill takes a process away in an instant: its connections are reset and its disk is as
// crash leaves it. It reports whether the process was alive.
func (h *host) kill(p *process, crash func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now != p || p == nil {
		return false
	}
	crash()
	h.now = nil
	p.alive.Store(false)
	p.mount.die()
	h.w.net.vanish(h.ip)
	go p.discard()
	return true
}

// discard frees what the dead process holds. It is called by whoever killed it, and by its
// start, which may end at the same moment.
func (p *process) discard() {
	if n := p.node.Load(); n != nil && p.discarded.CompareAndSwap(false, true) {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		_ = n.Shutdown(ctx, true) // It runs on what was its disk, cut off from everybody.
	}
}

func (h *host) process() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// vanish frees a host's addresses and resets its connections.
func (n *network) vanish(ip string) {
	n.mu.Lock()
	var gone []*listener
	for a, l := range n.listeners {
		if host, _, _ := net.SplitHostPort(a); host == ip {
			gone = append(gone, l)
		}
	}
	n.mu.Unlock()
	for _, l := range gone {
		_ = l.Close()
	}
	n.reset(ip, func() bool { return true })
}

// staying are the hosts whose nodes are not about to be removed.
func (w *world) staying() []*host {
	return slices.DeleteFunc(w.members(), func(h *host) bool { return h.leaving.Load() })
}

func urls(hosts []*host) (out []string) {
	for _, h := range hosts {
		out = append(out, h.peer().APIURL)
	}
	return out
}

// begin starts and forms the cell, its tenant, and the proxy.
func (w *world) begin() error {
	for _, h := range w.all() {
		h.start()
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if _, err := celladmin.Form(ctx, w.secrets, urls(w.staying()), w.adminOptions()); err != nil {
		return fmt.Errorf("form the cell: %w", err)
	}
	go w.supervise()
	w.connectAdmin()
	return w.startProxy()
}

// tenant is one of those whose loads run.
type tenant struct{ name, key string }

func (t tenant) url() string { return "http://" + proxyAddress + "/t/" + t.name }

func (w *world) createTenant(name string) (tenant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	t := tenant{name: name}
	if err := w.retry(ctx, "create the tenant", func() error {
		_, err := w.admin.Load().CreateTenant(ctx, name, nil)
		return err
	}); err != nil {
		return t, err
	}
	return t, w.retry(ctx, "create a key", func() error {
		k, err := w.admin.Load().CreateKey(ctx, celladmin.NewKey{Tenant: name, Roles: []string{"admin"}, Kind: apikey.DataPlane})
		if err == nil {
			t.key = k.Reveal()
		}
		return err
	})
}

// clientHost is the address of a machine that nobody else has.
func (w *world) clientHost() string {
	n := w.clients.Add(1)
	return fmt.Sprintf("10.1.%d.%d", n/250, 1+n%250)
}

func (w *world) adminOptions() celladmin.Options {
	return celladmin.Options{Name: "simulation", Dial: w.net.dialer(adminHost, func() bool { return true })}
}

// connectAdmin makes the administration's client know the members.
func (w *world) connectAdmin() { w.admin.Store(w.adminOf(w.staying())) }

func (w *world) adminOf(hosts []*host) *celladmin.Client {
	c, err := celladmin.New(w.secrets, urls(hosts), w.adminOptions())
	if err != nil {
		panic(err)
	}
	return c
}

// votes is nil once a node votes in every group.
func (w *world) votes(id string) error { return history.Votes(w.each(), id) }

func (w *world) retry(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		}
	}
}

func (w *world) startProxy() error {
	p, err := proxy.New(proxy.Options{
		Name: "proxy", CellSecrets: w.secrets, Nodes: urls(w.staying()), Dial: w.net.dialer(proxyHost, func() bool { return true }), Logger: w.logger("proxy"),
	})
	if err != nil {
		return err
	}
	w.proxy = p
	ln := w.net.listen(proxyAddress)
	go func() { _ = p.Serve(ln) }()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	return w.retry(ctx, "wait for the proxy", func() error {
		if !p.Ready() {
			return errors.New("not ready")
		}
		return nil
	})
}

// transport is how a client on this host reaches the proxy.
func (w *world) transport(host string) *http.Transport {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext: w.net.dialer(host, func() bool { return true }), Protocols: &protocols, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// each is what every node says of itself, over links that only a pause cuts. Who does not answer is
// left out.
func (w *world) each() []*cellv1.NodeStatus {
	ctx, cancel := context.WithTimeout(context.Background(), lookPatience)
	defer cancel()
	return w.watched.Load().EachNode(ctx)
}
