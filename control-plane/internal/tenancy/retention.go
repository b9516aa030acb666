package tenancy

import (
	"fmt"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
)

const (
	finishedMax    = 1_000_000_000 // A billion jobs in a queue: more is no limit.
	eventsBytesMin = 1 << 20       // With less, not even the readers of now would be served.
	eventsBytesMax = 1 << 40
)

// retained is one setting of a namespace's retention: what it is called, what it may be,
// and how an amount reads.
type retained struct {
	name     string
	from, to int64
	value    func(*cloudv1.Retention) int64
	text     func(int64) string
}

var allRetained = []retained{
	age("completed_seconds", (*cloudv1.Retention).GetCompletedSeconds),
	age("dead_seconds", (*cloudv1.Retention).GetDeadSeconds),
	age("cancelled_seconds", (*cloudv1.Retention).GetCancelledSeconds),
	{"finished_max", 1, finishedMax, (*cloudv1.Retention).GetFinishedMax, func(n int64) string { return fmt.Sprintf("%d jobs", n) }},
	age("events_seconds", (*cloudv1.Retention).GetEventsSeconds),
	{"events_bytes_max", eventsBytesMin, eventsBytesMax, (*cloudv1.Retention).GetEventsBytesMax, func(n int64) string { return fmt.Sprintf("%d MB", n>>20) }},
	age("usage_seconds", (*cloudv1.Retention).GetUsageSeconds),
}

func age(name string, value func(*cloudv1.Retention) int64) retained {
	return retained{name, int64(retention.AgeMin / time.Second), int64(retention.AgeMax / time.Second), value, ageText}
}

// ageText is a number of seconds in the largest unit that has it whole.
func ageText(seconds int64) string {
	for _, unit := range []struct {
		seconds int64
		name    string
	}{{24 * 3600, "d"}, {3600, "h"}, {60, "min"}} {
		if seconds%unit.seconds == 0 {
			return fmt.Sprintf("%d %s", seconds/unit.seconds, unit.name)
		}
	}
	return fmt.Sprintf("%d s", seconds)
}

// checkRetention checks what people choose, whatever their plan.
func checkRetention(r *cloudv1.Retention) (wrong []fault.Field) {
	for _, s := range allRetained {
		if n := s.value(r); n != 0 && (n < s.from || n > s.to) {
			wrong = append(wrong, fault.Field{Name: "retention." + s.name, Problem: fmt.Sprintf("is %d, must be between %d (%s) and %d (%s), or 0 for the plan's default", n, s.from, s.text(s.from), s.to, s.text(s.to))})
		}
	}
	return wrong
}

// planKeeps refuses more than the tenant's plan keeps.
func planKeeps(t placed, r *cloudv1.Retention) error {
	most := retentionMessage(mostKept(t.may))
	var wrong []fault.Field
	for _, s := range allRetained {
		if n, most := s.value(r), s.value(most); most != 0 && n > most {
			wrong = append(wrong, fault.Field{Name: "retention." + s.name, Problem: fmt.Sprintf("is %d (%s), must be at most %d (%s), which is what the plan %s keeps", n, s.text(n), most, s.text(most), t.Plan)})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	// Not Invalid: with another plan the same request is fine.
	refusal := fault.New(fault.Conflict, "PLAN_LIMIT", "the plan %s of tenant %s doesn't keep that much; choose less, or a bigger plan: `corvo plan list`", t.Plan, t.Name)
	refusal.Fields = wrong
	return refusal
}

// mostKept is the most that a tenant may keep.
func mostKept(may plans.Entitlements) retention.Policy {
	_, most := may.Retention()
	return most
}

// effectiveRetention is what counts for a namespace of a tenant.
func effectiveRetention(may plans.Entitlements, own store.Retention) retention.Policy {
	normal, most := may.Retention()
	return retention.Resolve(retention.Policy{
		Finished: retention.Finished{
			Completed: seconds(own.Completed), Dead: seconds(own.Dead), Cancelled: seconds(own.Cancelled), Max: own.FinishedMax,
		},
		Events: seconds(own.Events), EventsBytes: own.EventsBytes, Usage: seconds(own.Usage),
	}, normal, most)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func storedRetention(r *cloudv1.Retention) store.Retention {
	return store.Retention{
		Completed: r.GetCompletedSeconds(), Dead: r.GetDeadSeconds(), Cancelled: r.GetCancelledSeconds(), FinishedMax: r.GetFinishedMax(),
		Events: r.GetEventsSeconds(), EventsBytes: r.GetEventsBytesMax(), Usage: r.GetUsageSeconds(),
	}
}

// ownRetention shows what was set for a namespace; nil is nothing.
func ownRetention(r store.Retention) *cloudv1.Retention {
	if r == (store.Retention{}) {
		return nil
	}
	return &cloudv1.Retention{
		CompletedSeconds: r.Completed, DeadSeconds: r.Dead, CancelledSeconds: r.Cancelled, FinishedMax: r.FinishedMax,
		EventsSeconds: r.Events, EventsBytesMax: r.EventsBytes, UsageSeconds: r.Usage,
	}
}

func retentionMessage(p retention.Policy) *cloudv1.Retention {
	whole := func(d time.Duration) int64 { return int64(d / time.Second) }
	return &cloudv1.Retention{
		CompletedSeconds: whole(p.Completed), DeadSeconds: whole(p.Dead), CancelledSeconds: whole(p.Cancelled), FinishedMax: p.Max,
		EventsSeconds: whole(p.Events), EventsBytesMax: p.EventsBytes, UsageSeconds: whole(p.Usage),
	}
}
