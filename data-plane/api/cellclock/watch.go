package cellclock

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// ApartMax is how far the clock of a node that leads may be from those of most nodes.
	// A clock service keeps machines within some hundred milliseconds; signatures between
	// processes of a cell tolerate 30 s. Five seconds is about when a person who compares
	// times begins to notice.
	ApartMax = 5 * time.Second
	// ApartWarn is the difference that is logged: something is wrong with a clock
	// service.
	ApartWarn = time.Second

	// askEvery is how often the others are asked.
	askEvery = time.Second
	// goodFor is how long an answer counts.
	goodFor = 5 * time.Second
)

// Clock tells the time; tests replace it.
type Clock interface {
	// Now reads the wall clock, and a monotonic one that no jump of the wall clock
	// moves.
	Now() (wall time.Time, monotonic time.Duration)
}

// Status is what a process knows of its clock.
type Status int

// Statuses.
const (
	// Unknown: not most of the nodes have answered, or no majority agrees. The wall clock
	// must not be followed when it jumps.
	Unknown Status = iota
	// Agreed: it agrees with most nodes.
	Agreed
	// Off: most nodes agree with each other, and not with it.
	Off
)

// State is a status with what was observed.
type State struct {
	Status Status
	// Ahead is how far most nodes' clocks are ahead of ours; 0 while unknown.
	Ahead time.Duration
	// Detail is for people; "" while all is well.
	Detail string

	at moment // The nodes' time as it was observed; nothing while unknown.
}

// Options of a Watch. All but Member and OnChange are required.
type Options struct {
	Prover *Prover
	Client *http.Client
	Clock  Clock
	// Nodes are the base URLs of all nodes of the cell but this process, by id.
	Nodes func() map[string]string
	// Member: this process is a node itself, and counts as one.
	Member bool
	// OnChange is called with each new status.
	OnChange func(State)
	Logger   *slog.Logger
}

// Watch compares this process's clock with the nodes'.
type Watch struct {
	o Options

	mu       sync.Mutex // Guards the rest.
	nodes    int        // Of the cell, at the last round, this process included if it is one.
	readings map[string]reading
	was      Status
	known    chan struct{} // Closed by the first status that is not Unknown.
	warned   bool
}

// New makes a Watch that knows nothing yet; Run asks.
func New(o Options) *Watch {
	w := &Watch{o: o, readings: make(map[string]reading), known: make(chan struct{})}
	w.forget(o.Nodes())
	return w
}

// Run keeps asking the nodes until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		w.round(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// round asks every node once, all at the same time, and judges after each answer: a
// node that hangs does not hold up the others.
func (w *Watch) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wayMax)
	defer cancel()
	nodes := w.o.Nodes()
	w.forget(nodes)
	var asked sync.WaitGroup
	for id, base := range nodes {
		asked.Go(func() {
			r, err := w.o.Prover.ask(ctx, w.o.Client, w.o.Clock, base)
			if err != nil {
				w.o.Logger.Debug("a node does not tell its time", "node", id, "err", err)
				return
			}
			w.learn(id, r)
		})
	}
	asked.Wait()
	w.judge()
}

// forget counts the nodes, and drops those that are no longer in the cell.
func (w *Watch) forget(nodes map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = len(nodes)
	if w.o.Member {
		w.nodes++
	}
	for id := range w.readings {
		if _, there := nodes[id]; !there {
			delete(w.readings, id)
		}
	}
}

func (w *Watch) learn(id string, r reading) {
	w.mu.Lock()
	w.readings[id] = r
	w.mu.Unlock()
	w.judge()
}

// judge reports a new status. A clock that was off stays off until most nodes agree
// with it: it does not get better because some nodes are away.
func (w *Watch) judge() {
	s := w.State()
	w.mu.Lock()
	defer w.mu.Unlock()
	if apart := max(s.Ahead, -s.Ahead); apart > ApartWarn != w.warned && s.Status != Unknown {
		if w.warned = !w.warned; w.warned {
			w.o.Logger.Warn("this machine's clock differs from those of most nodes", "by", -s.Ahead)
		}
	}
	if s.Status == w.was || w.was == Off && s.Status == Unknown {
		return
	}
	if w.was == Unknown {
		select {
		case <-w.known:
		default:
			close(w.known)
		}
	}
	w.was = s.Status
	if w.o.OnChange != nil {
		w.o.OnChange(s)
	}
}

// Wait blocks until something is known of this process's clock, ctx ends, or some time
// has passed.
func (w *Watch) Wait(ctx context.Context, patience time.Duration) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-w.known:
	case <-late.C:
	case <-ctx.Done():
	}
}

// Trusted reports whether most nodes agree with the wall clock as it stands now.
func (w *Watch) Trusted() bool { return w.State().Status == Agreed }

// State is the conclusion from the answers that still count.
func (w *Watch) State() State {
	wall, mono := w.o.Clock.Now()
	base := offset(wall, mono)
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := make([]reading, 0, len(w.readings)+1)
	if w.o.Member {
		fresh = append(fresh, reading{})
	}
	for _, r := range w.readings {
		jump := base - r.base
		if mono-r.at <= goodFor && jump > -wallDrift && jump < wallDrift {
			fresh = append(fresh, r)
		}
	}
	s := judge(fresh, w.nodes/2+1)
	s.at = moment{wall, mono}
	if s.Status == Off {
		s.at.cell = wall.Add(s.Ahead)
	}
	return s
}

// judge looks for a majority of nodes that agree with each other, and compares our
// clock with theirs.
func judge(fresh []reading, most int) State {
	if len(fresh) < most {
		return State{Detail: "too few nodes have told their time"}
	}
	slices.SortFunc(fresh, func(a, b reading) int { return cmp.Compare(a.ahead, b.ahead) })
	out := State{Detail: "the nodes' clocks differ, and no majority agrees"}
	for i := 0; i+most <= len(fresh); i++ {
		first, middle, last := fresh[i], fresh[i+most/2], fresh[i+most-1]
		switch {
		case last.ahead-first.ahead > ApartMax+first.give+last.give: // They do not agree.
		case first.ahead-first.give <= ApartMax && last.ahead+last.give >= -ApartMax:
			return State{Status: Agreed, Ahead: middle.ahead}
		default:
			out = State{Status: Off, Ahead: middle.ahead, Detail: describe(middle.ahead)}
		}
	}
	return out
}

func describe(ahead time.Duration) string {
	how, by := "behind", ahead
	if ahead < 0 {
		how, by = "ahead of", -ahead
	}
	return fmt.Sprintf("the clock is %s %s those of most nodes; %s is allowed", by.Round(100*time.Millisecond), how, ApartMax)
}
