package cellclock

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// handClock goes on when the test says so.
type handClock struct {
	mu   sync.Mutex // Guards the rest.
	wall time.Time
	mono time.Duration
}

func newHandClock(off time.Duration) *handClock {
	return &handClock{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(off), mono: time.Hour}
}

func (c *handClock) Now() (time.Time, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall, c.mono
}

func (c *handClock) move(wall, mono time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(wall), c.mono+mono
}

func prover(t *testing.T, secret string) *Prover {
	t.Helper()
	p, err := NewProver(cellsecret.Must([]byte(secret)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const secret = "a secret of the cell, long enough"

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// cell is nodes whose clocks are off by so much, each with a watch.
func cell(t *testing.T, off ...time.Duration) (clocks []*handClock, watches []*Watch) {
	t.Helper()
	urls := map[string]string{}
	for i, d := range off {
		c := newHandClock(d)
		clocks = append(clocks, c)
		urls[string(rune('a'+i))] = serve(t, prover(t, secret).Handler(c))
	}
	for i, c := range clocks {
		others := map[string]string{}
		for id, u := range urls {
			if id != string(rune('a'+i)) {
				others[id] = u
			}
		}
		watches = append(watches, New(Options{
			Prover: prover(t, secret), Client: http.DefaultClient, Clock: c, Member: true, Logger: slog.New(slog.DiscardHandler),
			Nodes: func() map[string]string { return others },
		}))
	}
	return clocks, watches
}

func TestWatch_TheOddOneOutIsOffAndTheOthersAgree(t *testing.T) {
	t.Parallel()
	const s, h = time.Second, time.Hour
	for name, c := range map[string]struct {
		off  []time.Duration
		want []Status
	}{
		"alone":                      {[]time.Duration{h}, []Status{Agreed}},
		"three alike":                {[]time.Duration{0, 2 * s, -2 * s}, []Status{Agreed, Agreed, Agreed}},
		"one ahead":                  {[]time.Duration{0, s, h}, []Status{Agreed, Agreed, Off}},
		"one behind":                 {[]time.Duration{0, -h, s}, []Status{Agreed, Off, Agreed}},
		"six seconds":                {[]time.Duration{0, 0, 6 * s}, []Status{Agreed, Agreed, Off}},
		"two that differ":            {[]time.Duration{0, h}, []Status{Unknown, Unknown}},
		"three that all differ":      {[]time.Duration{0, h, -h}, []Status{Unknown, Unknown, Unknown}},
		"two of five":                {[]time.Duration{0, 0, 0, h, -h}, []Status{Agreed, Agreed, Agreed, Off, Off}},
		"two of five, hand in hand":  {[]time.Duration{0, 0, 0, h, h}, []Status{Agreed, Agreed, Agreed, Off, Off}},
		"two and two, and one apart": {[]time.Duration{0, 0, h, h, -h}, []Status{Unknown, Unknown, Unknown, Unknown, Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, watches := cell(t, c.off...)
			for i, w := range watches {
				w.round(context.Background())
				if got := w.State(); got.Status != c.want[i] {
					t.Errorf("node %d, off by %s, has status %+v, want %d", i, c.off[i], got, c.want[i])
				}
			}
		})
	}
}

// Answers from before the wall clock jumped are worthless: a machine that wakes up trusts
// its clock only once it has asked again.
func TestWatch_AJumpOfTheWallForgetsWhatWasKnown(t *testing.T) {
	t.Parallel()
	clocks, watches := cell(t, 0, 0, 0)
	w := watches[0]
	w.round(t.Context())
	if !w.Trusted() {
		t.Fatalf("status %+v", w.State())
	}
	clocks[0].move(time.Hour, 0)
	if w.Trusted() || w.State().Status != Unknown {
		t.Fatalf("the wall jumped an hour and the status is still %+v", w.State())
	}
	w.round(t.Context())
	if s := w.State(); s.Status != Off || !strings.Contains(s.Detail, "1h0m0s ahead of") {
		t.Fatalf("asked again, the status is %+v", s)
	}
	clocks[0].move(-time.Hour, time.Second)
	w.round(t.Context())
	if !w.Trusted() {
		t.Fatalf("set right again, the status is %+v", w.State())
	}
	clocks[0].move(goodFor+time.Second, goodFor+time.Second)
	if w.State().Status != Unknown {
		t.Fatal("old answers count for ever")
	}
}

// A node that was off and can no longer ask stays off: it must not lead again because the
// others are away.
func TestWatch_OffEndsWithAnAgreementOnly(t *testing.T) {
	t.Parallel()
	clocks, watches := cell(t, time.Hour, 0, 0)
	w := watches[0]
	var told []Status
	w.o.OnChange = func(s State) { told = append(told, s.Status) }
	w.round(t.Context())
	nodes := w.o.Nodes
	w.o.Nodes = func() map[string]string {
		return map[string]string{"b": "http://127.0.0.1:1", "c": "http://127.0.0.1:1"}
	}
	clocks[0].move(2*goodFor, 2*goodFor)
	w.round(t.Context())
	if len(told) != 1 || told[0] != Off {
		t.Fatalf("told %v", told)
	}
	w.o.Nodes = nodes
	clocks[0].move(-time.Hour-2*goodFor, 0)
	w.round(t.Context())
	if told[len(told)-1] != Agreed {
		t.Fatalf("told %v", told)
	}
}

// The round trip is subtracted: a slow network is not a wrong clock.
func TestAsk_TheRoundTripIsSubtracted(t *testing.T) {
	t.Parallel()
	mine := newHandClock(0)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const oneWay = 1500 * time.Millisecond
		mine.move(oneWay, oneWay)
		prover(t, secret).Handler(mine).ServeHTTP(w, r) // The node's clock is ours.
		mine.move(oneWay, oneWay)
	})
	r, err := prover(t, secret).ask(t.Context(), http.DefaultClient, mine, serve(t, slow))
	if err != nil || r.ahead != 0 || r.give != 1500*time.Millisecond {
		t.Fatalf("reading %+v, %v", r, err)
	}
	asleep := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prover(t, secret).Handler(mine).ServeHTTP(w, r)
		mine.move(8*time.Hour, time.Millisecond)
	})
	if r, err := prover(t, secret).ask(t.Context(), http.DefaultClient, mine, serve(t, asleep)); err == nil {
		t.Fatalf("we slept while we waited, and read %+v", r)
	}
}

