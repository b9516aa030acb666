package analyzers

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// PackageDoc asks every package to say what it is for.
var PackageDoc = &analysis.Analyzer{
	Name: "packagedoc",
	Doc:  "every package has a doc comment: what it owns, what it must not know, one surprising fact",
	Run:  runPackageDoc,
}

func runPackageDoc(pass *analysis.Pass) (any, error) {
	files := product(pass)
	if len(files) == 0 {
		return nil, nil // Generated code or tests only.
	}
	want := "Package " + pass.Pkg.Name() + " "
	if pass.Pkg.Name() == "main" {
		want = "Command "
	}
	for _, f := range files {
		if f.Doc == nil {
			continue
		}
		if !strings.HasPrefix(f.Doc.Text(), want) {
			pass.Reportf(f.Name.Pos(), "the package comment begins with %q", want+"…")
		}
		return nil, nil
	}
	pass.Reportf(files[0].Name.Pos(), "package %s has no doc comment (what it owns, what it must not know, one surprising fact)", pass.Pkg.Name())
	return nil, nil
}

// forbiddenImports names what to use instead.
var forbiddenImports = map[string]string{
	"golang.org/x/net/http2/h2c": "its handler hijacks connections that Shutdown then neither waits for nor drains; use http.Protocols with SetUnencryptedHTTP2 (R27)",
	"io/ioutil":                  "use io and os",
}

// Forbidden refuses library parts that have hurt this stack.
var Forbidden = &analysis.Analyzer{
	Name: "forbidden",
	Doc:  "no httputil.ReverseProxy (streams are never told that the cell died), no x/net h2c handler, no global logger",
	Run:  runForbidden,
}

func runForbidden(pass *analysis.Pass) (any, error) {
	for _, f := range product(pass) {
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // The compiler has refused this file already.
			}
			if instead, bad := forbiddenImports[path]; bad {
				pass.Reportf(spec.Pos(), "import of %s: %s", path, instead)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				checkForbiddenUse(pass, id)
			}
			return true
		})
	}
	return nil, nil
}

func checkForbiddenUse(pass *analysis.Pass, id *ast.Ident) {
	obj := pass.TypesInfo.Uses[id]
	if obj == nil || obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return
	}
	switch obj.Pkg().Path() + "." + obj.Name() {
	case "net/http/httputil.ReverseProxy", "net/http/httputil.NewSingleHostReverseProxy":
		pass.Reportf(id.Pos(), "httputil.%s: a stream through it is not told when its upstream dies, and hangs on early trailers; use our forwarder", obj.Name())
	case "log.New": // Other people's interfaces ask for a *log.Logger.
	default:
		if fn, ok := obj.(*types.Func); ok && obj.Pkg().Path() == "log" {
			pass.Reportf(id.Pos(), "log.%s writes to the global logger: use the slog.Logger you were given", fn.Name())
		}
	}
}

// printRooms may write to standard output: they talk to a person at a terminal.
var printRooms = []string{
	Module + "cli/cmd",
	Module + "cli/internal/cli",
	Module + "services/cmd",
	Module + "sdks/go/examples",
	Module + "tools",
}

// Print keeps output in the hands of the command line.
var Print = &analysis.Analyzer{
	Name: "print",
	Doc:  "only the command line prints; everything else logs with slog or writes to an io.Writer it was given",
	Run:  runPrint,
}

func runPrint(pass *analysis.Pass) (any, error) {
	if path := packagePath(pass); within(path, printRooms...) || !strings.HasPrefix(path, Module) {
		return nil, nil
	}
	for _, f := range product(pass) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				fn, ok := pass.TypesInfo.Uses[n.Sel].(*types.Func)
				if ok && fn.Pkg() != nil && fn.Pkg().Path() == "fmt" && strings.HasPrefix(fn.Name(), "Print") {
					pass.Reportf(n.Pos(), "fmt.%s outside the command line: log with slog or write to an io.Writer", fn.Name())
				}
			case *ast.CallExpr:
				id, ok := n.Fun.(*ast.Ident)
				if !ok {
					return true
				}
				if b, ok := pass.TypesInfo.Uses[id].(*types.Builtin); ok && strings.HasPrefix(b.Name(), "print") {
					pass.Reportf(n.Pos(), "%s is for debugging the runtime", b.Name())
				}
			}
			return true
		})
	}
	return nil, nil
}

// NoInit keeps start-up order readable: main calls constructors.
var NoInit = &analysis.Analyzer{
	Name: "noinit",
	Doc:  "no init functions: what happens at start is called from main",
	Run:  runNoInit,
}

func runNoInit(pass *analysis.Pass) (any, error) {
	for _, f := range product(pass) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				pass.Reportf(fn.Pos(), "func init: construct what is needed where it is needed")
			}
		}
	}
	return nil, nil
}

var (
	todo      = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	ownedTodo = regexp.MustCompile(`\bTODO\((?:#\d+|[a-z][a-z0-9-]*(?:/[a-z0-9-]+#\d+)?)\): \S`)
)

// Todo asks unfinished work to say whose it is.
var Todo = &analysis.Analyzer{
	Name: "todo",
	Doc:  "a TODO names its issue or owner: TODO(#12): what is missing",
	Run:  runTodo,
}

func runTodo(pass *analysis.Pass) (any, error) {
	for _, f := range pass.Files {
		if ast.IsGenerated(f) {
			continue
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				reportOwnerless(pass, c.Pos(), c.Text)
			}
		}
	}
	return nil, nil
}

func reportOwnerless(pass *analysis.Pass, pos token.Pos, text string) {
	for line := range strings.Lines(text) {
		if todo.MatchString(line) && !ownedTodo.MatchString(line) {
			pass.Reportf(pos, "write it as TODO(#issue): what is missing")
		}
	}
}

// ExportedDoc asks every exported name for a comment.
var ExportedDoc = &analysis.Analyzer{
	Name: "exporteddoc",
	Doc:  "exported functions, types, variables and constants have a comment (a group's comment counts for its members)",
	Run:  runExportedDoc,
}

func runExportedDoc(pass *analysis.Pass) (any, error) {
	if pass.Pkg.Name() == "main" {
		return nil, nil
	}
	for _, f := range product(pass) {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && d.Name.IsExported() && receiverExported(d) && !wellKnown[d.Name.Name] {
					pass.Reportf(d.Name.Pos(), "%s is exported and has no comment", d.Name.Name)
				}
			case *ast.GenDecl:
				if d.Doc == nil {
					checkSpecs(pass, d)
				}
			}
		}
	}
	return nil, nil
}

// wellKnown methods mean the same everywhere.
var wellKnown = map[string]bool{
	"Error": true, "Unwrap": true, "Is": true, "As": true, "String": true, "Close": true, "LogValue": true,
	"Read": true, "Write": true, "Len": true, "Less": true, "Swap": true, "ServeHTTP": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true,
	"Fields": true, "Encode": true, // Of a stored value.
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

func checkSpecs(pass *analysis.Pass, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Doc == nil && spec.Comment == nil && spec.Name.IsExported() {
				pass.Reportf(spec.Name.Pos(), "%s is exported and has no comment", spec.Name.Name)
			}
		case *ast.ValueSpec:
			if spec.Doc != nil || spec.Comment != nil || len(spec.Names) == 0 {
				continue
			}
			// The members of one typed list explain themselves once the type does.
			if name := spec.Names[0]; name.IsExported() && !(d.Tok == token.CONST && d.Lparen.IsValid()) {
				pass.Reportf(name.Pos(), "%s is exported and has no comment", name.Name)
			}
		}
	}
}
