package conformance

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// hostile is what people and attackers put where a text is expected: words of SQL, of
// shells, of headers, of templates, of paths, of terminals.
var hostile = []string{
	`'; DROP TABLE jobs; --`, `" OR "1"="1`, `\'; SELECT 1 --\`, `%' OR 1=1 --`, `_%*?[a-z]`, "x\r\nX-Corvo-Tenant: other\r\n\r\n", "line\nevent: end\ndata: {}\n\n",
	`<script>alert(1)</script>`, `{{7*7}}${7*7}#{7*7}`, "$(id)`id`;|&", `../../../etc/passwd`, `..%2f%00%0a`, "nul\x00byte", "\x1b[2J\x1b]0;title\a", "\u202egnp.exe",
	"\ufeff\u0000", `"}],"x":[{"`, "\U0001d573\U0001f71a e\u0301", " ", "-rf", "NaN", "null", strings.Repeat("é", 60),
}

// kept is one text of a job: how it gets there, and how it is read.
type kept struct {
	field string
	job   func(s string) Job
	read  func(j *JobView) string
}

func quoted(s string) JSON {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // A string has a JSON form.
	}
	return JSON(b)
}

// unquoted is the text of JSON; what is none has no text.
func unquoted(raw JSON) (s string) {
	_ = json.Unmarshal([]byte(raw), &s) // Then it stays empty, and is not what was sent.
	return s
}

// enqueueTexts are the texts that an enqueue stores.
var enqueueTexts = []kept{
	{"payload", func(s string) Job { return Job{Payload: quoted(s)} }, func(j *JobView) string { return unquoted(j.Payload) }},
	{"checkpoint", func(s string) Job { return Job{Checkpoint: quoted(s)} }, func(j *JobView) string { return unquoted(j.Checkpoint) }},
	{"unique_key", func(s string) Job { return Job{UniqueKey: s} }, func(j *JobView) string { return j.UniqueKey }},
	{"tags", func(s string) Job { return Job{Tags: map[string]string{"k": s}} }, func(j *JobView) string { return j.Tags["k"] }},
	{"tags", func(s string) Job { return Job{Tags: map[string]string{s: "v"}} }, func(j *JobView) string {
		for k := range j.Tags {
			return k
		}
		return ""
	}},
	{"idempotency_key", func(s string) Job { return Job{IdempotencyKey: s} }, nil},
	{"queue", func(s string) Job { return Job{Queue: s} }, func(j *JobView) string { return j.Queue }},
	{"priority", func(s string) Job { return Job{Priority: s} }, nil},
	{"retry_backoff", func(s string) Job { return Job{Backoff: s} }, nil},
	{"batch_id", func(s string) Job { return Job{BatchID: s} }, nil},
	{"parent_id", func(s string) Job { return Job{ParentID: s} }, nil},
	{"depends_on[0]", func(s string) Job { return Job{DependsOn: []string{s}} }, nil},
}

// named wants a refusal of the request that names the field, or a part of it.
func (t *T) named(err error, field, text string) {
	r := AsRefusal(err)
	if r == nil || r.Code != invalid || !slices.ContainsFunc(r.Fields, func(f string) bool {
		return f == field || strings.HasPrefix(f, field+".") || strings.HasPrefix(f, field+"[")
	}) {
		t.Fatalf("%q as %s: %v, want it kept or refused by the name of its field", text, field, err)
	}
}

// unharmed wants a job of a neighbour and the lists to be as they were.
func (t *T) unharmed(queue, id string) {
	t.State(id, "pending")
	t.Eventually("the neighbour in its list", func() bool { return slices.Equal(t.listed("queue="+queue), []string{id}) })
}

