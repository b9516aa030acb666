package history

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

func framed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// A tap hears all jobs and all outcomes, however the bytes of a stream are cut.
func TestTap_HearsEveryHandOutAndEveryEnd(t *testing.T) {
	t.Parallel()
	request := framed(t, &corvov1.LifecycleStreamRequest{RequestId: 1, Acks: []*corvov1.AckBatchItem{
		{JobId: "a", LeaseToken: "lease a"}, {JobId: "b", LeaseToken: "lease b"}, {JobId: "c", LeaseToken: "lease c"},
	}})
	answer := framed(t, &corvov1.LifecycleStreamResponse{
		RequestId:   1,
		Jobs:        []*corvov1.FetchBatchJob{{JobId: "d", LeaseToken: "lease d", Attempt: 1}, {JobId: "e", LeaseToken: "lease e", Attempt: 2}},
		AckOutcomes: []*corvov1.ItemOutcome{{}, {Code: "LEASE_LOST"}, {}},
	})
	for _, piece := range []int{1, 7, 4096} {
		h := New()
		tap := NewTap(pieces{answer, piece}, h)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tenant"+corvov1connect.WorkerServiceStreamLifecycleProcedure, bytes.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		res, err := tap.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "c"} {
			if _, ok := h.Ended(id); !ok {
				t.Errorf("in pieces of %d: the end of %s was not heard", piece, id)
			}
		}
		if _, ok := h.Ended("b"); ok {
			t.Errorf("in pieces of %d: an ack that was refused was heard as an end", piece)
		}
		if len(h.tokens[handedOut{"d", 1}]) != 1 || len(h.tokens[handedOut{"e", 2}]) != 1 {
			t.Errorf("in pieces of %d: heard of %v, want d and e", piece, h.tokens)
		}
	}
}

// pieces answers with bytes that come a few at a time.
type pieces struct {
	answer []byte
	size   int
}

// RoundTrip implements http.RoundTripper.
func (p pieces) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&slowly{bytes.NewReader(p.answer), p.size})}, nil
}

type slowly struct {
	io.Reader
	size int
}

// Read implements io.Reader.
func (s *slowly) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(len(b), s.size)]) }
