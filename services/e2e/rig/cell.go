package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	// CellSecret is the cell's secret at the start.
	CellSecret = "a secret of the test's cell"
	// CellTenant is the tenant of a Cell.
	CellTenant = "acme"
)

// CellOptions of StartCell. Zero values take the defaults.
type CellOptions struct {
	Nodes   int // 3
	Proxies int // 1
	// NodeArgs and ProxyArgs are added to the command lines; ProxyArgsOf, if set, to that of
	// one proxy, by its number from 0.
	NodeArgs    []string
	ProxyArgs   []string
	ProxyArgsOf func(i int) []string
	// TLS puts everything inside the cell under mutual TLS.
	TLS bool
	// WallClocks gives every process a wall clock that the test can move, and moves those of
	// the first nodes from the start. It needs MainWithWallClocks.
	WallClocks []time.Duration
	// Clock of the cell's administration client; nil: this process's.
	Clock cellclock.Clock
	// Machine, if set, says where a node runs, by its number from 0; nodes that join later
	// have numbers of their own.
	Machine func(i int) Machine
	// Binary is the program that the nodes run at first; empty: the one that Main built.
	Binary string
}

// Cell is a cell of separate processes with the tenant "acme", its namespace
// "default" and an admin key.
type Cell struct {
	Nodes   []*CellNode
	Proxies []*Place
	Admin   *celladmin.Client
	Key     string
	// Shard is the raft group that holds the namespace.
	Shard uint32

	t          testing.TB
	secretFile string
	authority  *authority // Nil without TLS.
	machine    func(i int) Machine
	admin      celladmin.Options
	numbered   int  // How many nodes there have been: no id comes back.
	wallClocks bool // Every process has a WallClock.
}

// Place is a slot for a process of a cell, which may be started, killed and started again.
type Place struct {
	*Process  // The latest.
	URL       string
	WallClock *WallClock // Nil unless asked for.
	// Binary is the program of the next start; empty: the one that Main built.
	Binary string

	t       testing.TB
	name    string
	machine Machine
	args    []string
}

// Start starts the process, the first time or again.
func (p *Place) Start() {
	p.t.Helper()
	p.Process = start(p.t, p.name, p.machine, p.Binary, p.WallClock.env(), p.args...)
}

// WaitReady waits for the line that a process prints when it is ready.
func (p *Place) WaitReady(limit time.Duration) {
	p.t.Helper()
	p.waitFor("become ready", limit, p.Ready)
}

// Ready reports whether the latest process has printed that line.
func (p *Place) Ready() bool { return strings.Contains(p.Stdout(), "ready: ") }

// CellNode is a slot for a node.
type CellNode struct {
	Place
	ID   string
	Dir  string
	raft string // Its address.
}

// Alone makes the node know only itself from its next start on.
func (n *CellNode) Alone() {
	i := slices.Index(n.args, "--peers") + 1
	for peer := range strings.SplitSeq(n.args[i], ",") {
		if strings.HasPrefix(peer, n.ID+"=") {
			n.args[i] = peer
		}
	}
}

// StartCell starts the processes and returns when every proxy accepts jobs.
func StartCell(t testing.TB, o CellOptions) *Cell {
	t.Helper()
	o.Nodes = cmp.Or(o.Nodes, 3)
	o.Proxies = cmp.Or(o.Proxies, 1)
	if o.Machine == nil {
		o.Machine = func(int) Machine { return Machine{} }
	}
	c := &Cell{t: t, machine: o.Machine, admin: celladmin.Options{Name: "test", Clock: o.Clock}, wallClocks: o.WallClocks != nil}
	c.secretFile = filepath.Join(t.TempDir(), "secret")
	writeFile(t, c.secretFile, CellSecret+"\n")
	if o.TLS {
		c.authority = newAuthority(t)
		c.authority.flags("test")
		c.admin.TLS = c.authority.config("test")
	}
	c.plan(o)
	c.connect()
	for _, n := range c.Nodes {
		n.Start()
	}
	c.form()
	for _, n := range c.Nodes {
		n.WaitReady(startLimit)
	}
	c.makeTenant()
	for _, p := range c.Proxies {
		p.Start()
	}
	for i := range c.Proxies {
		c.WaitServing(i, startLimit)
	}
	return c
}

