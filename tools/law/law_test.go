package law

import (
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

func TestImports_PointInwards(t *testing.T) {
	t.Parallel()
	imports, err := Imports(root(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) < 50 {
		t.Fatalf("read only %d import lines: the walk misses the tree", len(imports))
	}
	for _, problem := range uniq(imports, CheckImport) {
		t.Error(problem)
	}
}

// A line for a room that is gone, or an arrow to one, would make the drawing wrong.
func TestImports_TableNamesOnlyRoomsThatExist(t *testing.T) {
	t.Parallel()
	dir := root(t)
	seen := map[string]bool{}
	for _, r := range Rooms {
		if seen[r.Path] {
			t.Errorf("room %s has two lines", r.Path)
		}
		seen[r.Path] = true
		for _, p := range append([]string{r.Path}, r.May...) {
			folder := strings.TrimSuffix(p, "/...")
			if _, err := os.Stat(filepath.Join(dir, folder)); err != nil {
				t.Errorf("room %s names %s, which does not exist", r.Path, p)
			}
		}
	}
}

// An unused arrow is a permission that nobody needs.
func TestImports_EveryArrowIsUsed(t *testing.T) {
	t.Parallel()
	imports, err := Imports(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Rooms {
		for _, may := range r.May {
			used := slices.ContainsFunc(imports, func(imp Import) bool {
				own, ok := strings.CutPrefix(imp.Path, modulePath)
				return ok && covers(r.Path, imp.Room) && covers(may, own)
			})
			if !used {
				t.Errorf("%s may import %s but does not: take the arrow out of tools/law/imports.go", r.Path, may)
			}
		}
	}
	for _, lib := range Libraries {
		for _, room := range lib.Rooms {
			used := slices.ContainsFunc(imports, func(imp Import) bool {
				return strings.HasPrefix(imp.Path, lib.Path) && covers(room, imp.Room)
			})
			if !used {
				t.Errorf("%s may import %s but does not: take it out of tools/law/imports.go", room, lib.Path)
			}
		}
	}
}

func TestImports_BreachesAreSeen(t *testing.T) {
	t.Parallel()
	own := func(p string) string { return modulePath + p }
	cases := []struct {
		name, room, path string
		allowed          bool
	}{
		{"domain may use its words", "data-plane/internal/engine/state", own("data-plane/internal/engine/job"), true},
		{"state may not know raft", "data-plane/internal/engine/state", "github.com/hashicorp/raft", false},
		{"state may not know the server", "data-plane/internal/engine/state", own("data-plane/internal/edge/server"), false},
		{"nobody imports server", "data-plane/internal/edge/queue", own("data-plane/internal/edge/server"), false},
		{"node imports all", "data-plane/node", own("data-plane/internal/edge/server"), true},
		{"the floor stores, the rest reads through it", "data-plane/internal/engine/state", "github.com/cockroachdb/pebble/v2", false},
		{"proxy may not start a node", "services/proxy", own("data-plane/node"), false},
		{"api may not reach its parent's internals", "data-plane/api/forward", own("data-plane/internal/fault"), false},
		{"sdk knows the contract only", "sdks/go/corvo", own("data-plane/node"), false},
		{"a longer line wins", "data-plane/api/apikey", own("data-plane/api/identity"), false},
		{"unknown room", "data-plane/internal/drawer", "fmt", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			problem := CheckImport(Import{Room: tc.room, File: tc.room + "/x.go", Path: tc.path})
			if (problem == "") != tc.allowed {
				t.Errorf("got %q, want allowed=%v", problem, tc.allowed)
			}
		})
	}
}

func TestModules_ShareOneGoVersionAndNameTheirSiblings(t *testing.T) {
	t.Parallel()
	dir := root(t)
	work := parseWork(t, dir)
	mods, err := Files(dir, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]*modfile.File{} // Module path to its file.
	for _, m := range mods {
		f := parseMod(t, dir, m)
		byPath[f.Module.Mod.Path] = f
		if f.Go == nil || f.Go.Version != work.Go.Version {
			t.Errorf("%s: go version differs from go.work's %s", m, work.Go.Version)
		}
		if f.Toolchain != nil {
			t.Errorf("%s: the toolchain line belongs nowhere; the version in go.work is enough", m)
		}
		if want := modulePath + path.Dir(m); f.Module.Mod.Path != want {
			t.Errorf("%s: module path is %s, want %s", m, f.Module.Mod.Path, want)
		}
	}
	for _, m := range mods {
		inWork := slices.ContainsFunc(work.Use, func(u *modfile.Use) bool { return path.Clean(u.Path) == path.Dir(m) })
		// The tools' dependencies must not raise the product's versions.
		if inWork == strings.HasPrefix(m, "tools/") {
			t.Errorf("%s: in go.work: %v; every module but tools belongs there", m, inWork)
		}
	}
	for p, f := range byPath {
		replaced := map[string]string{}
		for _, r := range f.Replace {
			replaced[r.Old.Path] = r.New.Path
			if !strings.HasPrefix(r.New.Path, ".") {
				t.Errorf("%s: replace of %s with another module; pin a version instead", p, r.Old.Path)
			}
		}
		// Replaces are not inherited, so every sibling behind a sibling counts.
		for sibling := range siblings(p, byPath, map[string]bool{}) {
			rel, err := filepath.Rel(strings.TrimPrefix(p, modulePath), strings.TrimPrefix(sibling, modulePath))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(rel, ".") {
				rel = "./" + rel
			}
			if replaced[sibling] != rel {
				t.Errorf("%s: want replace %s => %s, have %q", p, sibling, rel, replaced[sibling])
			}
		}
	}
}

// An arrow that runs up would make the engine wait for its clients.
func TestModules_RequireOnlyWhatLiesBelow(t *testing.T) {
	t.Parallel()
	dir := root(t)
	mods, err := Files(dir, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	below := map[string]bool{} // What the lines above name.
	for _, m := range Modules {
		for _, may := range m.May {
			if !below[may] {
				t.Errorf("%s may require %s, which is not listed before it in Modules", m.Path, may)
			}
		}
		below[m.Path] = true
		file := m.Path + "/go.mod"
		if !slices.Contains(mods, file) {
			t.Errorf("Modules names %s, which is no module", m.Path)
			continue
		}
		if got := ours(parseMod(t, dir, file)); !slices.Equal(got, m.May) {
			t.Errorf("%s requires %v, want %v as in Modules", file, got, m.May)
		}
	}
	if len(mods) != len(Modules) {
		t.Errorf("there are %d modules and Modules names %d", len(mods), len(Modules))
	}
}

// ours lists the modules of this repository that a module requires, in order.
func ours(f *modfile.File) []string {
	var out []string
	for _, r := range f.Require {
		if own, ok := strings.CutPrefix(r.Mod.Path, modulePath); ok {
			out = append(out, own)
		}
	}
	slices.Sort(out)
	return out
}

func siblings(p string, byPath map[string]*modfile.File, seen map[string]bool) map[string]bool {
	f := byPath[p]
	if f == nil {
		return seen
	}
	for _, r := range f.Require {
		if strings.HasPrefix(r.Mod.Path, modulePath) && !seen[r.Mod.Path] {
			seen[r.Mod.Path] = true
			siblings(r.Mod.Path, byPath, seen)
		}
	}
	return seen
}

// cited matches the names of rules the way comments write them.
var cited = regexp.MustCompile(`\b(?:R\d+|R-[A-Z]\d+|INV-\d+|D\d+|[Ll]aw \d+)\b`)

func TestComments_CiteOnlyRulesDefinedInLaws(t *testing.T) {
	t.Parallel()
	dir := root(t)
	defined := definedRules(t, dir)
	for _, want := range []string{"law 1", "law 10", "R1", "R30", "R-L1", "R-T1", "R-C1", "INV-1", "INV-21", "D1", "D20"} {
		if !defined[want] {
			t.Errorf("docs/laws.md does not define %s", want)
		}
	}
	files, err := Files(dir, ".go", ".proto")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, name := range cited.FindAllString(comments(t, filepath.Join(dir, f)), -1) {
			name = strings.Replace(name, "Law", "law", 1)
			if !defined[name] {
				t.Errorf("%s cites %s, which docs/laws.md does not define", f, name)
			}
		}
	}
}

var ruleLine = regexp.MustCompile(`(?m)^\| (?:\*\*)?(law \d+|R\d+|R-[A-Z]\d+|INV-\d+|D\d+)(?:\*\*)? \|`)

func definedRules(t *testing.T, dir string) map[string]bool {
	t.Helper()
	defined := map[string]bool{}
	for _, m := range ruleLine.FindAllStringSubmatch(read(t, filepath.Join(dir, "docs/laws.md")), -1) {
		if defined[m[1]] {
			t.Errorf("docs/laws.md defines %s twice", m[1])
		}
		defined[m[1]] = true
	}
	return defined
}

var testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)

func TestDocs_NamedTestsExist(t *testing.T) {
	t.Parallel()
	dir := root(t)
	var tests strings.Builder
	files, err := Files(dir, "_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		tests.WriteString(read(t, filepath.Join(dir, f)))
	}
	source := tests.String()
	for _, doc := range documents(t, dir) {
		for _, name := range testName.FindAllString(read(t, filepath.Join(dir, doc)), -1) {
			if !strings.Contains(source, "func "+name+"(") {
				t.Errorf("%s names %s, which does not exist", doc, name)
			}
		}
	}
}

// outside matches pages and folders that readers of this repository do not have.
var outside = regexp.MustCompile(`/work/|\b\d-(?:rulings|mission|architecture|engine|cloud|terraform|experience|reliability|test-parts)\b|house-style|design/traps|\bworker-api\b`)

func TestText_PointsNowhereOutside(t *testing.T) {
	t.Parallel()
	dir := root(t)
	files, err := Files(dir, ".go", ".proto", ".md", ".yaml", ".yml", ".sh", "Makefile", ".txt", ".txtar", "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f == "tools/law/law_test.go" {
			continue // Names what it looks for.
		}
		if found := outside.FindString(read(t, filepath.Join(dir, f))); found != "" {
			t.Errorf("%s mentions %q, which is not part of this repository", f, found)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestDocs_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	dir := root(t)
	for _, doc := range documents(t, dir) {
		for _, m := range link.FindAllStringSubmatch(read(t, filepath.Join(dir, doc)), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, path.Dir(doc), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, m[1])
			}
		}
	}
}

