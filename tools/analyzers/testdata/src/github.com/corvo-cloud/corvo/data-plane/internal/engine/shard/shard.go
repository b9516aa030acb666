// Package shard is not under apply, but still lives in this house.
package shard

import (
	"fmt"
	"log"
	"net/http/httputil"
	"os"
	"time"

	_ "golang.org/x/net/http2/h2c" // want `SetUnencryptedHTTP2`
)

func init() { // want `func init`
	log.Print(time.Now()) // want `log.Print writes to the global logger`
	_ = log.New(os.Stderr, "", 0)
}

type server struct{}

func (server) init() {} // A method may have the name.

var proxy httputil.ReverseProxy // want `httputil.ReverseProxy`

var _ = httputil.NewSingleHostReverseProxy(nil) // want `httputil.NewSingleHostReverseProxy`

func say() {
	fmt.Println("hello")            // want `fmt.Println outside the command line`
	fmt.Fprintln(os.Stderr, "fine") // A given writer is a choice of the caller.
	println("x")                    // want `println is for debugging the runtime`
	_ = httputil.DumpResponse
	_ = server.init
}

// TODO: somebody should. // want `write it as TODO`

// TODO(#12): with an owner.

// TODO(ada): with a person.
