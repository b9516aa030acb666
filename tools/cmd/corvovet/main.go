// Command corvovet runs what go vet runs, what staticcheck runs and this repository's own
// analyzers, in one pass over each package:
//
//	go vet -vettool=.bin/corvovet ./...
//
// It owns the list of analyzers and nothing else. Running under go vet gives it
// build caching, so that a second lint costs nothing.
package main

import (
	"slices"

	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/corvo-cloud/corvo/tools/analyzers"
)

func main() {
	unitchecker.Main(slices.Concat(vet.Suite, analyzers.Staticcheck(), analyzers.All())...)
}
