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
	Module + "data-plane/internal/floor/codec",
	Module + "data-plane/internal/engine/job",
	Module + "data-plane/internal/engine/command",
	Module + "data-plane/internal/engine/keys",
	Module + "data-plane/internal/engine/records",
	Module + "data-plane/internal/engine/state",
	Module + "data-plane/internal/engine/stateread",
	Module + "data-plane/internal/engine/feed",
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

	"encoding/json": "what it writes and takes for JSON may change with the program; write stored bytes yourself",
	"text/template": "what it writes may change with the program; write stored bytes yourself",
}

// libraryTexts are functions that make texts for people: good in a panic or a String
// method, and nowhere else under apply, where a text is soon stored.
var libraryTexts = map[string]bool{
	"fmt.Sprint": true, "fmt.Sprintf": true, "fmt.Sprintln": true, "fmt.Append": true, "fmt.Appendf": true, "fmt.Appendln": true,
	"strconv.Quote": true, "strconv.QuoteToASCII": true, "strconv.AppendQuote": true, "strconv.AppendQuoteToASCII": true,
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
	Doc:  "state is a function of the log: no clock, randomness, environment, goroutine, float or map order in the rooms under apply (law 2)",
	Run:  runDeterminism,
}

func runDeterminism(pass *analysis.Pass) (any, error) {
	if !within(packagePath(pass), pureRooms...) {
		return nil, nil
	}
	for _, f := range product(pass) {
		checkImpureImports(pass, f)
		allowed := linesOf(pass, f, sortedComment)
		sorted := map[ast.Expr]bool{} // Arguments of slices.Sorted and its kin.
		spoken := map[ast.Node]bool{} // Calls whose texts people read and nothing stores.
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				pass.Reportf(n.Pos(), "go statement under apply: goroutine order differs between replicas")
			case *ast.SelectStmt:
				pass.Reportf(n.Pos(), "select under apply: the runtime picks a ready case at random")
			case *ast.RangeStmt:
				checkMapRange(pass, n, allowed)
			case *ast.FuncDecl:
				if n.Recv != nil && n.Name.Name == "String" {
					noteCalls(n, spoken)
				}
			case *ast.CallExpr:
				checkMapIterator(pass, n, sorted, allowed)
				checkLibraryText(pass, n, spoken)
			case *ast.SelectorExpr:
				checkImpureFunc(pass, n)
			case *ast.Ident:
				checkFloat(pass, n)
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

// noteCalls notes every call under a node.
func noteCalls(under ast.Node, into map[ast.Node]bool) {
	ast.Inspect(under, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			into[call] = true
		}
		return true
	})
}

// checkLibraryText refuses texts that a library makes where apply could store them (R18).
func checkLibraryText(pass *analysis.Pass, call *ast.CallExpr, spoken map[ast.Node]bool) {
	if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
		noteCalls(call, spoken)
		return
	}
	if pkg, name := callee(pass, call); libraryTexts[pkg+"."+name] && !spoken[call] {
		pass.Reportf(call.Pos(), "%s.%s under apply: a text that is stored is a part of the stored form; write it in a place of its own, with a test that fixes it", pkg, name)
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

// checkFloat keeps floating point out: what a decision rests on is compared and
// stored as integers, which every processor rounds alike (R18).
func checkFloat(pass *analysis.Pass, id *ast.Ident) {
	obj, ok := pass.TypesInfo.Uses[id].(*types.TypeName)
	if ok && obj.Parent() == types.Universe && strings.HasPrefix(obj.Name(), "float") {
		pass.Reportf(id.Pos(), "%s under apply: decide and store in integers", obj.Name())
	}
}

func checkMapRange(pass *analysis.Pass, n *ast.RangeStmt, allowed map[int]bool) {
	t := pass.TypesInfo.TypeOf(n.X)
	if t == nil {
		return
	}
	if _, overMap := t.Underlying().(*types.Map); overMap && !allows(pass, allowed, n) {
		pass.Reportf(n.Pos(), "range over a map under apply: %s", mapOrder)
	}
}

const mapOrder = "the order differs on every replica; sort the keys, or if the order cannot matter say why in " + sortedComment + " <reason>"

// checkMapIterator refuses maps.Keys, Values and All, which hand out map order,
// except directly inside a sorting call.
func checkMapIterator(pass *analysis.Pass, call *ast.CallExpr, sorted map[ast.Expr]bool, allowed map[int]bool) {
	pkg, name := callee(pass, call)
	switch {
	case pkg == "slices" && strings.HasPrefix(name, "Sorted") && len(call.Args) > 0:
		sorted[ast.Unparen(call.Args[0])] = true
	case pkg == "maps" && (name == "Keys" || name == "Values" || name == "All"):
		if !sorted[call] && !allows(pass, allowed, call) {
			pass.Reportf(call.Pos(), "maps.%s under apply: %s", name, mapOrder)
		}
	}
}

// callee names the package and function of a direct call.
func callee(pass *analysis.Pass, call *ast.CallExpr) (pkg, name string) {
	fun := ast.Unparen(call.Fun)
	if generic, ok := fun.(*ast.IndexExpr); ok {
		fun = generic.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	obj := pass.TypesInfo.Uses[sel.Sel]
	if obj == nil || obj.Pkg() == nil {
		return "", ""
	}
	return obj.Pkg().Path(), obj.Name()
}

// allows reports whether the comment stands on the node's line or the one above.
func allows(pass *analysis.Pass, allowed map[int]bool, n ast.Node) bool {
	line := pass.Fset.Position(n.Pos()).Line
	return allowed[line] || allowed[line-1]
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
