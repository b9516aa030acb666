// Command corvo-cloud is the service: everything in one process (`up`), or its
// parts alone (`node`, `proxy`), and the administration of a cell (`cell`). The
// commands are in the package command; this file only hands it the process.
package main

import (
	"context"
	"os"

	"github.com/corvo-cloud/corvo/services/cmd/corvo-cloud/command"
)

func main() {
	os.Exit(command.Main(context.Background(), os.Args[1:], command.OS()))
}
