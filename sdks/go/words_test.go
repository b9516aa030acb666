package corvo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// A word of the wire that the client does not name would have to be written by hand.
func TestWords_AreTheWires(t *testing.T) {
	t.Parallel()
	words := filepath.Join("..", "..", "data-plane", "api", "wire", "words.go")
	wire := map[string][]string{} // Names of constants, by the type of the word.
	constants(t, words, func(s *ast.ValueSpec) {
		if of, ok := s.Type.(*ast.Ident); ok {
			wire[of.Name] = append(wire[of.Name], s.Names[0].Name)
		}
	})
	var ours []string
	for _, file := range []string{"jobs.go", "enqueue.go", "groups.go"} {
		constants(t, file, func(s *ast.ValueSpec) {
			if len(s.Values) == 0 {
				return
			}
			if word, ok := s.Values[0].(*ast.SelectorExpr); ok {
				ours = append(ours, word.Sel.Name)
			}
		})
	}
	for _, of := range []string{"State", "DeadReason", "EnqueueStatus", "Priority", "Backoff", "DependencyPolicy"} {
		if len(wire[of]) < 3 {
			t.Errorf("%s has the words %v: the constants are read wrongly", of, wire[of])
		}
		for _, name := range wire[of] {
			if !slices.Contains(ours, name) {
				t.Errorf("the client does not name wire.%s", name)
			}
		}
	}
}

// constants walks the constants of a file.
func constants(t *testing.T, file string, visit func(*ast.ValueSpec)) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range f.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			if s, ok := spec.(*ast.ValueSpec); ok {
				visit(s)
			}
		}
	}
}
