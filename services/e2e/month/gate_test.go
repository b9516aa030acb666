package month_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

// callSteps are the calls that a control plane makes to Stripe. Before and after each one is a
// step at which it dies.
var callSteps = []string{
	"GET billing/meters", "GET billing/meters/ID/event_summaries", "GET customers/ID", "GET customers/search", "GET invoiceitems", "GET invoices", "GET prices",
	"GET subscriptions", "POST billing/meter_events", "POST billing_portal/sessions", "POST checkout/sessions", "POST customers", "POST invoiceitems", "POST subscriptions/ID",
	"DELETE subscriptions/ID",
}

// callOf names a call without ids.
func callOf(r *http.Request) string {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	for i, part := range path {
		if strings.Contains(part, "_") && strings.ContainsAny(part, "0123456789") {
			path[i] = "ID"
		}
	}
	return r.Method + " " + strings.Join(path, "/")
}

// steps say where a control plane is killed.
type steps struct {
	mu    sync.Mutex // Guards the rest.
	rng   *rand.Rand
	most  int // Kills of a step; 0 while nobody dies.
	last  time.Time
	hits  map[string]int
	kills map[string]int
}

// strikeEvery leaves time for what is killed to start again.
const strikeEvery = 400 * time.Millisecond

func newSteps(rng *rand.Rand) *steps {
	return &steps{rng: rng, hits: make(map[string]int), kills: make(map[string]int)}
}

// killEach kills what is at a step so often, from now on.
func (s *steps) killEach(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
}

// dying reports whether processes are killed at all.
func (s *steps) dying() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most > 0
}

// made is how often calls were made, by their names.
func (s *steps) made() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int)
	for step, hits := range s.hits {
		if call, is := strings.CutSuffix(step, before); is {
			out[call] = hits
		}
	}
	return out
}

// reached kills the process that is at a step, if it is its turn to die.
func (s *steps) reached(step string, p *process) (died bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[step]++
	gap := strikeEvery
	if s.kills[step] == 0 {
		gap /= 4 // Some calls are made rarely.
	}
	if s.kills[step] >= s.most || time.Since(s.last) < gap || s.kills[step] > 0 && s.rng.IntN(2) == 0 || !p.kill() {
		return false
	}
	s.kills[step]++
	s.last = time.Now()
	return true
}

// report prints the table, and fails for a step at which nothing was killed.
func (s *steps) report(t *testing.T, want []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, call := range callSteps {
		fmt.Fprintf(&b, "\n%-40s", call)
		for _, when := range []string{before, after} {
			fmt.Fprintf(&b, "  %s: %d kills of %d", when, s.kills[call+when], s.hits[call+when])
			if s.kills[call+when] == 0 && slices.Contains(want, call) {
				t.Errorf("no control plane was killed%s %s, of %d times that one was there", when, call, s.hits[call+when])
			}
		}
	}
	t.Logf("kills of the control plane at each call to Stripe:%s", b.String())
}

const before, after = " before", " after"

// gate is Stripe's address for one control plane, and kills it before and after calls.
type gate struct {
	*world
	caller *process
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := callOf(r)
	if g.steps.reached(call+before, g.caller) {
		cut(w)
		return
	}
	time.Sleep(g.faults.slow())
	kept := &keptAnswer{ResponseRecorder: httptest.NewRecorder()}
	g.stripe.ServeHTTP(kept, r)
	if g.steps.reached(call+after, g.caller) || kept.lost {
		cut(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(kept.Code)
	_, _ = w.Write(kept.Body.Bytes()) // The caller may have died.
}

// keptAnswer is an answer that isn't given yet.
type keptAnswer struct {
	*httptest.ResponseRecorder
	lost bool // It shall be lost.
}

// Hijack implements http.Hijacker: the fake closes the connections of answers that it loses.
func (k *keptAnswer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	k.lost = true
	return nil, nil, errors.New("the answer is lost by the gate")
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = c.Close() // As if it had broken.
	}
}

// faults go wrong with calls, by chance.
type faults struct {
	mu      sync.Mutex // Guards the rest.
	rng     *rand.Rand
	percent int // Of the calls; 0 while nothing goes wrong.
	// loses, if set, are calls of which the next answer is lost.
	loses map[string]int
	done  map[string]int
}

func newFaults(rng *rand.Rand) *faults {
	return &faults{rng: rng, loses: make(map[string]int), done: make(map[string]int)}
}

func (f *faults) set(percent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.percent = percent
}

// lose makes the next answers to a call get lost.
func (f *faults) lose(call string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loses[call] = n
}

var faultNames = map[stripetest.Fault]string{stripetest.LoseAnswer: "answers lost", stripetest.Drop: "calls dropped", stripetest.TooMany: "429", stripetest.Broken: "500"}

// next is the fault of a call.
func (f *faults) next(call string) (fault stripetest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.loses[call] > 0:
		f.loses[call]--
		fault = stripetest.LoseAnswer
	case f.rng.IntN(100) < f.percent:
		fault = []stripetest.Fault{stripetest.LoseAnswer, stripetest.LoseAnswer, stripetest.Drop, stripetest.TooMany, stripetest.Broken}[f.rng.IntN(5)]
	default:
		return stripetest.None
	}
	f.done[faultNames[fault]]++
	return fault
}

// slow is how long a call takes.
func (f *faults) slow() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng.IntN(100) >= f.percent {
		return 0
	}
	f.done["slow calls"]++
	return time.Duration(f.rng.Int64N(int64(300 * time.Millisecond)))
}

func (f *faults) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("faults of calls to Stripe: %v", f.done)
}
