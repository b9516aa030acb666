package calibrate

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestDisk_EveryFigureFollowsTheDelayOfItsSyncs(t *testing.T) {
	t.Parallel()
	const delay, lasting = 5 * time.Millisecond, 300 * time.Millisecond
	d := Disk{Dir: t.TempDir(), SyncDelay: delay}
	median, err := d.Sync()
	if err != nil || median < delay {
		t.Errorf("a sync takes %s (%v), less than the delay", median, err)
	}
	// Whoever waits for a sync each time can't do more than so many a second.
	most := 1 / delay.Seconds()
	puts, err := d.Batches(1, lasting)
	if err != nil || puts <= 0 || puts > most*BatchPuts {
		t.Errorf("%.0f puts a second in batches (%v), want at most %.0f", puts, err, most*BatchPuts)
	}
	written, err := d.Write(lasting)
	if err != nil || written <= 0 || written > most*writeBytes {
		t.Errorf("%.0f bytes a second (%v), want at most %.0f", written, err, most*writeBytes)
	}
	applied, err := d.Raft(t.Context(), 1, lasting)
	if err != nil || applied <= 0 || applied > most {
		t.Errorf("%.0f entries a second (%v), want at most %.0f", applied, err, most)
	}
	left, err := os.ReadDir(d.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestDuring_StopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, took, err := during(time.Minute, 3, func() error { return broken }); !errors.Is(err, broken) || took > time.Second {
		t.Errorf("%v after %s", err, took)
	}
}
