package queue

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/readmodel"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Limits of a page of events.
const (
	RecentDefault = 100
	RecentMax     = 1000
)

// Recent is a page of a namespace's events.
type Recent struct {
	Events []NamespaceEvent
	// Lost: events after the number asked for are no longer kept.
	Lost bool
}

// Recent reads the events after a number, oldest first; 0 begins with the oldest
// kept.
func (v *Views) Recent(_ context.Context, c Caller, after uint64, limit int) (Recent, error) {
	if limit == 0 {
		limit = RecentDefault
	}
	if limit < 1 || limit > RecentMax {
		return Recent{}, fault.InvalidFields([]fault.Field{{Path: "limit", Message: rangeMessage("events", 1, RecentMax, limit)}})
	}
	if err := v.leads(); err != nil {
		return Recent{}, err
	}
	var out Recent
	entries, err := feed.Since(v.shard.Store(), c.Namespace, after, limit) // Each has one event at least.
	if out.Lost = errors.Is(err, feed.ErrTrimmed) || errors.Is(err, feed.ErrAhead); err != nil && !out.Lost {
		return Recent{}, err
	}
	for _, index := range entries {
		b, err := feed.At(v.shard.Store(), index)
		if errors.Is(err, feed.ErrTrimmed) {
			out.Lost = true // Trimmed since the entries were listed.
			continue
		}
		if err != nil {
			return Recent{}, err
		}
		for i := range b.Events {
			e := &b.Events[i]
			if e.NS != c.Namespace || e.Seq <= after {
				continue
			}
			if len(out.Events) == limit {
				return out, nil
			}
			out.Events = append(out.Events, viewEvent(e, b.Now))
		}
	}
	return out, nil
}

// Minute is what happened in a namespace in one minute.
type Minute = readmodel.Minute

// Throughput counts what happened in the last hour, by minute, and returns the time
// as of which the counts are true.
func (v *Views) Throughput(ctx context.Context, c Caller) ([]Minute, time.Time, error) {
	if err := v.leads(); err != nil {
		return nil, time.Time{}, err
	}
	return v.model.Throughput(ctx, c.Namespace, v.service.now())
}
