package cli

import (
	"context"
	"log/slog"
)

// runServer runs a node until ctx ends.
func runServer(_ context.Context, _ serverFlags, _ *slog.Logger, _ serverEvents) error {
	return &Failure{Exit: ExitFail, Code: "UNSUPPORTED", What: "this build has no node in it"}
}
