package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/services/proxy"
)

// A proxy reads its file and begins to follow the cell when it is made. It is ready once it
// knows the cell's state and a node that answers. Call Shutdown after a failed Serve too: it
// ends the loops.
func Example() {
	p, err := proxy.New(proxy.Options{CellSecrets: cellsecret.Must([]byte("at least 16 bytes")), Nodes: []string{"http://127.0.0.1:1"}})
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error)
	go func() { served <- p.Serve(listener) }()

	fmt.Println("ready:", p.Ready()) // No node answers.

	check(p.Shutdown(context.Background()))
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		check(err)
	}
	// Output: ready: false
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
