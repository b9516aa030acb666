package cell_test

import (
	"context"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// A node opens the cell before any shard, serves its handler, which nodes that join call,
// and then opens the shards that the cell names.
func Example() {
	start := func(
		ctx context.Context, log *raftlog.Store, state *statedb.DB, mux *transport.Mux, groups cell.Groups,
		signer *identity.Signer, urls map[string]string,
	) error {
		c, err := cell.Open(state.Group(cell.GroupID), log.Group(cell.GroupID), mux.Group(cell.GroupID), cell.Options{NodeID: "n1"})
		if err != nil {
			return err
		}
		peers := cell.NewPeers(c, signer, http.DefaultTransport, urls)
		members := cell.NewMembership(c, groups, peers) // groups has c.Group() and, later, the shards.
		path, handler := cell.NewHandler(c, members, peers, signer)
		http.Handle(path, handler)
		if _, err := c.WaitShards(ctx); err != nil { // Open these, then
			return err
		}
		go members.KeepFit(ctx) // run the loops until the node ends.
		go members.Spread(ctx, time.Minute)

		for ctx.Err() == nil {
			changed, view := c.Changed(), c.View() // The channel first.
			_ = view
			<-changed
		}
		return c.Shutdown()
	}
	_ = start
}
