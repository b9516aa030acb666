package corvo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

func TestWorker_TellsOnceThatDispatchIsHeldAndOnceThatItIsOver(t *testing.T) {
	t.Parallel()
	opens := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			s.Set(peertest.Faults{Held: &corvov1.DispatchHeld{Limit: "spend", Value: 20, OpensAt: timestamppb.New(opens), Message: "dispatch is held"}})
			told := make(chan *Held, 100)
			opts := []WorkerOption{OnHeld(func(h *Held) { told <- h })}
			if polling {
				opts = append(opts, Polling())
			}
			id := s.Add("emails", `{"to":"a"}`, nil)
			r := start(t, newWorker(t, s, 1, ok, opts...))
			if h := <-told; h == nil || *h != (Held{"spend", 20, opens, "dispatch is held"}) {
				t.Fatalf("told %+v", h)
			}
			time.Sleep(300 * time.Millisecond) // Some more fetches, which have nothing new to tell.
			s.Set(peertest.Faults{})
			s.AwaitState(id, "completed")
			if h := <-told; h != nil {
				t.Errorf("told %+v, want the end", h)
			}
			mustStop(t, r)
			if len(told) > 0 {
				t.Errorf("told %d times more", len(told))
			}
		})
	}
}

func TestEnqueue_TellsWhatIsLeftOfTheRate(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	told := make(chan Quota, 10)
	c := newClient(t, s, WithQuota(func(q Quota) { told <- q }))
	enqueue := func() {
		t.Helper()
		if _, err := c.EnqueueRaw(context.Background(), "q", nil); err != nil {
			t.Fatal(err)
		}
	}
	enqueue() // Its rate isn't limited.
	s.Set(peertest.Faults{Quota: [2]string{`"another";q=1;w=1`, `"another";r=1;t=1`}})
	enqueue()
	s.Set(peertest.Faults{Quota: [2]string{`"enqueue_per_second";q=60;w=6`, `"enqueue_per_second";r=58;t=2`}})
	enqueue()
	if len(told) != 1 {
		t.Fatalf("told %d times", len(told))
	}
	if q := <-told; q != (Quota{60, 6 * time.Second, 58, 2 * time.Second}) {
		t.Errorf("told %+v", q)
	}
}

func TestError_NamesTheLimit(t *testing.T) {
	t.Parallel()
	opens := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	want := Limit{Name: "jobs_per_month", Value: 500, Current: 500, OpensAt: opens}
	e := errorFromHTTP(429, http.Header{}, []byte(`{"error":"held","code":"PLAN_LIMIT","limit":{"name":"jobs_per_month","value":500,"current":500,"opens_at":"2026-12-01T00:00:00Z"}}`))
	if e.Limit == nil || *e.Limit != want {
		t.Errorf("over HTTP %+v", e.Limit)
	}
	ce := connect.NewWireError(connect.CodeResourceExhausted, errors.New("held"))
	d, err := connect.NewErrorDetail(&corvov1.Limit{Name: "jobs_per_month", Value: 500, Current: 500, OpensAt: timestamppb.New(opens)})
	if err != nil {
		t.Fatal(err)
	}
	ce.AddDetail(d)
	if e := errorFromRPC(ce); e.Limit == nil || *e.Limit != want {
		t.Errorf("over RPC %+v", e.Limit)
	}
}
