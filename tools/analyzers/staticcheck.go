package analyzers

import (
	"go/token"
	"slices"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// Staticcheck lists what the program of that name checks when nobody chooses.
func Staticcheck() []*analysis.Analyzer {
	all := []*analysis.Analyzer{Unused}
	for _, a := range slices.Concat(staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers) {
		if !a.Doc.NonDefault {
			all = append(all, a.Analyzer)
		}
	}
	return all
}

// Unused reports what staticcheck's U1000 finds, which leaves that to its caller. go vet
// shows a package with its tests, so what only they use is used.
var Unused = &analysis.Analyzer{
	Name:     "unusedcode",
	Doc:      "nothing is declared that nothing uses",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		found, _ := pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result)
		for _, o := range found.Unused {
			pass.Reportf(placeIn(pass, o.Position), "%s %s is unused", o.Kind, o.Name)
		}
		return nil, nil
	},
}

func placeIn(pass *analysis.Pass, at token.Position) token.Pos {
	for _, f := range pass.Files {
		if file := pass.Fset.File(f.Pos()); file.Name() == at.Filename {
			return file.Pos(at.Offset)
		}
	}
	return token.NoPos
}
