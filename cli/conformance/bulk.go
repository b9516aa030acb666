package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const bulkPath = "/api/v1/jobs/bulk"

// bulkView is what a bulk call did, or the operation that does it.
type bulkView struct {
	Affected int `json:"affected"`
	Errors   int `json:"errors"`
	Refused  []struct {
		JobID string `json:"job_id"`
		Code  string `json:"code"`
		Error string `json:"error"`
	} `json:"refused"`
	DurationMS  *int64 `json:"duration_ms"`
	OperationID string `json:"bulk_operation_id"`
	Status      string `json:"status"`
	Total       int    `json:"estimated_total"`
	ProgressURL string `json:"progress_url"`
}

// Bulk does an action on many jobs and wants so many to be done, and so many to be left.
func (t *T) Bulk(in object, affected, errors int) bulkView {
	out := Post[bulkView](t, bulkPath, in)
	Equal(t, "affected and errors", [2]int{out.Affected, out.Errors}, [2]int{affected, errors})
	t.FailIf(out.DurationMS == nil || len(out.Refused) != min(errors, 20), "answer %+v", out)
	return out
}

// operationView is how far a bulk operation is.
type operationView struct {
	ID         string    `json:"id"`
	Status     string    `json:"status"`
	Action     string    `json:"action"`
	Total      int       `json:"total"`
	Processed  int       `json:"processed"`
	Affected   int       `json:"affected"`
	Errors     int       `json:"errors"`
	Error      string    `json:"error"`
	CreatedAt  time.Time `json:"created_at"`
	FinishedAt time.Time `json:"finished_at"`
}

// bulkCase is an action with the states it is for, and what becomes of them.
type bulkCase struct {
	action string
	more   object
	from   []string
	to     string // "" leaves the state as it is, "-" is nothing.
	not    string // A state it is refused in.
}

func bulkCases(elsewhere string) []bulkCase {
	return []bulkCase{
		{action: "retry", from: []string{"dead", "cancelled", "completed", "scheduled"}, to: "pending", not: "held"},
		{action: "delete", from: []string{"dead", "pending", "completed", "scheduled"}, to: "-", not: "active"},
		{action: "cancel", from: []string{"pending", "scheduled", "retrying"}, to: "cancelled", not: "dead"},
		{action: "move", more: object{"move_to_queue": elsewhere}, from: []string{"pending", "dead", "scheduled", "completed"}, not: "active"},
		{action: "requeue", from: []string{"dead"}, to: "pending", not: "cancelled"},
		{action: "change_priority", more: object{"priority": "critical"}, from: []string{"pending", "scheduled", "retrying", "held"}, not: "dead"},
		{action: "hold", from: []string{"pending", "scheduled", "retrying"}, to: "held", not: "completed"},
		{action: "approve", from: []string{"held"}, to: "pending", not: "pending"},
		{action: "reject", from: []string{"held"}, to: "dead", not: "pending"},
	}
}

// bulkStates makes a job in each state. The one of the last is made first, because
// others are made by a fetch.
func (t *T) bulkStates(q string, states ...string) (ids []string) {
	ids = make([]string, len(states))
	for i, state := range slices.Backward(states) {
		if state == "pending" { // Would be fetched.
			continue
		}
		ids[i], _ = t.inState(q, state)
	}
	for i, state := range states {
		if state == "pending" {
			ids[i], _ = t.inState(q, state)
		}
	}
	return ids
}

// became wants a job to be as a bulk action leaves it.
func (t *T) became(c bulkCase, id, was, elsewhere string) {
	switch c.to {
	case "-":
		t.Gone(id)
		return
	case "":
		t.State(id, was)
	default:
		t.State(id, c.to)
	}
	switch c.action {
	case "move":
		Equal(t, "queue", t.Job(id).Queue, elsewhere)
	case "change_priority":
		Equal(t, "priority", t.Job(id).Priority, 0)
	}
}

func (c bulkCase) ask(with object) object {
	return object{"action": c.action}.with(c.more).with(with)
}

