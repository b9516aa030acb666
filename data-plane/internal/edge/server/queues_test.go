package server

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func fieldsOf(p wire.Problem) []string {
	var names []string
	for _, f := range p.Fields {
		names = append(names, f.Field)
	}
	slices.Sort(names)
	return names
}

// Everything that is wrong with a queue's settings is named at once, by the names of
// the request; an unknown member is refused, because a misspelt limit would not limit
// anything.
func TestQueueSettings_NameEveryWrongFieldAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, c := range []struct {
		method, path, body string
		want               string
	}{
		{"PUT", "/api/v1/queues/-q", `{"paused":1,"max_concurrency":-1,"max_concurency":3,"throttle":{"limit":0,"window_ms":0,"window":"1m"}}`,
			"max_concurency max_concurrency paused queue throttle.limit throttle.window throttle.window_ms"},
		{"PUT", "/api/v1/queues/q", `{"throttle":{}}`, "throttle.limit throttle.window_ms"},
		{"PUT", "/api/v1/queues/q", `{"throttle":5,"max_concurrency":1.5}`, "max_concurrency throttle"},
		{"PUT", "/api/v1/queues/q", `{"max_concurrency":1000001,"throttle":{"limit":1000000001,"window_ms":2678400001}}`,
			"max_concurrency throttle.limit throttle.window_ms"},
		{"PUT", "/api/v1/queues/q", `[]`, "body"},
		{"POST", "/api/v1/queues/-q/concurrency", `{"max":-1}`, "max queue"},
		{"POST", "/api/v1/queues/q/concurrency", `{}`, "max"},
		{"POST", "/api/v1/queues/q/throttle", `{"rate":0,"period":"soon"}`, "period rate window_ms"},
		{"POST", "/api/v1/queues/q/throttle", `{"rate":1}`, "window_ms"},
		{"POST", "/api/v1/queues/q/throttle", `{"window_ms":1,"burst":3}`, "burst rate"},
		{"DELETE", "/api/v1/queues/q?confirm=false", ``, "confirm"},
		{"DELETE", "/api/v1/queues/q?confirm=1", ``, "confirm"},
	} {
		p := b.do(c.method, c.path, c.body).want(t, 400).problem(t)
		if got := strings.Join(fieldsOf(p), " "); got != c.want {
			t.Errorf("%s %s %s: %s, want %s\n%+v", c.method, c.path, c.body, got, c.want, p.Fields)
		}
	}
	if calls := b.jobs.commands(); calls != 0 {
		t.Errorf("refused requests did %d things", calls)
	}
}

// PUT replaces all of a queue's settings, except that paused stays as it is when
// it is left out. The calls of the worker protocol change one limit each.
func TestQueueSettings_PutReplacesLimitsAndKeepsThePause(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	for _, c := range []struct {
		method, path, body string
		want               string // Of the queue afterwards: paused, slots, throttle.
	}{
		{"PUT", "", `{"paused":true,"max_concurrency":3,"throttle":{"limit":100,"window_ms":60000}}`, `true 3 100/60000`},
		{"PUT", "", `{"max_concurrency":4,"throttle":null}`, `true 4 0/0`},
		{"POST", "/throttle", `{"rate":5,"window_ms":250}`, `true 4 5/250`},
		{"POST", "/throttle", `{"rate":6,"period":"1m30s"}`, `true 4 6/90000`},
		{"POST", "/concurrency", `{"max":0}`, `true 0 6/90000`},
		{"DELETE", "/throttle", ``, `true 0 0/0`},
		{"PUT", "", `{"paused":false}`, `false 0 0/0`},
		{"PUT", "", ``, `false 0 0/0`},
	} {
		b.do(c.method, "/api/v1/queues/q"+c.path, c.body).want(t, 200)
		var q wire.Queue
		b.do("GET", "/api/v1/queues/q", "").want(t, 200).into(t, &q)
		if got := settingsText(&q); got != c.want {
			t.Errorf("after %s %s %s: %s, want %s", c.method, c.path, c.body, got, c.want)
		}
	}
	b.do("DELETE", "/api/v1/queues/q?confirm=true", "").want(t, 200)
	b.do("GET", "/api/v1/queues/q", "").want(t, 404)
}

func settingsText(q *wire.Queue) string {
	return strings.Join([]string{
		map[bool]string{true: "true", false: "false"}[q.Paused], strconv.Itoa(q.MaxConcurrency), strconv.Itoa(q.RateLimit) + "/" + strconv.Itoa(int(q.RateWindowMS)),
	}, " ")
}
