package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// Each command makes the call that its words say, and shows the result.
func TestCommands_AskWhatTheySay(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct{ call, body, answer, shows string }{
		"hold job_1 --reason look":                  {"POST /api/v1/jobs/job_1/hold", `{"reason":"look"}`, `{"status":"held"}`, "job_1  held"},
		"approve job_1 --comment fine":              {"POST /api/v1/jobs/job_1/approve", `{"comment":"fine"}`, `{"status":"pending"}`, "job_1  pending"},
		"job reject job_1":                          {"POST /api/v1/jobs/job_1/reject", `{}`, `{"status":"dead"}`, "job_1  dead"},
		"move job_1 slow":                           {"POST /api/v1/jobs/job_1/move", `{"queue":"slow"}`, `{"status":"moved"}`, "job_1  moved"},
		"held --queue q":                            {"GET /api/v1/jobs?limit=50&queue=q&state=held", ``, `{"jobs":[{"id":"job_1","queue":"q","hold_reason":"look"}]}`, "look"},
		"dead --groups --queue q":                   {"GET /api/v1/dead/groups?limit=50&queue=q", ``, `{"groups":[{"id":"00ff","queue":"q","count":3,"dead_reason":"expired"}],"total_groups":1}`, "expired"},
		"dead --error-group 00ff":                   {"GET /api/v1/jobs?error_group=00ff&limit=50&state=dead", ``, `{"jobs":[{"id":"job_1","last_error":"boom"}]}`, "boom"},
		"dead":                                      {"GET /api/v1/jobs?limit=50&state=dead", ``, `{"jobs":[{"id":"job_1","last_error":"boom"}]}`, "boom"},
		"iterations job_1":                          {"GET /api/v1/jobs/job_1/iterations?limit=1000", ``, `{"iterations":[{"iteration":2,"status":"continue","cost_usd":0.25}]}`, "$0.25"},
		"replay job_1 --from 2":                     {"POST /api/v1/jobs/job_1/replay", `{"from":2}`, `{"job_id":"job_2"}`, "job_2"},
		"drain q --no-wait":                         {"POST /api/v1/queues/q/drain?wait=0s", ``, `{"status":"draining","remaining":3}`, "q  draining, 3 jobs left"},
		"clear q --yes":                             {"POST /api/v1/queues/q/clear", `{}`, `{"status":"cleared","removed":3}`, "q  cleared"},
		"requeue q":                                 {"POST /api/v1/queues/q/requeue", `{}`, `{"requeued":1}`, "1 job retried"},
		"destroy q --confirm":                       {"DELETE /api/v1/queues/q?confirm=true", ``, `{"status":"deleted"}`, "q  deleted"},
		"workers":                                   {"GET /api/v1/workers", ``, `[{"id":"w1","queues":"[\"a\",\"b\"]"}]`, "a,b"},
		"schedule list":                             {"GET /api/v1/schedules?limit=50", ``, `{"schedules":[{"id":"sched_1","name":"nightly","paused":true}]}`, "paused"},
		"schedule get sched_1":                      {"GET /api/v1/schedules/sched_1", ``, `{"id":"sched_1","next_runs":["2030-01-01T02:00:00Z"]}`, "2030-01-01T02:00:00Z"},
		"schedule run sched_1":                      {"POST /api/v1/schedules/sched_1/run", `{}`, `{"job_id":"job_7"}`, "job_7"},
		"schedule pause sched_1":                    {"POST /api/v1/schedules/sched_1/pause", `{}`, `{"id":"sched_1","paused":true}`, "paused"},
		"schedule delete sched_1":                   {"DELETE /api/v1/schedules/sched_1", ``, `{"status":"deleted"}`, "sched_1  deleted"},
		"schedule preview @daily --timezone UTC":    {"POST /api/v1/schedules/preview", `{"cron":"@daily","timezone":"UTC"}`, `{"next_runs":["2030-01-01T00:00:00Z"]}`, "2030-01-01"},
		"schedule create n @daily q --overlap skip": {"POST /api/v1/schedules", `{"name":"n","cron":"@daily","queue":"q","overlap":"skip","paused":false}`, `{"id":"sched_1"}`, "sched_1"},
		"batch list":                                {"GET /api/v1/batches?limit=50", ``, `{"batches":[{"id":"batch_1","status":"sealed","total":3,"open":1}]}`, "sealed"},
		"batch get batch_1":                         {"GET /api/v1/batches/batch_1", ``, `{"batch":{"id":"batch_1","total":3,"open":1}}`, "3, 1 not finished"},
		"batch create --callback-queue done":        {"POST /api/v1/batches", `{"callback_queue":"done"}`, `{"batch_id":"batch_1"}`, "batch_1"},
		"batch seal batch_1":                        {"POST /api/v1/batches/batch_1/seal", `{}`, `{"id":"batch_1","status":"sealed"}`, "sealed"},
		"chain list":                                {"GET /api/v1/chains?limit=50", ``, `{"chains":[{"id":"chn_1","status":"running","steps":3,"current_step":1}]}`, "2/3"},
		"chain get chn_1":                           {"GET /api/v1/chains/chn_1", ``, `{"id":"chn_1","steps":[{"queue":"a","state":"active","job_id":"job_1"}],"on_exit":{"queue":"z"}}`, "on exit"},
		"audit":                                     {"GET /api/v1/audit?limit=50", ``, `{"entries":[{"principal":"key_1","action":"jobs.retry","target_type":"jobs","affected":48,"refused":2,"detail":{"filter":"queue=q"},"interrupted":true}],"has_more":false}`, "48       filter: queue=q, not changed: 2, interrupted"},
		"usage":                                     {"GET /api/v1/usage/summary?group_by=queue&period=24h", ``, `{"totals":{},"groups":[{"key":"u"}]}`, "QUEUE  REPORTS"},
		"usage --group-by model":                    {"GET /api/v1/usage/summary?group_by=model&period=24h", ``, `{"totals":{"cost_usd":1.5},"groups":[{"key":"small"}]}`, "$1.5"},
		"budget list":                               {"GET /api/v1/budgets", ``, `[{"scope":"queue","target":"q","daily_usd":20}]`, "$20"},
		"budget set queue q --daily 20":             {"POST /api/v1/budgets", `{"scope":"queue","target":"q","daily_usd":20,"on_exceed":"hold"}`, `{"scope":"queue","target":"q"}`, "queue  q"},
		"budget delete tag a:b":                     {"DELETE /api/v1/budgets/tag/a:b", ``, `{"status":"deleted"}`, "a:b  deleted"},
		"approval-policy list":                      {"GET /api/v1/approval-policies", ``, `[{"id":"apol_1","name":"large"}]`, "every operator"},
		"approval-policy set large --tag size:l":    {"POST /api/v1/approval-policies", `{"name":"large","mode":"any","enabled":true,"tag_key":"size","tag_value":"l"}`, `{"id":"apol_1","name":"large"}`, "apol_1"},
		"approval-policy delete apol_1":             {"DELETE /api/v1/approval-policies/apol_1", ``, `{"status":"deleted"}`, "apol_1  deleted"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var call string
			var body []byte
			url := answer(t, func(w http.ResponseWriter, r *http.Request) {
				call = r.Method + " " + r.URL.RequestURI()
				body, _ = io.ReadAll(r.Body) // Compared below.
				_, _ = w.Write([]byte(c.answer))
			})
			got := run(t, url, strings.Fields(line)...)
			if got.exit != ExitOK || call != c.call || !sameJSON(string(body), c.body) || !strings.Contains(got.stdout, c.shows) {
				t.Errorf("asked %s with %s; %+v", call, body, got)
			}
			asJSON := run(t, url, append(strings.Fields(line), "-o", "json")...)
			if !json.Valid([]byte(asJSON.stdout)) {
				t.Errorf("as JSON: %+v", asJSON)
			}
		})
	}
}

