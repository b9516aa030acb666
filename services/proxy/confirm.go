package proxy

import (
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

const (
	// confirmEvery is how often a confirmation is repeated: a node forgets a proxy
	// that is silent for two of these.
	confirmEvery = 5 * time.Second
	// secretsPoll is how soon a node hears what comes without a change of the cell's state: new
	// secrets, or that this proxy is about to end.
	secretsPoll = time.Second
	// sayAgain is how soon something is said again that wasn't heard.
	sayAgain       = 100 * time.Millisecond
	confirmTimeout = 2 * time.Second
	// farewellTimeout bounds what a proxy that ends tells its nodes, so that they don't wait for it.
	farewellTimeout = 500 * time.Millisecond
)

// confirm tells a followed node which index this proxy has applied, until ctx ends:
// at once after each change, and periodically.
func (p *Proxy) confirm(ctx context.Context, client cellv1connect.CellServiceClient) {
	again := time.NewTimer(secretsPoll)
	defer again.Stop()
	var said *cellv1.ConfirmWatchRequest
	var at time.Time
	counted := false // The node may count on this proxy, even if its answer was lost.
	for {
		again.Reset(secretsPoll)
		index, moved := p.applied.now()
		now := p.confirmation(index)
		if said == nil || said.GetIndex() != index || said.GetReady() != now.GetReady() || !slices.Equal(said.GetSecretIds(), now.GetSecretIds()) || time.Since(at) >= confirmEvery {
			counted = counted || now.GetReady()
			switch err := p.sayConfirm(ctx, client, now, confirmTimeout); {
			case err == nil:
				said, at, counted = now, time.Now(), now.GetReady()
			case connect.CodeOf(err) == connect.CodeUnimplemented:
				return // A node of an older version.
			default:
				p.log.Debug("confirm to a node", "index", index, "err", err)
				said, moved = nil, nil
				again.Reset(sayAgain)
			}
		}
		select {
		case <-moved:
		case <-again.C:
		case <-ctx.Done():
			if p.ending.Load() && counted {
				p.farewell(ctx, client)
			}
			return
		}
	}
}

// farewell says that this proxy serves no more, after the watch has ended: else the node would wait
// for it to come back.
func (p *Proxy) farewell(ctx context.Context, client cellv1connect.CellServiceClient) {
	index, _ := p.applied.now()
	if err := p.sayConfirm(context.WithoutCancel(ctx), client, p.confirmation(index), farewellTimeout); err != nil {
		p.log.Debug("tell a node that this proxy ends", "err", err)
	}
}

// lets reports whether this proxy lets callers in by the state that it has. It may also
// while no node answers, when it isn't Ready: a key's end has to reach it all the same.
func (p *Proxy) lets() bool { return !p.ending.Load() && p.view.loaded.Load() }

func (p *Proxy) confirmation(index uint64) *cellv1.ConfirmWatchRequest {
	open, closed := p.connections.Counts()
	return &cellv1.ConfirmWatchRequest{
		ProxyId: p.id, Index: index, Ready: p.lets(), SecretIds: p.signer.Secrets().Now().IDs(),
		Connections: uint64(open), ConnectionsClosed: closed,
	}
}

func (p *Proxy) sayConfirm(ctx context.Context, client cellv1connect.CellServiceClient, req *cellv1.ConfirmWatchRequest, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := client.ConfirmWatch(ctx, connect.NewRequest(req))
	return err
}
