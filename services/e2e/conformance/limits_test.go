package conformance_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/cli/conformance"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// What a plan limits and holds is told in every protocol, through the proxy and by nodes
// that forward to the leader.
func TestConformance_APlansLimitsAreToldInEveryProtocol(t *testing.T) {
	t.Parallel()
	c := rig.StartCell(t, rig.CellOptions{})
	if _, err := c.Admin.ChangeTenant(t.Context(), rig.CellTenant, func(t *cellv1.Tenant) error {
		t.Limits = &cellv1.Limits{EnqueuePerSecond: 1000, Hold: &cellv1.Hold{Dispatch: true, Limit: "jobs_per_month", Value: 10}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	tenant := c.Tenant(0)
	told := func(path, body, header string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tenant.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", c.Key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return "" // Asked again.
		}
		defer res.Body.Close()
		return res.Header.Get(header)
	}
	eventually.True(t, 20*time.Second, "the leader knows the limits", func() bool {
		return told("/api/v1/enqueue", `{"queue":"q"}`, "RateLimit-Policy") == `"enqueue_per_second";q=1000;w=1` &&
			told("/api/v1/fetch", `{"queues":["none"],"wait":"0s"}`, "Corvo-Dispatch-Held") == "jobs_per_month"
	})
	conformance.Run(t, tenant.URL, c.Key, conformance.Options{Only: "what is left of the plan's rate"})
}
