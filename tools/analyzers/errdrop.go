package analyzers

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// ErrDrop refuses errors that are thrown away. Where there is nothing left to do
// about one, a comment on the line says why.
var ErrDrop = &analysis.Analyzer{
	Name: "errdrop",
	Doc:  "an error is handled, returned, or dropped with the reason in a comment on the line (or the one above)",
	Run:  runErrDrop,
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

func runErrDrop(pass *analysis.Pass) (any, error) {
	for _, f := range product(pass) {
		explained := commentedLines(pass, f)
		report := func(n ast.Node, what string) {
			line := pass.Fset.Position(n.Pos()).Line
			if !explained[line] && !explained[line-1] && !explained[pass.Fset.Position(n.End()).Line] {
				pass.Reportf(n.Pos(), "%s: handle the error, return it, or say in a comment why it may be dropped", what)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ExprStmt:
				if call, ok := n.X.(*ast.CallExpr); ok && dropsError(pass, call) {
					report(n, "error of "+callText(call)+" ignored")
				}
			case *ast.DeferStmt:
				if dropsError(pass, n.Call) && !givesUp(n.Call) {
					report(n, "error of deferred "+callText(n.Call)+" ignored")
				}
			case *ast.AssignStmt:
				for _, call := range blankErrors(pass, n) {
					report(n, "error of "+callText(call)+" assigned to _")
				}
			}
			return true
		})
	}
	return nil, nil
}

// givesUp knows the calls by which something is abandoned: when one of them fails
// there is nothing left to do, and `_ =` or defer says enough. (A file that was
// written is another matter; its Close is checked by whoever reviews the write.)
func givesUp(call *ast.CallExpr) bool {
	name := methodName(call)
	switch name {
	case "Close", "CloseWithError", "Remove", "RemoveAll", "CloseNow":
		return true
	}
	return strings.HasPrefix(name, "Set") && (strings.HasSuffix(name, "Deadline") || strings.HasPrefix(name, "SetKeepAlive"))
}

// dropsError reports whether the call returns an error worth looking at.
func dropsError(pass *analysis.Pass, call *ast.CallExpr) bool {
	if !returnsError(pass, call) {
		return false
	}
	pkg, name := callee(pass, call)
	switch {
	case pkg == "fmt" && strings.HasPrefix(name, "Fprint"), pkg == "fmt" && strings.HasPrefix(name, "Print"):
		return false // A terminal or buffer that cannot be written to cannot be told so either.
	case pkg == "crypto/rand":
		return false // Never fails: the runtime ends the process instead.
	}
	return !neverFails(pass, call)
}

// neverFails knows the writers whose error is for the interface's sake.
func neverFails(pass *analysis.Pass, call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	recv := pass.TypesInfo.TypeOf(sel.X)
	if recv == nil {
		return false
	}
	text := strings.TrimPrefix(recv.String(), "*")
	switch text {
	case "bytes.Buffer", "strings.Builder", "hash.Hash", "hash.Hash32", "hash.Hash64", "hash/maphash.Hash", "math/rand.Rand",
		"github.com/cespare/xxhash/v2.Digest", "io.PipeReader", "io.PipeWriter":
		return true
	}
	return false
}

func returnsError(pass *analysis.Pass, call *ast.CallExpr) bool {
	switch t := pass.TypesInfo.TypeOf(call).(type) {
	case nil:
		return false
	case *types.Tuple:
		return t.Len() > 0 && isError(t.At(t.Len()-1).Type())
	default:
		return isError(t)
	}
}

func isError(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Pkg() == nil && types.Implements(t, errorType)
}

// blankErrors finds the calls of an assignment whose error goes to _.
func blankErrors(pass *analysis.Pass, n *ast.AssignStmt) []*ast.CallExpr {
	last, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
	if !ok || last.Name != "_" {
		return nil
	}
	call, ok := n.Rhs[len(n.Rhs)-1].(*ast.CallExpr)
	if !ok || !dropsError(pass, call) || givesUp(call) {
		return nil
	}
	return []*ast.CallExpr{call}
}

func methodName(call *ast.CallExpr) string {
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		return sel.Sel.Name
	}
	return ""
}

func callText(call *ast.CallExpr) string {
	if name := methodName(call); name != "" {
		return name
	}
	if id, ok := call.Fun.(*ast.Ident); ok {
		return id.Name
	}
	return "call"
}

// commentedLines gives the lines on which a comment ends.
func commentedLines(pass *analysis.Pass, f *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.Comments {
		lines[pass.Fset.Position(group.End()).Line] = true
	}
	return lines
}
