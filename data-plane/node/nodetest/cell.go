package nodetest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/node"
)

// Secret is the secret of every Cell.
const Secret = "a secret of at least sixteen bytes"

// patience is how long a cell is waited for.
const patience = 30 * time.Second

// Cell is the places of a cell's nodes in this process, with folders that outlive the nodes.
type Cell struct {
	Places []Place
	Nodes  []*node.Node // Nil while a node does not run.
	// Change, if set, adjusts a node's configuration before it starts.
	Change func(i int, c *node.Config)

	tb testing.TB
}

// NewCell makes places for n nodes, n1 and so on. None runs.
func NewCell(tb testing.TB, n int) *Cell {
	tb.Helper()
	c := &Cell{tb: tb, Nodes: make([]*node.Node, n)}
	for i := range n {
		c.Places = append(c.Places, NewPlace(tb, fmt.Sprintf("n%d", i+1)))
	}
	return c
}

// Found starts every node as one of a new cell.
func (c *Cell) Found() {
	c.tb.Helper()
	found := &node.Formation{CellID: node.NewCellID(), Fresh: true}
	for i := range c.Nodes {
		if err := c.start(i, found); err != nil {
			c.tb.Fatalf("start %s: %v", c.Places[i].ID, err)
		}
	}
}

// Start starts node number i, also again, and stops it with the test.
func (c *Cell) Start(i int) error { c.tb.Helper(); return c.start(i, nil) }

// MustStart is Start, and the end of the test if it fails.
func (c *Cell) MustStart(i int) {
	c.tb.Helper()
	if err := c.Start(i); err != nil {
		c.tb.Fatalf("start %s: %v", c.Places[i].ID, err)
	}
}

func (c *Cell) start(i int, found *node.Formation) error {
	c.tb.Helper()
	p := &c.Places[i]
	if c.Nodes[i] != nil {
		c.tb.Fatalf("%s is running", p.ID)
	}
	if p.API == nil {
		p.API, p.Raft = listenAt(c.tb, strings.TrimPrefix(p.APIURL, "http://")), listenAt(c.tb, p.RaftAddress)
	}
	cfg := node.Config{ID: p.ID, Dir: p.Dir, API: p.API, Raft: p.Raft, Formation: found, Secrets: cellsecret.Must([]byte(Secret)), Logger: Logger()}
	for _, p := range c.Places {
		cfg.Peers = append(cfg.Peers, p.Peer)
	}
	if c.Change != nil {
		c.Change(i, &cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := node.Start(ctx, cfg)
	p.API, p.Raft = nil, nil // The node's now, or closed.
	if err != nil {
		return err
	}
	c.Nodes[i] = n
	c.tb.Cleanup(func() { c.Stop(i) })
	return nil
}

func listenAt(tb testing.TB, address string) net.Listener {
	tb.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	return ln
}

// Stop ends node number i as a signal does, if it runs.
func (c *Cell) Stop(i int) {
	c.tb.Helper()
	if n := c.Nodes[i]; n != nil {
		c.Nodes[i] = nil
		Stop(c.tb, n)
	}
}

// Form makes the running nodes a cell, as an operator does.
func (c *Cell) Form() (celladmin.Formed, error) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return celladmin.Form(ctx, cellsecret.Must([]byte(Secret)), c.URLs(), celladmin.Options{Name: "test"})
}

// Ready waits until nodes are ready: those of these numbers, or all.
func (c *Cell) Ready(numbers ...int) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(numbers) == 0 {
		for i := range c.Nodes {
			numbers = append(numbers, i)
		}
	}
	for _, i := range numbers {
		if err := c.Nodes[i].Ready(ctx); err != nil {
			c.tb.Fatalf("%s is not ready: %v", c.Places[i].ID, err)
		}
	}
}

// URLs are the API addresses of all places.
func (c *Cell) URLs() []string {
	var urls []string
	for _, p := range c.Places {
		urls = append(urls, p.APIURL)
	}
	return urls
}

// Admin is a client of the cell's administration, closed with the test.
func (c *Cell) Admin() *celladmin.Client {
	c.tb.Helper()
	admin, err := celladmin.New(cellsecret.Must([]byte(Secret)), c.URLs(), celladmin.Options{Name: "test"})
	if err != nil {
		c.tb.Fatal(err)
	}
	c.tb.Cleanup(admin.Close)
	return admin
}
