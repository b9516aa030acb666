package disk

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Limits of rule R4. A leader that cannot write still heartbeats, so nobody
// replaces it unless it gives up by itself.
const (
	warnAfter  = 1 * time.Second
	stallAfter = 3 * time.Second
	deadAfter  = 10 * time.Second

	// slowReportGap is how long one of Pebble's slow-disk reports counts. Pebble
	// repeats them every 2 s while the operation goes on and never says it ended.
	slowReportGap = 5 * time.Second

	// exitDiskDead is EX_IOERR of sysexits(3).
	exitDiskDead = 74
)

// WatchdogOptions of a Watchdog. OnStall and OnRecover are called one at a time
// and in order; they may block. OnDead waits for neither.
type WatchdogOptions struct {
	Warn, Stall, Dead time.Duration // 0 means 1 s, 3 s and 10 s.

	// OnStall is called when a write passes Stall and none had before: grant no
	// more leases, give leadership away.
	OnStall func(op string, since time.Time)

	// OnRecover is called when no stalled write is left.
	OnRecover func()

	// OnDead is called at most once, when a write passes Dead. Nil logs and ends
	// the process with status 74: one that returns after that long says nothing
	// about the writes queued behind it.
	OnDead func(op string, since time.Time)

	Logger *slog.Logger // Nil means slog.Default().
}

// Watchdog times writes while they run. The zero value is not usable.
type Watchdog struct {
	opts WatchdogOptions

	mu      sync.Mutex // Guards what follows.
	closed  bool
	stalled int       // Writes past Stall that have not ended.
	slow    bool      // A slow-disk report at or past Stall still counts.
	since   time.Time // When slow became true.
	dead    bool
	unslow  *time.Timer // Ends slow; nil until the first report.
	calls   []func()    // Callbacks not yet begun.
	calling bool        // A goroutine works through calls; it ends when none is left.
}

// NewWatchdog returns a watchdog that holds no goroutine while all is well.
func NewWatchdog(opts WatchdogOptions) *Watchdog {
	if opts.Warn == 0 {
		opts.Warn = warnAfter
	}
	if opts.Stall == 0 {
		opts.Stall = stallAfter
	}
	if opts.Dead == 0 {
		opts.Dead = deadAfter
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.OnStall == nil {
		opts.OnStall = func(string, time.Time) {}
	}
	if opts.OnRecover == nil {
		opts.OnRecover = func() {}
	}
	if opts.OnDead == nil {
		opts.OnDead = func(string, time.Time) { os.Exit(exitDiskDead) }
	}
	return &Watchdog{opts: opts}
}

// Begin starts the clock of one write; the caller calls end when it returned.
// It has the type of raftlog's Options.Watch.
func (w *Watchdog) Begin(op string) (end func()) {
	o := &operation{w: w, op: op, began: time.Now()}
	o.mu.Lock()
	o.timer = time.AfterFunc(w.opts.Warn, o.warn)
	o.mu.Unlock()
	return o.end
}

// Stalled says whether a write is past Stall now.
func (w *Watchdog) Stalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalledLocked()
}

func (w *Watchdog) stalledLocked() bool { return w.stalled > 0 || w.slow }

// DiskSlow takes Pebble's slow-disk events. They cover what Begin does not see:
// flushes, compactions and file operations.
//
// A process that was paused (a machine that is moved, a debugger) takes the pause for a slow
// write, and hears of it in one report, right after. A disk that is dead was reported before.
func (w *Watchdog) DiskSlow(info vfs.DiskSlowInfo) {
	op := info.OpType.String() + " " + info.Path
	// The log may lie on that disk, and Pebble reports again only once this returns.
	go w.opts.Logger.Warn("disk is slow", "operation", op, "for", info.Duration)
	since := time.Now().Add(-info.Duration)
	if info.Duration < w.opts.Stall {
		return
	}
	if known := w.reportSlow(op, since); known >= w.opts.Warn && info.Duration >= w.opts.Dead {
		w.die(op, since)
	}
}

// reportSlow returns for how long the disk has been known to be slow.
func (w *Watchdog) reportSlow(op string, since time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0
	}
	if w.unslow == nil {
		w.unslow = time.AfterFunc(slowReportGap, w.slowIsOver)
	} else {
		w.unslow.Reset(slowReportGap)
	}
	if !w.stalledLocked() {
		w.call(func() { w.opts.OnStall(op, since) })
	}
	if !w.slow {
		w.slow, w.since = true, time.Now()
	}
	return time.Since(w.since)
}

func (w *Watchdog) slowIsOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || !w.slow {
		return
	}
	w.slow = false
	if !w.stalledLocked() {
		w.call(w.opts.OnRecover)
	}
}

func (w *Watchdog) stall(op string, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stalledLocked() && !w.closed {
		w.call(func() { w.opts.OnStall(op, since) })
	}
	w.stalled++
}

func (w *Watchdog) unstall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled--
	if !w.stalledLocked() && !w.closed {
		w.call(w.opts.OnRecover)
	}
}

// call queues a callback. Were each on a goroutine of its own, a recovery could
// overtake its stall, and the node would believe in the stall for ever. The
// caller holds mu.
func (w *Watchdog) call(f func()) {
	w.calls = append(w.calls, f)
	if !w.calling {
		w.calling = true
		go w.runCalls()
	}
}

func (w *Watchdog) runCalls() {
	for {
		w.mu.Lock()
		if len(w.calls) == 0 {
			w.calling = false
			w.mu.Unlock()
			return
		}
		f := w.calls[0]
		w.calls = w.calls[1:]
		w.mu.Unlock()
		f()
	}
}

func (w *Watchdog) die(op string, since time.Time) {
	w.mu.Lock()
	over := w.dead || w.closed
	w.dead = true
	w.mu.Unlock()
	if over {
		return
	}
	go w.opts.OnDead(op, since) // The log may lie on that disk.
	w.opts.Logger.Error("disk does not answer; giving up", "operation", op, "since", since)
}

// Close silences the watchdog. Writes in flight may still end.
func (w *Watchdog) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.unslow != nil {
		w.unslow.Stop()
	}
}

// operation is one write in flight. Its timer is armed for the next limit.
type operation struct {
	w     *Watchdog
	op    string
	began time.Time

	mu      sync.Mutex // Guards what follows.
	timer   *time.Timer
	ended   bool
	stalled bool // Counted in w.stalled.
}

func (o *operation) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.ended = true
	o.timer.Stop()
	if o.stalled {
		o.w.unstall()
	}
	if took := time.Since(o.began); took >= o.w.opts.Warn {
		o.w.opts.Logger.Warn("slow write ended", "operation", o.op, "took", took)
	}
}

// next re-arms the timer for the limit after the one that passed, or reports
// that the write ended meanwhile.
func (o *operation) next(passed, limit time.Duration, then func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	if then != nil {
		o.timer = time.AfterFunc(limit-passed, then)
	}
	return true
}

func (o *operation) warn() {
	if o.next(o.w.opts.Warn, o.w.opts.Stall, o.stall) {
		o.w.opts.Logger.Warn("write does not return", "operation", o.op, "since", o.began)
	}
}

func (o *operation) stall() {
	if !o.next(o.w.opts.Stall, o.w.opts.Dead, o.die) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.stalled = true
		o.w.stall(o.op, o.began)
	}
}

func (o *operation) die() {
	if o.next(0, 0, nil) {
		o.w.die(o.op, o.began)
	}
}
