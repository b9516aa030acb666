package health

import (
	"io"
	"log/slog"
	"testing"
	"time"
)

func TestLevel_IsThatOfTheWorstReason(t *testing.T) {
	t.Parallel()
	h := New(slog.New(slog.DiscardHandler))
	want := func(level Level, silent bool) {
		t.Helper()
		if h.Level() != level || h.Silent() != silent {
			t.Errorf("%q: %v, silent %v; want %v, %v", h, h.Level(), h.Silent(), level, silent)
		}
	}
	want(Fit, false)
	h.Set(DiskTight, "91 %")
	want(Degraded, false)
	h.Set(DiskFull, "98 %")
	want(Critical, false)
	h.Set(ShuttingDown, "")
	want(Unfit, false)
	h.Set(DiskStalled, "")
	want(Unfit, true)
	h.Clear(DiskStalled)
	h.Clear(ShuttingDown)
	h.Clear(DiskTight)
	want(Critical, false)
	h.Clear(DiskFull)
	want(Fit, false)
	h.Set(Clock, "an hour ahead of its peers")
	want(Unfit, true)
	if got, want := h.String(), "clock (an hour ahead of its peers)"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestLevel_AReasonOfANewerVersionIsTakenForTheWorst(t *testing.T) {
	t.Parallel()
	if s := LevelOf([]Cause{{Reason: "sunspots"}}); s != Unfit {
		t.Errorf("level %v, want unfit", s)
	}
}

func TestChanged_FiresWhenAReasonComesOrGoes(t *testing.T) {
	t.Parallel()
	h := New(slog.New(slog.DiscardHandler))
	for name, change := range map[string]struct {
		do   func()
		want bool
	}{
		"clear what is not set": {func() { h.Clear(Clock) }, false},
		"set":                   {func() { h.Set(DiskFull, "98 %") }, true},
	} {
		changed := h.Changed()
		change.do()
		if fired(changed) != change.want {
			t.Errorf("%s: fired %v, want %v", name, !change.want, change.want)
		}
	}
	changed := h.Changed()
	h.Set(DiskFull, "99 %")
	if fired(changed) {
		t.Error("another detail of the same reason is a change")
	}
	h.Clear(DiskFull)
	if !fired(changed) {
		t.Error("a reason that is gone is no change")
	}
}

func fired(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestNil_IsFit(t *testing.T) {
	t.Parallel()
	var h *Health
	if h.Level() != Fit || h.Silent() || h.Has(Clock) || h.Changed() != nil || h.String() != "" {
		t.Error("a node without a health is not fit")
	}
}

func TestSet_IsHeardAlthoughTheLogHangs(t *testing.T) {
	t.Parallel()
	reads, log := io.Pipe() // Nobody reads it: each write waits.
	defer func() { _ = reads.Close() }()
	h := New(slog.New(slog.NewTextHandler(log, nil)))
	changed := h.Changed()
	go h.Set(DiskStalled, "")
	select {
	case <-changed:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody hears of it")
	}
	if !h.Silent() {
		t.Error("the node may speak")
	}
}