func TestAsk_OnlyANodeOfTheCellIsTrusted(t *testing.T) {
	t.Parallel()
	clock := newHandClock(0)
	for name, h := range map[string]http.Handler{
		"another secret": prover(t, "a secret of another cell").Handler(clock),
		"no proof": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"at_ns":1}`))
		}),
		"another nonce": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.RawQuery = "nonce=old"
			prover(t, secret).Handler(clock).ServeHTTP(w, r)
		}),
		"not found": http.NotFoundHandler(),
	} {
		if r, err := prover(t, secret).ask(t.Context(), http.DefaultClient, clock, serve(t, h)); err == nil {
			t.Errorf("%s: read %+v", name, r)
		}
	}
	rec := httptest.NewRecorder()
	prover(t, secret).Handler(clock).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, Path, nil))
	if rec.Code != http.StatusBadRequest {
		t.Errorf("without a nonce: %d", rec.Code)
	}
}

// follow lets a Time follow nodes until the test ends.
func follow(t *testing.T, clock *handClock, nodes map[string]string) *Time {
	t.Helper()
	at := NewTime(clock)
	ctx, cancel := context.WithCancel(context.Background())
	wait := at.Follow(ctx, Options{Prover: prover(t, secret), Client: http.DefaultClient, Nodes: func() map[string]string { return nodes }, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { cancel(); wait() })
	return at
}

func TestTime_IsThatOfMostNodesWhateverTheWallDoes(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{8 * time.Hour, -8 * time.Hour, 0} {
		node, mine := newHandClock(0), newHandClock(off)
		at := follow(t, mine, map[string]string{"a": serve(t, prover(t, secret).Handler(node))})
		at.Settle(t.Context())
		want, _ := node.Now()
		if !at.Known() || !at.Now().Equal(want) {
			t.Errorf("%s off: %v, want %v", off, at.Now(), want)
		}
		if got := at.State().Status; (got == Off) != (off != 0) {
			t.Errorf("%s off: status %v", off, got)
		}
		mine.move(-off/2, time.Second)
		node.move(time.Second, time.Second)
		if want, _ = node.Now(); !at.Now().Equal(want) {
			t.Errorf("after a jump: %v, want %v", at.Now(), want)
		}
	}
}

// A state that is taken late, after a jump of the wall clock, is still right.
func TestTime_AStateIsGoodAfterAJump(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{8 * time.Hour, 0} {
		node, mine := newHandClock(0), newHandClock(off)
		watch := New(Options{
			Prover: prover(t, secret), Client: http.DefaultClient, Clock: mine, Logger: slog.New(slog.DiscardHandler),
			Nodes: func() map[string]string {
				return map[string]string{"a": serve(t, prover(t, secret).Handler(node))}
			},
		})
		watch.round(t.Context())
		at, state := NewTime(mine), watch.State()
		mine.move(-16*time.Hour, time.Second)
		node.move(time.Second, time.Second)
		at.take(state)
		if want, _ := node.Now(); !at.Now().Equal(want) {
			t.Errorf("%s off: %v, want %v", off, at.Now(), want)
		}
	}
}

// A process that cannot ask uses its own clock, and does not wait long.
func TestTime_WithoutNodesTheWallCounts(t *testing.T) {
	t.Parallel()
	mine := newHandClock(time.Hour)
	lone := NewTime(mine)
	lone.Settle(t.Context()) // Nobody follows.
	at := follow(t, mine, map[string]string{"a": "http://127.0.0.1:1"})
	at.Settle(t.Context())
	want, _ := mine.Now()
	if at.Known() || !at.Now().Equal(want) || !lone.Now().Equal(want) {
		t.Errorf("%v and %v, want %v", at.Now(), lone.Now(), want)
	}
}
