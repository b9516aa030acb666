package quickstart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/tools/law"
)

// A page of docs/features is read from top to bottom against one service: blocks
// marked `sh` are run, the `go` block is a program of sdks/go/examples and is run too,
// and a `text` block after either is what it prints. An … in it matches anything.
func TestFeatures_PagesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the whole service")
	}
	root, err := law.Root()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/features/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	desk := newDesk(t, root)
	desk.startService()
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			desk.followPage(t, name, fenced(string(page)))
		})
	}
}

// block is a fenced block of a page.
type block struct{ info, body string }

func fenced(page string) []block {
	var out []block
	for rest := "\n" + page; ; {
		_, after, ok := strings.Cut(rest, "\n```")
		if !ok {
			return out
		}
		info, body, _ := strings.Cut(after, "\n")
		body, next, ok := strings.Cut("\n"+body, "\n```")
		if !ok {
			return out
		}
		out = append(out, block{info, strings.TrimPrefix(body, "\n")})
		rest = next
	}
}

func (d *desk) followPage(t *testing.T, name string, blocks []block) {
	t.Helper()
	const mark = "--- block "
	script := "set -euo pipefail\nset -a; . .run/env; set +a\nPATH=$PWD/.bin:$PATH\n"
	programs := 0
	for i, b := range blocks {
		switch b.info {
		case "sh":
			script += fmt.Sprintf("echo '%s%d'\n%s\n", mark, i, b.body)
		case "go":
			programs++
			script += fmt.Sprintf("echo '%s%d'\n%s\n", mark, i, d.example(t, name, b.body))
		}
	}
	if programs != 1 && name != "audit" { // The Go client works with jobs.
		t.Errorf("%d programs on the page, want one", programs)
	}
	out := d.bash(t, script)
	for i, b := range blocks {
		if b.info != "text" || i == 0 {
			continue
		}
		_, said, _ := strings.Cut(out, fmt.Sprintf("%s%d\n", mark, i-1))
		said, _, _ = strings.Cut(said, mark)
		if line, ok := saysAll(said, b.body); !ok {
			t.Errorf("the page promises\n%s\nbut this was printed:\n%s", line, said)
		}
	}
}

// example builds the page's program and is the command that runs it.
func (d *desk) example(t *testing.T, name, code string) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(d.root, "sdks/go/examples", name, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, program, ok := strings.Cut(string(file), "\npackage main"); !ok || strings.TrimSpace("package main"+program) != strings.TrimSpace(code) {
		t.Errorf("the program on the page differs from sdks/go/examples/%s/main.go", name)
	}
	bin := filepath.Join(d.dir, ".bin", "example-"+name)
	if _, err := exec.LookPath(bin); err != nil {
		d.build(".", "./sdks/go/examples/"+name, "example-"+name)
	}
	return bin
}

// saysAll reports whether said has every line of want in order.
func saysAll(said, want string) (missing string, ok bool) {
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		rest := said
		for i, part := range strings.Split(line, "…") {
			at := strings.Index(rest, strings.TrimSpace(part))
			if at < 0 {
				return line, false
			}
			rest = rest[at+len(strings.TrimSpace(part)):]
			if i == 0 {
				said = rest
			}
		}
	}
	return "", true
}
