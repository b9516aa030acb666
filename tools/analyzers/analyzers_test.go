package analyzers_test

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/corvo-cloud/corvo/tools/analyzers"
)

// Each file under testdata breaks the rules in marked places; a rule that
// reports too little or too much fails here.
func TestAnalyzers_ReportExactlyTheMarkedLines(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name      string
		pkg       string
		analyzers []*analysis.Analyzer
	}{
		{"determinism", "data-plane/internal/engine/state", []*analysis.Analyzer{analyzers.Determinism}},
		{"determinism is only asked of rooms under apply", "data-plane/internal/free", []*analysis.Analyzer{analyzers.Determinism, analyzers.ExportedDoc, analyzers.ErrDrop}},
		{"house", "data-plane/internal/engine/shard", []*analysis.Analyzer{analyzers.Forbidden, analyzers.Print, analyzers.NoInit, analyzers.Todo}},
		{"missing package comment", "data-plane/internal/nodoc", []*analysis.Analyzer{analyzers.PackageDoc}},
		{"shapeless package comment, printing allowed", "cli/internal/cli", []*analysis.Analyzer{analyzers.PackageDoc, analyzers.Print}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			analysistest.Run(t, analysistest.TestData(), merge(tc.analyzers), analyzers.Module+tc.pkg)
		})
	}
}

// What staticcheck finds unused is reported, and the rest of its checks are there.
func TestStaticcheck_IsWhole(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Unused, analyzers.Module+"data-plane/internal/unused")
	names := map[string]bool{}
	for _, a := range analyzers.Staticcheck() {
		names[a.Name] = true
	}
	for _, name := range []string{"unusedcode", "SA1019", "SA4006", "S1000", "ST1005"} {
		if !names[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if names["ST1000"] {
		t.Error("ST1000 is one that staticcheck leaves out")
	}
}

// merge runs several analyzers as one, since the marks in a file must be met by one run.
func merge(all []*analysis.Analyzer) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "merged",
		Doc:  "several analyzers as one",
		Run: func(pass *analysis.Pass) (any, error) {
			for _, a := range all {
				if _, err := a.Run(pass); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}
}
