// Command corvo is the engine and everything that speaks to it: a node
// (`corvo server`), the client commands and the benchmark. Everything is in
// internal/cli; this file only hands it the process.
package main

import (
	"context"
	"os"

	"github.com/corvo-cloud/corvo/cli/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.OS()))
}
