package conformance

import (
	"fmt"
	"net/http"
)

// foundView is a page of what was searched for.
type foundView struct {
	Jobs       []JobView `json:"jobs"`
	Total      *int      `json:"total"`
	TotalExact bool      `json:"total_exact"`
	Cursor     string    `json:"cursor"`
	HasMore    bool      `json:"has_more"`
	DurationMS *int64    `json:"duration_ms"` // Whole: it would not be read otherwise.
}

func (t *T) search(filter object) (page foundView) {
	t.Call(http.MethodPost, "/api/v1/jobs/search", filter, &page)
	t.FailIf(page.Total == nil || page.DurationMS == nil, "a page without a total or a duration: %+v", page)
	return page
}

var searchRules = []Rule{
	{Name: "a search tells of each job what it carries and where it belongs, and how many there are on all pages", Needs: "search", Once: true, Run: func(t *T, q string) {
		parent := t.Enqueue(Job{Queue: t.Queue()}).ID
		batch := t.openBatch(t.Queue())
		c := &Chain{Steps: []Step{{Queue: q}, {Queue: t.Queue()}}}
		e := t.Enqueue(Job{Queue: q, Payload: `{"n":1}`, UniqueKey: "u", ParentID: parent, BatchID: batch, Chain: c, Tags: map[string]string{"k": "v"}})
		t.Enqueue(Job{Queue: q})
		var page foundView
		t.Eventually("both jobs", func() bool {
			page = t.search(object{"queue": q, "order": "asc", "limit": 1})
			return *page.Total == 2 && page.TotalExact // A server under load may answer late, and says so.
		})
		t.FailIf(!page.HasMore || len(page.Jobs) != 1, "page %+v", page)
		j := page.Jobs[0]
		t.FailIf(j.ChainStep == nil || j.ChainID == "", "no chain: %+v", j)
		Equal(t, "job", fmt.Sprintf("%s %s %s %s %s %s %d %v", j.ID, j.State, j.Payload, j.UniqueKey, j.BatchID, j.ParentID, *j.ChainStep, j.Tags),
			fmt.Sprintf(`%s pending {"n":1} u %s %s 0 map[k:v]`, e.ID, batch, parent))
		rest := t.search(object{"queue": q, "order": "asc", "limit": 1, "cursor": page.Cursor})
		Equal(t, "total on the second page, and whether there is a third", fmt.Sprint(*rest.Total, rest.HasMore), "2 false")
	}},
	{Name: "a search that is wrong is refused by name, also where it would find everything", Needs: "search", Once: true, Run: func(t *T, _ string) {
		try := func(filter object) error { return t.Try(http.MethodPost, "/api/v1/jobs/search", filter, nil) }
		t.Refused(try(object{"states": []string{"dead"}}), invalid, "states")
		t.Refused(try(object{"state": []string{"undead"}, "priority": "urgent"}), invalid, "priority", "state")
		t.Refused(try(object{"limit": 0}), invalid, "limit")
		t.search(object{"queue": t.Queue(), "limit": 5000}) // Too large is the default.
	}},
}
