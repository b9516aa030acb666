package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestEnqueueBatch_AChunkIsRepeatedWithItsIdempotencyKey(t *testing.T) {
	t.Parallel()
	var keys []string
	var calls int
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		var body struct{ Jobs []json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Jobs) != 1 {
			t.Errorf("%d jobs, %v", len(body.Jobs), err)
		}
		if calls++; calls == 1 {
			w.Header().Set("Retry-After", "0.001")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(gatewayPage))
			return
		}
		_, _ = w.Write([]byte(`{"job_ids":["job_1"]}`))
	})
	got := runWith(t, "1\n2\n", url, "enqueue-batch", "--queue", "q", "--payloads", "--chunk", "1")
	if got.exit != ExitOK || got.stdout != "job_1\njob_1\n" {
		t.Errorf("%+v", got)
	}
	if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] == keys[2] {
		t.Errorf("the first chunk was sent twice and the second once, with the keys %q", keys)
	}
}

func TestEnqueueBatch_AnUnknownOutcomeAfterAcceptedChunksStaysOne(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			_, _ = w.Write([]byte(`{"job_ids":["job_1"]}`))
			return
		}
		w.Header().Set("Retry-After", "0.001")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"leadership was lost","code":"UNKNOWN_OUTCOME"}`))
	})
	got := runWith(t, "1\n2\n", url, "enqueue-batch", "--queue", "q", "--payloads", "--chunk", "1")
	if got.exit != ExitTimeout || got.stdout != "job_1\n" {
		t.Errorf("%+v", got)
	}
	for _, part := range []string{"chunk from line 2", "may have taken effect", "idempotency_key"} {
		if !strings.Contains(got.stderr, part) {
			t.Errorf("%q isn't in %s", part, got.stderr)
		}
	}
	if strings.Contains(got.stderr, "--idempotency-key") {
		t.Errorf("the command has no such flag: %s", got.stderr)
	}
}
