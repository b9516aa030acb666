// Command terraform-provider-corvo is the Terraform provider of Corvo Cloud.
//
// It only starts the provider. Surprising: a person never runs it; Terraform does, and
// speaks to it over a socket.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/corvo-cloud/corvo/terraform-provider/internal/provider"
)

// version is set by the release build.
var version = "dev" // The linker writes it.

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger and print how Terraform can attach")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: "registry.terraform.io/corvo-cloud/corvo",
		Debug:   *debug,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-corvo:", err)
		os.Exit(1)
	}
}
