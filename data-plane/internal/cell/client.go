package cell

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// messageBytesMax bounds one message of the cell's administration; the largest is
// the whole state.
const messageBytesMax = 64 << 20

// headerCell carries the cell's id on calls between nodes, both ways: nodes of two
// cells do not administer each other, even if they share a secret.
const headerCell = "Corvo-Cell"

// NewClient speaks corvo.cell.v1 to the node at baseURL over transport (h2c inside
// a cell, see api/forward), signing each call as the part of the cell called name.
// cellID is empty for a caller that belongs to no cell yet.
func NewClient(signer *identity.Signer, cellID, name string, transport http.RoundTripper, baseURL string) cellv1connect.CellServiceClient {
	return cellv1connect.NewCellServiceClient(
		&http.Client{Transport: signing{signer: signer, cell: cellID, name: name, next: transport}},
		baseURL, connect.WithReadMaxBytes(messageBytesMax),
	)
}

// signing signs requests with the cell's secret.
type signing struct {
	signer *identity.Signer
	cell   string
	name   string
	next   http.RoundTripper
}

func (s signing) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if err := s.signer.SignRequest(out, identity.CellPrincipal(s.name, time.Now())); err != nil {
		return nil, fmt.Errorf("sign call to %s: %w", r.URL.Host, err)
	}
	if s.cell == "" {
		return s.next.RoundTrip(out)
	}
	out.Header.Set(headerCell, s.cell)
	res, err := s.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if theirs := res.Header.Get(headerCell); theirs != "" && theirs != s.cell {
		return nil, errors.Join(wrongCell(theirs, s.cell), res.Body.Close())
	}
	return res, nil
}

func wrongCell(answers, calls string) error {
	return fault.New(fault.Conflict, "WRONG_CELL", "the called node belongs to cell %s, the caller to cell %s", answers, calls)
}

// Peers makes calls to the other nodes of the cell.
type Peers struct {
	cell      *Cell
	signer    *identity.Signer
	transport http.RoundTripper
	// first has the URLs given at start, by node id; they win over the cell's
	// state.
	first map[string]string
	// clients by URL: a client is made of more than a call to it takes.
	clients sync.Map
}

// NewPeers calls nodes over transport. first gives API base URLs by node id and
// wins over the nodes' records, which are old when addresses changed; it may be nil.
func NewPeers(c *Cell, signer *identity.Signer, transport http.RoundTripper, first map[string]string) *Peers {
	return &Peers{cell: c, signer: signer, transport: transport, first: first}
}

// secrets describes the cell secrets of this process, the one that signs first.
func (p *Peers) secrets() []*cellv1.CellSecret {
	var out []*cellv1.CellSecret
	for _, s := range p.signer.Secrets().Status() {
		c := &cellv1.CellSecret{Id: s.ID, LastUsedBy: s.LastUse.By}
		if !s.LastUse.At.IsZero() {
			c.LastUsedNs = s.LastUse.At.UnixNano()
		}
		out = append(out, c)
	}
	return out
}

// URL is the API base URL of a node, if known.
func (p *Peers) URL(nodeID string) (string, bool) {
	if u, ok := p.first[nodeID]; ok {
		return u, true
	}
	n, ok := p.cell.View().NodeByID(nodeID)
	return n.GetApiUrl(), ok
}

// node is the client of one node, or false if nobody knows where it is.
func (p *Peers) node(nodeID string) (cellv1connect.CellServiceClient, bool) {
	u, ok := p.URL(nodeID)
	if !ok {
		return nil, false
	}
	return p.at(u), true
}

// of is the client of the node of a record, and where that is.
func (p *Peers) of(n *cellv1.Node) (client cellv1connect.CellServiceClient, url string) {
	url, known := p.URL(n.GetId())
	if !known {
		url = n.GetApiUrl()
	}
	return p.at(url), url
}

func (p *Peers) at(url string) cellv1connect.CellServiceClient {
	if known, ok := p.clients.Load(url); ok {
		return known.(cellv1connect.CellServiceClient)
	}
	c := NewClient(p.signer, p.cell.id, p.cell.NodeID(), p.transport, url)
	p.clients.Store(url, c)
	return c
}

// everywhere lists every known URL of nodes other than self, those given at start
// first.
func (p *Peers) everywhere(self string) []string {
	var urls []string
	add := func(id, url string) {
		if id != self && !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.first)) {
		add(id, p.first[id])
	}
	for _, n := range p.cell.View().Nodes() {
		add(n.GetId(), n.GetApiUrl())
	}
	return urls
}
