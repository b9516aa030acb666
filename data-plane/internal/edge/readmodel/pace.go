package readmodel

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// lookEvery is how often the load is looked at while there is work; the system
	// counts it in hundredths of a second.
	lookEvery = 100 * time.Millisecond
	// idleWanted of the processors is left over, or the node counts as saturated:
	// closed loops of callers wait for each other and never use the last part.
	idleWanted = 0.4
	// shareMin of one processor is what read models get on a saturated node: enough to
	// move, too little to be felt.
	shareMin = 1.0 / 32
	// shareRebuild is the least for a rebuild: whoever looks at a list that is not whole
	// waits for it, and a 32nd would make a million jobs a matter of ten minutes.
	shareRebuild = 1.0 / 8
	// shareMax: one goroutine writes at a time.
	shareMax = 1.0
	// restMax bounds one rest, so that a share that grows is soon felt.
	restMax = time.Second
)

// load is what the processors did since it was last asked: the part of them that
// was idle, and how many there are. ok is false where that cannot be known.
type load func() (idle, processors float64, ok bool)

// pace shares the processors of a node between its read models and everything
// else. Work is free while processors are idle; when they are not, the share of
// the read models is halved at each look until they are, so that jobs are served
// first and the read models are late.
type pace struct {
	now   func() time.Time
	sleep func(context.Context, time.Duration)
	load  load
	used  func() time.Duration // Processor time of the calling thread.

	mu     sync.Mutex // Guards the rest.
	share  float64    // Of one processor, for all read models of the node together.
	looked time.Time
	paid   time.Time // Until then the work that was done has used up the share.
}

func newPace() *pace {
	return &pace{now: time.Now, sleep: sleep, load: processorLoad(), used: threadTime, share: shareMax}
}

// turn returns when the next piece of work may begin. What was free for a while
// begins at once, so that a list on a busy node shows the caller's last write.
func (p *pace) turn(ctx context.Context) {
	p.mu.Lock()
	wait := p.paid.Sub(p.now())
	p.mu.Unlock()
	p.sleep(ctx, wait)
}

// piece is a piece of work, which stays on its thread so that the processor time it takes is
// known. By the clock it would pay for what others take meanwhile: on a node that is busy it
// takes several times as long, and has to rest for several times as long as it should.
type piece struct {
	pace  *pace
	began time.Time
	used  time.Duration // By the thread until then.
	least float64       // Share that it gets whatever the load.
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
	p.look(now)
	if p.paid.Before(began) {
		p.paid = began
	}
	p.paid = p.paid.Add(time.Duration(float64(worked)/max(p.share, least)) + nap)
	if last := now.Add(restMax); p.paid.After(last) {
		p.paid = last
	}
}

// look follows the load: down by halves, up by what is free at once.
func (p *pace) look(now time.Time) {
	if now.Sub(p.looked) < lookEvery {
		return
	}
	p.looked = now
	idle, processors, ok := p.load()
	switch {
	case !ok:
		p.share = shareBlind
	case idle < idleWanted:
		p.share = max(p.share/2, shareMin)
	default:
		p.share = min(p.share+(idle-idleWanted)*processors, shareMax)
	}
}

const (
	// nap lets others have the processor even when nobody seems to want it.
	nap = time.Millisecond
	// shareBlind is the share where the load cannot be known.
	shareBlind = 0.25
)
