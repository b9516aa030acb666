package conformance

import (
	"fmt"
	"math"
	"net/http"
	"slices"
)

// rowsView is a page of jobs.
type rowsView struct {
	Jobs []rowView `json:"jobs"`
}

// rowView is a job in a list.
type rowView struct {
	ID         string `json:"id"`
	Queue      string `json:"queue"`
	State      string `json:"state"`
	DeadReason string `json:"dead_reason"`
	LastError  string `json:"last_error"`
	HoldReason string `json:"hold_reason"`
}

// errorGroupsView is dead jobs by what they died of.
type errorGroupsView struct {
	Groups []struct {
		ID     string `json:"id"`
		Queue  string `json:"queue"`
		Error  string `json:"error"`
		Count  int    `json:"count"`
		Sample struct {
			JobID string `json:"job_id"`
			Error string `json:"error"`
		} `json:"sample"`
	} `json:"groups"`
	TotalGroups int `json:"total_groups"`
	TotalJobs   int `json:"total_jobs"`
}

// Dead lists all dead jobs of a queue, some at a time.
func (t *T) Dead(q string, limit int) (all []string) {
	for _, j := range pages[rowView](t, fmt.Sprintf("/api/v1/dead?queue=%s&limit=%d", q, limit), "jobs", math.MaxInt) {
		Equal(t, "queue and state", [2]string{j.Queue, j.State}, [2]string{q, "dead"})
		all = append(all, j.ID)
	}
	return all
}

// Requeue runs the dead jobs of a queue again, and wants their number.
func (t *T) Requeue(q string, want int) {
	var out struct {
		Status   string `json:"status"`
		Requeued int    `json:"requeued"`
	}
	t.Call(http.MethodPost, queuePath(q, "/requeue"), nil, &out)
	Equal(t, "answer", out.Status, "requeued")
	Equal(t, "jobs requeued", out.Requeued, want)
}

