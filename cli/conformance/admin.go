package conformance

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// What only HTTP/JSON has. All rules use it to look at jobs and to set up queues,
// whatever protocol is under test.

// JobView is a job as it is shown.
type JobView struct {
	ID             string            `json:"id"`
	Queue          string            `json:"queue"`
	State          string            `json:"state"`
	Payload        JSON              `json:"payload"`
	Priority       int               `json:"priority"`
	Attempt        int               `json:"attempt"`
	MaxRetries     int               `json:"max_retries"`
	Backoff        string            `json:"retry_backoff"`
	BaseDelayMS    int64             `json:"retry_base_delay_ms"`
	MaxDelayMS     int64             `json:"retry_max_delay_ms"`
	UniqueKey      string            `json:"unique_key"`
	WorkerID       string            `json:"worker_id"`
	Hostname       string            `json:"hostname"`
	Tags           map[string]string `json:"tags"`
	Progress       JSON              `json:"progress"`
	Checkpoint     JSON              `json:"checkpoint"`
	Result         JSON              `json:"result"`
	LeaseExpiresAt time.Time         `json:"lease_expires_at"`
	ScheduledAt    time.Time         `json:"scheduled_at"`
	ExpireAt       time.Time         `json:"expire_at"`
	CreatedAt      time.Time         `json:"created_at"`
	StartedAt      time.Time         `json:"started_at"`
	CompletedAt    time.Time         `json:"completed_at"`
	RetainedUntil  time.Time         `json:"retained_until"`
	Errors         []struct {
		Attempt   int    `json:"attempt"`
		Error     string `json:"error"`
		Backtrace string `json:"backtrace"`
	} `json:"errors"`
	Crashes    int    `json:"crashes"`
	DeadReason string `json:"dead_reason"`
	HoldReason string `json:"hold_reason"`
	Hold       struct {
		Reason    string    `json:"reason"`
		Until     time.Time `json:"until"`
		Policy    string    `json:"policy"`
		Approvers []string  `json:"approvers"`
		Decision  string    `json:"decision"`
		DecidedBy string    `json:"decided_by"`
		Comment   string    `json:"comment"`
	} `json:"hold"`
	WaitingOn  int      `json:"waiting_on"`
	DependsOn  []string `json:"depends_on"`
	BatchID    string   `json:"batch_id"`
	ChainID    string   `json:"chain_id"`
	ChainStep  *int     `json:"chain_step"`
	ParentID   string   `json:"parent_id"`
	ScheduleID string   `json:"schedule_id"`
	Agent      *Agent   `json:"agent"`
	Timeline   []struct {
		Event string `json:"event"`
	} `json:"timeline"`
}

// QueueView is a queue as it is shown.
type QueueView struct {
	Name           string `json:"name"`
	Paused         bool   `json:"paused"`
	Draining       bool   `json:"draining"`
	MaxConcurrency int    `json:"max_concurrency"`
	RateLimit      int    `json:"rate_limit"`
	RateWindowMS   int64  `json:"rate_window_ms"`
	Pending        int    `json:"pending"`
	Active         int    `json:"active"`
	Cancelling     int    `json:"cancelling"`
	Held           int    `json:"held"`
	Completed      int    `json:"completed"`
	Dead           int    `json:"dead"`
	Cancelled      int    `json:"cancelled"`
	Scheduled      int    `json:"scheduled"`
	Retrying       int    `json:"retrying"`
	Enqueued       int    `json:"enqueued"`
	Failed         int    `json:"failed"`

	Retention          Retention `json:"retention"`
	EffectiveRetention Retention `json:"effective_retention"`
}

// Retention is how long the finished jobs of a queue are kept.
type Retention struct {
	CompletedMS int64 `json:"completed_ms"`
	DeadMS      int64 `json:"dead_ms"`
	CancelledMS int64 `json:"cancelled_ms"`
	FinishedMax int64 `json:"finished_max"`
}

// Try makes an HTTP/JSON call.
func (t *T) Try(method, path string, in, out any) error {
	defer t.took(time.Now())
	_, err := t.admin.call(t.Context, method, path, in, out)
	return err
}

// Call is Try that must succeed.
func (t *T) Call(method, path string, in, out any) {
	t.must(method+" "+path, t.Try(method, path, in, out))
}

// Get shows what is at a path.
func Get[V any](t *T, path string) (v V) {
	t.Call(http.MethodGet, path, nil, &v)
	return v
}

// Post makes a call and reads its answer.
func Post[V any](t *T, path string, in any) (v V) {
	t.Call(http.MethodPost, path, in, &v)
	return v
}

// pages reads a list page by page, until there are enough; member is what its pages call
// the list.
func pages[V any](t *T, path, member string, enough int) (all []V) {
	for cursor, more := "", true; more && len(all) < enough; {
		page := Get[map[string]JSON](t, path+"&cursor="+cursor)
		cursor, more = unquoted(page["cursor"]), page["has_more"] == "true"
		var rows []V
		err := json.Unmarshal([]byte(page[member]), &rows)
		t.FailIf(err != nil || more && len(rows) == 0, "page %v: %v", page, err)
		all = append(all, rows...)
	}
	return all
}

// refused is what a call must refuse, and the fields that it must name.
type refused struct {
	in     object
	fields []string
}

// RefusesEach posts what is wrong.
func (t *T) RefusesEach(path string, list []refused) {
	for _, w := range list {
		t.RefusedFor(w.in, t.Try(http.MethodPost, path, w.in, nil), invalid, w.fields...)
	}
}

// Status makes a call and wants the status that it answers.
func (t *T) Status(path string, in any, want string) {
	out := Post[struct {
		Status string `json:"status"`
	}](t, path, in)
	Equal(t, "status that "+path+" answers", out.Status, want)
}

func jobPath(id, rest string) string     { return "/api/v1/jobs/" + url.PathEscape(id) + rest }
func queuePath(name, rest string) string { return "/api/v1/queues/" + url.PathEscape(name) + rest }

// Job shows a job.
func (t *T) Job(id string) JobView { return Get[JobView](t, jobPath(id, "")) }

// State wants a job to be in a state now.
func (t *T) State(id, want string) JobView {
	j := t.Job(id)
	t.FailIf(j.State != want, "job is %s (%s), want %s", j.State, j.DeadReason, want)
	return j
}

// Becomes waits until a job is in a state.
func (t *T) Becomes(id, want string) JobView {
	var j JobView
	t.Eventually("state "+want, func() bool {
		j = t.Job(id)
		return j.State == want
	})
	return j
}

// Gone wants a job not to be there.
func (t *T) Gone(id string) {
	t.Refused(t.Try(http.MethodGet, jobPath(id, ""), nil, nil), notFound)
}

// Do asks for an action on a job and wants its status.
func (t *T) Do(id, action, want string) { t.Status(jobPath(id, "/"+action), nil, want) }

// Delete removes a job.
func (t *T) Delete(id string) { t.Call(http.MethodDelete, jobPath(id, ""), nil, nil) }

// QueueNow shows a queue.
func (t *T) QueueNow(name string) QueueView { return Get[QueueView](t, queuePath(name, "")) }

// DoQueue asks for an action on a queue and wants its status.
func (t *T) DoQueue(name, action, want string) { t.Status(queuePath(name, "/"+action), nil, want) }

// SetQueue describes a queue.
func (t *T) SetQueue(name string, settings any) {
	t.Call(http.MethodPut, queuePath(name, ""), settings, nil)
}
