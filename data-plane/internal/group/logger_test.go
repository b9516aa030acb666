package group

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/transport"
)

func TestLogger_WhatIsWrongWithAPeerIsSaidOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&out, nil)))
	for range 100 {
		l.Error("failed to heartbeat to", "peer", "n2", "error", errors.New("refused"))
		l.With("group", 2).Error("failed to heartbeat to", "peer", "n3", "error", errors.New("refused"))
		l.Error("failed to take a snapshot", "error", errors.New("no space"))
		l.Error("failed to pipeline appendEntries", "peer", "n4", "error", transport.ErrBehind)
	}
	for what, want := range map[string]int{"peer=n2": 1, "peer=n3": 1, "no space": 100, "peer=n4": 0} {
		if got := strings.Count(out.String(), what); got != want {
			t.Errorf("%q was said %d times, want %d", what, got, want)
		}
	}
}

func TestLogger_ComplaintsComeBackWhileTheyGoOn(t *testing.T) {
	t.Parallel()
	r := &repeats{at: map[string]time.Time{}}
	now := time.Now()
	if !r.again("n2", now) {
		t.Error("not said at all")
	}
	if r.again("n2", now.Add(repeatEvery-time.Millisecond)) {
		t.Error("said again too early")
	}
	if !r.again("n2", now.Add(repeatEvery)) {
		t.Error("not said again while it goes on")
	}
}
