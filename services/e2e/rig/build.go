package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// binaryVariable names a corvo-cloud to use instead of building one; Main sets it
// for the tests of its own process.
const binaryVariable = "CORVO_E2E_CLOUD"

const buildTimeout = 5 * time.Minute

// Main is the body of TestMain: it builds corvo-cloud, runs the tests and returns
// the exit code.
func Main(m *testing.M) int {
	if os.Getenv(binaryVariable) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "corvo-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // A temporary folder.
	bin := filepath.Join(dir, "corvo-cloud")
	if err := build(bin); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	if err := os.Setenv(binaryVariable, bin); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

func build(bin string) error {
	_, self, _, ok := runtime.Caller(0)
	if !ok {
		return fmt.Errorf("find the sources")
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", bin, "./cmd/corvo-cloud")
	cmd.Dir = filepath.Join(filepath.Dir(self), "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build corvo-cloud: %w\n%s", err, out)
	}
	return nil
}
