package mixed

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

const (
	handlerTime = 40 * time.Millisecond
	// slowTime is more than two leases of five seconds, so that they have to be renewed.
	slowTime    = 12 * time.Second
	cancelAfter = time.Second
)

// result is what a worker says of a job: which one it had, and in which attempt.
type result struct {
	Serial  int    `json:"serial,omitempty"`
	Attempt int    `json:"attempt"`
	Sum     string `json:"sum,omitempty"` // Of a large one.
}

var errDoomed = errors.New("this one always fails")

// Handle is the worker's side of all queues.
func (l *Load) Handle(ctx context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
	l.history.Handled(j.ID, j.Attempt)
	takes := handlerTime
	if j.Queue == slow {
		takes = slowTime
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case j.Queue == flaky && j.Attempt == 1:
		return nil, errors.New("the first attempt fails")
	case j.Queue == doomed:
		return nil, corvo.Terminal(errDoomed)
	}
	return l.answer(j.ID, j.Queue, j.Attempt, j.Args), nil
}

// answer is the result of a job. Its payload must be what was sent.
func (l *Load) answer(id, queue string, attempt int, payload json.RawMessage) json.RawMessage {
	out := result{Attempt: attempt}
	var err error
	if queue == large {
		out.Sum, err = l.whole(payload)
	} else {
		out.Serial, err = l.arrived(queue, payload)
	}
	if err != nil {
		l.wrong("INV-1: a worker was handed %s of %s with another payload: %v", id, queue, err)
	}
	text, _ := json.Marshal(out) // Numbers and text alone.
	return text
}
