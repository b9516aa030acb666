package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/server"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// newDatabase is one as a control plane makes it at its first start.
func newDatabase(t *testing.T) string {
	t.Helper()
	database := "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	c, err := server.New(t.Context(), server.Config{
		Database: database, PublicURL: "http://localhost:8080", TenantURL: func(tenant string) string { return "http://localhost:8080/t/" + tenant },
		Cells:      []server.Cell{{Name: "main", URLs: []string{"http://127.0.0.1:1"}, Secrets: cellsecret.Must([]byte("sixteen characters"))}},
		MasterKeys: [][]byte{make([]byte, 32)}, Mail: server.Mail{URL: "smtp://127.0.0.1:1", From: "corvo@example.com"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return database
}

// What show prints is what apply takes, and the same again is no new version.
func TestPlans_AFileIsShownEditedAndApplied(t *testing.T) {
	t.Parallel()
	file, database := filepath.Join(t.TempDir(), "team.yaml"), newDatabase(t)
	do := func(want int, args ...string) string {
		t.Helper()
		out, talk, exit := run(t, append(append([]string{"control"}, args...), "--database", database)...)
		if exit != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, exit, want, out, talk)
		}
		return out + talk
	}
	shown := do(ExitOK, "plans", "show", "team")
	if !strings.HasPrefix(shown, "name: team\ntitle: Team\n") {
		t.Fatal(shown)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(shown)
	if got := do(ExitOK, "plans", "apply", file); got != "plan team is as in the file, at version 1\n" {
		t.Error(got)
	}
	write(strings.Replace(shown, "base_amount: 4900", "base_amount: 5900", 1))
	const differs = "base_amount: 4900 -> 5900\n"
	for range 2 {
		if got := do(ExitOK, "plans", "apply", file, "--dry-run"); got != differs+"plan team would get version 2\n" {
			t.Error(got)
		}
	}
	if got := do(ExitOK, "plans", "apply", file); got != differs+"plan team has version 2\n" {
		t.Error(got)
	}
	if got := do(ExitOK, "plans", "list"); !strings.Contains(got, "59.00 usd") || !strings.Contains(got, "unlimited") {
		t.Error(got)
	}
	write("name: team\nkeys_max: 5\n")
	if got := do(ExitUsage, "plans", "apply", file); !strings.Contains(got, "keys_max") {
		t.Error(got)
	}
	write(strings.Replace(shown, "namespaces_max: 200", "namespaces_max: -1", 1))
	if got := do(ExitUsage, "plans", "apply", file); !strings.Contains(got, "entitlements.namespaces_max") {
		t.Error(got)
	}
	do(ExitNotFound, "plans", "show", "gold")
	do(ExitNotFound, "set-plan", "acme", "team")
	do(ExitNotFound, "override", "set", "acme", "keys_max", "1", "--reason", "x")
	if got := do(ExitOK, "tenants", "--sort", "revenue", "-o", "json"); got != "[]\n" {
		t.Error(got)
	}
	if got := do(ExitUsage, "tenants", "--sort", "luck"); !strings.Contains(got, "must be one of created, name, revenue") {
		t.Error(got)
	}
}

func TestOperators_OnlyThoseWithAnAccountAreNamed(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	do := func(want int, args ...string) string {
		t.Helper()
		out, talk, exit := run(t, append(append([]string{"control", "operators"}, args...), "--database", database)...)
		if exit != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, exit, want, out, talk)
		}
		return out + talk
	}
	do(ExitUsage, "add", "ada@acme.test")
	if got := do(ExitUsage, "add", "ada@acme.test", "--role", "admin"); !strings.Contains(got, "nobody signs in by email") {
		t.Error(got)
	}
	if got := do(ExitUsage, "add", "ada@acme.test", "--role", "owner"); !strings.Contains(got, "must be viewer or admin") {
		t.Error(got)
	}
	do(ExitUsage, "remove", "ada@acme.test")
	if got := do(ExitOK, "list", "-o", "json"); got != "[]\n" {
		t.Error(got)
	}
	if got := do(ExitOK, "log", "-o", "json"); got != "[]\n" {
		t.Error(got)
	}
}
