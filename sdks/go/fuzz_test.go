package corvo

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

func FuzzErrorFromHTTP(f *testing.F) {
	f.Add(400, "1", []byte(`{"error":"x","code":"VALIDATION_ERROR","fields":[{"field":"a","message":"b"}]}`))
	f.Add(429, "0.003", []byte(`{"retry_after_ms":1e308,"fields":{}}`))
	f.Add(503, "Wed, 21 Oct 2099 07:28:00 GMT", []byte(`<html>`))
	f.Add(-1, "NaN", []byte(`null`))
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		e := errorFromHTTP(status, http.Header{"Retry-After": {after}}, body)
		if e.Code == "" || e.RetryAfter < 0 || e.RetryAfter > retryAfterMax {
			t.Errorf("error %+v", e)
		}
		if e.Error() == "" {
			t.Error("no text")
		}
		if e.Retryable && (errors.Is(e, ErrInvalid) || errors.Is(e, ErrUnauthorized) || errors.Is(e, ErrForbidden)) {
			t.Errorf("a refusal says that it can be retried: %+v", e)
		}
	})
}

func FuzzErrorFromRPC(f *testing.F) {
	f.Add(uint32(3), "text", "LEASE_LOST", "1")
	f.Add(uint32(99), "", "", "-5")
	f.Fuzz(func(t *testing.T, code uint32, text, reason, after string) {
		ce := connect.NewWireError(connect.Code(code), errors.New(text))
		ce.Meta().Set("Corvo-Error-Code", reason)
		ce.Meta().Set("Retry-After", after)
		e := errorFromRPC(ce)
		if e.Code == "" || e.RetryAfter < 0 || e.RetryAfter > retryAfterMax || e.Error() == "" {
			t.Errorf("error %+v", e)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"https://a.b/t/x", "127.0.0.1:1", "[::1]", "http://", "a://b", "%", "localhost/%2f/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseAddress(text)
		if err != nil {
			return
		}
		if u.Hostname() == "" || u.User != nil || u.RawQuery != "" || (u.Scheme != "http" && u.Scheme != "https") {
			t.Errorf("%q was taken as %s", text, u)
		}
		again, err := parseAddress(u.String())
		if err != nil || again.String() != u.String() {
			t.Errorf("%s does not read back: %v, %v", u, again, err)
		}
	})
}

// FuzzJobJSON: what a server may send as a job never breaks the client.
func FuzzJobJSON(f *testing.F) {
	f.Add([]byte(`{"id":"job_1","state":"active","payload":{"a":1},"tags":{"a":"b"},"created_at":"2026-01-02T03:04:05.6Z","errors":[{}]}`))
	f.Add([]byte(`{"payload":null,"lease_expires_at":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var j JobInfo
		if err := json.Unmarshal(body, &j); err != nil {
			return
		}
		if _, err := json.Marshal(j); err != nil {
			// Years beyond 9999 cannot be written, and do not have to be.
			var me *json.MarshalerError
			if !errors.As(err, &me) {
				t.Errorf("%s: %v", body, err)
			}
		}
	})
}

// FuzzOutcomes: no reply, however odd, settles more or less than what was sent.
func FuzzOutcomes(f *testing.F) {
	f.Add(uint8(2), uint8(1), uint8(2), uint8(1), "", "")
	f.Add(uint8(1), uint8(0), uint8(0), uint8(0), "NOT_LEADER", "")
	f.Add(uint8(1), uint8(1), uint8(1), uint8(0), "ack: no", "LEASE_LOST")
	f.Fuzz(func(t *testing.T, acks, fails, gotAcks, gotFails uint8, text, code string) {
		w := NewWorker(&Client{log: quiet()}, Queue("q", 1))
		l := w.pools[0]
		var batch []*task
		for i := range int(acks) + int(fails) {
			tk := w.admitForTest(l, i)
			tk.out.kind = outcomeAck
			if i >= int(acks) {
				tk.out.kind = outcomeFail
			}
			tk.phase = phaseSent
			batch = append(batch, tk)
		}
		reply := &stream.Response{Error: text}
		for range gotAcks {
			reply.AckOutcomes = append(reply.AckOutcomes, &corvov1.ItemOutcome{Code: code})
		}
		for range gotFails {
			reply.FailOutcomes = append(reply.FailOutcomes, &corvov1.LifecycleFailOutcome{Code: code})
		}
		_ = w.settled(l, batch, reply)
		settled := w.stats.Completed + w.stats.Failed
		if code == "" && gotAcks == acks && gotFails == fails && settled != int64(len(batch)) {
			t.Errorf("%d of %d settled", settled, len(batch))
		}
		for _, tk := range batch {
			if tk.phase != phaseOver && tk.phase != phaseQueued {
				t.Errorf("a settlement hangs in phase %d", tk.phase)
			}
		}
		if int(settled) > len(batch) {
			t.Errorf("%d settled of %d", settled, len(batch))
		}
	})
}

// admitForTest makes a task outside Run.
func (w *Worker) admitForTest(l *pool, i int) *task {
	if w.life == nil {
		w.life = context.Background()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.admit(l, &corvov1.FetchBatchJob{JobId: string(rune('a' + i)), Queue: "q"}, time.Now())
}
