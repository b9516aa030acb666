package law

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapRow matches a row of the code map: names, then optional folders in parentheses that
// tell packages of the same name apart.
var (
	mapRow  = regexp.MustCompile("(?m)^\\| (`[^|(]+?) ?(?:\\(([^|)]*)\\))? \\|[^|]*\\|[^|]*\\|$")
	mapName = regexp.MustCompile("`([^`]+)`")
)

// A newcomer looks a package up in the code map: it has a row for each, and none for a
// package that is gone.
func TestDocs_CodeMapNamesEveryPackageOnce(t *testing.T) {
	t.Parallel()
	dir := root(t)
	_, text, _ := strings.Cut(read(t, filepath.Join(dir, "ARCHITECTURE.md")), "\n## Code map\n")
	text, _, _ = strings.Cut(text, "\n## ")
	type entry struct{ name, under string }
	rows := map[entry]int{} // To the number of packages that it names.
	for _, row := range mapRow.FindAllStringSubmatch(text, -1) {
		under := strings.Trim(row[2], "`")
		if under == "module" {
			continue // Protos and what is generated from them.
		}
		for _, name := range mapName.FindAllStringSubmatch(row[1], -1) {
			e := entry{name[1], under}
			if _, twice := rows[e]; twice {
				t.Errorf("ARCHITECTURE.md has two rows for %s", e.name)
			}
			rows[e] = 0
		}
	}
	for _, p := range packages(t, dir) {
		var found []entry
		for e := range rows {
			if strings.HasSuffix("/"+p, "/"+e.name) && strings.HasPrefix(p+"/", e.under) {
				found = append(found, e)
			}
		}
		if len(found) != 1 {
			t.Errorf("the code map in ARCHITECTURE.md has %d rows for %s : a name that several packages have needs its folder in parentheses", len(found), p)
		}
		for _, e := range found {
			rows[e]++
		}
	}
	for e, n := range rows {
		if n != 1 {
			t.Errorf("the code map's row for %s (%s) names %d packages", e.name, e.under, n)
		}
	}
}

// packages lists the folders with hand-written Go code but examples.
func packages(t *testing.T, dir string) []string {
	t.Helper()
	files, err := Files(dir, ".go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		folder := path.Dir(f)
		if !strings.Contains(f, "/gen/") && !strings.Contains(f, "/examples/") && !slices.Contains(out, folder) {
			out = append(out, folder)
		}
	}
	return out
}
