package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// perMutant bounds one run of the tests; a mutant that hangs counts as caught.
const perMutant = 90 * time.Second

func main() {
	module := flag.String("module", "data-plane", "directory of the module")
	only := flag.String("only", "", "run only mutations whose description contains this")
	from := flag.Int("from", 0, "skip so many mutations")
	flag.Parse()
	if err := run(*module, *only, *from); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(module, only string, from int) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fmt.Errorf("make a directory for the overlays: %w", err)
	}
	survivors, ran := 0, 0
	var broken error
	all := slices.Concat(mutations, ruleMutations)
	for _, m := range all[min(from, len(all)):] {
		if !strings.Contains(m.what, only) {
			continue
		}
		ran++
		caught, err := m.run(module, dir)
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", m.what, err))
			continue
		}
		if caught == "" {
			survivors++
			caught = "NOBODY"
		}
		fmt.Printf("%-62s %s\n", m.what, caught)
	}
	switch {
	case survivors > 0:
		err = fmt.Errorf("%d of %d mutations were noticed by no test", survivors, ran)
	case broken == nil:
		fmt.Printf("mutants: all %d were caught\n", ran)
	}
	return errors.Join(broken, err, os.RemoveAll(dir))
}

// run returns the tests that failed, or nothing if the mutant survived.
func (m mutation) run(module, dir string) (string, error) {
	overlay, err := m.overlay(module, dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), perMutant)
	defer cancel()
	pkg := "./" + filepath.ToSlash(filepath.Dir(m.file))
	// What a failing property test would keep must not land in the tree, and nobody
	// needs it made small.
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-failfast", "-timeout", "60s", "-overlay", overlay, pkg,
		"-rapid.nofailfile", "-rapid.shrinktime=1ms")
	test.Dir = module
	out, err := test.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "(time ran out)", nil
	case !errors.As(err, &exit):
		return "", fmt.Errorf("run the tests: %w", err)
	case strings.Contains(string(out), " failed]"): // [build failed], [setup failed]
		return "", fmt.Errorf("the mutant does not build: bring the table up to date\n%s", out)
	default:
		return failed(string(out)), nil
	}
}

// overlay writes the broken file and the description that puts it over the real one.
func (m mutation) overlay(module, dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(module, m.file))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", m.file, err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the file to break: %w", err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("%s has %q %d times: bring the table up to date", m.file, m.old, n)
	}
	broken := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(broken, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", fmt.Errorf("write the broken file: %w", err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		return "", fmt.Errorf("describe the overlay: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failed names the first tests of the output that failed, the most exact ones.
func failed(out string) string {
	var names []string
	for _, f := range failLine.FindAllStringSubmatch(out, -1) {
		if n := len(names); n > 0 && strings.HasPrefix(f[1], names[n-1]+"/") {
			names[n-1] = f[1] // The script says more than the test that runs it.
			continue
		}
		names = append(names, f[1])
	}
	switch {
	case len(names) == 0 && strings.Contains(out, "panic:"):
		return "(panic) " + firstLine(out[strings.Index(out, "panic:"):])
	case len(names) == 0:
		return "(failed) " + firstLine(out)
	case len(names) > 3:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	default:
		return strings.Join(names, ", ")
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
