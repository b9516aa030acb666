package group

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// newLogger lets hashicorp/raft write to slog. Its information messages are
// debug messages to us: an election is news to an operator through metrics.
func newLogger(l *slog.Logger) hclog.Logger { return &raftLogger{Logger: hclog.NewNullLogger(), l: l} }

// raftLogger overrides what raft uses; the embedded null logger answers the rest.
type raftLogger struct {
	hclog.Logger
	l *slog.Logger
}

func (r *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch {
	case level >= hclog.Error:
		to = slog.LevelError
	case level == hclog.Warn:
		to = slog.LevelWarn
	}
	r.l.Log(context.Background(), to, msg, args...)
}

func (r *raftLogger) Trace(string, ...any)           {}
func (r *raftLogger) Debug(msg string, args ...any)  { r.Log(hclog.Debug, msg, args...) }
func (r *raftLogger) Info(msg string, args ...any)   { r.Log(hclog.Info, msg, args...) }
func (r *raftLogger) Warn(msg string, args ...any)   { r.Log(warnLevel(msg), msg, args...) }
func (r *raftLogger) Error(msg string, args ...any)  { r.Log(hclog.Error, msg, args...) }
func (r *raftLogger) With(args ...any) hclog.Logger  { return &raftLogger{r.Logger, r.l.With(args...)} }
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
