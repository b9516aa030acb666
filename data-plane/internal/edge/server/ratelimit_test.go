package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
)

// Whoever comes back after the time that a refusal names is let in, by HTTP and by RPC.
func TestRateLimit_TheTimeInTheRefusalIsTrue(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	const limit = 500
	b.jobs.plan.Store(&queue.PlanLimits{PerSecond: limit})
	batch := `{"jobs":[` + strings.Repeat(`{"queue":"q"},`, limit) + `{"queue":"q"}]}`
	spend := func(refused func() bool) {
		eventually.True(t, patience, "a refusal", func() bool {
			b.post("/api/v1/enqueue/batch", batch)
			return refused()
		})
	}
	one := func() answerOf { return b.post("/api/v1/enqueue", `{"queue":"q"}`) }

	var a answerOf
	spend(func() bool { a = one(); return a.status == 429 })
	p := a.problem(t)
	if s, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || int64(s) != (p.RetryAfterMS+999)/1000 || p.Code != "RATE_LIMITED" {
		t.Fatalf("Retry-After %q, %s: want whole seconds, rounded up", a.header.Get("Retry-After"), a.body)
	}
	time.Sleep(time.Duration(p.RetryAfterMS) * time.Millisecond) // What is under test.
	one().want(t, 201)

	rpc := b.client(true)
	call := func() error {
		_, err := rpc.Enqueue(t.Context(), connect.NewRequest(&corvov1.EnqueueRequest{Queue: "q"}))
		return err
	}
	var ce *connect.Error
	spend(func() bool { return errors.As(call(), &ce) })
	ms, err := strconv.Atoi(ce.Meta().Get(wire.RetryAfterMSHeader))
	if err != nil || ce.Meta().Get("Retry-After") != strconv.Itoa((ms+999)/1000) || !strings.Contains(ce.Message(), fmt.Sprintf("retry_after_ms=%d", ms)) {
		t.Fatalf("an RPC: %v, %v", ce, ce.Meta())
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	if err := call(); err != nil {
		t.Fatal(err)
	}
}
