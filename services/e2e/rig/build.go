package rig

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// binaryVariable names a corvo-cloud to use instead of building one, as make test-go does
// for all packages; Main sets it for the tests of its own process.
const binaryVariable = "CORVO_E2E_CLOUD"

const buildTimeout = 20 * time.Minute

// Main is the body of TestMain: it builds corvo-cloud, runs the tests and returns
// the exit code.
func Main(m *testing.M) int {
	if err := becomeProgram(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	flag.Parse()
	if os.Getenv(binaryVariable) != "" {
		return m.Run()
	}
	return mainWith(m, func(string) ([]string, error) { return nil, nil })
}

// mainWith builds with arguments for go build; they may name files in a folder that
// stays until the tests have ended.
func mainWith(m *testing.M, flags func(dir string) ([]string, error)) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "corvo-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "corvo-cloud")
	more, err := flags(dir)
	if err == nil {
		err = build(bin, more)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	if err := os.Setenv(binaryVariable, bin); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

// BuildCorvo makes the command line, and gives its path.
func BuildCorvo(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "corvo")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-w", "-o", bin, "./cmd/corvo")
	build.Dir = filepath.Join(Root(), "cli")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build corvo: %v\n%s", err, out)
	}
	return bin
}

// Root is the folder of the repository.
func Root() string {
	_, self, _, ok := runtime.Caller(0)
	if !ok {
		panic("rig: no sources")
	}
	return filepath.Join(filepath.Dir(self), "..", "..", "..")
}

func build(bin string, flags []string) error { return Build(Root(), bin, flags...) }

// Build makes corvo-cloud from the sources of a clone, with more arguments for go build.
func Build(root, bin string, flags ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	// Without what a debugger reads, linking takes half the time.
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-w", "-o", bin}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/corvo-cloud")...)
	cmd.Dir = filepath.Join(root, "services")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build corvo-cloud: %w\n%s", err, out)
	}
	return nil
}
