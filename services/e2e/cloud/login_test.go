package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// terminal is the command line of somebody with a home folder of their own, no keyring and no
// terminal.
type terminal struct {
	bin, home string
	env       []string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	c := &terminal{bin: rig.BuildCorvo(t), home: t.TempDir()}
	// No address of a keyring's bus either.
	c.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + filepath.Join(c.home, "none")}
	return c
}

func (c *terminal) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.bin, args...)
	cmd.Env = c.env
	return cmd
}

// run runs it to its end.
func (c *terminal) run(ctx context.Context, t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	cmd := c.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &talk
	_ = cmd.Run() // Its exit code says it.
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("corvo %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, want, out.String(), talk.String())
	}
	return out.String(), talk.String()
}

// login signs in at a console: b enters the code that the command line shows.
func (c *terminal) login(ctx context.Context, t *testing.T, b *browser) {
	t.Helper()
	cmd := c.command(ctx, "login", "--url", b.base, "--insecure-storage", "-o", "json")
	talk, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var code string
	eventually.True(t, 20*time.Second, "the code is shown", func() bool {
		said, _ := os.ReadFile(talk.Name())
		code = regexp.MustCompile(`[A-Z]{4}-[A-Z]{4}`).FindString(string(said))
		return code != ""
	})
	var seen struct {
		ClientName string   `json:"clientName"`
		Tenants    []string `json:"tenants"`
	}
	if err := b.call(ctx, "AuthService/PreviewDeviceLogin", map[string]any{"userCode": code}, &seen); err != nil || !strings.HasPrefix(seen.ClientName, "corvo on ") {
		t.Errorf("preview %+v, %v", seen, err)
	}
	if err := b.call(ctx, "AuthService/ApproveDeviceLogin", map[string]any{"userCode": code}, nil); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		said, _ := os.ReadFile(talk.Name())
		t.Fatalf("corvo login: %v\n%s", err, said)
	}
	var done struct{ Profile, Storage string }
	if err := json.Unmarshal(out.Bytes(), &done); err != nil || done.Profile != "demo" || done.Storage != "file" {
		t.Fatalf("%s, %v", out.String(), err)
	}
}

// A person signs in on a machine without a browser, works with jobs, and is signed out from
// the console.
func TestLogin_APersonWorksWithJobsUntilTheSessionIsRevoked(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, 3*time.Minute)
	b, c := signIn(ctx, t, u), newTerminal(t)

	c.run(ctx, t, 4, "whoami", "--endpoint", u.API.URL)
	if _, talk := c.run(ctx, t, 1, "login", "--url", u.API.URL); !strings.Contains(talk, "--insecure-storage") {
		t.Errorf("without a keyring it says: %s", talk)
	}
	c.login(ctx, t, b)
	if info, err := os.Stat(filepath.Join(c.home, ".config", "corvo", "config.toml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("profile %v, %v", info, err)
	}
	if out, _ := c.run(ctx, t, 0, "whoami"); !strings.Contains(out, "user") || !strings.Contains(out, "tenant  demo  owner") {
		t.Errorf("whoami: %s", out)
	}
	if out, _ := c.run(ctx, t, 0, "profile", "list"); !strings.Contains(out, "demo") {
		t.Errorf("profiles: %s", out)
	}
	c.run(ctx, t, 0, "enqueue", "by-login", `{"n":1}`)
	c.run(ctx, t, 0, "pause", "by-login")
	if out, _ := c.run(ctx, t, 0, "queues"); !strings.Contains(out, "by-login") {
		t.Errorf("queues: %s", out)
	}

	out, _ := c.run(ctx, t, 0, "sessions", "list", "-o", "jsonl")
	var own string
	for line := range strings.Lines(out) {
		var v struct {
			ID, Kind string
			Current  bool
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if v.Current && v.Kind == "SESSION_KIND_CLI" {
			own = v.ID
		}
	}
	if err := b.call(ctx, "SessionService/RevokeSession", map[string]any{"sessionId": own}, nil); err != nil {
		t.Fatalf("revoke %q of\n%s: %v", own, out, err)
	}
	if _, talk := c.run(ctx, t, 4, "whoami"); !strings.Contains(talk, "corvo login") {
		t.Errorf("after the end it says: %s", talk)
	}
	c.run(ctx, t, 4, "queues")

	c.login(ctx, t, b)
	c.run(ctx, t, 0, "logout")
	c.run(ctx, t, 4, "whoami", "--endpoint", u.API.URL)
	if out, _ := c.run(ctx, t, 0, "profile", "list", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("profiles after the sign-out: %s", out)
	}
}