// connect makes the administration client one of the nodes that there are now.
func (c *Cell) connect() {
	c.t.Helper()
	c.Admin = must(celladmin.New(cellsecret.Must([]byte(CellSecret)), c.URLs(), c.admin))(c.t)
	c.t.Cleanup(c.Admin.Close)
}

// form makes the nodes a cell as soon as all of them wait for it.
func (c *Cell) form() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		_, err := celladmin.Form(ctx, cellsecret.Must([]byte(CellSecret)), c.URLs(), c.admin)
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, celladmin.ErrNotFormed) {
			c.t.Fatalf("form the cell: %v", err)
		}
		time.Sleep(pollEvery) // Not all nodes listen yet.
	}
}

func (c *Cell) plan(o CellOptions) {
	public := Addresses(c.t, o.Proxies)
	var peers []string
	for range o.Nodes {
		n := c.newNode()
		n.Binary = o.Binary
		peers = append(peers, fmt.Sprintf("%s=%s/%s", n.ID, n.raft, n.URL))
		c.Nodes = append(c.Nodes, n)
	}
	for i, n := range c.Nodes {
		n.args = append(c.nodeArgs(n, "--peers", strings.Join(peers, ",")), o.NodeArgs...)
		if o.WallClocks != nil {
			n.WallClock = newWallClock(c.t)
			if i < len(o.WallClocks) {
				n.WallClock.Move(o.WallClocks[i])
			}
		}
	}
	for i := range o.Proxies {
		p := &Place{URL: "http://" + public[i], t: c.t, name: "proxy"}
		p.args = append([]string{"proxy", "--listen", public[i], "--nodes", strings.Join(c.URLs(), ","), "--data", c.t.TempDir(),
			"--name", fmt.Sprint(i + 1)}, c.flags(fmt.Sprintf("proxy%d", i+1))...)
		p.args = append(p.args, o.ProxyArgs...)
		if o.ProxyArgsOf != nil {
			p.args = append(p.args, o.ProxyArgsOf(i)...)
		}
		if o.WallClocks != nil {
			p.WallClock = newWallClock(c.t)
		}
		c.Proxies = append(c.Proxies, p)
	}
}

func (c *Cell) newNode() *CellNode {
	m := c.machine(c.numbered)
	c.numbered++
	id := fmt.Sprintf("n%d", c.numbered)
	api, raft := m.addresses(c.t)
	n := &CellNode{Place: Place{URL: c.url(api), t: c.t, name: id, machine: m}, ID: id, Dir: m.Dir, raft: raft}
	if n.Dir == "" {
		n.Dir = c.t.TempDir()
	}
	return n
}

func (c *Cell) nodeArgs(n *CellNode, how, whom string) []string {
	_, api, _ := strings.Cut(n.URL, "://")
	args := []string{"node", "--id", n.ID, "--data", n.Dir, "--api", api, "--raft", n.raft, how, whom}
	return slices.Concat(args, c.flags(n.ID), n.machine.Args)
}

// flags are those of every process of the cell.
func (c *Cell) flags(name string) []string {
	out := []string{"--cell-secret-file", c.secretFile}
	if c.authority != nil {
		out = append(out, c.authority.flags(name)...)
	}
	return out
}

func (c *Cell) url(address string) string {
	if c.authority != nil {
		return "https://" + address
	}
	return "http://" + address
}

// Join starts one more node that joins through node number 0, and returns when it is
// ready.
func (c *Cell) Join(limit time.Duration) *CellNode {
	c.t.Helper()
	n := c.StartJoin(c.Nodes[0])
	n.WaitReady(limit)
	return n
}