// listed are the ids of the first page of a list.
func (t *T) listed(query string) (ids []string) {
	for _, j := range Get[rowsView](t, "/api/v1/jobs?"+query).Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

var textRules = []Rule{
	{Name: "whatever text an enqueue has, it is kept letter by letter or refused by the name of its field", Run: func(t *T, _ string) {
		neighbour := t.Queue()
		id := t.Enqueue(Job{Queue: neighbour}).ID
		for _, k := range enqueueTexts {
			q := t.Queue()
			for _, s := range hostile {
				if k.field == "queue" {
					s = q + s
				}
				j := k.job(s)
				if j.Queue == "" {
					j.Queue = q
				} else {
					t.Made(queuePath(s, "?confirm=true"))
				}
				e, err := t.Client.Enqueue(t.Context, j)
				if err != nil {
					t.named(err, k.field, s)
					continue
				}
				view := t.Job(e.ID)
				if k.read != nil && k.read(&view) != s {
					t.Fatalf("%q as %s came back as %q", s, k.field, k.read(&view))
				}
				if k.field == "idempotency_key" {
					Equal(t, "job of the same key", t.Enqueue(j).ID, e.ID)
				}
			}
		}
		t.unharmed(neighbour, id)
	}},
	{Name: "whatever text a worker has, it is kept letter by letter or refused by the name of its field", Run: func(t *T, q string) {
		neighbour := t.Queue()
		id := t.Enqueue(Job{Queue: neighbour}).ID
		for _, s := range hostile {
			t.Enqueue(Job{Queue: q, Backoff: "none"})
			l := t.fetchedBy(q, s)
			t.failedWith(&l, s)
			if l.ID == "" {
				l = t.Fetch(q)
			}
			t.HeartbeatAs(Heartbeat{Worker: "w1", Jobs: map[string]JobUpdate{l.ID: {Token: l.Token, Progress: quoted(s), Checkpoint: quoted(s)}}})
			err := t.Client.Ack(t.Context, Ack{ID: l.ID, Token: l.Token, Result: quoted(s), Usage: &Usage{CostUSD: 1, Model: s, Provider: s}})
			if err != nil {
				t.named(err, "usage", s)
				t.AckAs(Ack{ID: l.ID, Token: l.Token, Result: quoted(s)})
			}
			j := t.State(l.ID, "completed")
			Equal(t, "result", unquoted(j.Result), s)
			Equal(t, "progress", unquoted(j.Progress), s)
		}
		t.unharmed(neighbour, id)
	}},
	{Name: "whatever is looked for, a list finds that and nothing else, or the request is refused by name", Once: true, Run: func(t *T, q string) {
		tagged := make(map[string]string)
		for _, s := range hostile {
			if e, err := t.Client.Enqueue(t.Context, Job{Queue: q, Tags: map[string]string{"look": s}}); err == nil {
				tagged[s] = e.ID
			}
		}
		t.FailIf(len(tagged) < len(hostile)/2, "only %d of %d texts may be a tag", len(tagged), len(hostile))
		for _, s := range hostile {
			if id, ok := tagged[s]; ok {
				t.Eventually("the job with the tag", func() bool {
					return slices.Equal(t.listed(url.Values{"queue": {q}, "tag": {"look:" + s}}.Encode()), []string{id})
				})
			}
			for _, param := range []string{"queue", "state", "cursor", "order", "limit", "created_after", "created_before", s} {
				err := t.Try(http.MethodGet, "/api/v1/jobs?"+url.Values{param: {s}}.Encode(), nil, nil)
				if err == nil && (strings.TrimSpace(s) == "" || param == "queue") {
					continue // As if it was left out; or a name that a queue may have.
				}
				t.FailIf(AsRefusal(err) == nil || AsRefusal(err).Code != invalid, "%s=%q answered %v", param, s, err)
			}
			for _, path := range []string{"/api/v1/queues/", "/api/v1/jobs/", "/api/v1/batches/", "/api/v1/chains/", "/api/v1/schedules/"} {
				err := t.Try(http.MethodGet, path+url.PathEscape(s), nil, nil)
				r := AsRefusal(err)
				t.FailIf(r == nil || r.Code != invalid && r.Code != notFound, "%s%q answered %v", path, s, err)
			}
		}
	}},
}

// fetchedBy fetches as a worker of any name and host.
func (t *T) fetchedBy(q, name string) Lease {
	leases, err := t.Client.Fetch(t.Context, Fetch{Queues: []string{q}, Worker: name, Hostname: name, Wait: soon})
	if err != nil {
		r := AsRefusal(err)
		t.FailIf(r == nil || r.Code != invalid || !slices.Contains(r.Fields, "worker_id") && !slices.Contains(r.Fields, "hostname"), "a worker called %q: %v", name, err)
		return t.Fetch(q)
	}
	t.FailIf(len(leases) != 1, "a worker called %q got %+v", name, leases)
	j := t.Job(leases[0].ID)
	t.FailIf(j.WorkerID != name || j.Hostname != name, "a worker called %q is shown as %q on %q", name, j.WorkerID, j.Hostname)
	return leases[0]
}

// failedWith fails an attempt with an error text. A job that took it is to be fetched
// again, and the lease is emptied.
func (t *T) failedWith(l *Lease, text string) {
	if _, err := t.Client.Fail(t.Context, Fail{ID: l.ID, Token: l.Token, Error: text, Backtrace: text}); err != nil {
		t.named(err, "error", text)
		return
	}
	errs := t.Job(l.ID).Errors
	t.FailIf(len(errs) != 1 || errs[0].Error != text || errs[0].Backtrace != text, "the error %q is shown as %+v", text, errs)
	*l = Lease{}
}
