package law

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// modulePath is what every import path of ours begins with.
const modulePath = "github.com/corvo-cloud/corvo/"

// skipDirs hold nothing that people write.
var skipDirs = []string{".git", ".bin", ".run", ".bench", "node_modules", "testdata"}

// Root finds the repository: the nearest folder upwards with a go.work.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.work above the working directory")
		}
		dir = parent
	}
}

// Files lists the repository's files whose name ends in one of the suffixes,
// relative to root with forward slashes, in order.
func Files(root string, suffixes ...string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipDirs, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		for _, s := range suffixes {
			if strings.HasSuffix(p, s) {
				rel, err := filepath.Rel(root, p)
				if err != nil {
					return err
				}
				out = append(out, filepath.ToSlash(rel))
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", root, err)
	}
	return out, nil
}

// An Import is one import line of a product file.
type Import struct {
	Room string // Folder of the importing file, relative to the repository.
	File string
	Path string // As written.
}

// Imports reads the import lines of every Go file that is not a test. Build tags
// are ignored on purpose: the law holds on every system.
func Imports(root string) ([]Import, error) {
	files, err := Files(root, ".go")
	if err != nil {
		return nil, err
	}
	var out []Import
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || strings.HasPrefix(f, "tools/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, f), nil, parser.ImportsOnly)
		if err != nil {
			return nil, fmt.Errorf("read imports of %s: %w", f, err)
		}
		room := path.Dir(f)
		if len(parsed.Imports) == 0 {
			out = append(out, Import{Room: room, File: f}) // The room exists all the same.
		}
		for _, spec := range parsed.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("read imports of %s: %w", f, err)
			}
			out = append(out, Import{Room: room, File: f, Path: p})
		}
	}
	return out, nil
}

// covers reports whether pattern (a path, or a path with /... behind) covers p.
func covers(pattern, p string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == base || strings.HasPrefix(p, base+"/")
	}
	return p == pattern
}

func coveredByAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, p) })
}

// roomOf finds the line of the table for a folder; a longer pattern wins.
func roomOf(folder string) (Room, bool) {
	var best Room
	found := false
	for _, r := range Rooms {
		if covers(r.Path, folder) && (!found || len(r.Path) > len(best.Path)) {
			best, found = r, true
		}
	}
	return best, found
}

// CheckImport says what is wrong with an import, or "".
func CheckImport(imp Import) string {
	room, ok := roomOf(imp.Room)
	if !ok {
		return fmt.Sprintf("%s: room %s has no line in tools/law/imports.go; decide what it may import and say why", imp.File, imp.Room)
	}
	if own, ok := strings.CutPrefix(imp.Path, modulePath); ok {
		if !coveredByAny(room.May, own) {
			return fmt.Sprintf("%s: %s may not import %s: %s", imp.File, imp.Room, own, room.Because)
		}
		return ""
	}
	for _, lib := range Libraries {
		if (imp.Path == lib.Path || strings.HasPrefix(imp.Path, lib.Path+"/")) && !coveredByAny(lib.Rooms, imp.Room) {
			return fmt.Sprintf("%s: %s may not import %s: %s", imp.File, imp.Room, imp.Path, lib.Because)
		}
	}
	return ""
}
