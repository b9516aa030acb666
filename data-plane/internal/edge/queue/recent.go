package queue

import (
	"cmp"
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Limits of a page of events.
const (
	RecentDefault = 100
	RecentMax     = 1000
)

// Recent reads the events after a number, oldest first; 0 begins with the oldest
// kept.
func (v *Views) Recent(ctx context.Context, c Caller, after uint64, limit int) (wire.EventPage, error) {
	if limit == 0 {
		limit = RecentDefault
	}
	if limit < 1 || limit > RecentMax {
		return wire.EventPage{}, fault.InvalidFields([]fault.Field{{Path: "limit", Message: rangeMessage("events", 1, RecentMax, limit)}})
	}
	if err := v.leads(); err != nil {
		return wire.EventPage{}, err
	}
	out := wire.EventPage{Events: []*wire.Event{}}
	lost, err := feed.Walk(v.shard.Store(), c.Namespace, after, func(row *feed.Row) bool {
		for i := range row.Events {
			if len(out.Events) == limit {
				return false
			}
			if !c.Rights.Queue(permission.EventRead, row.Events[i].Queue) {
				continue
			}
			event := viewEvent(&row.Events[i], row.Now)
			out.Events = append(out.Events, &event)
		}
		return len(out.Events) < limit && ctx.Err() == nil
	})
	out.Lost = lost
	return out, cmp.Or(err, ctx.Err())
}

// Throughput counts what happened in the last hour, by minute, and returns the time
// as of which the counts are true.
func (v *Views) Throughput(ctx context.Context, c Caller) ([]wire.Minute, time.Time, error) {
	if err := v.leads(); err != nil {
		return nil, time.Time{}, err
	}
	list, asOf, err := v.model.Throughput(ctx, c.Namespace, c.reader(false), v.service.now())
	return each(list, func(m *readmodel.Minute) wire.Minute {
		return wire.Minute{Minute: m.At.UTC(), Enqueued: m.Enqueued, Completed: m.Completed, Failed: m.Failed}
	}), asOf, err
}
