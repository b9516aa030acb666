package server

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// enumeration lists the words of an enumeration of the engine, starting with first.
func enumeration[E interface {
	~uint8
	String() string
}](first E) (out []string) {
	for e := first; ; e++ {
		w := e.String()
		if w == "unknown" || strings.Contains(w, "(") {
			return out
		}
		out = append(out, w)
	}
}

func TestWire_WordsAreTheEngines(t *testing.T) {
	t.Parallel()
	states := make([]string, 0, len(job.States()))
	for _, s := range job.States() {
		states = append(states, s.String())
	}
	for _, row := range []struct {
		of         string
		wire, ours []string
	}{
		{"states", shape.TextsOf(wire.States()), states},
		{"event types", shape.TextsOf(wire.EventTypes()), queue.EventTypes()},
		{"dead reasons", shape.TextsOf(wire.DeadReasons()), enumeration(records.DeadRetries)},
		{"decisions", shape.TextsOf(wire.Decisions()), enumeration(records.Approved)},
		{"chain statuses", shape.TextsOf(wire.ChainStatuses()), enumeration(records.ChainRunning)},
		{"batch outcomes", shape.TextsOf(wire.BatchOutcomes()), enumeration(records.OutcomeCompleted)},
	} {
		slices.Sort(row.wire)
		slices.Sort(row.ours)
		if len(row.ours) < 2 || !slices.Equal(row.wire, row.ours) {
			t.Errorf("%s: the wire has %v, the engine %v", row.of, row.wire, row.ours)
		}
	}
	if want := shape.TextsOf(wire.Priorities()); !slices.Equal(want, enumeration(job.Critical)) {
		t.Errorf("priorities %v, and by number %v", want, enumeration(job.Critical))
	}
}

// The refusal of a word lists the accepted ones: they are the wire's.
func TestWire_WordsAreThoseThatRequestsMayHave(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	id := jobNumber(1).String()
	for _, row := range []struct {
		path, body, field string
		words             []string
	}{
		{"/enqueue", `{"queue":"a","priority":"?"}`, "priority", shape.TextsOf(wire.Priorities())},
		{"/enqueue", `{"queue":"a","retry_backoff":"?"}`, "retry_backoff", shape.TextsOf(wire.Backoffs())},
		{"/enqueue", `{"queue":"a","depends_on":["` + id + `"],"on_dependency_failed":"?"}`, "on_dependency_failed", shape.TextsOf(wire.DependencyPolicies())},
		{"/ack/" + id, `{"agent_status":"?"}`, "agent_status", shape.TextsOf(wire.AgentStatuses())},
		{"/ack/" + id, `{"step_status":"?"}`, "step_status", shape.TextsOf(wire.StepStatuses())},
		{"/ack/" + id, `{"usage":{"input_tokens":1,"kind":"?"}}`, "usage.kind", shape.TextsOf(wire.UsageKinds())},
		{"/schedules", `{"name":"a","queue":"a","cron":"@daily","overlap":"?"}`, "overlap", shape.TextsOf(wire.Overlaps())},
		{"/schedules", `{"name":"a","queue":"a","cron":"@daily","catch_up":"?"}`, "catch_up", shape.TextsOf(wire.CatchUps())},
		{"/budgets", `{"scope":"?","daily_usd":1}`, "scope", shape.TextsOf(wire.BudgetScopes())},
		{"/budgets", `{"scope":"global","daily_usd":1,"on_exceed":"?"}`, "on_exceed", shape.TextsOf(wire.OnExceeds())},
		{"/approval-policies", `{"name":"a","queue":"a","mode":"?"}`, "mode", shape.TextsOf(wire.PolicyModes())},
		{"/approval-policies", `{"name":"a","queue":"a","on_expire":"?"}`, "on_expire", shape.TextsOf(wire.OnExpires())},
	} {
		p := b.post("/api/v1"+row.path, row.body).want(t, 400).problem(t)
		i := slices.IndexFunc(p.Fields, func(f wire.ProblemField) bool { return f.Field == row.field })
		if i < 0 {
			t.Errorf("%s is not refused: %+v", row.field, p)
			continue
		}
		_, list, _ := strings.Cut(p.Fields[i].Message, "must be ")
		got := strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
		slices.Sort(got)
		slices.Sort(row.words)
		if !slices.Equal(got, row.words) {
			t.Errorf("%s must be one of %v, and the wire has %v", row.field, got, row.words)
		}
	}
}

// A member that a request of the wire has, and the server does not read, would be lost.
func TestWire_RequestsAreReadWhole(t *testing.T) {
	t.Parallel()
	schemas := requestSchemas()
	for _, request := range []any{
		wire.EnqueueRequest{}, wire.AgentConfig{}, wire.ChainRequest{}, wire.ChainStep{}, wire.EnqueueBatchRequest{}, wire.BatchOptions{},
		wire.FetchRequest{}, wire.UsageReport{}, wire.AckRequest{}, wire.AckBatchRequest{}, wire.AckBatchItem{}, wire.FailRequest{},
		wire.HeartbeatRequest{}, wire.HeartbeatJob{}, wire.JobSearchRequest{}, wire.BulkRequest{}, wire.QueueRequest{}, wire.QueueThrottle{},
		wire.ScheduleRequest{}, wire.BudgetRequest{}, wire.ApprovalPolicyRequest{},
	} {
		r := reflect.TypeOf(request)
		s, ok := schemas[r.Name()]
		if !ok {
			t.Errorf("%s is no request of the document", r.Name())
		}
		var always []string
		for _, f := range reflect.VisibleFields(r) {
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if _, known := s.Properties[name]; !known && name != "" {
				t.Errorf("%s.%s: the server reads no member %s", r.Name(), f.Name, name)
			}
			if name != "" && opts == "" {
				always = append(always, name)
			}
		}
		for _, name := range s.Required {
			if !slices.Contains(always, name) {
				t.Errorf("%s: %s is required, and left out when it is empty", r.Name(), name)
			}
		}
	}
}