// StartJoin starts one more node that joins through another.
func (c *Cell) StartJoin(through *CellNode) *CellNode {
	c.t.Helper()
	n := c.newNode()
	n.args = c.nodeArgs(n, "--join", through.URL)
	c.Nodes = append(c.Nodes, n)
	c.connect()
	n.Start()
	return n
}

// Forget takes a node that was removed from the cell off the list, and ends its process.
func (c *Cell) Forget(n *CellNode) {
	c.t.Helper()
	c.Nodes = slices.DeleteFunc(c.Nodes, func(o *CellNode) bool { return o == n })
	c.connect()
	n.Kill()
}

// URLs are the API addresses of all nodes.
func (c *Cell) URLs() []string {
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL)
	}
	return urls
}

// Command runs `corvo-cloud cell` with args and returns its output and exit code.
func (c *Cell) Command(args ...string) (stdout, stderr string, exit int) {
	c.t.Helper()
	all := append([]string{"cell"}, args...)
	all = append(all, "--nodes", strings.Join(c.URLs(), ","))
	return Run(c.t, startLimit, append(all, c.flags("operator")...)...)
}

// SetSecrets replaces the secrets of all processes, which read them from one file, each
// in its own time.
func (c *Cell) SetSecrets(secrets ...string) {
	c.t.Helper()
	next := c.secretFile + ".next"
	writeFile(c.t, next, strings.Join(secrets, "\n")+"\n")
	check(c.t, os.Rename(next, c.secretFile))
}

func (c *Cell) makeTenant() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	tenant := must(c.Admin.CreateTenant(ctx, CellTenant, nil))(c.t)
	c.Key = must(c.Admin.CreateKey(ctx, celladmin.NewKey{Tenant: CellTenant, Roles: []string{"admin"}, Kind: apikey.DataPlane}))(c.t).Reveal()
	state := must(c.Admin.State(ctx))(c.t)
	c.Shard = must(celladmin.FindNamespace(state, tenant.GetId(), celladmin.DefaultNamespace))(c.t).GetShard()
}

// Tenant is the tenant through proxy number i.
func (c *Cell) Tenant(i int) Tenant { return NewTenant(c.Proxies[i].URL+"/t/"+CellTenant, c.Key) }

// WaitServing waits until proxy number i forwards requests to a leader.
func (c *Cell) WaitServing(i int, limit time.Duration) {
	c.t.Helper()
	tenant := c.Tenant(i)
	c.Proxies[i].waitFor("serve", limit, func() bool { return tenant.Serving() })
}

// Status asks every node what its groups are doing.
func (c *Cell) Status() ([]*cellv1.NodeStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Admin.Nodes(ctx)
}

// Each is what every node that can be reached from here says of itself. Status knows of a node only
// what another hears from it.
func (c *Cell) Each(ctx context.Context) []*cellv1.NodeStatus {
	ctx, cancel := context.WithTimeout(ctx, eachLimit)
	defer cancel()
	return c.Admin.EachNode(ctx)
}

// eachLimit is how long a node may take that is well.
const eachLimit = time.Second

// Leader is the number of the node that leads a group, after waiting for one.
func (c *Cell) Leader(group uint32, limit time.Duration) int {
	c.t.Helper()
	number := 0
	eventually.True(c.t, limit, fmt.Sprintf("group %d has a leader", group), func() (ok bool) {
		number, ok = c.leader(group)
		return ok
	})
	return number
}

func (c *Cell) leader(group uint32) (int, bool) {
	status, err := c.Status()
	if err != nil {
		return 0, false
	}
	best, term := -1, uint64(0)
	for _, s := range status {
		for _, g := range s.GetGroups() {
			// Two may say so for a moment; the later term is right.
			if g.GetGroup() == group && g.GetRole() == "leader" && g.GetTerm() >= term {
				best, term = c.number(s.GetNode().GetId()), g.GetTerm()
			}
		}
	}
	return best, best >= 0
}

func (c *Cell) number(id string) int {
	return slices.IndexFunc(c.Nodes, func(n *CellNode) bool { return n.ID == id })
}
