package messages

import (
	"time"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Held is why a fetch found nothing; nil if dispatch isn't held.
func Held(h *wire.DispatchHeld) *corvov1.DispatchHeld {
	if h == nil {
		return nil
	}
	return &corvov1.DispatchHeld{Limit: h.Limit, Value: h.Value, OpensAt: Time(h.OpensAt), Message: h.Message}
}

// Quota is how much more may be enqueued. Times are rounded up: who waits that long finds
// what was promised.
func Quota(q queue.EnqueueQuota) *corvov1.EnqueueQuota {
	return &corvov1.EnqueueQuota{Limit: q.Limit, WindowMs: wholeMillis(q.Window), Remaining: q.Left, ResetMs: wholeMillis(q.Full)}
}

// Limit is the limit of a refusal; nil if it has none.
func Limit(l *fault.Limit) *corvov1.Limit {
	if l == nil {
		return nil
	}
	return &corvov1.Limit{Name: l.Name, Value: l.Value, Current: l.Current, OpensAt: Time(l.OpensAt)}
}

func wholeMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
