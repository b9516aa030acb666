package law

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A part of a command or record is a bit of its mask, and some version of the cell brought
// it: a program that does not know the bit refuses the value, so nobody may write it below
// that version (R18). testdata/parts.txt says which. A new part goes after the last one,
// gets the newest version there (-rewrite does both), and is written by what asks for that
// version: `needs` in the row of its command, `entry.version` where apply makes a record.
func TestStored_EveryPartOfAMaskHasItsVersion(t *testing.T) {
	internal := filepath.Join("..", "..", "data-plane", "internal", "engine")
	var s partSources
	for _, dir := range []string{"command", "records"} {
		for _, path := range goFiles(t, filepath.Join(internal, dir)) {
			s.masks = append(s.masks, masksOf(t, path, nil)...)
		}
	}
	for _, path := range goFiles(t, filepath.Join(internal, "state")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s.state += string(text)
	}
	s.highest = highestOf(t, filepath.Join(internal, "cellversion", "cellversion.go"))
	golden := filepath.Join("testdata", "parts.txt")
	file, err := os.ReadFile(golden)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(golden, []byte(s.written(string(file))), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, problem := range s.problems(string(file)) {
		t.Error(problem)
	}
}

// mask is the parts of one type, in the order of their bits.
type mask struct {
	of, room string
	parts    []string
}

// partSources is what the sources say about parts: the masks, the text of `state`, and the
// newest version of the cell.
type partSources struct {
	masks   []mask
	state   string
	highest int
}

// masksOf lists the masks of a file; text is its text, nil to read it.
func masksOf(t *testing.T, path string, text any) (masks []mask) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		first, _ := decl.Specs[0].(*ast.ValueSpec)
		of, ok := first.Type.(*ast.SelectorExpr)
		if !ok || of.Sel.Name != "Mask" {
			continue
		}
		m := mask{room: file.Name.Name}
		for _, spec := range decl.Specs {
			s, _ := spec.(*ast.ValueSpec)
			m.parts = append(m.parts, s.Names[0].Name)
		}
		m.of = ownerOf(file, m.parts[0])
		masks = append(masks, m)
	}
	return masks
}

// ownerOf is the type whose method `parts` names a part.
func ownerOf(file *ast.File, part string) (owner string) {
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "parts" || fn.Recv == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == part {
				star, _ := fn.Recv.List[0].Type.(*ast.StarExpr)
				name, _ := star.X.(*ast.Ident)
				owner = name.Name
			}
			return true
		})
	}
	return owner
}

func highestOf(t *testing.T, path string) int {
	t.Helper()
	for _, c := range constantsOf(t, path) {
		if value, ok := strings.CutPrefix(c, "Highest = "); ok && value == "First" {
			return 1
		} else if ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%s: Highest is %s, want a number", path, value)
			}
			return n
		}
	}
	t.Fatalf("%s has no Highest", path)
	return 0
}

// known reads "part version" lines.
func known(file string) map[string]int {
	versions := map[string]int{}
	for line := range strings.Lines(file) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		versions[name], _ = strconv.Atoi(version)
	}
	return versions
}

// written is the file with the parts that are new, as of the newest version.
func (s *partSources) written(file string) string {
	versions := known(file)
	var lines []string
	for _, m := range s.masks {
		for _, p := range m.parts {
			if versions[p] == 0 {
				versions[p] = s.highest
			}
			lines = append(lines, p+" "+strconv.Itoa(versions[p])+"\n")
		}
	}
	return strings.Join(lines, "")
}

func (s *partSources) problems(file string) (all []string) {
	versions := known(file)
	seen := 0
	for _, m := range s.masks {
		last := 1
		for _, p := range m.parts {
			v := versions[p]
			switch {
			case v == 0:
				all = append(all, p+" is a new part: give it its version (go test ./law -run TestStored -rewrite)")
				continue
			case v < last || v > s.highest:
				all = append(all, p+" is of version "+strconv.Itoa(v)+": a new part goes behind the last one, and the newest version is "+strconv.Itoa(s.highest))
			case v > 1 && m.room == "command" && !strings.Contains(s.state, "needs(func(c *command."+m.of+")"):
				all = append(all, p+": the row of "+m.of+" in state/table.go does not say that it needs version "+strconv.Itoa(v))
			case v > 1 && m.room == "records" && !strings.Contains(s.state, "version >= "+strconv.Itoa(v)):
				all = append(all, p+": nothing in state asks for version "+strconv.Itoa(v)+" before it writes the part")
			}
			last, seen = v, seen+1
		}
	}
	if seen < len(versions) {
		all = append(all, "a part is gone: bits are never taken back")
	}
	return all
}

const (
	noteMask = "package command\nconst (\n\tnoteText codec.Mask = 1 << iota\n\tnoteFrom\n)\n" +
		"func (n *Note) parts() codec.Mask { return noteText.If(true) | noteFrom.If(false) }\n"
	cardMask = "package records\nconst (\n\tcardText codec.Mask = 1 << iota\n\tcardFrom\n)\n" +
		"func (c *Card) parts() codec.Mask { return cardText | cardFrom }\n"
)

func TestStored_PartsThatAreNeverSwitchedOnAreFound(t *testing.T) {
	masks := append(masksOf(t, "note.go", noteMask), masksOf(t, "card.go", cardMask)...)
	if len(masks) != 2 || masks[0].of != "Note" || !slices.Equal(masks[1].parts, []string{"cardText", "cardFrom"}) {
		t.Fatalf("read %+v", masks)
	}
	switched := "needs(func(c *command.Note) cellversion.Version {\n if x.version >= 2 {"
	for name, c := range map[string]struct {
		file, state string
		highest     int
		want        string
	}{
		"all of version 1":             {"noteText 1\nnoteFrom 1\ncardText 1\ncardFrom 1\n", "", 1, ""},
		"switched on":                  {"noteText 1\nnoteFrom 2\ncardText 1\ncardFrom 2\n", switched, 2, ""},
		"not in the file":              {"noteText 1\ncardText 1\ncardFrom 1\n", "", 1, "noteFrom is a new part"},
		"a command that needs nothing": {"noteText 1\nnoteFrom 2\ncardText 1\ncardFrom 1\n", "", 2, "the row of Note"},
		"a record that nobody guards":  {"noteText 1\nnoteFrom 1\ncardText 1\ncardFrom 2\n", "", 2, "nothing in state asks"},
		"of a version that is not":     {"noteText 1\nnoteFrom 3\ncardText 1\ncardFrom 1\n", switched, 2, "noteFrom is of version 3"},
		"before an older one":          {"noteText 2\nnoteFrom 1\ncardText 1\ncardFrom 1\n", switched, 2, "noteFrom is of version 1"},
		"gone":                         {"noteText 1\nnoteFrom 1\nnoteOld 1\ncardText 1\ncardFrom 1\n", "", 1, "a part is gone"},
	} {
		s := partSources{masks, c.state, c.highest}
		got := strings.Join(s.problems(c.file), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	s := partSources{masks, "", 2}
	if got, want := s.written("noteText 1\ncardText 1\ncardFrom 1\n"), "noteText 1\nnoteFrom 2\ncardText 1\ncardFrom 1\n"; got != want {
		t.Errorf("written %q, want %q", got, want)
	}
}