func sameJSON(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func TestEnqueue_FlagsAreTheOptionsOfTheProtocol(t *testing.T) {
	t.Parallel()
	var body map[string]any
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte(`{"job_id":"job_1"}`))
	})
	got := run(t, url, "enqueue", "q", "{}", "--expire-after", "90m", "--depends-on", "job_a,job_b", "--on-dependency-failed", "run", "--batch", "batch_1",
		"--chain", `{"steps":[{"queue":"q"},{"queue":"r"}]}`, "--agent-max-iterations", "5", "--parent-id", "job_p", "--idempotency-key", "k")
	want := map[string]any{
		"queue": "q", "payload": map[string]any{}, "expire_after": "1h30m0s", "depends_on": []any{"job_a", "job_b"}, "on_dependency_failed": "run",
		"batch_id": "batch_1", "chain": map[string]any{"steps": []any{map[string]any{"queue": "q"}, map[string]any{"queue": "r"}}},
		"agent": map[string]any{"max_iterations": 5.0}, "parent_id": "job_p", "idempotency_key": "k",
	}
	if got.exit != ExitOK || !reflect.DeepEqual(body, want) {
		t.Fatalf("sent %v, %+v", body, got)
	}
}

func TestSettle_FlagsAreTheMembersOfTheProtocol(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`ack job_1 --agent-status hold --hold-reason look --checkpoint 1`:          `{"agent_status":"hold","hold_reason":"look","checkpoint":1}`,
		`ack job_1 --step-status exit --exit-reason enough --usage {"cost_usd":1}`: `{"step_status":"exit","exit_reason":"enough","usage":{"cost_usd":1}}`,
		`fail job_1 --error no --terminal`:                                         `{"error":"no","terminal":true}`,
		`fail job_1 --error no --delay 90s`:                                        `{"error":"no","delay_ms":90000}`,
	} {
		var body []byte
		url := answer(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ = io.ReadAll(r.Body) // Compared below.
			_, _ = w.Write([]byte(`{"status":"ok"}`))
		})
		if got := run(t, url, strings.Fields(line)...); got.exit != ExitOK || !sameJSON(string(body), want) {
			t.Errorf("%s sent %s, %+v", line, body, got)
		}
	}
}

