package node_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// A node that refused calls for ever after one accept that failed would go on leading (R4b).
func TestAPI_ServesAfterAnAcceptThatFailed(t *testing.T) {
	t.Parallel()
	p := nodetest.NewPlace(t, "n1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		ID: p.ID, Dir: p.Dir, API: faulttest.ShortOfMemory(p.API), Raft: p.Raft, Peers: []node.Peer{p.Peer}, Shards: 1, Access: node.Open, Logger: nodetest.Logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer nodetest.Stop(t, n)
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get(p.APIURL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if body := readAll(res); res.StatusCode != http.StatusOK {
		t.Errorf("healthz: %d %s", res.StatusCode, body)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
}
