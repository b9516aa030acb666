package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// receiver takes what a sink is sent, and notes whose Authorization it came with.
func receiver(t *testing.T) (url string, authorization func() string) {
	t.Helper()
	var last atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { last.Store(r.Header.Get("Authorization")) }))
	t.Cleanup(srv.Close)
	return srv.URL, func() string { text, _ := last.Load().(string); return text }
}

func sinkHCL(name, more string) string {
	return fmt.Sprintf("resource \"corvo_audit_sink\" \"this\" {\n  name = %q\n  %s\n}\n", name, more)
}

func httpsHCL(url, authorization, more string) string {
	return fmt.Sprintf("https = {\n    url = %q\n    signing_secret_wo = \"0123456789abcdef\"\n    authorization_wo = %q\n  }\n  %s", url, authorization, more)
}

const sinkAddr = "corvo_audit_sink.this"

func (o other) sinkGone(id *string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		_, err := o.audit.GetAuditSink(context.Background(), connect.NewRequest(&cloudv1.GetAuditSinkRequest{SinkId: *id}))
		return missing("audit sink", err)
	}
}

// The first number is a change like any other: only an import has nothing to compare it with.
func TestAuditSink_FirstNumberSendsTheSecretsUnlessItWasImported(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "first")
	url, authorization := receiver(t)
	w := newWorkspace(t, s, "", sinkHCL(n, httpsHCL(url, "one", "")))
	w.apply()
	w.write("main.tf", required+sinkHCL(n, httpsHCL(url, "two", "secrets_wo_version = 1")))
	if w.apply(); authorization() != "two" {
		t.Errorf("the first number sent %q", authorization())
	}
	theirs := newWorkspace(t, s, "", sinkHCL(n, httpsHCL(url, "three", "secrets_wo_version = 1")))
	theirs.must("import", "-no-color", "-input=false", sinkAddr, n)
	if theirs.apply(); authorization() != "two" {
		t.Errorf("the first number after an import sent %q", authorization())
	}
	theirs.settled()
	theirs.write("main.tf", required+sinkHCL(n, httpsHCL(url, "three", "secrets_wo_version = 2")))
	if theirs.apply(); authorization() != "three" {
		t.Errorf("the second number after an import sent %q", authorization())
	}
	theirs.destroy()
}

func TestAuditSink_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, a, b := s.other(), name(t, "aa"), name(t, "ab")
	url, authorization := receiver(t)
	came := func(want string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			if got := authorization(); got != want {
				return fmt.Errorf("the last call came with %q, want %q", got, want)
			}
			return nil
		}
	}
	head := block(s, "")
	first := head + sinkHCL(a, httpsHCL(url, "one", "secrets_wo_version = 1"))
	off := head + sinkHCL(b, httpsHCL(url, "two", "secrets_wo_version = 2\n  format = \"ocsf\"\n  enabled = false"))
	var id string
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.sinkGone(&id),
		Steps: []resource.TestStep{
			{Config: head + sinkHCL(a, ""), ExpectError: regexp.MustCompile(`(?s)s3.*syslog`)},
			{Config: head + sinkHCL(a, httpsHCL(url, "one", "syslog = { host = \"localhost\" }")), ExpectError: regexp.MustCompile(`(?s)s3.*syslog`)},
			{Config: head + sinkHCL(a, httpsHCL("http://127.0.0.1:1", "one", "")), ExpectError: regexp.MustCompile(`(?s)https.url.*didn't\s+arrive`)},
			{Config: first, Check: resource.ComposeAggregateTestCheckFunc(attribute(sinkAddr, "id", &id), came("one"),
				resource.TestCheckResourceAttr(sinkAddr, "state", "active"), resource.TestCheckNoResourceAttr(sinkAddr, "https.signing_secret_wo"))},
			{Config: first, PlanOnly: true},
			{ResourceName: sinkAddr, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"secrets_wo_version"}},
			{ResourceName: sinkAddr, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"secrets_wo_version"}, ImportStateId: a},
			{ResourceName: sinkAddr, ImportState: true, ImportStateId: "snk_none", ExpectError: regexp.MustCompile(`snk_none`)},
			{Config: head + sinkHCL(b, httpsHCL(url, "two", "secrets_wo_version = 1")), ConfigPlanChecks: updates(sinkAddr)},
			{Config: off, ConfigPlanChecks: updates(sinkAddr), Check: resource.ComposeAggregateTestCheckFunc(came("two"), resource.TestCheckResourceAttr(sinkAddr, "state", "disabled"))},
			{
				PreConfig: func() { // Drift.
					_, err := o.audit.UpdateAuditSink(t.Context(), connect.NewRequest(&cloudv1.UpdateAuditSinkRequest{
						SinkId: id, Enabled: true, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"enabled"}},
					}))
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: off, ConfigPlanChecks: updates(sinkAddr), Check: resource.TestCheckResourceAttr(sinkAddr, "enabled", "false"),
			},
			{
				PreConfig: func() { // It disappears.
					if _, err := o.audit.DeleteAuditSink(t.Context(), connect.NewRequest(&cloudv1.DeleteAuditSinkRequest{SinkId: id})); err != nil {
						t.Fatal(err)
					}
				},
				Config: off, ConfigPlanChecks: planned(sinkAddr, plancheck.ResourceActionCreate), Check: resource.ComposeAggregateTestCheckFunc(attribute(sinkAddr, "id", &id),
					resource.TestCheckResourceAttr(sinkAddr, "state", "disabled")),
			},
			{Config: off, PlanOnly: true},
		},
	})
}