func TestScheduleUpdate_KeepsWhatIsNotGiven(t *testing.T) {
	t.Parallel()
	const is = `{"id":"sched_1","name":"n","cron":"@daily","queue":"q","next_runs":[],"missed":3,"payload":{"a":1},"tags":{"a":"b"},"overlap":"skip",
		"max_retries":7,"retry_backoff":"linear","retry_base_delay_ms":1500,"retry_max_delay_ms":60000,"unique_key":"u","unique_period":60}`
	const kept = `"payload":{"a":1},"tags":{"a":"b"},"overlap":"skip",
		"max_retries":7,"retry_backoff":"linear","retry_base_delay":"1.5s","retry_max_delay":"1m0s","unique_key":"u","unique_period":60`
	var body string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			b, _ := io.ReadAll(r.Body) // Compared below.
			body = string(b)
		}
		_, _ = w.Write([]byte(is))
	})
	for line, want := range map[string]string{
		"--cron @hourly":     `{"name":"n","cron":"@hourly","queue":"q",` + kept + `}`,
		"--tag c:d --name m": `{"name":"m","cron":"@daily","queue":"q",` + strings.Replace(kept, `"a":"b"`, `"c":"d"`, 1) + `}`,
	} {
		got := run(t, url, append([]string{"schedule", "update", "sched_1"}, strings.Fields(line)...)...)
		if got.exit != ExitOK || !sameJSON(body, want) {
			t.Errorf("%s sent %s, %+v", line, body, got)
		}
	}
}

func TestTable_ARowIsALine(t *testing.T) {
	t.Parallel()
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jobs":[{"id":"job_1","queue":"q","last_error":"out of memory\n  at foo"},{"id":"job_2","queue":"q"}]}`))
	})
	got := run(t, url, "dead")
	if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); len(lines) != 3 || !strings.HasSuffix(lines[1], "out of memory …") {
		t.Errorf("%+v", got)
	}
}

func TestUsage_NamesTheWrongArgumentAndValue(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"enqueue":                        "corvo enqueue needs QUEUE\n  fix: use `corvo enqueue QUEUE [PAYLOAD]`",
		"move job_1":                     "corvo move needs QUEUE",
		"schedule create nightly":        "corvo schedule create needs CRON and QUEUE",
		"jobs mine":                      `"mine" is one argument too many for corvo jobs`,
		"pause":                          "corvo pause needs QUEUE\n",
		"replay job_1":                   "--from is required",
		"conformance --parallel -1":      "--parallel can't be negative",
		"dead --groups --error-group 00": "none of the others can be",
		"replay job_1 --from x":          `--from "x" isn't a whole number`,
		"enqueue q --delay soon":         `--delay "soon" isn't a duration such as 90s`,
		"budget set queue q --daily ten": `--daily "ten" isn't a number such as 0.5`,
		"budget set queue":               "corvo budget set needs TARGET",
	} {
		got := run(t, "http://127.0.0.1:1", strings.Fields(line)...)
		if got.exit != ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestSchedule_NameIsAsGoodAsTheID(t *testing.T) {
	t.Parallel()
	var calls []string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.Method+" "+r.URL.Path)
		if r.URL.Path == "/api/v1/schedules" {
			_, _ = w.Write([]byte(`{"schedules":[{"id":"sched_0","name":"weekly"},{"id":"sched_1","name":"nightly run"}]}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"sched_1","status":"deleted","job_id":"job_1"}`))
	})
	for _, args := range [][]string{{"get"}, {"run"}, {"pause"}, {"resume"}, {"update"}, {"delete"}} {
		calls = nil
		got := run(t, url, append(append([]string{"schedule"}, args...), "nightly run")...)
		if got.exit != ExitOK || len(calls) < 2 || !strings.Contains(calls[1], "/schedules/sched_1") {
			t.Errorf("%v: %v, %+v", args, calls, got)
		}
	}
	got := run(t, url, "schedule", "delete", "weekly", "monthly")
	if got.exit != ExitNotFound || !strings.Contains(got.stderr, "corvo schedule list") || strings.Contains(strings.Join(calls, " "), "sched_0") {
		t.Errorf("asked %v, %+v", calls, got)
	}
}

