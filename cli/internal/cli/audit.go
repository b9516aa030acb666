package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// auditRow is one administrative act as the list shows it.
type auditRow struct {
	At          time.Time         `json:"at"`
	Principal   string            `json:"principal"`
	Action      string            `json:"action"`
	TargetType  string            `json:"target_type"`
	Target      string            `json:"target"`
	Detail      map[string]string `json:"detail"`
	Affected    uint64            `json:"affected"`
	Refused     uint64            `json:"refused"`
	Interrupted bool              `json:"interrupted"`
}

func (a *auditRow) row(now time.Time) []string {
	return []string{ago(a.At, now), first(a.Principal, "-"), a.Action, first(a.Target, "-"), strconv.FormatUint(a.Affected, 10), first(a.details(), "-")}
}

// details is everything that has no column, in the order of its names.
func (a *auditRow) details() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a.Detail)) {
		if strings.HasPrefix(name, "was_") { // Stands beside what it became.
			continue
		}
		part := name + ": " + a.Detail[name]
		if was := a.Detail["was_"+name]; was != "" {
			part += " (was " + was + ")"
		}
		parts = append(parts, part)
	}
	if a.Refused > 0 {
		parts = append(parts, "not changed: "+strconv.FormatUint(a.Refused, 10))
	}
	if a.Interrupted {
		parts = append(parts, "interrupted")
	}
	return strings.Join(parts, ", ")
}

func (s *session) auditCommand(use string) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   use,
		Short: "List who changed queues, jobs and schedules, newest first",
		Long: `Lists what people and keys did to queues, jobs, schedules, budgets and approval policies
of the namespace: pause, clear, delete, retry and so on. Enqueue, fetch and ack aren't in it.
This needs the role admin. The audit log in the console also has keys and members.`,
		Example: "  {cmd}\n  {cmd} --limit 0 -o jsonl | jq -r 'select(.action == \"queue.delete\") | .principal'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, collection[auditRow]{
				path: "/audit", member: "entries", header: []string{"WHEN", "WHO", "ACTION", "TARGET", "CHANGED", "DETAILS"},
				row: (*auditRow).row, empty: "no entries yet; pausing a queue or retrying a job makes one",
			}, limit)
		},
	}
	limitFlag(c, &limit)
	return c
}