var bulkRules = []Rule{
	{Name: "every action does to jobs by their ids what it does to one, and counts those it leaves", Needs: "bulk", Once: true, Run: func(t *T, _ string) {
		elsewhere := t.Queue()
		for _, c := range bulkCases(elsewhere) {
			q := t.Queue()
			ids := t.bulkStates(q, append(slices.Clone(c.from), c.not)...)
			left := ids[len(c.from)]
			gone := "job_" + strings.Repeat("0", 26)
			out := t.Bulk(c.ask(object{"job_ids": append(slices.Clone(ids), gone, "nonsense", ids[0])}), len(c.from), 3)
			codes := map[string]string{}
			for _, r := range out.Refused {
				codes[r.JobID] = r.Code
				t.FailIf(r.Error == "", "%s: no reason: %+v", c.action, r)
			}
			Equal(t, c.action+": words for those that are left", [3]string{codes[left], codes[gone], codes["nonsense"]}, [3]string{conflict, notFound, notFound})
			for i, was := range c.from {
				t.became(c, ids[i], was, elsewhere)
			}
			t.State(left, c.not)
		}
	}},
	{Name: "every action does it to all jobs that a filter finds, and to no other", Needs: "bulk", Once: true, Run: func(t *T, _ string) {
		elsewhere := t.Queue()
		for _, c := range bulkCases(elsewhere) {
			q, other := t.Queue(), t.Queue()
			spared := t.bulkStates(q, "cancelling")
			ids, others := t.bulkStates(q, c.from...), t.bulkStates(other, c.from[0])
			t.Bulk(c.ask(object{"filter": object{"queue": q, "state": c.from}}), len(c.from), 0)
			for i, was := range c.from {
				t.became(c, ids[i], was, elsewhere)
			}
			t.State(spared[0], "cancelling")
			t.State(others[0], c.from[0])
		}
	}},
	{Name: "a bulk call means more jobs than a page holds, and no more than its limit", Needs: "bulk", Once: true, Run: func(t *T, q string) {
		for range 2 {
			jobs := make([]Job, 600)
			for i := range jobs {
				jobs[i].Queue = q
			}
			t.EnqueueBatch(nil, jobs...)
		}
		t.Bulk(object{"action": "hold", "filter": object{"queue": q, "limit": 1100}}, 1100, 0)
		Equal(t, "held", t.QueueNow(q).Held, 1100)
		t.Bulk(object{"action": "approve", "filter": object{"queue": q}}, 1100, 100)
		Equal(t, "pending", t.QueueNow(q).Pending, 1200)
	}},
	{Name: "a job of another priority is handed out in its new order, behind what is there", Needs: "bulk", Run: func(t *T, q string) {
		first, second := t.Enqueue(Job{Queue: q}), t.Enqueue(Job{Queue: q})
		high := t.Enqueue(Job{Queue: q, Priority: "high"})
		t.Bulk(object{"action": "change_priority", "priority": "high", "job_ids": []string{second.ID}}, 1, 0)
		for _, want := range []string{high.ID, second.ID, first.ID} {
			Equal(t, "job", t.Fetch(q).ID, want)
		}
	}},
	{Name: "an asynchronous bulk call names an operation that can be asked until it is done", Needs: "bulk", Once: true, Run: func(t *T, q string) {
		ids := t.bulkStates(q, "dead", "dead", "cancelled", "completed")
		begun := Post[bulkView](t, bulkPath, object{"action": "requeue", "job_ids": ids, "async": true})
		t.FailIf(begun.OperationID == "" || begun.Total != 4 || begun.ProgressURL != "/api/v1/bulk/"+begun.OperationID+"/progress", "answer %+v", begun)
		var op operationView
		t.Eventually("the end of the operation", func() bool {
			t.Call(http.MethodGet, "/api/v1/bulk/"+begun.OperationID, nil, &op)
			return op.Status != "queued" && op.Status != "running"
		})
		got := fmt.Sprint(op.ID == begun.OperationID, op.Status, op.Action, op.Total, op.Processed, op.Affected, op.Errors, op.Error)
		Equal(t, "operation", got, fmt.Sprint(true, "completed", "requeue", 4, 4, 2, 2, ""))
		Equal(t, "pending", t.QueueNow(q).Pending, 2)
	}},
	{Name: "many jobs are got by their ids, and those that are not there are left out", Needs: "bulk", Once: true, Run: func(t *T, q string) {
		a, b := t.Enqueue(Job{Queue: q, Payload: "1"}), t.Enqueue(Job{Queue: q, Payload: "2"})
		in := object{"job_ids": []string{b.ID, "nonsense", "job_" + strings.Repeat("0", 26), a.ID}}
		out := Post[foundView](t, "/api/v1/jobs/bulk-get", in)
		got := ""
		for _, j := range out.Jobs {
			got += fmt.Sprintf("%s %s %s ", j.ID, j.State, j.Payload)
		}
		Equal(t, "jobs", got, fmt.Sprintf("%s pending 2 %s pending 1 ", b.ID, a.ID))
		t.Refused(t.Try(http.MethodPost, "/api/v1/jobs/bulk-get", object{"job_ids": make([]string, 1001)}, nil), invalid, "job_ids")
	}},
	{Name: "what is wrong about a bulk call is refused by name, and nothing is done", Needs: "bulk", Once: true, Run: func(t *T, q string) {
		id := t.Enqueue(Job{Queue: q}).ID
		ids := []string{id}
		t.RefusesEach(bulkPath, []refused{
			{object{"job_ids": ids}, []string{"action"}},
			{object{"job_ids": ids, "action": "explode"}, []string{"action"}},
			{object{"action": "delete"}, []string{"job_ids"}},
			{object{"action": "delete", "job_ids": ids, "filter": object{"queue": q}}, []string{"filter"}},
			{object{"action": "delete", "filter": object{}}, []string{"filter"}},
			{object{"action": "delete", "filter": object{"queue": q, "states": []string{"dead"}}}, []string{"filter.states"}},
			{object{"action": "move", "job_ids": ids}, []string{"move_to_queue"}},
			{object{"action": "delete", "job_ids": ids, "move_to_queue": q}, []string{"move_to_queue"}},
			{object{"action": "change_priority", "job_ids": ids, "priority": "urgent"}, []string{"priority"}},
		})
		t.State(id, "pending")
		t.Refused(t.Try(http.MethodGet, "/api/v1/bulk/bulk_0_0", nil, nil), notFound)
	}},
}
