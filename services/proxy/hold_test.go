package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/fair"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

// refused is a node's refusal, with the outcome of the call.
func refused(outcome string) faulttest.Fate {
	return faulttest.Fate{Status: http.StatusServiceUnavailable, Header: map[string]string{identity.HeaderOutcome: outcome}}
}

// A call refused because leadership is moving is sent again, and the client does not notice.
func TestHold_ACallOfWhichNothingWasDoneWaitsForALeader(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	node := r.up[0].faults
	node.Decide(func(_ string, n int) (f faulttest.Fate) {
		if n <= 3 {
			f = refused(identity.OutcomeNone)
		}
		return f
	})
	a := r.ask(r.http1, "POST", "/api/v1/enqueue", `{"queue":"q"}`, withKey(r.acme.key))
	if a.status != http.StatusOK || node.Calls()[""] != 4 {
		t.Errorf("%d %s after %v tries", a.status, a.body, node.Calls())
	}
	if a.seen.Header.Get(identity.HeaderWaited) == "" {
		t.Error("a call that waited does not say how long")
	}
	for name := range a.header {
		if name == identity.HeaderOutcome {
			t.Errorf("the client sees %s", name)
		}
	}
}

// A leader whose clock is wrong is replaced within seconds: the client does not see its
// refusals, unless they do not end.
func TestHold_ANodeThatLivesInAnotherTimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	node := r.up[0].faults
	node.Decide(func(_ string, n int) (f faulttest.Fate) {
		if n <= 3 {
			f = refused(identity.OutcomeClock)
		}
		return f
	})
	if a := r.ask(r.http1, "POST", "/api/v1/enqueue", `{"queue":"q"}`, withKey(r.acme.key)); a.status != http.StatusOK || node.Calls()[""] != 4 {
		t.Errorf("%d %s after %v tries", a.status, a.body, node.Calls())
	}
	node.Decide(func(string, int) faulttest.Fate { return refused(identity.OutcomeClock) })
	r.proxy.holds = fair.NewBudget[string](0, nil) // Not forever: as if HoldFor were over.
	if a := r.ask(r.http1, "POST", "/api/v1/enqueue", `{"queue":"q"}`, withKey(r.acme.key)); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, `"CLOCK_SKEW"`) {
		t.Errorf("in another time for good: %d %s", a.status, a.body)
	}
}

// A call that may have been done is repeated only if that does no harm.
func TestHold_AnUnknownOutcomeIsRepeatedWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, body, key string
		again           bool
	}{
		{"/api/v1/enqueue", `{"queue":"q"}`, "", false},
		{"/api/v1/enqueue", `{"queue":"q"}`, "k", true},
		{"/api/v1/enqueue", `{"queue":"q","idempotency_key":"k"}`, "", true},
		{"/api/v1/ack/job_1", `{}`, "", false},
		{"/api/v1/ack/job_1", `{"lease_token":"t"}`, "", true},
	} {
		for _, lost := range []bool{true, false} {
			r := startRig(t, rigOptions{})
			node := r.up[0].faults
			node.Decide(func(_ string, n int) (f faulttest.Fate) {
				switch {
				case n > 1:
				case lost:
					f.Lose = true // As if the node had died.
				default:
					f = refused(identity.OutcomeUnknown)
				}
				return f
			})
			a := r.ask(r.http1, "POST", c.path, c.body, func(req *http.Request) {
				withKey(r.acme.key)(req)
				if c.key != "" {
					req.Header.Set("Idempotency-Key", c.key)
				}
			})
			want, tries := http.StatusServiceUnavailable, 1
			if c.again {
				want, tries = http.StatusOK, 2
			}
			if a.status != want || node.Calls()[""] != tries {
				t.Errorf("%s %s, lost %v: %d %s after %v tries", c.path, c.body, lost, a.status, a.body, node.Calls())
			}
		}
	}
}
