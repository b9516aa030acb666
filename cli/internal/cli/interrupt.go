package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// interruptible ends with the first SIGINT or SIGTERM; the second one ends the process at
// once. It is for commands that then have something to finish or to say. All others end
// with the first: they might be waiting for somebody to type.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func interruption(why string) *Failure {
	return &Failure{Exit: ExitFail, Code: "INTERRUPTED", What: "interrupted", Why: why}
}

// interruptibleReader reads until its context ends, also where nothing comes: a terminal,
// or a pipe that somebody keeps open.
type interruptibleReader struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptibleReader) Read(p []byte) (int, error) {
	type read struct {
		n   int
		err error
	}
	own, done := make([]byte, len(p)), make(chan read, 1) // p is the caller's again after an interruption.
	go func() {                                           // Ends with the read, at the latest with the process.
		n, err := i.r.Read(own)
		done <- read{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, own[:got.n]), got.err
	case <-i.ctx.Done():
		return 0, interruption("")
	}
}
