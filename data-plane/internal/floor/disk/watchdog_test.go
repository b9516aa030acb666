package disk

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// diary notes which callback came when, in seconds since its start.
type diary struct {
	mu    sync.Mutex // Guards lines.
	start time.Time
	lines []string
}

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, what+" at "+time.Since(d.start).Round(time.Millisecond).String())
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !reflect.DeepEqual(d.lines, lines) {
		t.Errorf("callbacks %q, want %q", d.lines, lines)
	}
}

func watched() (*Watchdog, *diary) { return watchedBy(5 * time.Second) }

// watchedBy counts a write as stalled after stall; 0 is the default.
func watchedBy(stall time.Duration) (*Watchdog, *diary) {
	d := &diary{start: time.Now()}
	return NewWatchdog(WatchdogOptions{
		Stall:     stall,
		Logger:    quiet(),
		OnStall:   func(op string, _ time.Time) { d.note("stall " + op) },
		OnRecover: func() { d.note("recover") },
		OnDead:    func(op string, _ time.Time) { d.note("dead " + op) },
	}), d
}

func TestWatchdog_FiresWhileTheWriteIsStillBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := watchedBy(0)
		end := w.Begin("store") // Never returns.
		time.Sleep(2999 * time.Millisecond)
		d.want(t)
		time.Sleep(time.Millisecond)
		d.want(t, "stall store at 3s")
		if !w.Stalled() {
			t.Error("not stalled while a write is")
		}
		time.Sleep(6999 * time.Millisecond)
		d.want(t, "stall store at 3s")
		time.Sleep(time.Millisecond)
		d.want(t, "stall store at 3s", "dead store at 10s")
		end()
	})
}

func TestWatchdog_QuickWritesStaySilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := watched()
		for range 100 {
			end := w.Begin("store")
			time.Sleep(900 * time.Millisecond)
			end()
			end() // Twice is once.
		}
		d.want(t)
	})
}

func TestWatchdog_OneStallForManyWritesAndOneRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := watched()
		first := w.Begin("a")
		time.Sleep(time.Second)
		second := w.Begin("b")
		time.Sleep(6 * time.Second) // Both are past the limit.
		first()
		d.want(t, "stall a at 5s")
		time.Sleep(500 * time.Millisecond)
		second()
		d.want(t, "stall a at 5s", "recover at 7.5s")
		if w.Stalled() {
			t.Error("stalled after recovery")
		}
		third := w.Begin("c")
		time.Sleep(5 * time.Second)
		d.want(t, "stall a at 5s", "recover at 7.5s", "stall c at 12.5s")
		third()
	})
}

func TestWatchdog_SlowDiskReportsCountUntilTheyStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := watched()
		defer w.Close()
		report := func(seconds int) {
			w.DiskSlow(vfs.DiskSlowInfo{Path: "000004.sst", OpType: vfs.OpTypeSync, Duration: time.Duration(seconds) * time.Second})
		}
		report(4)
		d.want(t)
		report(5)
		d.want(t, "stall sync 000004.sst at 0s")
		time.Sleep(2 * time.Second)
		report(7)
		time.Sleep(4 * time.Second)
		if !w.Stalled() {
			t.Error("not stalled between two reports")
		}
		time.Sleep(time.Second)
		d.want(t, "stall sync 000004.sst at 0s", "recover at 7s")
		report(9)
		d.want(t, "stall sync 000004.sst at 0s", "recover at 7s", "stall sync 000004.sst at 7s")
		time.Sleep(2 * time.Second)
		report(11)
		d.want(t, "stall sync 000004.sst at 0s", "recover at 7s", "stall sync 000004.sst at 7s", "dead sync 000004.sst at 9s")
	})
}

// Both stores were writing when the process was paused; the writes end soon after.
func TestWatchdog_APauseOfTheProcessIsNoDeadDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := watched()
		defer w.Close()
		for _, path := range []string{"raftlog/000008.log", "state/000012.sst"} {
			w.DiskSlow(vfs.DiskSlowInfo{Path: path, OpType: vfs.OpTypeSyncData, Duration: 15 * time.Second})
		}
		time.Sleep(5 * time.Second)
		d.want(t, "stall syncdata raftlog/000008.log at 0s", "recover at 5s")
	})
}

