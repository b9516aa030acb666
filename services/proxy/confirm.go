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
	// readyPoll is how soon a node hears that this proxy serves, or no longer does.
	readyPoll      = 100 * time.Millisecond
	confirmTimeout = 2 * time.Second
)

// confirm tells a followed node which index this proxy has applied, until ctx ends:
// at once after each change, and periodically.
func (p *Proxy) confirm(ctx context.Context, client cellv1connect.CellServiceClient) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	var said *cellv1.ConfirmWatchRequest
	var at time.Time
	for {
		index, moved := p.applied.now()
		now := p.confirmation(index)
		if said == nil || said.GetIndex() != index || said.GetReady() != now.GetReady() || !slices.Equal(said.GetSecretIds(), now.GetSecretIds()) || time.Since(at) >= confirmEvery {
			switch err := p.sayConfirm(ctx, client, now); {
			case err == nil:
				said, at = now, time.Now()
			case connect.CodeOf(err) == connect.CodeUnimplemented:
				return // A node of an older version.
			default:
				p.log.Debug("confirm to a node", "index", index, "err", err)
				said, moved = nil, nil // Said again at the next tick.
			}
		}
		select {
		case <-moved:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Proxy) confirmation(index uint64) *cellv1.ConfirmWatchRequest {
	open, closed := p.connections.Counts()
	return &cellv1.ConfirmWatchRequest{
		ProxyId: p.id, Index: index, Ready: p.Ready(), SecretIds: p.signer.Secrets().Now().IDs(),
		Connections: uint64(open), ConnectionsClosed: closed,
	}
}

func (p *Proxy) sayConfirm(ctx context.Context, client cellv1connect.CellServiceClient, req *cellv1.ConfirmWatchRequest) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	_, err := client.ConfirmWatch(ctx, connect.NewRequest(req))
	return err
}
