package command

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/corvo-cloud/corvo/control-plane/server"
)

const afterRestoreUsage = "the database was restored from an older copy: end all sessions, adopt what only the cell has, list it, and exit"

var errOnlyDryRun = usagef("--dry-run only works with --after-restore")

// afterRestore lists what became of what only the cell knew.
func (s *session) afterRestore(ctx context.Context, cfg server.Config, dryRun bool) error {
	r, err := server.AfterRestore(ctx, cfg, dryRun)
	return s.tellRestore(r, dryRun, err)
}

func (s *session) tellRestore(r server.RestoreReport, dryRun bool, err error) error {
	if err != nil {
		return serverFailure("couldn't take over the restored database", err)
	}
	return s.print(r, func() { s.printRestore(r, dryRun) })
}

func (s *session) printRestore(r server.RestoreReport, dryRun bool) {
	if dryRun {
		fmt.Fprintln(s.proc.Stdout, "dry run: nothing was changed")
	}
	fmt.Fprintf(s.proc.Stdout, "incarnation %s\n", r.Incarnation)
	for _, what := range slices.Sorted(maps.Keys(r.Ended)) {
		fmt.Fprintf(s.proc.Stdout, "ended %d %s\n", r.Ended[what], what)
	}
	for _, i := range r.Items {
		fmt.Fprintf(s.proc.Stdout, "%s %s %s (%s) of %s: %s\n", i.Action, i.Kind, i.ID, i.Name, i.TenantID, i.Why)
	}
}
