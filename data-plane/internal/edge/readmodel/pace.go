package readmodel

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/processors"
)

const (
	// lookEvery is how often the load is measured while there is work; the system
	// counts in hundredths of a second.
	lookEvery = 100 * time.Millisecond
	// idleWanted is the part of the processors that is idle on a node that is not
	// saturated: callers in closed loops wait for each other and never use all of
	// it.
	idleWanted = 0.4
	// shareMin of one processor is what read models get on a saturated node: enough
	// for progress, too little to notice.
	shareMin = 1.0 / 32
	// shareRebuild is the least for a rebuild: people wait for the incomplete list, and
	// a 32nd would need ten minutes for a million jobs.
	shareRebuild = 1.0 / 8
	// shareMax: one goroutine writes at a time, and one reads for it.
	shareMax = 2.0
	// quietAfter without any change, nobody's jobs wait: a disk that is saturated takes an entry now
	// and then.
	quietAfter = 500 * time.Millisecond
	// restMax bounds one rest, so that a larger share takes effect soon.
	restMax = time.Second
)

// pace shares the processors of a node between its read models and everything
// else. Work is free while processors are idle; when they are not, the share of
// the read models is halved at each look until they are, so that jobs are served
// first and the read models are late. On a node where no job changes there is nobody to
// yield to: what else runs there, such as compactions after a fill, can wait as well.
type pace struct {
	now   func() time.Time
	sleep func(context.Context, time.Duration)
	load  processors.Load
	used  func() time.Duration // Processor time of the calling thread.

	mu      sync.Mutex // Guards the rest.
	counts  []func() uint64
	count   uint64    // Of all changes of jobs on the node, at the last look.
	changed time.Time // When it was another one last.
	share   float64   // Of one processor, for all read models of the node together.
	looked  time.Time
	own     time.Duration // Processor time of all read models since then.
	paid    time.Time     // Until then the share is used up by the work done.
}

func newPace() *pace {
	return &pace{now: time.Now, sleep: sleep, load: processors.Watch(), used: processors.ThreadTime, share: shareMax}
}

// heed counts changes of jobs, by a number that only rises.
func (p *pace) heed(count func() uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = append(p.counts, count)
}

// quiet tells that no job has changed for a while.
func (p *pace) quiet(now time.Time) bool {
	var count uint64
	for _, of := range p.counts {
		count += of()
	}
	if count != p.count {
		p.count, p.changed = count, now
	}
	return now.Sub(p.changed) >= quietAfter
}

// turn returns when the next piece of work may begin. After a pause it begins at
// once, so that a list on a busy node shows the caller's last write.
func (p *pace) turn(ctx context.Context) {
	for ctx.Err() == nil {
		wait := p.rest()
		if wait <= 0 {
			return
		}
		p.sleep(ctx, min(wait, lookEvery))
	}
}

// rest is how long the next piece of work has to wait. It looks at the load as well: a rest
// that began on a busy node ends soon once it is idle.
func (p *pace) rest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.look(now)
	return p.paid.Sub(now)
}

// piece is a piece of work, which stays on its thread so that the processor time it takes is
// known. By wall-clock time it would pay for what others use meanwhile: on a busy node it
// takes several times as long, and would rest several times as long as it should.
type piece struct {
	pace  *pace
	began time.Time
	used  time.Duration // Used by the thread until then.
	least float64       // Share that it gets under any load.
	free  bool          // There was nothing to do.
}

// begin waits for a turn. End the piece on the same goroutine.
func (p *pace) begin(ctx context.Context) *piece {
	p.turn(ctx)
	runtime.LockOSThread()
	return &piece{pace: p, began: p.now(), used: p.used()}
}

func (w *piece) end() {
	worked := w.pace.used() - w.used
	runtime.UnlockOSThread()
	if !w.free {
		w.pace.charge(w.began, worked, w.least)
	}
}

// charge is called after each piece of work, with the processor time it took.
func (p *pace) charge(began time.Time, worked time.Duration, least float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.own += worked
	p.look(now)
	if p.paid.Before(began) {
		p.paid = began
	}
	p.paid = p.paid.Add(time.Duration(float64(worked)/max(p.share, least)) + pause)
	if last := now.Add(restMax); p.paid.After(last) {
		p.paid = last
	}
}

// look adjusts the share to what others leave: its own work is no load that it has to yield
// to. The share falls by half at a time, and rises at once, which also shortens what is left of
// a rest.
func (p *pace) look(now time.Time) {
	since := now.Sub(p.looked)
	if since < lookEvery {
		return
	}
	idle, number, ok := p.load()
	free := (idle-idleWanted)*number + p.own.Seconds()/since.Seconds()
	if p.quiet(now) {
		free = shareMax
	}
	p.looked, p.own = now, 0
	before := p.share
	switch {
	case !ok:
		p.share = shareBlind
	case free < before:
		p.share = max(before/2, free, shareMin)
	default:
		p.share = min(free, shareMax)
	}
	if left := p.paid.Sub(now); left > 0 && p.share > before {
		p.paid = now.Add(time.Duration(float64(left) * before / p.share))
	}
}

const (
	// pause yields the processor even when it seems to be idle.
	pause = time.Millisecond
	// shareBlind is the share where the load is unknown.
	shareBlind = 0.25
)
