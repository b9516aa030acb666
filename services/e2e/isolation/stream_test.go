package isolation

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// streamOf asks over streams of one kind; when leadership moves it opens another.
type streamOf struct {
	t         *testing.T
	client    *corvo.Client
	pipelined bool
	open      *stream.Stream
}

func newStreamOf(t *testing.T, url, key string, pipelined bool) *streamOf {
	t.Helper()
	client, err := corvo.New(corvo.WithURL(url), corvo.WithAPIKey(key), corvo.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &streamOf{t: t, client: client, pipelined: pipelined}
}

// ask sends a frame of the table and returns the reply as JSON, without what
// numbers the frames.
func (s *streamOf) ask(ctx context.Context, of any) string {
	s.t.Helper()
	raw, err := json.Marshal(of)
	if err != nil {
		s.t.Fatal(err)
	}
	for {
		var frame stream.Request
		if err := protojson.Unmarshal(raw, &frame); err != nil {
			s.t.Fatal(err)
		}
		if s.open == nil {
			s.open = stream.Open(ctx, s.client.RPC(), stream.Options{Pipelined: s.pipelined})
		}
		reply, err := s.open.Do(ctx, &frame)
		if err == nil && reply.GetError() != stream.TextNotLeader {
			reply.RequestId = 0
			// Multiline is stable within a process; protojson varies blanks between builds.
			return protojson.MarshalOptions{Multiline: true}.Format(reply)
		}
		if ctx.Err() != nil {
			s.t.Fatalf("stream: %v", err)
		}
		s.close()
	}
}

func (s *streamOf) close() {
	if s.open != nil {
		s.open.Cut(stream.ErrClosed)
		s.open = nil
	}
}
