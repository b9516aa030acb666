package group

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

func TestLogger_AProblemWithAPeerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&out, nil)))
	for range 100 {
		l.Error("failed to heartbeat to", "peer", "n2", "error", errors.New("refused"))
		l.With("group", 2).Error("failed to heartbeat to", "peer", "n3", "error", errors.New("refused"))
		l.Warn("failed to contact", "server-id", "n5", "time", time.Second)
		l.Warn("rejecting pre-vote request since we have a leader", "from", "n6", "leader", "n2", "leader-id", "n2")
		l.Error("failed to make requestVote RPC", "target", "{Voter n7 n7}", "error", errors.New("refused"), "term", 4)
		l.Warn("failed to contact quorum of nodes, stepping down")
		l.Warn("Election timeout reached, restarting election")
		l.Error("failed to take a snapshot", "error", errors.New("no space"))
		l.Error("failed to pipeline appendEntries", "peer", "n4", "error", transport.ErrBehind)
	}
	for what, want := range map[string]int{"peer=n2": 1, "peer=n3": 1, "no space": 100, "peer=n4": 0,
		"server-id=n5": 1, "from=n6": 1, "target=": 1, "contact quorum": 1, "restarting election": 1} {
		if got := strings.Count(out.String(), what); got != want {
			t.Errorf("%q was said %d times, want %d", what, got, want)
		}
	}
}

func TestLogger_ComplaintsComeBackWhileTheyGoOn(t *testing.T) {
	t.Parallel()
	r := &repeats{complaints: map[string]complaint{}}
	now := time.Now()
	if _, due := r.again("n2", now); !due {
		t.Error("not said at all")
	}
	for range 2 {
		if _, due := r.again("n2", now.Add(repeatEvery-time.Millisecond)); due {
			t.Error("said again too early")
		}
	}
	if passed, due := r.again("n2", now.Add(repeatEvery)); !due || passed != 2 {
		t.Errorf("while it goes on: said again %v, with %d passed over, want 2", due, passed)
	}
	if passed, due := r.again("n2", now.Add(2*repeatEvery)); !due || passed != 0 {
		t.Errorf("said again %v, with %d passed over, want none", due, passed)
	}
}