func TestWatchdog_RecoveryWaitsForItsStallAndDeathForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{start: time.Now()}
		transferred := make(chan struct{})
		w := NewWatchdog(WatchdogOptions{
			Logger:    quiet(),
			OnStall:   func(string, time.Time) { <-transferred; d.note("stall handled") },
			OnRecover: func() { d.note("recover") },
			OnDead:    func(string, time.Time) { d.note("dead") },
		})
		short, long := w.Begin("a"), w.Begin("b")
		time.Sleep(11 * time.Second)
		d.want(t, "dead at 10s")
		short()
		long()
		d.want(t, "dead at 10s")
		close(transferred)
		d.want(t, "dead at 10s", "stall handled at 11s", "recover at 11s")
	})
}

func TestWatchdog_EndsTheNodeAlthoughItsLogHangs(t *testing.T) {
	t.Parallel()
	dead := make(chan string, 1)
	reads, log := io.Pipe() // Nobody reads it: each write waits.
	defer func() { _ = reads.Close() }()
	w := NewWatchdog(WatchdogOptions{
		Warn: time.Millisecond, Stall: 2 * time.Millisecond, Dead: 3 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, nil)), OnStall: func(string, time.Time) {}, OnRecover: func() {},
		OnDead: func(op string, _ time.Time) { dead <- op },
	})
	w.Begin("store") // Never returns.
	select {
	case <-dead:
	case <-time.After(20 * time.Second):
		t.Error("the node goes on")
	}
}

func TestWatchdog_SilentAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := watched()
		end := w.Begin("store")
		time.Sleep(2 * time.Second)
		w.Close()
		time.Sleep(time.Minute)
		end()
		d.want(t)
	})
}

// A disk that blocks a sync must reach OnStall through the file system Pebble
// writes to, without the sync ever returning.
func TestWatchdog_SeesABlockedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := watched()
		release := make(chan struct{})
		file, err := syncFS{vfs.NewMem(), func(bool) { <-release }}.Create("wal", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer w.Begin("sync")()
			if err := file.Sync(); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(7 * time.Second)
		d.want(t, "stall sync at 5s")
		close(release)
		d.want(t, "stall sync at 5s", "recover at 7s")
	})
}

// hung is a log on the disk that does not answer, until the test ends.
type hung struct {
	slog.Handler
	end chan struct{}
}

func (hung) Enabled(context.Context, slog.Level) bool { return true }

func (h hung) Handle(context.Context, slog.Record) error {
	<-h.end
	return nil
}

// Pebble's next report waits until the one before was taken.
func TestWatchdog_ALogThatHangsHidesNoSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, dead := hung{slog.DiscardHandler, make(chan struct{})}, make(chan struct{})
		w := NewWatchdog(WatchdogOptions{OnDead: func(string, time.Time) { close(dead) }, Logger: slog.New(log)})
		defer w.Close()
		var reports sync.WaitGroup
		defer reports.Wait()
		defer close(log.end)
		reports.Go(func() {
			for slow := 2 * time.Second; slow <= 12*time.Second; slow += 2 * time.Second {
				w.DiskSlow(vfs.DiskSlowInfo{Path: "000007.sst", Duration: slow})
				time.Sleep(2 * time.Second)
			}
		})
		select {
		case <-dead:
		case <-time.After(time.Minute):
			t.Error("the disk is dead for a minute, and nobody gave up")
		}
	})
}

func TestWatchdog_EndsTheProcessByDefault(t *testing.T) {
	t.Parallel()
	if os.Getenv("WATCHDOG_CHILD") == "1" {
		NewWatchdog(WatchdogOptions{Warn: time.Millisecond, Stall: 2 * time.Millisecond, Dead: 3 * time.Millisecond, Logger: quiet()}).Begin("store")
		select {}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestWatchdog_EndsTheProcessByDefault$")
	cmd.Env = append(os.Environ(), "WATCHDOG_CHILD=1")
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitDiskDead {
		t.Errorf("child ended with %v, want status %d", err, exitDiskDead)
	}
}

func BenchmarkWatchdog(b *testing.B) {
	w := NewWatchdog(WatchdogOptions{Logger: quiet()})
	b.ReportAllocs()
	for b.Loop() {
		w.Begin("store")()
	}
}
