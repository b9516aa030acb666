package group_test

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// counter is a Machine that keeps the last payload and returns its length. Its keys start
// with the prefix of its group.
type counter struct{ store *statedb.Group }

func (c counter) Apply(txn *statedb.Txn, e group.Entry) (any, error) {
	prefix := c.store.Prefix()
	txn.Set(append(prefix[:], "last"...), append([]byte(nil), e.Payload...))
	return len(e.Payload), nil
}

func (counter) Committed(uint64) {}
func (counter) Reset() error     { return nil }

// loopback is a transport to nobody, which is enough for a group of one.
type loopback struct{ *raft.InmemTransport }

func (loopback) Bind(transport.Raft) {}

// A replica is opened on the node's two stores, leads once its barrier has passed, and
// answers a proposal with the machine's result.
func Example() {
	ctx := context.Background()
	disk := vfs.NewMem()
	log, err := raftlog.Open("log", raftlog.Options{FS: disk})
	check(err)
	db, err := statedb.Open("state", statedb.Options{FS: disk})
	check(err)
	_, wire := raft.NewInmemTransport("node-1")

	store := db.Group(1)
	g, err := group.Open(store, log.Group(1), loopback{wire}, counter{store}, group.Options{
		NodeID: "node-1", Bootstrap: []string{"node-1"}, Alone: true,
	})
	check(err)

	leading := make(chan struct{})
	g.Lead(func(ctx context.Context, ready func()) {
		ready() // From here on Leading is true and proposals are taken.
		close(leading)
		<-ctx.Done()
	})
	<-leading

	result, _, err := g.ProposeAndWait(ctx, []byte("hello"))
	check(err)
	check(g.VerifyLeader()) // Read first, verify, then answer.
	fmt.Println(result)

	check(g.Shutdown())
	check(db.Close())
	check(log.Close())
	// Output: 5
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
