package acceptance

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

func TestRetention_OfNamespaceAndQueueIsSetChangedAndLeftToTheNextPlace(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns, q := name(t, "kept"), "mail"
	head := block(s, "")
	own := `retention = { completed_seconds = 3 * 24 * 3600, finished_max = 5000, events_bytes_max = 1048576 }`
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(ns),
		Steps: []resource.TestStep{
			{
				Config: head + namespaceHCL(ns, own) + queueHCL(q, nsAddr+".id", `retention = { completed_seconds = 3600 }`),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(nsAddr, "retention.completed_seconds", "259200"),
					resource.TestCheckNoResourceAttr(nsAddr, "retention.dead_seconds"),
					resource.TestCheckResourceAttr(nsAddr, "effective_retention.dead_seconds", "2592000"),
					resource.TestCheckResourceAttr(nsAddr, "effective_retention.usage_seconds", "34560000"),
					resource.TestCheckResourceAttr(queueAddr, "effective_retention.completed_seconds", "3600"),
					resource.TestCheckResourceAttr(queueAddr, "effective_retention.finished_max", "5000"),
				),
			},
			{ResourceName: nsAddr, ImportState: true, ImportStateVerify: true},
			{ResourceName: queueAddr, ImportState: true, ImportStateVerify: true},
			{ // A change by somebody else is seen and corrected.
				PreConfig: func() {
					s.other().mustQueue(t, http.MethodPut, ns, "/api/v1/queues/"+q, map[string]any{"retention": map[string]any{"dead": "2h"}})
				},
				Config:           head + namespaceHCL(ns, own) + queueHCL(q, nsAddr+".id", `retention = { completed_seconds = 3600 }`),
				ConfigPlanChecks: updates(queueAddr),
				Check:            resource.TestCheckNoResourceAttr(queueAddr, "retention.dead_seconds"),
			},
			{
				Config:           head + namespaceHCL(ns, `retention = { dead_seconds = 86400 }`) + queueHCL(q, nsAddr+".id", ``),
				ConfigPlanChecks: updates(nsAddr),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(nsAddr, "effective_retention.completed_seconds", "604800"),
					resource.TestCheckNoResourceAttr(nsAddr, "effective_retention.finished_max"),
					resource.TestCheckResourceAttr(queueAddr, "effective_retention.dead_seconds", "86400"),
					s.other().queueHas(ns, q, map[string]any{"retention": nil}),
				),
			},
			{
				Config:      head + namespaceHCL(ns, `retention = {}`),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(`(?s)At least one attribute out of.*retention\.`),
			},
			{
				Config:      head + namespaceHCL(ns, `retention = { completed_seconds = 59 }`),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(`between 60 and 316224000`),
			},
			{
				Config:           head + namespaceHCL(ns, ``) + queueHCL(q, nsAddr+".id", ``),
				ConfigPlanChecks: updates(nsAddr),
				Check:            resource.TestCheckResourceAttr(nsAddr, "effective_retention.dead_seconds", "2592000"),
			},
		},
	})
}
