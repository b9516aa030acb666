package up

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/corvo-cloud/corvo/control-plane/server"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/datadir"
	"github.com/corvo-cloud/corvo/services/ingress"
	"github.com/corvo-cloud/corvo/services/mailbox"
	"github.com/corvo-cloud/corvo/services/proxy"
)

const (
	// startTimeout is generous: elections on a busy machine, a long log to read.
	startTimeout = 60 * time.Second
	// stopTimeout leaves the stores time to close within the three seconds that a
	// Ctrl-C may take.
	stopTimeout = 2 * time.Second
	stopLatest  = 2900 * time.Millisecond
	readyPoll   = 20 * time.Millisecond
	// lateTimeout is how long the last nodes may take when most are ready.
	lateTimeout = 5 * time.Second
	// evenTimeout: one look of the cell and one transfer take under a second.
	evenTimeout = 5 * time.Second
	// oneProcess is the nodes' heartbeat and election timeout. They live and die together, so nobody
	// has to notice soon that one is gone, and heartbeats were half of what an idle cell did.
	oneProcess = 4 * time.Second
)

// ErrStuck says that something did not stop in time. Nothing that was acknowledged
// is lost by that.
var ErrStuck = errors.New("not everything stopped in time")

// ErrShape says that the number of nodes or shards is not the one of the data.
var ErrShape = errors.New("made with other --nodes or --shards")

// ErrCellSecret says that the file of the cell's secrets is damaged.
var ErrCellSecret = errors.New("the cell secret file is damaged")

// ErrMasterKeys says that the file of master keys is damaged. A new one would not open what
// the old one sealed.
var ErrMasterKeys = errors.New("the master key file is damaged")

// ErrIncomplete says that the data of a node is gone. With an empty directory under
// its old name the node would forget what it confirmed to the others.
var ErrIncomplete = errors.New("a node's data is missing")

// Config of a service in one process.
type Config struct {
	// Dir is the data directory.
	Dir string
	// Listener is the public listener; the service closes it.
	Listener net.Listener
	// PublicURL is where others reach the listener; empty: where this machine does.
	PublicURL string
	// TLS of the listener; nil serves clear text.
	TLS *tls.Config
	// Proxies in front of it whose X-Forwarded-For and X-Forwarded-Proto are believed.
	Proxies clientnet.Proxies
	// Domain is the one under which tenants are hosts.
	Domain string
	Nodes  int
	Shards int
	// SyncDelay and Heartbeat are the nodes'; a Heartbeat of 0 is 4 s (oneProcess).
	SyncDelay time.Duration
	Heartbeat time.Duration
	// Database of the control plane: sqlite:PATH or postgres://…; empty is SQLite in Dir.
	Database string
	// MailURL names a mail server, smtp://[user:password@]host:port; empty keeps mails in
	// the mailbox of this process.
	MailURL string
	// MailFrom is the sender of mails.
	MailFrom string
	// AllowPrivateIssuers lets tenants' identity providers be at private addresses, which
	// shows them what answers there.
	AllowPrivateIssuers bool
	// DNS is the server that is asked for the records of tenants' domains; empty: the
	// system's.
	DNS string
	// Payments are off without a key.
	Payments server.Payments
	// TestPayments are made here, with no money; Payments must be off.
	TestPayments bool
	// Console is the built console.
	Console fs.FS
	Version string
	Logger  *slog.Logger
}

// Info is what a user needs to know of a running service.
type Info struct {
	// TenantURL always resolves: http://host:port/t/demo.
	TenantURL string
	// BaseURL is the public address without a tenant.
	BaseURL string
	APIKey  string
	// Token manages the tenant: Terraform, the control API.
	Token string
	// Email is the address of the demo tenant's owner.
	Email string
	// SignInURL signs in the owner, once.
	SignInURL string
	// MailURL is the mailbox page, with its secret; empty if mails go elsewhere.
	MailURL string
	// PaymentsURL is where the test payments are, if there are any.
	PaymentsURL string
	// CredentialsFile keeps the keys over restarts.
	CredentialsFile string
	Dir             string
	Nodes           int
	// NodeURLs are the nodes' APIs, for `corvo-cloud cell` on this machine.
	NodeURLs []string
}

// Service is a service in one process that has its data directory.
type Service struct {
	cfg         Config
	dir         *datadir.Dir
	log         *slog.Logger
	base        string // The public address, as others reach it.
	here        string // The same, as this process reaches it.
	mailURL     string // Of the mailbox page.
	cellSecrets *cellsecret.Secrets
	masters     [][]byte // The control plane's, the one that seals first.
	nodes       []*node.Node
	peers       []node.Peer
	urls        []string // The peers' APIs.
	proxy       *proxy.Proxy
	mailbox     *mailbox.Mailbox   // Nil if mails go elsewhere.
	payments    *stripetest.Server // Nil without test payments.
	control     *server.Server
	failed      chan error // The end of a part that should not end; one place.

	// life ends the loops of control plane and mailbox, which loops waits for.
	life  context.Context
	end   context.CancelFunc
	loops sync.WaitGroup
}

