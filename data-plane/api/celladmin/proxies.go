package celladmin

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

const (
	// The pause between two requests: a change reaches the proxies in milliseconds,
	// or something is wrong and the answer can wait.
	proxiesPauseMin = 2 * time.Millisecond
	proxiesPauseMax = 100 * time.Millisecond
	// silentNodesMax: a proxy follows two nodes, so that with one node silent every
	// proxy is still seen by another.
	silentNodesMax = 1
)

// UnconfirmedError says that not every live proxy has confirmed an index in time.
type UnconfirmedError struct {
	Index           uint64
	Confirmed, Live int
	// SilentNodes did not answer, or have just started: proxies that follow only them are not counted.
	SilentNodes []string
	Cause       error
}

// Error implements error.
func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("%d of %d proxies have index %d, silent nodes %v: %v", e.Confirmed, e.Live, e.Index, e.SilentNodes, e.Cause)
}

// Unwrap gives the cause, as a rule the end of the context.
func (e *UnconfirmedError) Unwrap() error { return e.Cause }

// Proxies lists the proxies that follow the cell and what each has confirmed, and
// the nodes that did not answer.
func (c *Client) Proxies(ctx context.Context) (proxies []*cellv1.Watcher, silentNodes []string, err error) {
	res, err := call(ctx, c, &cellv1.ListWatchersRequest{}, cellv1connect.CellServiceClient.ListWatchers)
	return res.GetWatchers(), res.GetSilentNodeIds(), err
}

// Sightings is what proxies told the nodes that answered, after a cursor of each by its id. Nodes
// of an older version tell nothing.
func (c *Client) Sightings(ctx context.Context, cursors map[string]string) ([]*cellv1.NodeSightings, error) {
	res, err := call(ctx, c, &cellv1.ListSightingsRequest{Cursors: cursors}, cellv1connect.CellServiceClient.ListSightings)
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return nil, nil
	}
	return res.GetNodes(), err
}

// ReportReadings tells a node what a source has counted, which may be told again.
func (c *Client) ReportReadings(ctx context.Context, r *cellv1.Readings) error {
	_, err := call(ctx, c, &cellv1.ReportReadingsRequest{Readings: r}, cellv1connect.CellServiceClient.ReportReadings)
	return err
}

// ListReadings asks for one part of what was counted for billing.
func (c *Client) ListReadings(ctx context.Context, req *cellv1.ListReadingsRequest) (*cellv1.ListReadingsResponse, error) {
	return call(ctx, c, req, cellv1connect.CellServiceClient.ListReadings)
}

// ProxyReadings is what the proxies have counted for hours from one on, whole: a run of a
// proxy is there once. CompleteToNs of it counts only together with all of its readings.
func (c *Client) ProxyReadings(ctx context.Context, fromHour int64) ([]*cellv1.Readings, error) {
	var all []*cellv1.Readings
	at := make(map[string]int)
	req := &cellv1.ListReadingsRequest{FromHour: fromHour}
	for {
		res, err := c.ListReadings(ctx, req)
		if err != nil {
			return nil, err
		}
		var next []byte
		for _, r := range res.GetReadings() {
			if r.GetMore() {
				next, r.More, r.Next = r.GetNext(), false, nil
			}
			run := r.GetSource() + "\x00" + r.GetEpoch()
			i, known := at[run]
			if !known {
				at[run] = len(all)
				all = append(all, r)
				continue
			}
			all[i].List = append(all[i].GetList(), r.GetList()...)
		}
		if len(next) == 0 {
			return all, nil
		}
		req.Next = next
	}
}

// WaitProxies returns when every live proxy has applied the state up to index, also
// to calls under way. A proxy is live while it serves and follows a node; it does
// not wait for one that is gone, or cut off from all nodes for some seconds; after its only
// node started again, it waits that long for those to come back who followed it. If ctx
// ends first, the error is an *UnconfirmedError.
func (c *Client) WaitProxies(ctx context.Context, index uint64) (confirmed, live int, err error) {
	var last UnconfirmedError
	for pause := proxiesPauseMin; ; pause = min(2*pause, proxiesPauseMax) {
		res, err := call(ctx, c, &cellv1.ListWatchersRequest{}, cellv1connect.CellServiceClient.ListWatchers)
		if err == nil {
			confirmed, live = countProxies(res.GetWatchers(), index)
			last = UnconfirmedError{Index: index, Confirmed: confirmed, Live: live, SilentNodes: res.GetSilentNodeIds()}
			if confirmed == live && enoughAnswered(res) {
				return confirmed, live, nil
			}
		} else if ctx.Err() == nil {
			return confirmed, live, fmt.Errorf("ask the cell for its proxies: %w", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			last.Index, last.Cause = index, ctx.Err()
			return confirmed, live, &last
		}
	}
}

func countProxies(watchers []*cellv1.Watcher, index uint64) (confirmed, live int) {
	for _, w := range watchers {
		if !w.GetReady() {
			continue
		}
		live++
		if w.GetIndex() >= index {
			confirmed++
		}
	}
	return confirmed, live
}

func enoughAnswered(res *cellv1.ListWatchersResponse) bool {
	silent := len(res.GetSilentNodeIds())
	if res.GetNodes() == 0 { // A node that has not caught up knows no other nodes to ask.
		return false
	}
	return silent == 0 || silent <= silentNodesMax && res.GetNodes() > silentNodesMax
}
