package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// How events are told in each protocol: as server-sent events, or by Subscribe, which
// the clients of the worker stream call beside it.

// refusedEvents are those of a subscription that was refused.
type refusedEvents struct{ why error }

func (r refusedEvents) Next() (Event, error) { return Event{}, r.why }

// Subscribe asks with the header of clients that come again.
func (h *overHTTP) Subscribe(ctx context.Context, s Subscription) (Events, error) {
	q := url.Values{}
	for name, list := range map[string][]string{"queues": s.Queues, "job_ids": s.Jobs, "types": s.Types} {
		if len(list) > 0 {
			q.Set(name, strings.Join(list, ","))
		}
	}
	header := http.Header{}
	if s.After > 0 {
		header.Set("Last-Event-ID", fmt.Sprint(s.After))
	}
	return h.stream(ctx, "/api/v1/events?"+q.Encode(), header)
}

// stream opens server-sent events.
func (h *overHTTP) stream(ctx context.Context, path string, header http.Header) (Events, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.target.URL+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	req.Header = header
	h.target.identify(req.Header)
	res, err := h.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if res.StatusCode < http.StatusBadRequest {
		return &sentEvents{bufio.NewReader(res.Body)}, nil // The body ends with ctx.
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: read the answer: %w", path, err)
	}
	return refusedEvents{refusedOverHTTP(res.StatusCode, text)}, nil
}

// sentEvents parses server-sent events the way existing clients do.
type sentEvents struct{ from *bufio.Reader }

func (e *sentEvents) Next() (Event, error) {
	var id, kind, data string
	for {
		line, err := e.from.ReadString('\n')
		if err != nil {
			return Event{}, fmt.Errorf("read events: %w", err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if data == "" {
				id = "" // A comment came before, or where to resume.
				continue
			}
			var e Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return Event{}, fmt.Errorf("event %q: %w", data, err)
			}
			if e.Type != kind || id != "" && id != fmt.Sprint(e.Seq) {
				return Event{}, fmt.Errorf("the frame says %s %s, its data %q", id, kind, data)
			}
			return e, nil
		}
	}
}

// Subscribe waits for the headers of the answer, which come when the server listens.
func (c *overRPC) Subscribe(ctx context.Context, s Subscription) (Events, error) {
	stream, err := c.client.Subscribe(ctx, connect.NewRequest(&corvov1.SubscribeRequest{
		Queues: s.Queues, JobIds: s.Jobs, Types: s.Types, LastEventId: s.After,
	}))
	if err != nil {
		return nil, refusedOverRPC(err)
	}
	stream.ResponseHeader()
	return calledEvents{stream}, nil
}

type calledEvents struct {
	stream *connect.ServerStreamForClient[corvov1.SubscribeEvent]
}

func (e calledEvents) Next() (Event, error) {
	for e.stream.Receive() {
		m := e.stream.Msg()
		if m.GetSeq() == 0 && m.GetType() == "" {
			continue // It keeps the connection alive.
		}
		told := Event{Seq: m.GetSeq(), Type: m.GetType(), AtNS: int64(m.GetAtNs()), Job: m.GetJobId(), Queue: m.GetQueue()}
		if m.GetDataJson() != "" {
			if err := json.Unmarshal([]byte(m.GetDataJson()), &told.EventData); err != nil {
				return Event{}, fmt.Errorf("event %d: %w", told.Seq, err)
			}
		}
		return told, nil
	}
	if err := e.stream.Err(); err != nil {
		return Event{}, refusedOverRPC(err)
	}
	return Event{}, io.EOF
}

func (s *overStream) Subscribe(ctx context.Context, sub Subscription) (Events, error) {
	return s.rpc.Subscribe(ctx, sub)
}
