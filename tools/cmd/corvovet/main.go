// Command corvovet runs this repository's own analyzers as a vet tool:
//
//	go vet -vettool=.bin/corvovet ./...
//
// It owns the list of analyzers and nothing else. Running under go vet gives it
// build caching, so that a second lint costs nothing.
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/corvo-cloud/corvo/tools/analyzers"
)

func main() {
	unitchecker.Main(analyzers.All()...)
}
