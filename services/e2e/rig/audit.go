package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// auditVariable names the program that audits what nodes leave, for the processes of a test.
const auditVariable = "CORVO_E2E_AUDIT"

// BuildAudit makes the program that AuditState runs: the tests of the room that knows what belongs to what.
func BuildAudit(t testing.TB) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "state.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", bin, "./internal/engine/state")
	build.Dir = filepath.Join(Root(), "data-plane")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the audit: %v\n%s", err, out)
	}
	t.Setenv(auditVariable, bin)
}

// AuditState reads the state of a node that was stopped: every row must belong to the others (INV-9). It is what was read.
func AuditState(t testing.TB, dir string) string {
	t.Helper()
	audit := exec.CommandContext(t.Context(), os.Getenv(auditVariable), "-test.run=^TestFolder_", "-test.v", "-state.folder="+dir)
	out, err := audit.CombinedOutput()
	if err != nil {
		t.Errorf("INV-9: the state in %s: %v\n%s", dir, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, said, ok := strings.Cut(line, "folder_test.go:"); ok {
			_, said, _ = strings.Cut(said, ": ") // The line that says it.
			return strings.TrimSpace(said)
		}
	}
	return ""
}