// The README's table is the first map a newcomer sees.
func TestDocs_ReadmeNamesEveryFolder(t *testing.T) {
	t.Parallel()
	dir := root(t)
	readme := read(t, filepath.Join(dir, "README.md"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !strings.Contains(readme, "`"+e.Name()+"/`") {
			t.Errorf("README.md does not say what %s/ is", e.Name())
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func documents(t *testing.T, dir string) []string {
	t.Helper()
	docs, err := Files(dir, ".md")
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func parseWork(t *testing.T, dir string) *modfile.WorkFile {
	t.Helper()
	f, err := modfile.ParseWork("go.work", []byte(read(t, filepath.Join(dir, "go.work"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func parseMod(t *testing.T, dir, file string) *modfile.File {
	t.Helper()
	f, err := modfile.Parse(file, []byte(read(t, filepath.Join(dir, file))), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// comments gives the comment text of a Go file; a proto's are found by the same
// scanner, since both languages write them alike.
func comments(t *testing.T, file string) string {
	t.Helper()
	src := []byte(read(t, file))
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile(file, -1, len(src)), src, nil, scanner.ScanComments)
	var out strings.Builder
	for {
		_, tok, lit := s.Scan()
		if tok == token.EOF {
			return out.String()
		}
		if tok == token.COMMENT {
			out.WriteString(lit)
			out.WriteByte('\n')
		}
	}
}

// uniq maps and drops empty and repeated answers.
func uniq[T any](in []T, f func(T) string) []string {
	var out []string
	for _, v := range in {
		if s := f(v); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// reason matches the places where a word that customers' programs compare is written.
var reason = regexp.MustCompile(`(?:fault\.New\(\s*fault\.\w+,|Reason:|refuse\(\s*(?:\d+|fault\.\w+),|\{\d{3},|writeStatus\([^"]*)\s*"([A-Z][A-Z_]+)"`)

// customers' calls are refused by these rooms; the others answer operators.
var refusing = []string{
	"data-plane/internal/edge/cluster/", "data-plane/internal/engine/dispatch/", "data-plane/internal/floor/group/", "data-plane/internal/edge/queue/", "data-plane/internal/edge/readmodel/",
	"data-plane/internal/edge/server/", "data-plane/internal/engine/shard/", "data-plane/internal/engine/state/", "services/proxy/",
}

func TestDocs_EveryReasonOfARefusalIsInTheTable(t *testing.T) {
	t.Parallel()
	dir := root(t)
	files, err := Files(dir, ".go")
	if err != nil {
		t.Fatal(err)
	}
	table := read(t, filepath.Join(dir, "docs/api.md"))
	words := read(t, filepath.Join(dir, "data-plane/api/wire/codes.go"))
	found := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || !slices.ContainsFunc(refusing, func(room string) bool { return strings.HasPrefix(f, room) }) {
			continue
		}
		for _, m := range reason.FindAllStringSubmatch(read(t, filepath.Join(dir, f)), -1) {
			found++
			if !regexp.MustCompile("(?m)^\\|.*`" + m[1] + "`").MatchString(table) {
				t.Errorf("%s refuses with %s, which is not in the table of docs/api.md", f, m[1])
			}
			if !strings.Contains(words, strconv.Quote(m[1])) {
				t.Errorf("%s refuses with %s, which is not in data-plane/api/wire/codes.go", f, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d reasons were found: the pattern fits no more", found)
	}
}
