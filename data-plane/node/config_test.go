package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"
)

// hung is a log whose disk does not answer.
type hung struct{ slog.Handler }

func (hung) Enabled(context.Context, slog.Level) bool  { return true }
func (hung) Handle(context.Context, slog.Record) error { select {} }
func (h hung) WithAttrs([]slog.Attr) slog.Handler      { return h }

// The log may lie on the disk that is the reason (R4, R6).
func TestFatal_EndsTheProcessThoughTheLogHangs(t *testing.T) {
	t.Parallel()
	if os.Getenv("FATAL_CHILD") == "1" {
		c := Config{Logger: slog.New(hung{slog.DiscardHandler})}
		c.withDefaults()
		c.Fatal(errors.New("disk: sync hasn't returned for 10s"))
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestFatal_EndsTheProcessThoughTheLogHangs$")
	cmd.Env = append(os.Environ(), "FATAL_CHILD=1")
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != ExitStopped {
		t.Errorf("the process ended with %v, want status %d", err, ExitStopped)
	}
}
