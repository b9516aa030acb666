package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// perRound bounds one run of tests. It is long: a room that is merely slow on a busy machine
// must not look like one whose tests fail.
const (
	perRound = 5 * time.Minute
	// perSeeds is for three whole cells in virtual time.
	perSeeds = 15 * time.Minute
)

// ranOut is what "caught" a mutant whose tests did not end. That proves nothing, unless it
// is the bug that makes them hang.
const ranOut = "(time ran out)"

// hang are the mutants that are noticed because nothing goes on, by their description.
var hang = map[string]bool{"the last reader of a transfer keeps its slot": true}

// roundsOfRoom is how the tests of a package are run, until one fails: the scripts, which take
// no time and name the rule; what is about one rule; and last what draws its cases,
// so that the table names it only where nobody else looks.
var roundsOfRoom = [][]string{
	{"-test.run", "^TestScripts$"},
	{"-test.skip", "^TestScripts$|^Test(Model|Replicas|Groups|Apply)_|^Fuzz"},
	{"-test.skip", "^TestScripts$"},
}

// rounds is how the tests of a room of a module are run.
func rounds(module string) [][]string {
	if filepath.ToSlash(module) == faultsModule {
		return [][]string{{"-test.run", "^TestSim_NoFault", "-sim.seeds", "3"}}
	}
	return roundsOfRoom
}

// try returns the tests that failed, or nothing if the mutant survived.
func (m mutation) try(ctx context.Context, module, dir string) (string, error) {
	dir, err := os.MkdirTemp(dir, "mutant")
	if err != nil {
		return "", fmt.Errorf("make a directory for the overlay: %w", err)
	}
	caught := ""
	for _, room := range m.testedBy() {
		if caught, err = m.tryRoom(ctx, module, dir, room); caught != "" || err != nil {
			break
		}
	}
	return caught, errors.Join(err, os.RemoveAll(dir))
}

// stateRoom is where the tests are that run whole entries.
const stateRoom = "internal/engine/state"

// listRoom is where the tests are that read jobs as people do.
const listRoom = "internal/edge/readmodel"

// testedBy are the rooms whose tests must notice: that of the file, for what is only a
// part of the state machine that of the machine, and for what reads it that of the lists.
func (m mutation) testedBy() []string {
	room := filepath.ToSlash(filepath.Dir(m.file))
	if strings.HasPrefix(room, "../") { // Noticed by another module.
		return []string{"."}
	}
	switch room {
	case "internal/server":
		return []string{room, "server"}
	case "internal/access":
		return []string{room, "internal/principals", "server"}
	case "internal/rights":
		return []string{room, "internal/principals", "internal/tenancy"}
	case "internal/engine/records":
		return []string{room, stateRoom}
	case "internal/engine/stateread":
		return []string{stateRoom, listRoom}
	default:
		return []string{room}
	}
}

func (m mutation) tryRoom(ctx context.Context, module, dir, room string) (caught string, err error) {
	tests := filepath.Join(dir, "tests")
	if err := m.build(ctx, module, dir, room, tests); err != nil {
		return "", err
	}
	for _, round := range rounds(module) {
		if caught, err = m.round(ctx, module, room, tests, round); caught != "" || err != nil {
			break
		}
	}
	return caught, err
}

// build makes the test binary of a room with the broken file in it. It is for one
// run: not optimising it costs less time than it takes.
func (m mutation) build(ctx context.Context, module, dir, room, tests string) error {
	overlay, err := m.overlay(module, dir)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-N -l -dwarf=false", "-ldflags=-s -w", "-overlay", overlay, "-o", tests,
		"./"+room)
	build.Dir = module
	build.Env = append(os.Environ(), "GOTMPDIR="+dir)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the mutant does not build: bring the table up to date: %w\n%s", err, out)
	}
	return nil
}

// round runs some of the tests up to the first that fails.
func (m mutation) round(ctx context.Context, module, room, tests string, which []string) (string, error) {
	bound := perRound
	if filepath.ToSlash(module) == faultsModule {
		bound = perSeeds
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	// What a failing property test would keep must not land in the tree, and nobody
	// needs it made small.
	args := append([]string{"-test.failfast", "-test.timeout", "0"}, which...)
	if drawsCases(ctx, tests) {
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	run := exec.CommandContext(ctx, tests, args...)
	run.Dir = filepath.Join(module, room)
	run.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(tests)) // Goes with the binary, also if the tests were killed.
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return ranOut, nil
	case !errors.As(err, &exit):
		return "", fmt.Errorf("run the tests: %w", err)
	default:
		return failed(string(out))
	}
}

// drawsCases reports whether the tests are of a room that uses rapid, so that they have its
// flags: a flag that isn't defined ends the run, and would look like a mutant that is caught.
func drawsCases(ctx context.Context, tests string) bool {
	return exec.CommandContext(ctx, tests, "-test.run", "^$", "-rapid.nofailfile").Run() == nil
}

// source finds the file to break and returns it broken.
func (m mutation) source(module string) (path, broken string, err error) {
	path, err = filepath.Abs(filepath.Join(module, m.file))
	if err != nil {
		return "", "", fmt.Errorf("find %s: %w", m.file, err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("read the file to break: %w", err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", "", fmt.Errorf("%s: %s has %q %d times: bring the table up to date", m.what, m.file, m.old, n)
	}
	return path, strings.Replace(string(source), m.old, m.new, 1), nil
}

// overlay writes the broken file and the description that puts it over the real one.
func (m mutation) overlay(module, dir string) (string, error) {
	path, source, err := m.source(module)
	if err != nil {
		return "", err
	}
	broken := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(broken, []byte(source), 0o600); err != nil {
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
func failed(out string) (string, error) {
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
		return "(panic) " + firstLine(out[strings.Index(out, "panic:"):]), nil
	case len(names) == 0:
		return "", fmt.Errorf("the tests failed without saying which: %s", firstLine(out))
	case len(names) > 3:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3), nil
	default:
		return strings.Join(names, ", "), nil
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