func TestQueueSet_RetryDefaultsAreKeptChangedAndRemoved(t *testing.T) {
	t.Parallel()
	var body string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			b, _ := io.ReadAll(r.Body) // Compared below.
			body = string(b)
		}
		_, _ = w.Write([]byte(`{"name":"q","max_concurrency":2,"max_retries":7,"retry_backoff":"linear","retry_base_delay_ms":1000}`))
	})
	for line, want := range map[string]string{
		"queue set q --max-concurrency 3":                        `{"max_concurrency":3,"max_retries":7,"retry_backoff":"linear","retry_base_delay_ms":1000}`,
		"queue set q --max-retries 5 --retry-max-delay 1m":       `{"max_concurrency":2,"max_retries":5,"retry_backoff":"linear","retry_base_delay_ms":1000,"retry_max_delay_ms":60000}`,
		"queue set q --max-retries off --retry-backoff off":      `{"max_concurrency":2,"retry_base_delay_ms":1000}`,
		"queue set q --retry-base-delay 0 --retry-backoff fixed": `{"max_concurrency":2,"max_retries":7,"retry_backoff":"fixed"}`,
	} {
		if got := run(t, url, strings.Fields(line)...); got.exit != ExitOK || !sameJSON(body, want) {
			t.Errorf("%s sent %s, %+v", line, body, got)
		}
	}
	if got := run(t, url, "queue", "set", "q", "--max-retries", "some"); got.exit != ExitUsage || !strings.Contains(got.stderr, "number of attempts") {
		t.Errorf("%+v", got)
	}
}

func TestQueueSet_RetentionIsKeptChangedAndRemoved(t *testing.T) {
	t.Parallel()
	var body string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			b, _ := io.ReadAll(r.Body) // Compared below.
			body = string(b)
		}
		_, _ = w.Write([]byte(`{"name":"q","retention":{"completed_ms":3600000,"finished_max":5},"effective_retention":{"dead_ms":1}}`))
	})
	for line, want := range map[string]string{
		"queue set q --paused": `{"paused":true,"retention":{"completed_ms":3600000,"finished_max":5}}`,
		"queue set q --retention-dead 2d --retention-cancelled 90m":          `{"retention":{"completed_ms":3600000,"dead_ms":172800000,"cancelled_ms":5400000,"finished_max":5}}`,
		"queue set q --retention-completed off --retention-finished-max off": `{}`,
		"queue set q --retention-completed 1m --retention-finished-max 1000": `{"retention":{"completed_ms":60000,"finished_max":1000}}`,
	} {
		if got := run(t, url, strings.Fields(line)...); got.exit != ExitOK || !sameJSON(body, want) || !strings.Contains(got.stdout, "completed jobs kept 1 h, at most 5 finished jobs") {
			t.Errorf("%s sent %s, %+v", line, body, got)
		}
	}
	for _, wrong := range []string{"--retention-dead=week", "--retention-dead=-2d", "--retention-dead=0", "--retention-finished-max=0", "--retention-completed=1.5d"} {
		if got := run(t, url, "queue", "set", "q", wrong); got.exit != ExitUsage {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}

// No proxy accepts a URL with an encoded slash.
func TestBudgetDelete_ATargetThatNoURLHoldsIsAddressedByID(t *testing.T) {
	t.Parallel()
	var calls []string
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.Method+" "+r.URL.RequestURI())
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `[{"id":"budget_1","scope":"tag","target":"team:a"},{"id":"budget_2","scope":"tag","target":"team:a/b"}]`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"deleted"}`)
	})
	got := run(t, url, "budget", "delete", "tag", "team:a/b")
	if want := "[GET /api/v1/budgets DELETE /api/v1/budgets/budget_2]"; got.exit != ExitOK || fmt.Sprint(calls) != want || !strings.Contains(got.stdout, "team:a/b") {
		t.Errorf("asked %v, want %s; %+v", calls, want, got)
	}
}
