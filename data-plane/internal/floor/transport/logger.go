package transport

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger writes the library's log lines to slog. Connection trouble is normal
// while nodes come and go, so the library's errors are warnings here.
type logger struct {
	hclog.Logger
	to *slog.Logger
}

func newLogger(to *slog.Logger) hclog.Logger { return logger{hclog.NewNullLogger(), to} }

func (l logger) Debug(msg string, args ...any) { l.log(slog.LevelDebug, msg, args) }
func (l logger) Info(msg string, args ...any)  { l.log(slog.LevelInfo, msg, args) }
func (l logger) Warn(msg string, args ...any)  { l.log(slog.LevelWarn, msg, args) }
func (l logger) Error(msg string, args ...any) { l.log(slog.LevelWarn, msg, args) }

func (l logger) log(level slog.Level, msg string, args []any) {
	l.to.Log(context.Background(), level, "raft transport: "+msg, args...)
}
