package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestTable_EveryMutantBuilds finds outdated entries, without
// the minutes that it takes to run them.
func TestTable_EveryMutantBuilds(t *testing.T) {
	for _, module := range []string{"data-plane", "data-plane/api", "control-plane", "control-plane/api", faultsModule} {
		everyMutantBuilds(t, module)
	}
}

func everyMutantBuilds(t *testing.T, module string) {
	rooms := map[string]*packages.Package{}
	for _, m := range chosen(module, "", 0) {
		path, broken, err := m.source(filepath.Join("../..", module))
		if err != nil {
			t.Error(err)
			continue
		}
		dir := filepath.Dir(m.file)
		if rooms[dir] == nil {
			rooms[dir] = load(t, module, dir)
		}
		if err := check(rooms[dir], path, broken); err != nil {
			t.Errorf("%q does not build: %v", m.what, err)
		}
	}
}

func load(t *testing.T, module, dir string) *packages.Package {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes |
			packages.NeedTypesSizes | packages.NeedSyntax,
		Dir:  filepath.Join("../..", module),
		Fset: token.NewFileSet(),
		Env:  append(os.Environ(), "GOWORK="), // Its own, unlike that of the tools.
	}, "./"+filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		t.Fatalf("load %s: %d packages, %v", dir, len(loaded), loaded[0].Errors)
	}
	return loaded[0]
}

// check type-checks a package with one of its files as it would be when broken.
func check(room *packages.Package, path, broken string) error {
	file, err := parser.ParseFile(room.Fset, path, broken, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files := slices.Clone(room.Syntax)
	files[slices.IndexFunc(files, func(f *ast.File) bool { return room.Fset.File(f.Pos()).Name() == path })] = file
	config := types.Config{Sizes: room.TypesSizes, Importer: importer(func(path string) (*types.Package, error) { return room.Imports[path].Types, nil })}
	_, err = config.Check(room.PkgPath, room.Fset, files, nil)
	return err
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
