package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// The plan of the tests' tenant costs nothing, so that no limit is ever reached.
func TestSpendLimit_IsSetChangedImportedAndRemoved(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o := s.other()
	row := every{
		kind: "corvo_spend_limit", first: map[string]any{"amount": 20000}, second: map[string]any{"amount": 30000, "action": "hold", "alert_percents": []any{50, 90}},
		third: map[string]any{"amount": 1}, etagged: true,
	}
	row.check(t, s)
	const addr = "corvo_spend_limit.this"
	hcl := func(more string) string {
		return block(s, "") + fmt.Sprintf("resource \"corvo_spend_limit\" \"this\" {\n  %s\n}\n", more)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.spends(0, ""),
		Steps: []resource.TestStep{
			{Config: hcl(`amount = 0`), ExpectError: regexp.MustCompile(`at least 1`)},
			{Config: hcl("amount = 1\n  action = \"stop\""), ExpectError: regexp.MustCompile(`"alert"`)},
			{Config: hcl("amount = 1\n  alert_percents = [101]"), ExpectError: regexp.MustCompile(`between 1 and 100`)},
			{Config: hcl("amount = 1\n  alert_percents = [1, 2, 3, 4, 5, 6]"), ExpectError: regexp.MustCompile(`at most 5`)},
			{
				Config: hcl(`amount = 20000`),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(addr, "action", "alert"), resource.TestCheckResourceAttr(addr, "currency", "usd"), resource.TestCheckResourceAttr(addr, "alert_percents.#", "2"),
					o.spends(20000, "alert", 80, 100),
				),
			},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true},
			{ResourceName: addr, ImportState: true, ImportStateVerify: true, ImportStateId: "demo"},
			{ResourceName: addr, ImportState: true, ImportStateId: "acme", ExpectError: regexp.MustCompile(`(?s)belongs to tenant "demo"`)},
			{Config: hcl("amount = 30000\n  action = \"hold\"\n  alert_percents = []"), ConfigPlanChecks: updates(addr), Check: o.spends(30000, "hold")},
			{ // Drift.
				PreConfig:        func() { o.limit(t, &cloudv1.SpendLimit{Amount: 7, Action: "reject"}) },
				Config:           hcl("amount = 30000\n  action = \"hold\"\n  alert_percents = [95]"),
				ConfigPlanChecks: updates(addr), Check: o.spends(30000, "hold", 95),
			},
			{ // Somebody removed it.
				PreConfig: func() { o.limit(t, &cloudv1.SpendLimit{}) },
				Config:    hcl(`amount = 500`), Check: o.spends(500, "alert", 80, 100),
			},
		},
	})
}

func (o other) limit(t *testing.T, l *cloudv1.SpendLimit) {
	t.Helper()
	must(o.usage.SetSpendLimit(t.Context(), connect.NewRequest(&cloudv1.SetSpendLimitRequest{Limit: l})))(t)
}

// spends checks the limit as the service has it; amount 0 is none.
func (o other) spends(amount int64, action string, percents ...int32) resource.TestCheckFunc {
	return func(*terraform.State) error {
		res, err := o.usage.GetSpendLimit(context.Background(), connect.NewRequest(&cloudv1.GetSpendLimitRequest{}))
		if err != nil {
			return err
		}
		l := res.Msg.GetLimit()
		if l.GetAmount() != amount || amount > 0 && (l.GetAction() != action || fmt.Sprint(l.GetAlertPercents()) != fmt.Sprint(percents)) {
			return fmt.Errorf("the limit is %v", l)
		}
		return nil
	}
}

func TestUsage_AndInvoicePreviewAreWhatTheServiceCounted(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n := s.other(), name(t, "counted")
	ns := must(o.namespaces.CreateNamespace(t.Context(), connect.NewRequest(&cloudv1.CreateNamespaceRequest{Name: n})))(t).GetNamespace().GetId()
	eventually.NoError(t, startMax, "the namespace is known", func() error {
		status, err := o.queueCall(t.Context(), http.MethodPost, n, "/api/v1/enqueue", map[string]any{"queue": "mail", "payload": map[string]any{"a": 1}}, nil)
		if err == nil && status/100 != 2 {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	hour := time.Now().UTC().Truncate(time.Hour) // Perhaps the one after that of the job: the span has both.
	from, to := hour.Add(-time.Hour), hour.Add(2*time.Hour)
	eventually.NoError(t, startMax, "it is counted", func() error { return o.counted(t.Context(), ns) })
	span := fmt.Sprintf("from = %q\n  to = %q\n  interval = \"hour\"\n  by_namespace = true", from.Format(time.RFC3339), to.Format(time.RFC3339))
	config := block(s, "") + fmt.Sprintf(`
data "corvo_usage" "current" {}
data "corvo_usage" "hours" {
  %s
}
data "corvo_invoice_preview" "current" {}
data "corvo_invoice_preview" "team" {
  period = %q
  plan   = "team"
}
locals { own = [for p in data.corvo_usage.hours.points : p if p.namespace_id == %q] }
output "namespace" { value = local.own[0].namespace }
output "jobs" { value = tostring(sum(local.own[*].jobs_enqueued)) }
output "bases" { value = join(" ", [for l in data.corvo_invoice_preview.team.lines : "${l.plan} ${l.unit_amount}" if l.item == "base"]) }
`, span, time.Now().UTC().Format("2006-01"), ns)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: block(s, "") + `data "corvo_usage" "half" { from = "2026-11-01T00:00:00Z" }`, ExpectError: regexp.MustCompile(`"to" must be specified`)},
			{Config: block(s, "") + `data "corvo_invoice_preview" "bad" { period = "November" }`, ExpectError: regexp.MustCompile(`a month such as 2026-11`)},
			{Config: block(s, "") + `data "corvo_invoice_preview" "bad" { plan = "none" }`, ExpectError: regexp.MustCompile(`plan`)},
			{
				Config: config,
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckOutput("namespace", n), resource.TestCheckOutput("jobs", "1"), resource.TestCheckOutput("bases", "team 4900"),
					resource.TestMatchResourceAttr("data.corvo_usage.current", "total.jobs_enqueued", regexp.MustCompile(`^[1-9]`)),
					resource.TestMatchResourceAttr("data.corvo_usage.current", "forecast.jobs_enqueued", regexp.MustCompile(`^[1-9]`)),
					resource.TestCheckNoResourceAttr("data.corvo_usage.hours", "forecast.jobs_enqueued"),
					resource.TestCheckNoResourceAttr("data.corvo_usage.current", "points.0.namespace_id"),
					resource.TestCheckResourceAttr("data.corvo_invoice_preview.current", "total", "0"), resource.TestCheckResourceAttr("data.corvo_invoice_preview.current", "state", "draft"),
					resource.TestCheckResourceAttr("data.corvo_invoice_preview.team", "currency", "usd"),
				),
			},
		},
	})
}

// counted: the namespace has a job in the ledger or in an open hour.
func (o other) counted(ctx context.Context, namespaceID string) error {
	res, err := o.usage.GetUsage(ctx, connect.NewRequest(&cloudv1.GetUsageRequest{ByNamespace: true}))
	if err != nil {
		return err
	}
	for _, p := range res.Msg.GetPoints() {
		if p.GetNamespaceId() == namespaceID && p.GetCounts().GetJobsEnqueued() > 0 {
			return nil
		}
	}
	return fmt.Errorf("%d points", len(res.Msg.GetPoints()))
}
