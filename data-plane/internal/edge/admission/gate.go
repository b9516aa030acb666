package admission

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Limits, see DESIGN.md.
const (
	// limitLeast of each processor is under way however long goroutines wait.
	limitLeast = 128
	limitMost  = 1 << 16
	limitFirst = 512
	// quantum of a line's turn: a frame of 64.
	quantum = 64
	// waitMax is how long a call waits.
	waitMax = 5 * time.Second
	// waitingMax units wait, about a KiB each at most.
	waitingMax = 64 << 10
	// lookEvery is how often the processors are looked at.
	lookEvery = 20 * time.Millisecond
	// retryLeast and retryMost bound the time of a refusal. After waitMax nothing of
	// what waits now is left.
	retryLeast = 10 * time.Millisecond
	retryMost  = waitMax
)

// Options of a Gate.
type Options struct {
	// Weight of a tenant; nil: all weigh the same.
	Weight func(tenant string) int64
	// Busy is whether processors were short since it was last asked; nil asks the runtime
	// and the system.
	Busy func() bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Gate lets calls into a node.
type Gate struct {
	weight  func(string) int64
	busy    func() bool
	now     func() time.Time
	least   int64
	waiting *fair.Budget[string]

	mu sync.Mutex // Guards what follows.
	// limit is how many units may be under way, used how many are.
	limit, used int64
	// weights are those of everybody in by.
	weights int64
	by      map[string]*tenant
	line    *fair.Queue[string, *waiter]
	looked  time.Time
	crowded bool // Somebody waited since the last look.
	// done counts units that left since the last look, pace is how many leave a second.
	done int64
	pace float64
}

// tenant is one that has something under way or in line.
type tenant struct {
	weight, used int64
	inLine       int64 // Units.
}

type waiter struct {
	tenant string
	units  int64
	in     chan struct{} // Closed when it is let in.
	gone   bool          // It waits no longer.
}

// New makes a gate.
func New(o Options) *Gate {
	if o.Weight == nil {
		o.Weight = func(string) int64 { return 1 }
	}
	if o.Busy == nil {
		o.Busy = newPressure().busy
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Gate{
		weight: o.Weight, busy: o.Busy, now: o.Now, least: limitLeast * int64(runtime.NumCPU()),
		waiting: fair.NewBudget(waitingMax, o.Weight), limit: max(limitFirst, limitLeast*int64(runtime.NumCPU())),
		by: make(map[string]*tenant), line: fair.NewQueue[string, *waiter](quantum, o.Weight), looked: o.Now(),
	}
}

// Turn is a call that is under way.
type Turn struct {
	gate   *Gate
	tenant string
	units  int64
}

// Enter waits until a call of so many units may begin. It is refused with OVERLOADED when
// that takes too long, or too much waits already. A nil gate lets everybody in.
func (g *Gate) Enter(ctx context.Context, name string, units int64) (Turn, error) {
	if g == nil {
		return Turn{}, nil
	}
	units = min(max(units, 1), limitMost)
	w, err := g.begin(name, units)
	if err != nil {
		return Turn{}, err
	}
	if w == nil {
		return Turn{g, name, units}, nil
	}
	defer g.waiting.Give(name, units)
	late := time.NewTimer(waitMax)
	defer late.Stop()
	select {
	case <-w.in:
		return Turn{g, name, units}, nil
	case <-late.C:
	case <-ctx.Done():
	}
	return g.giveUp(w)
}

// begin lets a call in, or puts it into the line if there is room.
func (g *Gate) begin(name string, units int64) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	t := g.by[name]
	if t == nil {
		t = &tenant{weight: min(max(g.weight(name), 1), 1<<16)}
		g.by[name] = t
		g.weights += t.weight
	}
	if t.inLine == 0 && (g.used < g.limit && g.line.Len() == 0 || t.used+units <= g.share(t)) {
		t.used += units
		g.used += units
		return nil, nil
	}
	g.crowded = true
	if !g.waiting.Take(name, units) {
		err := g.refusal(t)
		g.forget(name)
		return nil, err
	}
	w := &waiter{tenant: name, units: units, in: make(chan struct{})}
	t.inLine += units
	g.line.Push(name, units, w)
	return w, nil
}

func (g *Gate) share(t *tenant) int64 { return g.limit * t.weight / g.weights }

// giveUp takes a waiter out of the line, unless it was let in at this moment.
func (g *Gate) giveUp(w *waiter) (Turn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.in:
		return Turn{g, w.tenant, w.units}, nil
	default:
	}
	w.gone = true
	err := g.refusal(g.by[w.tenant])
	g.leaveLine(w)
	g.forget(w.tenant)
	return Turn{}, err
}

func (g *Gate) refusal(t *tenant) error {
	return &fault.Error{
		Code: fault.Exhausted, Reason: "OVERLOADED", RetryAfter: g.retryAfter(t),
		Message: "this tenant asks for more than its share of an overloaded node; nothing was done, try again in a moment",
	}
}

// retryAfter is the time in which the tenant's line is done at the latest pace.
func (g *Gate) retryAfter(t *tenant) time.Duration {
	pace := g.pace * float64(t.weight) / float64(g.weights)
	if pace <= 0 {
		return time.Second
	}
	return min(max(time.Duration(float64(t.inLine)/pace*float64(time.Second)), retryLeast), retryMost)
}

// Leave ends the turn.
func (t Turn) Leave() {
	if t.gate != nil {
		t.gate.leave(t)
	}
}

func (g *Gate) leave(t Turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= t.units
	g.done += t.units
	g.by[t.tenant].used -= t.units
	g.forget(t.tenant)
	g.admit()
	g.look()
}

// admit lets those in whose turn it is.
func (g *Gate) admit() {
	for g.used < g.limit {
		w, ok := g.line.Pop()
		if !ok {
			return
		}
		if w.gone {
			continue
		}
		g.leaveLine(w)
		g.by[w.tenant].used += w.units
		g.used += w.units
		close(w.in)
	}
}

func (g *Gate) leaveLine(w *waiter) { g.by[w.tenant].inLine -= w.units }

// forget drops a tenant that has nothing here.
func (g *Gate) forget(name string) {
	if t := g.by[name]; t.used == 0 && t.inLine == 0 {
		g.weights -= t.weight
		delete(g.by, name)
	}
}

// look adjusts the limit to how busy the processors are.
func (g *Gate) look() {
	now := g.now()
	took := now.Sub(g.looked)
	if took < lookEvery {
		return
	}
	g.pace += (float64(g.done)/took.Seconds() - g.pace) * min(1, took.Seconds())
	switch {
	case g.busy():
		g.limit = max(g.limit*7/8, g.least)
	case g.crowded:
		g.limit = min(g.limit*17/16, limitMost)
	}
	g.looked, g.done, g.crowded = now, 0, g.line.Len() > 0
	g.admit()
}

// UnderWay is how many units are.
func (g *Gate) UnderWay() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// Waiting is how many units wait.
func (g *Gate) Waiting() int64 { return g.waiting.Used() }
