package law

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// underApply are the folders and subfolders whose constants may decide what
// apply stores.
var underApply = []string{"engine/command", "engine/feed", "engine/job", "engine/keys", "engine/records", "engine/state", "cell/limits.go"}

// A limit, a duration or a text that apply decides by is part of the stored form:
// two builds in one cell must have the same (R18). One that changes is a new constant
// beside the old one, chosen by the version of the entry. Constants that only readers or
// caches use are listed too; they may be changed, and the file rewritten (-rewrite).
func TestStored_ConstantsUnderApplyAreThoseOfTheFile(t *testing.T) {
	var lines []string
	for _, dir := range underApply {
		for _, path := range goFiles(t, filepath.Join("..", "..", "data-plane", "internal", dir)) {
			lines = append(lines, constantsOf(t, path)...)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	golden := filepath.Join("testdata", "constants.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
	for _, l := range lines {
		if !slices.Contains(known, l) {
			t.Errorf("new or changed: %s", l)
		}
	}
	for _, l := range known {
		name, _, _ := strings.Cut(l, " = ")
		there := slices.ContainsFunc(lines, func(other string) bool { return strings.HasPrefix(other, name+" = ") })
		if there && !slices.Contains(lines, l) { // A missing one is not used any more, or left apply.
			t.Errorf("was: %s", l)
		}
	}
	if t.Failed() {
		t.Log("If apply goes by it, replicas of two builds would differ: keep the old one and switch the new one on by the entry's version " +
			"(data-plane/internal/engine/state/DESIGN.md). If only readers do, or it is only new: go test ./law -run TestStored -rewrite")
	}
}

func goFiles(t *testing.T, root string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("no sources in %s", root)
	}
	return paths
}

// constantsOf lists the constants of a file that have a value of their own, in functions
// too, wherever they are.
func constantsOf(t *testing.T, path string) (lines []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return true
		}
		for _, spec := range decl.Specs {
			s, _ := spec.(*ast.ValueSpec)
			for i, value := range s.Values {
				lines = append(lines, s.Names[i].Name+" = "+types.ExprString(value))
			}
		}
		return true
	})
	return lines
}