// New claims the data directory; nothing runs before Run. Nobody else uses the
// directory when it returns without an error.
func New(cfg Config) (*Service, error) {
	dir, err := datadir.Claim(cfg.Dir, "up")
	if err != nil {
		return nil, errors.Join(err, cfg.Listener.Close())
	}
	s := &Service{cfg: cfg, dir: dir, log: cfg.Logger, failed: make(chan error, 1), here: localURL(cfg)}
	s.base = cmp.Or(cfg.PublicURL, s.here)
	s.life, s.end = context.WithCancel(context.Background())
	if err := errors.Join(s.checkShape(), s.checkComplete()); err != nil {
		return nil, errors.Join(err, cfg.Listener.Close(), dir.Release())
	}
	return s, nil
}

// Run serves until ctx ends and then stops within three seconds. ready is called
// once, when a job can go in.
func (s *Service) Run(ctx context.Context, ready func(Info) error) error {
	err := s.run(ctx, ready)
	return errors.Join(err, s.stop(), s.dir.Release())
}

// checkComplete refuses to start a cell once formed without the data of a node.
func (s *Service) checkComplete() error {
	if _, err := os.Stat(s.dir.Join(formedFile)); errors.Is(err, fs.ErrNotExist) {
		return nil // The first start did not get that far.
	}
	for i := range s.cfg.Nodes {
		log := s.dir.Join(nodeName(i), "raftlog")
		if _, err := os.Stat(log); err != nil {
			return fmt.Errorf("%w: %w", ErrIncomplete, err)
		}
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// checkShape refuses to start a cell in another shape than it was made in: that
// is a change of membership, and not a flag.
func (s *Service) checkShape() error {
	want := fmt.Sprintf("nodes %d shards %d\n", s.cfg.Nodes, s.cfg.Shards)
	got, err := keep(s.dir.Join(shapeFile), func() ([]byte, error) { return []byte(want), nil })
	if err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("data directory %s: %w: it was made with %s", s.dir.Path, ErrShape, strings.TrimSpace(string(got)))
	}
	return nil
}

func (s *Service) run(ctx context.Context, ready func(Info) error) error {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	info, err := s.start(starting)
	if ctx.Err() != nil {
		return nil // Told to stop before it was ready.
	}
	if err != nil {
		return err
	}
	if err := ready(info); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

func (s *Service) start(ctx context.Context) (Info, error) {
	creds, err := s.prepare(ctx)
	if err != nil {
		return Info{}, errors.Join(err, s.cfg.Listener.Close())
	}
	if err := s.startControl(ctx); err != nil {
		return Info{}, errors.Join(err, s.cfg.Listener.Close())
	}
	if err := s.startProxy(); err != nil {
		return Info{}, err
	}
	cell, err := s.settle(ctx)
	if err != nil {
		return Info{}, err
	}
	if err := s.ensureDemo(ctx, cell, creds); err != nil {
		return Info{}, err
	}
	if err := s.openShop(ctx); err != nil {
		return Info{}, err
	}
	info := Info{
		BaseURL: s.base, TenantURL: s.tenantURL(creds.Tenant), APIKey: creds.APIKey, Token: creds.Token,
		CredentialsFile: s.dir.Join(credentialsFile), Dir: s.dir.Path, Nodes: s.cfg.Nodes, Email: demoEmail,
		NodeURLs: s.urls,
	}
	info.MailURL = s.mailURL
	if s.payments != nil {
		info.PaymentsURL = s.payments.URL
	}
	if err := s.waitServing(ctx, info); err != nil {
		return Info{}, err
	}
	if info.SignInURL, err = s.control.SignInLink(ctx, demoEmail); err != nil {
		return Info{}, fmt.Errorf("make a sign-in link: %w", err)
	}
	return info, nil
}

// prepare starts everything that the control plane needs.
func (s *Service) prepare(ctx context.Context) (credentials, error) {
	if err := s.secrets(); err != nil {
		return credentials{}, err
	}
	creds, err := s.credentials()
	if err != nil {
		return creds, err
	}
	if err := s.startNodes(ctx); err != nil {
		return creds, err
	}
	if err := s.startMailbox(); err != nil {
		return creds, err
	}
	return creds, s.startPayments()
}

// startNodes starts all nodes at once: none is ready without another.
func (s *Service) startNodes(ready context.Context) error {
	configs, err := s.nodeConfigs()
	if err != nil {
		return err
	}
	s.nodes = make([]*node.Node, len(configs))
	starting, ctx := errgroup.WithContext(ready)
	if err := s.found(configs); err != nil {
		return errors.Join(err, closeListeners(configs))
	}
	for i, cfg := range configs {
		starting.Go(func() error {
			n, err := node.Start(ctx, cfg)
			if errors.Is(err, node.ErrWiped) {
				return fmt.Errorf("%w: %w", ErrIncomplete, err)
			}
			if err != nil {
				return fmt.Errorf("start node %s: %w", cfg.ID, err)
			}
			s.nodes[i] = n
			return nil
		})
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	for _, n := range s.nodes {
		s.watch(n)
	}
	one, err := s.waitNodes(ready)
	if err != nil {
		return err
	}
	return s.waitEven(ready, one)
}

// waitNodes waits for all nodes, but not for long once most are ready, which is all that the
// service needs: one whose data is damaged must not keep the others down, and it can be repaired
// only while they run. It returns one that is ready.
func (s *Service) waitNodes(ctx context.Context) (one *node.Node, err error) {
	var mostSince time.Time
	for {
		ready, late := s.readyNodes(ctx)
		switch {
		case len(late) == 0:
			return ready[0], nil
		case len(ready) <= len(late):
			mostSince = time.Time{}
		case mostSince.IsZero():
			mostSince = time.Now()
		case time.Since(mostSince) > lateTimeout:
			for _, n := range late {
				s.log.Error("a node isn't ready; the others serve", "node", n.ID(), "why", n.NotReady(ctx))
			}
			return ready[0], nil
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for node %s: %w: %s", late[0].ID(), ctx.Err(), late[0].NotReady(ctx))
		}
	}
}

func (s *Service) readyNodes(ctx context.Context) (ready, late []*node.Node) {
	for _, n := range s.nodes {
		if n.NotReady(ctx) == "" {
			ready = append(ready, n)
		} else {
			late = append(late, n)
		}
	}
	return ready, late
}

// waitEven waits for the leaders to be where they stay, as one of the nodes sees it. It serves
// in any case: an uneven cell works, but the first callers see a leader move.
func (s *Service) waitEven(ready context.Context, one *node.Node) error {
	ctx, cancel := context.WithTimeout(ready, evenTimeout)
	defer cancel()
	if err := one.Even(ctx); err != nil && ready.Err() == nil {
		s.log.Warn("the leaders of the shards are not evenly spread yet")
	}
	return ready.Err()
}

// found has the nodes form their cell, once: on the first start of a new data
// directory, or of one whose first start did not get to where all nodes had the cell's
// id on disk. From then on a folder without it was emptied.
func (s *Service) found(configs []node.Config) error {
	id, err := keep(s.dir.Join(cellFile), func() ([]byte, error) { return []byte(node.NewCellID() + "\n"), nil })
	if err != nil {
		return err
	}
	fresh := false
	if _, err := os.Stat(s.dir.Join(formedFile)); errors.Is(err, fs.ErrNotExist) {
		fresh = true
	} else if err != nil {
		return fmt.Errorf("look for %s: %w", formedFile, err)
	}
	if !fresh {
		for i := range configs {
			configs[i].Formation = &node.Formation{CellID: strings.TrimSpace(string(id))}
		}
		return nil
	}
	all := gathering{missing: len(configs), done: make(chan struct{})}
	for i := range configs {
		configs[i].Formation = &node.Formation{CellID: strings.TrimSpace(string(id)), Fresh: true, Durable: func(ctx context.Context) error {
			return all.wait(ctx, func() error {
				_, err := keep(s.dir.Join(formedFile), func() ([]byte, error) { return []byte("yes\n"), nil })
				return err
			})
		}}
	}
	return nil
}

// gathering waits for all nodes; the last to come does what must happen before any
// goes on.
type gathering struct {
	mu      sync.Mutex // Guards the rest.
	missing int
	err     error
	done    chan struct{} // Closed when none is missing.
}

func (g *gathering) wait(ctx context.Context, last func() error) error {
	g.mu.Lock()
	g.missing--
	if g.missing == 0 {
		g.err = last()
		close(g.done)
	}
	g.mu.Unlock()
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch ends the service with a node that cannot go on.
func (s *Service) watch(n *node.Node) {
	go func() { // Ends with the node, or with the service.
		select {
		case err := <-n.Ended():
			s.fail(err)
		case <-s.life.Done():
		}
	}()
}

func (s *Service) nodeConfigs() (_ []node.Config, err error) {
	configs := make([]node.Config, s.cfg.Nodes)
	defer func() {
		if err != nil {
			err = errors.Join(err, closeListeners(configs))
		}
	}()
	for i := range configs {
		c := &configs[i]
		c.ID = nodeName(i)
		if c.API, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for node %s: %w", c.ID, err)
		}
		if c.Raft, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen for node %s: %w", c.ID, err)
		}
		p := node.Peer{ID: c.ID, RaftAddress: c.Raft.Addr().String(), APIURL: "http://" + c.API.Addr().String()}
		s.peers, s.urls = append(s.peers, p), append(s.urls, p.APIURL)
	}
	for i := range configs {
		c := &configs[i]
		c.Dir, c.Peers, c.Secrets, c.Logger = s.dir.Join(c.ID), s.peers, s.cellSecrets, s.log
		c.Shards, c.SyncDelay, c.Heartbeat, c.Version = s.cfg.Shards, s.cfg.SyncDelay, cmp.Or(s.cfg.Heartbeat, oneProcess), s.cfg.Version
		c.SharesClock = true // As proxy and control plane do.
	}
	return configs, nil
}

func closeListeners(configs []node.Config) error {
	var errs []error
	for _, c := range configs {
		for _, l := range []net.Listener{c.API, c.Raft} {
			if l != nil {
				errs = append(errs, l.Close())
			}
		}
	}
	return errors.Join(errs...)
}

// front puts console and control API on the proxy's port.
func (s *Service) front(data http.Handler) http.Handler {
	o := ingress.Options{Domain: s.cfg.Domain, Control: s.control.Handler(), Proxies: s.cfg.Proxies}
	return ingress.New(data, o)
}

func (s *Service) startProxy() error {
	p, err := proxy.New(proxy.Options{
		Domain: s.cfg.Domain, CellSecrets: s.cellSecrets, Nodes: s.urls, DataDir: s.dir.Join("proxy"), Logger: s.log.With("proxy", "1"),
		Front: s.front, NotReady: s.control.NotReady, TLS: s.cfg.TLS, Proxies: s.cfg.Proxies, Now: time.Now,
	})
	if err != nil {
		return errors.Join(err, s.cfg.Listener.Close())
	}
	s.proxy = p
	go func() { // Ends with the proxy's Shutdown, or with the process.
		if err := p.Serve(s.cfg.Listener); err != nil {
			s.fail(err)
		}
	}()
	return nil
}

// settle writes into the cell where the nodes are now, and reads what it has.
func (s *Service) settle(ctx context.Context) (*cellv1.State, error) {
	admin, err := celladmin.New(s.cellSecrets, s.urls, celladmin.Options{Name: "up"})
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return settle(ctx, admin, s.peers)
}

// waitServing asks for something that needs proxy, key, route and leader.
func (s *Service) waitServing(ctx context.Context, info Info) error {
	client := s.selfClient()
	target := s.here + strings.TrimPrefix(info.TenantURL, s.base) + "/api/v1/queues"
	for {
		err := probe(ctx, client, target, info.APIKey)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(readyPoll):
		case ended := <-s.failed:
			return ended
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to serve: %w", info.TenantURL, err)
		}
	}
}

// selfClient speaks to this process's own public listener.
func (s *Service) selfClient() *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	if s.cfg.TLS != nil {
		// Its certificate is for the public name.
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	return &http.Client{Transport: transport}
}

func probe(ctx context.Context, client *http.Client, target, key string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", key)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", res.Status)
	}
	return nil
}

