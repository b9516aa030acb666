package analyzers

import (
	"go/ast"
	"go/types"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// pureRooms are replayed on every replica and must give the same bytes on each
// (law 2, R18).
var pureRooms = []string{
	Module + "data-plane/internal/job",
	Module + "data-plane/internal/command",
	Module + "data-plane/internal/keys",
	Module + "data-plane/internal/state",
	Module + "data-plane/internal/feed",
}

// impureImports says why each package has no place under apply.
var impureImports = map[string]string{
	"math/rand":    "random choices are stamped before proposing",
	"math/rand/v2": "random choices are stamped before proposing",
	"crypto/rand":  "ids are stamped before proposing or derived from the entry",
	"os":           "the environment differs between nodes",
	"net":          "apply waits for nobody",
	"net/http":     "apply waits for nobody",
	"hash/maphash": "its seed differs between processes",
}

// impureFuncs are functions of otherwise harmless packages.
var impureFuncs = map[string]string{
	"time.Now":       "time comes from the entry",
	"time.Since":     "time comes from the entry",
	"time.Until":     "time comes from the entry",
	"time.Sleep":     "apply waits for nobody",
	"time.After":     "apply waits for nobody",
	"time.AfterFunc": "apply waits for nobody",
	"time.NewTimer":  "apply waits for nobody",
	"time.NewTicker": "apply waits for nobody",
	"time.Tick":      "apply waits for nobody",
}

// sortedComment allows one range over a map whose order cannot matter, or whose
// keys are sorted before use. It must say which.
const sortedComment = "//corvo:sorted"

// Determinism keeps clocks, randomness, the outside world, goroutines and map
// order out of everything that runs under apply.
var Determinism = &analysis.Analyzer{
	Name: "determinism",
	Doc:  "state is a function of the log: no clock, randomness, environment, goroutine or map order in the rooms under apply (law 2)",
	Run:  runDeterminism,
}

func runDeterminism(pass *analysis.Pass) (any, error) {
	if !within(packagePath(pass), pureRooms...) {
		return nil, nil
	}
	for _, f := range product(pass) {
		checkImpureImports(pass, f)
		allowed := linesOf(pass, f, sortedComment)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				pass.Reportf(n.Pos(), "go statement under apply: goroutine order differs between replicas")
			case *ast.SelectStmt:
				pass.Reportf(n.Pos(), "select under apply: the runtime picks a ready case at random")
			case *ast.RangeStmt:
				checkMapRange(pass, n, allowed)
			case *ast.SelectorExpr:
				checkImpureFunc(pass, n)
			}
			return true
		})
	}
	return nil, nil
}

func checkImpureImports(pass *analysis.Pass, f *ast.File) {
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // The compiler has refused this file already.
		}
		if why, bad := impureImports[path]; bad {
			pass.Reportf(spec.Pos(), "import of %s under apply: %s", path, why)
		}
	}
}

func checkImpureFunc(pass *analysis.Pass, sel *ast.SelectorExpr) {
	obj, ok := pass.TypesInfo.Uses[sel.Sel].(*types.Func)
	if !ok || obj.Pkg() == nil {
		return
	}
	if why, bad := impureFuncs[obj.Pkg().Path()+"."+obj.Name()]; bad && obj.Signature().Recv() == nil {
		pass.Reportf(sel.Pos(), "%s.%s under apply: %s", obj.Pkg().Name(), obj.Name(), why)
	}
}

func checkMapRange(pass *analysis.Pass, n *ast.RangeStmt, allowed map[int]bool) {
	t := pass.TypesInfo.TypeOf(n.X)
	if t == nil {
		return
	}
	overMap := false
	switch u := t.Underlying().(type) {
	case *types.Map:
		overMap = true
	case *types.Signature:
		// maps.Keys and its kin hand out map order through an iterator.
		if call, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
			overMap = isMapsIterator(pass, call)
		}
		_ = u
	}
	line := pass.Fset.Position(n.Pos()).Line
	if !overMap || allowed[line] || allowed[line-1] {
		return
	}
	pass.Reportf(n.Pos(), "range over a map under apply: the order differs on every replica; sort the keys, and if the order cannot matter say why in %s <reason>", sortedComment)
}

func isMapsIterator(pass *analysis.Pass, call *ast.CallExpr) bool {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := pass.TypesInfo.Uses[sel.Sel]
	if obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != "maps" {
		return false
	}
	switch obj.Name() {
	case "All", "Keys", "Values":
		return true
	}
	return false
}

// linesOf gives the lines that carry the comment with a reason after it. A
// bare one is reported: an exception without a reason is not an exception.
func linesOf(pass *analysis.Pass, f *ast.File, prefix string) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			rest, ok := strings.CutPrefix(c.Text, prefix)
			if !ok {
				continue
			}
			if strings.TrimSpace(rest) == "" {
				pass.Reportf(c.Pos(), "%s needs a reason", prefix)
				continue
			}
			lines[pass.Fset.Position(c.Pos()).Line] = true
		}
	}
	return lines
}
