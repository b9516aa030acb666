package transport_test

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// A node has one Mux, and each raft group a Group of it, which is raft's transport. Bind
// tells the group its raft, so that heartbeats may take the fast path; raft's Shutdown
// closes the group, and the Mux is closed last.
func Example() {
	addresses := make(map[string]string)
	listen := func(node string) *transport.Mux {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		addresses[node] = ln.Addr().String()
		return transport.Listen(ln, transport.Options{
			NodeID: node, Secrets: cellsecret.Must([]byte("at least 16 bytes")),
			Resolve: func(id string) (string, error) { return addresses[id], nil },
		})
	}
	n1, n2 := listen("n1"), listen("n2")
	n1.SetCell("cell-a") // Until then it refuses every connection.
	n2.SetCell("cell-b")

	err := n1.Ask("n2", 5*time.Second) // Does that node object to this one?
	fmt.Println(errors.Is(err, transport.ErrWrongCell))

	group := n1.Group(2)
	fmt.Println(group.LocalAddr())
	check(group.Close())
	check(errors.Join(n1.Close(), n2.Close()))
	// Output:
	// true
	// n1
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
