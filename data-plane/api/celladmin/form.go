package celladmin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/oklog/ulid/v2"

	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

// ErrNotFormed says that the named nodes cannot form a cell; nothing was changed.
var ErrNotFormed = errors.New("no cell was formed")

// Formed is a cell that was formed.
type Formed struct {
	CellID string
	Nodes  []*cellv1.Node
	// Already: every node belonged to it before.
	Already bool
}

// Form makes the nodes at these API addresses the first voters of one new cell. It
// asks all of them first, and changes nothing if one does not answer, belongs to
// another cell, or differs from what the others began with. Two steps follow: every
// node stores the cell's id, and only then may any of them vote. Called again with
// the same nodes it continues where it stopped.
func Form(ctx context.Context, secrets *cellsecret.Secrets, urls []string, o Options) (Formed, error) {
	nodes, done, err := formers(secrets, urls, o)
	if err != nil {
		return Formed{}, err
	}
	defer done()
	seen, err := describeAll(ctx, nodes)
	for began := time.Now(); errors.Is(err, errSilent) && time.Since(began) < silentFor && pause(ctx); {
		seen, err = describeAll(ctx, nodes) // Nodes that were just started do not listen yet.
	}
	if err != nil {
		return Formed{}, err
	}
	out, err := plan(seen)
	if err != nil {
		return Formed{}, err
	}
	err = each(nodes, func(n former) error {
		_, err := n.client.Prepare(ctx, connect.NewRequest(&cellv1.PrepareRequest{CellId: out.CellID, Members: out.Nodes}))
		return err
	})
	if err != nil {
		return Formed{}, err
	}
	return out, each(nodes, func(n former) error {
		_, err := n.client.Begin(ctx, connect.NewRequest(&cellv1.BeginRequest{CellId: out.CellID}))
		return err
	})
}

var errSilent = errors.New("every node must respond")

func pause(ctx context.Context) bool {
	select {
	case <-time.After(retryPause):
		return true
	case <-ctx.Done():
		return false
	}
}

type former struct {
	url    string
	client cellv1connect.FormationServiceClient
}

func formers(secrets *cellsecret.Secrets, urls []string, o Options) ([]former, func(), error) {
	signer, err := identity.NewSigner(secrets)
	if err != nil {
		return nil, nil, err
	}
	transport := forward.NewTransport(forward.TransportOptions{TLS: o.TLS, Dial: o.Dial})
	hc := &http.Client{Transport: signing{next: transport, signer: signer, name: o.Name, time: cellclock.NewTime(o.Clock)}}
	var out []former
	for _, u := range urls {
		u = strings.TrimRight(u, "/")
		if err := checkURL(u); err != nil {
			return nil, nil, err
		}
		out = append(out, former{u, cellv1connect.NewFormationServiceClient(hc, u)})
	}
	return out, transport.CloseIdleConnections, nil
}

// each calls f for all nodes at once.
func each(nodes []former, f func(former) error) error {
	errs := make([]error, len(nodes))
	var calls sync.WaitGroup
	for i, n := range nodes {
		calls.Go(func() {
			if err := f(n); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", n.url, err)
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}

func describeAll(ctx context.Context, nodes []former) ([]*cellv1.DescribeResponse, error) {
	var mu sync.Mutex // Guards seen.
	var seen []*cellv1.DescribeResponse
	err := each(nodes, func(n former) error {
		res, err := n.client.Describe(ctx, connect.NewRequest(&cellv1.DescribeRequest{}))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, res.Msg)
		return nil
	})
	if connect.CodeOf(err) == connect.CodeUnavailable {
		return nil, fmt.Errorf("%w: %w: %w", ErrNotFormed, errSilent, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFormed, err)
	}
	slices.SortFunc(seen, func(a, b *cellv1.DescribeResponse) int {
		return strings.Compare(a.GetNode().GetId(), b.GetNode().GetId())
	})
	return seen, nil
}

// plan decides from the nodes' answers whether they form a cell, and which.
func plan(seen []*cellv1.DescribeResponse) (Formed, error) {
	var out Formed
	var ids []string
	var begun, empty string
	out.Already = true
	for _, d := range seen {
		id := d.GetNode().GetId()
		if slices.Contains(ids, id) {
			return out, fmt.Errorf("%w: two of the nodes are called %s", ErrNotFormed, id)
		}
		ids, out.Nodes = append(ids, id), append(out.Nodes, d.GetNode())
		out.Already = out.Already && d.GetBegun()
		switch {
		case d.GetCellId() == "":
			empty = id
		case out.CellID != "" && d.GetCellId() != out.CellID:
			return out, fmt.Errorf("%w: node %s belongs to cell %s, another of them to cell %s", ErrNotFormed, id, d.GetCellId(), out.CellID)
		default:
			out.CellID = d.GetCellId()
		}
		if d.GetBegun() {
			begun = id
		}
	}
	for _, d := range seen {
		members := slices.Sorted(slices.Values(d.GetMemberIds()))
		if d.GetCellId() != "" && !slices.Equal(members, ids) {
			return out, fmt.Errorf("%w: node %s belongs to cell %s with the first nodes %s, not %s", ErrNotFormed,
				d.GetNode().GetId(), d.GetCellId(), strings.Join(members, ", "), strings.Join(ids, ", "))
		}
	}
	if begun != "" && empty != "" {
		return out, fmt.Errorf("%w: it was formed before (node %s takes part in cell %s), and node %s has lost its folder since: remove that id from the cell and add a node with a new one",
			ErrNotFormed, begun, out.CellID, empty)
	}
	if out.CellID == "" {
		out.CellID = "cell_" + ulid.Make().String()
	}
	return out, nil
}
