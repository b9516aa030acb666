package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// newLogger lets hashicorp/raft write to slog. Its information messages are
// debug messages to us: an election is news to an operator through metrics.
// What is wrong with a peer, or with a leadership, is said once, and again every
// repeatEvery while it goes on, with how often it was: a node that is away, or a cell of
// which no leader lasts, must not bury what else there is to say.
func newLogger(l *slog.Logger) hclog.Logger {
	return &raftLogger{Logger: hclog.NewNullLogger(), l: l, said: &repeats{complaints: map[string]complaint{}}}
}

const repeatEvery = 30 * time.Second

// raftLogger overrides what raft uses; the embedded null logger answers the rest.
type raftLogger struct {
	hclog.Logger
	l    *slog.Logger
	said *repeats
}

// repeats is when each complaint about each peer was said last. There are as many as
// raft has messages times peers.
type repeats struct {
	mu         sync.Mutex
	complaints map[string]complaint // Guarded by mu.
}

type complaint struct {
	said   time.Time
	passed int // How often it was passed over since.
}

// again reports whether a complaint is due now, and how often it was passed over.
func (r *repeats) again(what string, now time.Time) (passed int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.complaints[what]
	if now.Sub(c.said) < repeatEvery {
		c.passed++
		r.complaints[what] = c
		return 0, false
	}
	r.complaints[what] = complaint{said: now}
	return c.passed, true
}

// peerKeys are the names by which raft calls the peer that a message is about.
var peerKeys = []string{"peer", "target", "server-id", "from", "candidate"}

// about names the complaint that a message is: the message and its peer. An error that
// is not about a peer is none, and is always said.
func about(to slog.Level, msg string, args []any) (what string, complains bool) {
	for i := 0; i+1 < len(args); i += 2 {
		if key, ok := args[i].(string); ok && slices.Contains(peerKeys, key) {
			return fmt.Sprint(msg, args[i+1]), to >= slog.LevelWarn
		}
	}
	return msg, to == slog.LevelWarn
}

func (r *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch {
	case level >= hclog.Error:
		to = slog.LevelError
	case level == hclog.Warn:
		to = slog.LevelWarn
	}
	if what, complains := about(to, msg, args); complains {
		passed, due := r.said.again(what, time.Now())
		switch {
		case !due:
			to = slog.LevelDebug
		case passed > 0:
			args = append(slices.Clip(args), "repeated", passed)
		}
	}
	r.l.Log(context.Background(), to, msg, args...)
}

func (r *raftLogger) Trace(string, ...any)          {}
func (r *raftLogger) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLogger) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLogger) Warn(msg string, args ...any)  { r.Log(warnLevel(msg), msg, args...) }
func (r *raftLogger) Error(msg string, args ...any) { r.Log(errorLevel(args), msg, args...) }
func (r *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{r.Logger, r.l.With(args...), r.said}
}
func (r *raftLogger) Named(string) hclog.Logger      { return r }
func (r *raftLogger) ResetNamed(string) hclog.Logger { return r }
func (r *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(io.Discard, "", 0)
}

// warnLevel: that a replica without a leader stands for election is how every
// start begins, not a warning.
func warnLevel(msg string) hclog.Level {
	if strings.HasPrefix(msg, "heartbeat timeout reached") {
		return hclog.Debug
	}
	return hclog.Warn
}

// errorLevel: that a pipeline ends because its follower has to catch up is no error.
func errorLevel(args []any) hclog.Level {
	for _, a := range args {
		if err, ok := a.(error); ok && errors.Is(err, transport.ErrBehind) {
			return hclog.Debug
		}
	}
	return hclog.Error
}
