package history

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

// Tap is a transport that records in the history which jobs the server handed out, when
// they were asked for, and which acks it confirmed, when the confirmation arrives.
type Tap struct {
	next    http.RoundTripper
	history *History
}

// NewTap puts a tap before next.
func NewTap(next http.RoundTripper, h *History) *Tap { return &Tap{next: next, history: h} }

// RoundTrip implements http.RoundTripper.
func (t *Tap) RoundTrip(r *http.Request) (*http.Response, error) {
	var c conversation
	switch {
	case strings.HasSuffix(r.URL.Path, corvov1connect.WorkerServiceStreamLifecycleProcedure):
		c = &lifecycle{history: t.history, asked: map[uint64]question{}}
	case strings.HasSuffix(r.URL.Path, corvov1connect.WorkerServiceAckBatchProcedure):
		c = &ackBatch{history: t.history}
	default:
		return t.next.RoundTrip(r)
	}
	out := r.Clone(r.Context())
	out.Body = &listener{ReadCloser: r.Body, hear: c.sent}
	res, err := t.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	res.Body = &listener{ReadCloser: res.Body, hear: c.received}
	return res, nil
}

// listener hears what is read through it. At the end it hears nil.
type listener struct {
	io.ReadCloser
	hear func(b []byte)
}

// Read implements io.Reader.
func (l *listener) Read(b []byte) (int, error) {
	n, err := l.ReadCloser.Read(b)
	if n > 0 {
		l.hear(b[:n])
	}
	if err == io.EOF {
		l.hear(nil)
	}
	return n, err
}

type conversation interface {
	sent(b []byte)
	received(b []byte)
}

// lifecycle is one worker stream. Connect and gRPC frame messages alike: one byte
// of flags, four of length.
type lifecycle struct {
	history *History
	mu      sync.Mutex // Guards asked: the two directions have a goroutine each.
	asked   map[uint64]question
	out, in frames
}

// question is a frame that is not answered yet. One that settles and fetches may get two
// answers.
type question struct {
	acks []*corvov1.AckBatchItem
	at   time.Time
}

func (l *lifecycle) sent(b []byte) {
	l.out.feed(b, func(message []byte) {
		var frame corvov1.LifecycleStreamRequest
		if err := proto.Unmarshal(message, &frame); err != nil {
			l.history.Broken("frame of a worker does not parse: " + err.Error())
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked[frame.GetRequestId()] = question{frame.GetAcks(), time.Now()}
	})
}

func (l *lifecycle) received(b []byte) {
	l.in.feed(b, func(message []byte) {
		var reply corvov1.LifecycleStreamResponse
		if err := proto.Unmarshal(message, &reply); err != nil {
			l.history.Broken("reply to a worker does not parse: " + err.Error())
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		asked := l.asked[reply.GetRequestId()]
		for _, j := range reply.GetJobs() {
			l.history.HandOut(j.GetJobId(), j.GetLeaseToken(), int(j.GetAttempt()), asked.at)
		}
		if len(reply.GetAckOutcomes()) > 0 {
			l.history.outcomes(asked.acks, reply.GetAckOutcomes())
		}
	})
}

// frames puts messages together from what is read, which may be cut anywhere.
type frames struct{ rest []byte }

const (
	frameHeader    = 5
	frameEndStream = 1 << 1 // Connect's last frame, JSON.
)

func (f *frames) feed(b []byte, message func([]byte)) {
	f.rest = append(f.rest, b...)
	for len(f.rest) >= frameHeader {
		size := frameHeader + int(binary.BigEndian.Uint32(f.rest[1:]))
		if len(f.rest) < size {
			return
		}
		if f.rest[0]&frameEndStream == 0 {
			message(f.rest[frameHeader:size])
		}
		f.rest = f.rest[size:]
	}
}

// ackBatch is the unary call of a worker for which streams do not get through.
type ackBatch struct {
	history         *History
	request, answer []byte
}

func (a *ackBatch) sent(b []byte) { a.request = append(a.request, b...) }

func (a *ackBatch) received(b []byte) {
	a.answer = append(a.answer, b...)
	if b != nil {
		return
	}
	var req corvov1.AckBatchRequest
	var res corvov1.AckBatchResponse
	if proto.Unmarshal(a.request, &req) != nil || proto.Unmarshal(a.answer, &res) != nil {
		return // An error in JSON: nothing was confirmed.
	}
	a.history.outcomes(req.GetItems(), res.GetOutcomes())
}

func (h *History) outcomes(asked []*corvov1.AckBatchItem, outcomes []*corvov1.ItemOutcome) {
	if len(asked) != len(outcomes) {
		h.Broken("the server answered another number of acks than it was sent")
		return
	}
	for i, o := range outcomes {
		if o.GetCode() == "" {
			h.Confirm(asked[i].GetJobId(), asked[i].GetLeaseToken(), time.Now())
		}
	}
}
