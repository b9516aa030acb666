package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// auditDetails is everything that has no column, in the order of its names.
func auditDetails(a *wire.AuditEntry) string {
	var detail map[string]string
	_ = json.Unmarshal(a.Detail, &detail) // Shown as none.
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(detail)) {
		if strings.HasPrefix(name, "was_") { // Stands beside what it became.
			continue
		}
		part := name + ": " + detail[name]
		if was := detail["was_"+name]; was != "" {
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

func (s *session) auditVerb() verb {
	return lists(s, verb{
		root: "audit", short: "List who changed queues, jobs and schedules, newest first",
		long: `Lists what people and keys did to queues, jobs, schedules, budgets and approval policies
of the namespace: pause, clear, delete, retry and so on, as its cell has it. Enqueue, fetch and ack
aren't in it. This needs the role admin. The tenant's whole audit log, with settings, keys and
members, is {cmd} list.`,
		example: "  {cmd}\n  {cmd} --limit 0 -o jsonl | jq -r 'select(.action == \"queue.delete\") | .principal'",
	}, collection[wire.AuditEntry]{
		path: "/audit", member: "entries", header: []string{"WHEN", "WHO", "ACTION", "TARGET", "CHANGED", "DETAILS"},
		row: func(a *wire.AuditEntry) []any {
			return []any{a.At, a.Principal, a.Action, a.Target, a.Affected, auditDetails(a)}
		},
		empty: "no entries yet; pausing a queue or retrying a job makes one",
	})
}
