package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/streams"
)

var bulkGetShape = shape.New("BulkGetRequest",
	shape.Texts("job_ids", "Job ids, at most 1000.", func(in *[]string) *[]string { return in }).Must(),
).Strictly()

func (c *call) bulkGet() error {
	var ids []string
	if err := decode(c, bulkGetShape, &ids); err != nil {
		return err
	}
	return c.answer(c.place.Views.Jobs(c.r.Context(), c.who.Caller, ids))
}

var bulkShape = shape.New("BulkRequest",
	shape.Texts("job_ids", "Job ids, at most 10000. Send either job_ids or filter.", func(in *queue.BulkInput) *[]string { return &in.JobIDs }),
	shape.Object("filter", "All jobs that match this search; limit caps how many.", searchShape,
		func(in *queue.BulkInput) *queue.JobFilter {
			in.Filter = new(queue.JobFilter)
			return in.Filter
		}),
	shape.Enum("action", "retry, delete, cancel, move, requeue, change_priority, hold, approve or reject.", wire.BulkActions(),
		func(in *queue.BulkInput) *wire.BulkAction { return &in.Action }).Must(),
	shape.Text("move_to_queue", "Target queue, for move.", func(in *queue.BulkInput) *string { return &in.MoveTo }),
	shape.Enum("priority", "For change_priority: critical, high or normal.", wire.Priorities(), func(in *queue.BulkInput) *wire.Priority { return &in.Priority }),
	shape.Bool("async", "Respond immediately and continue in the background. This is automatic if a filter matches more than 10000 jobs.",
		func(in *queue.BulkInput) *bool { return &in.Async }),
).Strictly()

func (c *call) bulk() error {
	var in queue.BulkInput
	if err := decode(c, bulkShape, &in); err != nil {
		return err
	}
	res, err := c.place.Bulk.Do(c.r.Context(), c.who.Caller, in)
	if err != nil {
		return err
	}
	if op := res.Operation; op != nil {
		return c.replyStatus(http.StatusAccepted, wire.BulkBegun{
			OperationID: op.ID, Status: op.Status, EstimatedTotal: op.Total, ProgressURL: "/api/v1/bulk/" + op.ID + "/progress",
		})
	}
	res.DurationMS = c.tookMS()
	return c.reply(res.BulkResult)
}

func (c *call) bulkStatus() error {
	op, _, err := c.place.Bulk.Operation(c.who.Caller, c.r.PathValue("id"))
	return c.answer(op, err)
}

// progressEvery is how often a listener is told, at most.
const progressEvery = 100 * time.Millisecond

// bulkProgress tells how far an operation is until it ends. A listener that comes back
// after the end is told by 204 not to come again.
func (c *call) bulkProgress() error {
	id := c.r.PathValue("id")
	op, _, err := c.place.Bulk.Operation(c.who.Caller, id)
	if err != nil {
		return err
	}
	if op.Status.Ended() && c.r.Header.Get("Last-Event-ID") != "" {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w := newEventWriter(c.w)
	defer w.slow.Stop()
	if err := w.begin(); err != nil {
		return nil // The client is gone.
	}
	if err := c.tellProgress(w, id); err != nil {
		w.goodbye(c.r.Context(), err)
	}
	return nil
}

// tellProgress returns nil when it told the end.
func (c *call) tellProgress(w *eventWriter, id string) error {
	for n, event := 1, "started"; ; n, event = n+1, "progress" {
		now, changed, err := c.place.Bulk.Operation(c.who.Caller, id)
		if err != nil {
			return err
		}
		if n > 1 && now.Status.Ended() {
			event = string(now.Status)
		}
		data, err := json.Marshal(progressOf(&now))
		if err != nil {
			return err
		}
		if err := w.send(fmt.Appendf(nil, "id: %d\nevent: bulk.async.%s\ndata: %s\n\n", n, event, data)); err != nil {
			return err
		}
		if n > 1 && now.Status.Ended() {
			return nil
		}
		if err := c.nextProgress(&now, changed, w); err != nil {
			return err
		}
	}
}

// nextProgress waits for news, keeping the connection alive and the credential honest.
func (c *call) nextProgress(op *wire.BulkOperation, changed <-chan struct{}, w *eventWriter) error {
	if op.Status.Ended() {
		return nil
	}
	beat := time.NewTicker(min(c.s.opts.KeepaliveEvery, streams.RecheckEvery))
	defer beat.Stop()
	for {
		select {
		case <-changed:
			return pauseFor(c.r.Context(), progressEvery)
		case <-c.r.Context().Done():
			return c.r.Context().Err()
		case <-beat.C:
		}
		if c.who.Recheck != nil {
			if err := c.who.Recheck(); err != nil {
				return err
			}
		}
		if err := w.alive(0); err != nil {
			return err
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func progressOf(op *wire.BulkOperation) wire.BulkProgress {
	percent := 100
	if op.Status != wire.BulkCompleted {
		percent = min(100*op.Processed/max(op.Total, 1), 99)
	}
	return wire.BulkProgress{
		TaskID: op.ID, Status: op.Status, Total: op.Total, Processed: op.Processed, Affected: op.Affected,
		Percent: percent, Error: op.Error, CreatedAtNS: op.CreatedAt.UnixNano(),
	}
}
