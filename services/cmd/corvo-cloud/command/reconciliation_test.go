package command

import (
	"database/sql"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/server"
)

func TestReconciliation_EndsWithAnErrorWhileSomebodyShouldLook(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	do := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		out, talk, exit := run(t, append([]string{"control", "reconciliation", "--database", database}, args...)...)
		if exit != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, exit, want, out, talk)
		}
		return out, talk
	}
	const nothing = "last comparison with Stripe: -\nnot sent yet 0, sent without an answer 0, unconfirmed after 3 h 0, taken differently 0\n"
	if out, talk := do(ExitOK); out != nothing || talk != "" {
		t.Errorf("a new service: %s%s", out, talk)
	}
	if out, _ := do(ExitOK, "-o", "json"); out != `{"problems":[],"compared_at":null,"differences":[],"pushes":{"waiting":0,"unanswered":0,"differing":0,"late":0},"undone_pushes":[],"cells":[],"alarms":[]}`+"\n" {
		t.Errorf("a new service: %s", out)
	}

	ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixNano() }
	db, err := sql.Open("sqlite", strings.TrimPrefix(database, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO tenants (tenant_id, name, display_name, plan, cell, created_at, updated_at, version, generation) VALUES ('tn_1', 'acme', 'Acme', 'team', 'main', 1, 1, 1, 1)")
	exec("INSERT INTO usage_sources (cell, source, epoch, seq, complete_to, heard_at, ended) VALUES ('main', 'shard/2', 'e', 1, ?, ?, 0)", ago(2*time.Hour), ago(2*time.Hour))
	exec("INSERT INTO usage_closings (cell, hour, tenants_to, closed_at) VALUES ('main', ?, '', ?)", time.Now().Add(-2*time.Hour).Unix()/3600, ago(time.Hour))
	exec("INSERT INTO billing_differences (tenant_id, meter, day, ledger, pushed, summed, found_at) VALUES ('tn_1', 'executions', ?, 3, 2, 1, ?)",
		time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano(), ago(time.Hour))
	exec(`INSERT INTO billing_pushes (tenant_id, meter, hour, revision, identifier, kind, value, state, first_sent_at, due_at, attempts, last_error, created_at, done_at)
		VALUES ('tn_1', 'executions', ?, 1, 'i', 'event', 7, 'open', ?, 0, 2, ?, ?, 0)`, ago(5*time.Hour), ago(4*time.Hour), "no\nanswer", ago(4*time.Hour))
	exec(`INSERT INTO usage_alarms (tenant_id, namespace_id, hour, cell, source, epoch, problem, first_at, last_at, times)
		VALUES ('tn_1', 'ns_1', 5, 'main', 'shard/2', 'e', 'decrease', ?, ?, 2)`, ago(time.Hour), ago(time.Hour))

	out, talk := do(ExitConflict)
	for _, row := range []string{`(?m)^main +\S+ +late +shard/2$`, `(?m)^acme +2026-11-01 +executions +3 +2 +1 `, `(?m)^acme +\S+ +executions +7 +unanswered +2 +no answer$`,
		`(?m)^acme +ns_1 +1970-01-01T05:00:00Z +main +shard/2 +decrease +2 `, `(?m)^not sent yet 0, sent without an answer 1, unconfirmed after 3 h 1, taken differently 0$`} {
		if !regexp.MustCompile(row).MatchString(out) {
			t.Errorf("no row %s in\n%s", row, out)
		}
	}
	for _, problem := range []string{"don't agree", "isn't confirmed", "hours of main aren't closing", "alarms of the last 24 h"} {
		if !strings.Contains(talk, problem) {
			t.Errorf("nothing about %q: %s", problem, talk)
		}
	}
	out, _ = do(ExitConflict, "-o", "json")
	var r server.Reconciliation
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 4 || r.Differences[0].Tenant != "acme" || r.Differences[0].Stripe != 1 || r.Undone[0].LastError != "no\nanswer" || r.Pushes.Late != 1 ||
		!r.Cells[0].Late || r.Cells[0].LateSources[0].CompleteTo == nil || r.Alarms[0].Times != 2 {
		t.Errorf("%+v", r)
	}
}
