package rig

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startLimit is generous: elections on a machine that builds something else.
const startLimit = 60 * time.Second

// Up is a whole service in one process.
type Up struct {
	*Process
	Tenant
	// API is the control API with the demo tenant's management key; its URL is the
	// public address.
	API API
	// SignInURL signs the demo tenant's owner in, once.
	SignInURL string
	// MailboxURL is the page of its mails.
	MailboxURL string
	// NodeURLs are what --nodes of `corvo-cloud cell` takes.
	NodeURLs  string
	Data      string
	WallClock *WallClock // Nil unless asked for.
}

// StartUp runs `corvo-cloud up` on data and a free port, and returns when a job can
// go in.
func StartUp(t testing.TB, data string, args ...string) *Up {
	t.Helper()
	return startUp(t, nil, data, args...)
}

// StartUpAt is StartUp with a wall clock that is moved from the start, and can be moved again.
// It needs MainWithWallClocks.
func StartUpAt(t testing.TB, by time.Duration, data string, args ...string) *Up {
	t.Helper()
	wall := newWallClock(t)
	wall.Move(by)
	return startUp(t, wall, data, args...)
}

func startUp(t testing.TB, wall *WallClock, data string, args ...string) *Up {
	t.Helper()
	env := filepath.Join(t.TempDir(), "env")
	all := append([]string{"up", "--data", data, "--listen", "127.0.0.1:0", "--env-file", env}, args...)
	u := &Up{Process: start(t, "up", Machine{}, "", wall.env(), all...), Data: data, WallClock: wall}
	vars := ReadEnv(u.WaitFile(env, startLimit))
	u.Tenant = NewTenant(vars["CORVO_URL"], vars["CORVO_API_KEY"])
	u.API, u.SignInURL = NewAPI(vars["CORVO_ENDPOINT"], vars["CORVO_TOKEN"]), vars["CORVO_CONSOLE_URL"]
	u.MailboxURL, u.NodeURLs = vars["CORVO_MAILBOX_URL"], vars["CORVO_NODE_URLS"]
	return u
}

// LinkToken waits for an email to an address and returns the token of its link.
func (u *Up) LinkToken(ctx context.Context, address string) (string, error) {
	return LinkToken(ctx, u.MailboxURL, address)
}

// ReadEnv reads the lines of an environment file.
func ReadEnv(text string) map[string]string {
	vars := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			vars[name] = value
		}
	}
	return vars
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must(f())(t) is what f gives, or the end of the test.
func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		check(t, err)
		return v
	}
}
