package corvo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// The answers of the HTTP API; their words and members are those of the server.
type (
	// JobInfo is a whole job as the server keeps it.
	JobInfo = wire.Job
	// JobState is where a job is in its life. A job that has Ended can still be brought
	// back by Client.Retry if it is dead or cancelled.
	JobState = wire.State
	// TimelineEvent is one line of a job's short history.
	TimelineEvent = wire.JobEvent
	// AttemptError is one failed attempt.
	AttemptError = wire.JobError
	// QueueInfo is one queue with its exact counts.
	QueueInfo = wire.Queue
	// ServerInfo tells the versions of the server.
	ServerInfo = wire.Info
)

// The states of a job.
const (
	StateScheduled  = wire.Scheduled
	StatePending    = wire.Pending
	StateActive     = wire.Active
	StateCancelling = wire.Cancelling
	StateRetrying   = wire.Retrying
	StateHeld       = wire.Held
	StateCompleted  = wire.Completed
	StateDead       = wire.Dead
	StateCancelled  = wire.Cancelled
)

// DeadReason is why a job is dead.
type DeadReason = wire.DeadReason

// The reasons of a death.
const (
	DeadMaxRetries       = wire.DeadMaxRetries
	DeadCrashLoop        = wire.DeadCrashLoop
	DeadTerminal         = wire.DeadTerminal
	DeadExpired          = wire.DeadExpired
	DeadRejected         = wire.DeadRejected
	DeadDependencyFailed = wire.DeadDependencyFailed
	DeadBudgetExceeded   = wire.DeadBudgetExceeded
)

// Job reads a job.
func (c *Client) Job(ctx context.Context, id string) (*JobInfo, error) {
	return read[JobInfo](ctx, c, "jobs", id)
}

func read[T any](ctx context.Context, c *Client, segments ...string) (*T, error) {
	out := new(T)
	if err := c.call(ctx, http.MethodGet, out, segments...); err != nil {
		return nil, err
	}
	return out, nil
}

// Queues lists the queues of the namespace.
func (c *Client) Queues(ctx context.Context) ([]QueueInfo, error) {
	var out []QueueInfo
	if err := c.call(ctx, http.MethodGet, &out, "queues"); err != nil {
		return nil, err
	}
	return out, nil
}

// Pause stops handing out jobs of a queue. What runs goes on.
func (c *Client) Pause(ctx context.Context, queue string) error {
	return c.call(ctx, http.MethodPost, nil, "queues", queue, "pause")
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context, queue string) error {
	return c.call(ctx, http.MethodPost, nil, "queues", queue, "resume")
}

// Cancel ends a job. A running one is told at its next heartbeat, and the answer
// is then StateCancelling instead of StateCancelled.
func (c *Client) Cancel(ctx context.Context, id string) (JobState, error) {
	var out struct {
		Status JobState `json:"status"`
	}
	err := c.call(ctx, http.MethodPost, &out, "jobs", id, "cancel")
	return out.Status, err
}

// Retry brings an ended job back, with a fresh count of attempts. A scheduled or retrying
// job runs now, and its attempts still count.
func (c *Client) Retry(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, nil, "jobs", id, "retry")
}

// Delete removes a job and all that belongs to it.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, nil, "jobs", id)
}

// Info asks for the server's versions, which also shows that the address is right.
func (c *Client) Info(ctx context.Context) (*ServerInfo, error) {
	return read[ServerInfo](ctx, c, "info")
}

// answerBytesMax bounds an answer of the HTTP API.
const answerBytesMax = 64 << 20

// webTimeout ends one try of an HTTP call that got no answer.
const webTimeout = 30 * time.Second

// call runs one HTTP/JSON call. The segments are path elements and are escaped. A
// read or a pause can be repeated after anything; cancel, retry and delete only
// while it is known that nothing was done.
func (c *Client) call(ctx context.Context, method string, out any, segments ...string) error {
	path := ""
	for _, s := range segments {
		if s == "" || s == "." || s == ".." {
			return &Error{Code: CodeInvalid, Message: fmt.Sprintf("%q is no name of a job or queue", s)}
		}
		path += "/" + url.PathEscape(s)
	}
	repeatable := method == http.MethodGet || segments[0] == "queues"
	return c.ask(ctx, repeatable, method, path, nil, out)
}

// API makes any call of the HTTP API: path stands behind /api/v1 and begins with a
// slash, body is encoded as JSON (nil sends none), the answer is decoded into out (nil
// drops it). Reads, PUT and DELETE are repeated after anything, other calls only while
// it is known that nothing was done.
func (c *Client) API(ctx context.Context, method, path string, body, out any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode body of %s: %w", path, err)
		}
	}
	return c.ask(ctx, method != http.MethodPost, method, path, raw, out)
}

func (c *Client) ask(ctx context.Context, repeatable bool, method, path string, body []byte, out any) error {
	return c.retries.retry(ctx, repeatable, func() error {
		tryCtx, cancel := context.WithTimeout(ctx, webTimeout)
		defer cancel()
		return c.try(tryCtx, method, c.base.String()+"/api/v1"+path, body, out)
	})
}

func (c *Client) try(ctx context.Context, method, address string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return &Error{Code: CodeInvalid, Message: err.Error()}
	}
	req.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.web.Do(req)
	if err != nil {
		return errorFromTransport(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if err != nil {
		return errorFromTransport(fmt.Errorf("read answer: %w", err))
	}
	if resp.StatusCode >= 400 {
		return errorFromHTTP(resp.StatusCode, resp.Header, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return &Error{Code: CodeInternal, Message: "the answer is not the JSON of this API: is the address right?", cause: err}
	}
	return nil
}