var deadRules = []Rule{
	{Name: "dead jobs are listed newest first, page by page, with the reason", Needs: "dead letters", Run: func(t *T, q string) {
		var want []string
		for range 3 {
			id, _ := t.inState(q, "dead")
			want = append(want, id)
		}
		t.inState(q, "pending")
		slices.Reverse(want)
		t.Eventually("a list of three", func() bool { return len(t.Dead(q, 10)) == 3 })
		for _, limit := range []int{1, 2, 3, 10} {
			got := t.Dead(q, limit)
			t.FailIf(!slices.Equal(got, want), "%d at a time: %v, want %v", limit, got, want)
		}
		page := Get[rowsView](t, "/api/v1/dead?limit=1&queue="+q)
		Equal(t, "reason and error", [2]string{page.Jobs[0].DeadReason, page.Jobs[0].LastError}, [2]string{"max_retries", "boom"})
		t.Do(want[0], "retry", "retried")
		t.Delete(want[1])
		t.Eventually("a list of one", func() bool { return slices.Equal(t.Dead(q, 10), want[2:]) })
	}},
	{Name: "requeueing a queue runs all its dead jobs again, with fresh counters, and no other", Needs: "dead letters", Run: func(t *T, q string) {
		other := t.Queue()
		dead := map[string]bool{}
		for _, fail := range []Fail{{Error: "boom"}, {Error: "no use", Terminal: true}} {
			l := t.Leased(Job{Queue: q, MaxRetries: new(1), Payload: "7"})
			fail.ID, fail.Token = l.ID, l.Token
			Equal(t, "status", t.Fail(fail).Status, "dead")
			dead[l.ID] = true
		}
		cancelled, _ := t.inState(q, "cancelled")
		completed, _ := t.inState(q, "completed")
		elsewhere, _ := t.inState(other, "dead")
		t.Requeue(q, 2)
		for range 2 {
			l := t.Fetch(q)
			t.FailIf(!dead[l.ID] || l.Attempt != 1 || l.Payload != "7", "fetched %+v, want one of %v at its first attempt", l, dead)
			delete(dead, l.ID)
			t.Ack(l)
		}
		t.Nothing(q)
		t.State(cancelled, "cancelled")
		t.State(completed, "completed")
		t.State(elsewhere, "dead")
		t.Requeue(q, 0)
		v := t.QueueNow(q)
		Equal(t, "dead and completed", [2]int{v.Dead, v.Completed}, [2]int{0, 3})
	}},
	{Name: "a requeued step resumes its chain, a requeued job its batch", Needs: "dead letters", Run: func(t *T, _ string) {
		back := t.Queue()
		c := &Chain{Steps: t.steps(2, "")}
		batch := t.openBatch(back)
		t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c, BatchID: batch, MaxRetries: new(1)})
		first := t.Fetch(c.Steps[0].Queue)
		t.Failed(first, "dead")
		t.chainStatus(first.ChainID, "failed")
		t.Requeue(c.Steps[0].Queue, 1)
		t.chainStatus(first.ChainID, "running")
		t.seal(batch)
		t.Nothing(back)
		t.Ack(t.Fetch(c.Steps[0].Queue))
		t.Ack(t.Fetch(c.Steps[1].Queue))
		t.callback(back, batch, batchView{Total: 2, Completed: 2})
	}},
	{Name: "requeueing wakes who waits for the queue", Needs: "dead letters", Run: func(t *T, q string) {
		id, _ := t.inState(q, "dead")
		t.Woken(q, id, func() { t.Requeue(q, 1) })
	}},
	{Name: "dead jobs are counted by queue and error, and a group is listed, retried and deleted as one", Needs: "dead letters", Run: func(t *T, q string) {
		var lost []string
		for i, text := range []string{"order 17 is lost", "answered 503", "order 4 is lost"} {
			l := t.Leased(Job{Queue: q, MaxRetries: new(1)})
			Equal(t, "status", t.Fail(Fail{ID: l.ID, Token: l.Token, Error: text}).Status, "dead")
			if i != 1 {
				lost = append([]string{l.ID}, lost...)
			}
		}
		var page errorGroupsView
		t.Eventually("three jobs in groups", func() bool {
			page = Get[errorGroupsView](t, "/api/v1/dead/groups?queue="+q)
			return page.TotalJobs == 3
		})
		Equal(t, "groups", [2]int{page.TotalGroups, len(page.Groups)}, [2]int{2, 2})
		g := page.Groups[0]
		Equal(t, "largest group", [4]string{g.Queue, g.Error, g.Sample.JobID, g.Sample.Error}, [4]string{q, "order … is lost", lost[0], "order 4 is lost"})
		Equal(t, "its jobs", g.Count, 2)
		for _, path := range []string{"/api/v1/dead?error_group=", "/api/v1/jobs?state=dead&error_group="} {
			rows := Get[rowsView](t, path+g.ID)
			t.FailIf(len(rows.Jobs) != 2 || rows.Jobs[0].ID != lost[0] || rows.Jobs[1].ID != lost[1], "%s: %+v, want %v", path, rows.Jobs, lost)
		}
		t.Bulk(object{"action": "retry", "filter": object{"error_group": g.ID}}, 2, 0)
		t.Bulk(object{"action": "delete", "filter": object{"error_group": page.Groups[1].ID}}, 1, 0)
		v := t.QueueNow(q)
		Equal(t, "pending and dead", [2]int{v.Pending, v.Dead}, [2]int{2, 0})
		t.Eventually("no groups", func() bool {
			page = Get[errorGroupsView](t, "/api/v1/dead/groups?queue="+q)
			return page.TotalJobs == 0 && len(page.Groups) == 0
		})
	}},
	{Name: "what is wrong about a list of dead jobs or a requeue is refused by name", Needs: "dead letters", Once: true, Run: func(t *T, _ string) {
		t.Refused(t.Try(http.MethodPost, queuePath(t.Queue(), "/requeue"), nil, nil), notFound)
		t.Refused(t.Try(http.MethodGet, "/api/v1/dead?state=pending&limit=0", nil, nil), invalid, "limit", "state")
		t.Refused(t.Try(http.MethodGet, "/api/v1/dead?cursor=nonsense", nil, nil), invalid, "cursor")
		t.Refused(t.Try(http.MethodGet, "/api/v1/dead?error_group=nonsense", nil, nil), invalid, "error_group")
		t.Refused(t.Try(http.MethodGet, "/api/v1/jobs?state=pending&error_group=0000000000000001", nil, nil), invalid, "state")
		t.Refused(t.Try(http.MethodGet, "/api/v1/dead/groups?limit=0&state=dead", nil, nil), invalid, "limit", "state")
	}},
}
