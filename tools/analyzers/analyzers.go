// Package analyzers holds the rules of this house that a type-checked look at
// one package can decide. Rules about the tree as a whole (which room may import
// which, one Go version, cited laws) are the tests in package law.
//
// It must not know the product's code; it knows its import paths only. The
// surprising fact: test files are exempt from most rules, since a test may look
// at a clock or print as it likes.
package analyzers

import (
	"go/ast"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Module is the path every module of this repository begins with.
const Module = "github.com/corvo-cloud/corvo/"

// All lists the analyzers in the order they report.
func All() []*analysis.Analyzer {
	return []*analysis.Analyzer{Determinism, PackageDoc, Forbidden, Print, NoInit, Todo, ExportedDoc, ErrDrop}
}

// packagePath is the import path without the decoration go vet adds to test
// variants ("p [p.test]") and without the _test suffix of external test packages.
func packagePath(pass *analysis.Pass) string {
	path, _, _ := strings.Cut(pass.Pkg.Path(), " ")
	return strings.TrimSuffix(path, "_test")
}

// product yields the files people write and ship: no tests, no generated code.
func product(pass *analysis.Pass) []*ast.File {
	var files []*ast.File
	for _, f := range pass.Files {
		name := pass.Fset.File(f.Pos()).Name()
		if strings.HasSuffix(name, "_test.go") || ast.IsGenerated(f) || filepath.Ext(name) != ".go" {
			continue
		}
		files = append(files, f)
	}
	return files
}

// within reports whether path is one of the given rooms or lies under one.
func within(path string, rooms ...string) bool {
	for _, room := range rooms {
		if path == room || strings.HasPrefix(path, room+"/") {
			return true
		}
	}
	return false
}
