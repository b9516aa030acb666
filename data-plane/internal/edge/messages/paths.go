package messages

import (
	"slices"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// optionNames are the members that stand under "options" in proto and at the top
// in JSON, with their proto spelling.
var optionNames = map[string]string{
	"priority": "priority", "max_retries": "max_retries", "retry_backoff": "retry_backoff",
	"retry_base_delay": "retry_base_delay_ms", "retry_max_delay": "retry_max_delay_ms",
	"scheduled_at": "scheduled_at", "delay": "delay_ms", "expire_after": "expire_after_ms", "tags": "tags", "unique_key": "unique_key",
	"unique_period": "unique_period", "idempotency_key": "idempotency_key", "traceparent": "traceparent",
	"parent_id": "parent_id", "checkpoint": "checkpoint_json",
	"chain": "chain", "depends_on": "depends_on", "on_dependency_failed": "on_dependency_failed", "batch_id": "batch_id",
}

// otherNames are members of a fetch or a fail whose proto spelling differs.
var otherNames = map[string]string{"wait": "wait_ms", "lease": "lease_duration", "delay": "delay_ms"}

var jsonNames = []string{"callback_payload", "payload", "checkpoint", "result", "progress"}

// Paths respells the fields of a refusal as they are called in proto.
func Paths(err error) error { return Respell(err, Path) }

// Respell is err with other names for its fields.
func Respell(err error, spell func(string) string) error {
	f := fault.As(err)
	if f == nil || len(f.Fields) == 0 {
		return err
	}
	out := *f
	out.Fields = slices.Clone(f.Fields)
	for i := range out.Fields {
		out.Fields[i].Path = spell(out.Fields[i].Path)
	}
	return &out
}

// Path spells a path of a request or of an item in one of its lists.
func Path(path string) string { return pathOf(path, false) }

// EnqueuePath spells a path of a single enqueue, whose members have no prefix that
// tells them from those of an ack.
func EnqueuePath(path string) string { return pathOf(path, true) }

func pathOf(path string, enqueue bool) string {
	prefix, last := "", path
	if strings.HasPrefix(path, "batch.") || strings.HasPrefix(path, "jobs[") || strings.HasPrefix(path, "enqueues[") || strings.HasPrefix(path, "acks[") {
		if i := strings.IndexByte(path, '.'); i >= 0 {
			prefix, last = path[:i+1], path[i+1:]
		}
	}
	end := strings.IndexAny(last, ".[")
	if end < 0 {
		end = len(last)
	}
	name, rest := last[:end], last[end:]
	enqueue = enqueue || strings.HasPrefix(prefix, "jobs[") || strings.HasPrefix(prefix, "enqueues[")
	if p, ok := optionNames[name]; ok && enqueue {
		return prefix + "options." + p + rest
	}
	if p, ok := otherNames[name]; ok && prefix == "" {
		return p + rest
	}
	if slices.Contains(jsonNames, name) {
		return prefix + name + "_json" + rest
	}
	return path
}