// stop ends everything at the same time: all nodes leave, so no leadership is
// worth giving away. It never takes longer than stopLatest.
func (s *Service) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	s.end()
	var stopping errgroup.Group
	stopping.Go(func() error { return s.stopFront(ctx) })
	for _, n := range s.nodes {
		if n != nil {
			stopping.Go(func() error { return ignoreDeadline(n.Shutdown(ctx, true)) })
		}
	}
	done := make(chan error, 1)
	go func() { done <- stopping.Wait() }() // Waited for below, or the process ends.
	select {
	case err := <-done:
		return err
	case <-time.After(stopLatest):
		return ErrStuck
	}
}

// stopFront closes the public listener first and the database behind it last.
func (s *Service) stopFront(ctx context.Context) error {
	var errs []error
	if s.proxy != nil {
		errs = append(errs, ignoreDeadline(s.proxy.Shutdown(ctx)))
	}
	s.loops.Wait()
	if s.control != nil {
		errs = append(errs, s.control.Close())
	}
	return errors.Join(errs...)
}

// ignoreDeadline: whoever was not answered in time has been cut off, as promised.
func ignoreDeadline(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func localURL(cfg Config) string {
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	return scheme + reachable(cfg.Listener.Addr())
}

// reachable is where this machine reaches a listener, also one on all addresses.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
