package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

// echoID is as long as the id of a job.
var echoID = "job_" + strings.Repeat("0", 26)

// ServeEcho answers enqueues and does nothing else, until ctx ends: what the libraries
// for HTTP and Connect leave a queue that costs nothing.
func ServeEcho(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/enqueue", echoHTTP)
	mux.Handle(corvov1connect.NewWorkerServiceHandler(echo{}))
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // Nobody waits for an answer any more.
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func echoHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // The caller is gone.
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"job_id":"`+echoID+`"}`) // The caller may be gone.
}

type echo struct {
	corvov1connect.UnimplementedWorkerServiceHandler
}

func (echo) StreamLifecycle(_ context.Context, stream *connect.BidiStream[corvov1.LifecycleStreamRequest, corvov1.LifecycleStreamResponse]) error {
	for {
		frame, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reply := &corvov1.LifecycleStreamResponse{RequestId: frame.GetRequestId()}
		for range frame.GetEnqueues() {
			reply.EnqueuedJobIds = append(reply.EnqueuedJobIds, echoID)
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
}
