package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

const queueAddr = "corvo_queue.this"

func queueHCL(name, namespace, more string) string {
	return fmt.Sprintf("resource \"corvo_queue\" \"this\" {\n  name = %q\n  namespace = %s\n  %s\n}\n", name, namespace, more)
}

// queueCall calls the tenant URL as another operator, and returns the status.
func (o other) queueCall(ctx context.Context, method, namespace, path string, body, into any) (status int, err error) {
	var raw []byte
	if body != nil {
		if raw, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, o.url+path, bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	req.Header.Set("X-Corvo-Namespace", namespace)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || into == nil || res.StatusCode/100 != 2 {
		return res.StatusCode, err
	}
	return res.StatusCode, json.Unmarshal(answer, into)
}

func (o other) mustQueue(t *testing.T, method, namespace, path string, body any) {
	t.Helper()
	status, err := o.queueCall(t.Context(), method, namespace, path, body, nil)
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, path, status, err)
	}
}

func (o other) queueGone(namespace, name string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		status, err := o.queueCall(context.Background(), http.MethodGet, namespace, "/api/v1/queues/"+name, nil, nil)
		if err != nil {
			return err
		}
		if status/100 == 2 {
			return fmt.Errorf("queue %s of %s is still there", name, namespace)
		}
		return nil
	}
}

// queueHas compares members of the queue as its own API shows them; nil is one left out.
func (o other) queueHas(namespace, name string, want map[string]any) resource.TestCheckFunc {
	return func(*terraform.State) error {
		var got map[string]any
		status, err := o.queueCall(context.Background(), http.MethodGet, namespace, "/api/v1/queues/"+name, nil, &got)
		if err != nil || status/100 != 2 {
			return fmt.Errorf("read queue %s: status %d, %w", name, status, err)
		}
		for k, v := range want {
			if got[k] != v {
				return fmt.Errorf("%s of queue %s is %v, want %v", k, name, got[k], v)
			}
		}
		return nil
	}
}

func TestQueue_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns, q := name(t, "queues"), "mail.out"
	head := block(s, "") + namespaceHCL(ns, ``)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(ns),
		Steps: []resource.TestStep{
			{
				Config: head + queueHCL(q, nsAddr+".id", ``),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(queueAddr, tfjsonpath.New("paused"), knownvalue.Bool(false)),
					statecheck.ExpectKnownValue(queueAddr, tfjsonpath.New("max_concurrency"), knownvalue.Null()),
					statecheck.ExpectKnownValue(queueAddr, tfjsonpath.New("throttle"), knownvalue.Null()),
				},
			},
			{
				Config:           head + queueHCL(q, nsAddr+".id", `max_concurrency = 7`),
				ConfigPlanChecks: updates(queueAddr),
			},
			{
				Config:           head + queueHCL(q, nsAddr+".id", "max_concurrency = 7\n throttle = { limit = 10, window_ms = 1000 }"),
				ConfigPlanChecks: updates(queueAddr),
			},
			{
				Config:           head + queueHCL(q, nsAddr+".id", "throttle = { limit = 20, window_ms = 60000 }\n paused = true"),
				ConfigPlanChecks: updates(queueAddr),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(queueAddr, "paused", "true"),
					resource.TestCheckNoResourceAttr(queueAddr, "max_concurrency"),
					resource.TestCheckResourceAttr(queueAddr, "throttle.limit", "20"),
				),
			},
			{
				Config: head + queueHCL(q, nsAddr+".id", "throttle = { limit = 20, window_ms = 60000 }\n paused = true\n"+
					`retry = { max_retries = 7, backoff = "linear", max_delay_ms = 90000 }`),
				ConfigPlanChecks: updates(queueAddr),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr(queueAddr, "retry.max_retries", "7"),
					resource.TestCheckNoResourceAttr(queueAddr, "retry.base_delay_ms"),
					s.other().queueHas(ns, q, map[string]any{"max_retries": 7.0, "retry_backoff": "linear", "retry_max_delay_ms": 90_000.0, "retry_base_delay_ms": nil}),
				),
			},
			{
				Config:      head + queueHCL(q, nsAddr+".id", `retry = {}`),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(`(?s)At least one attribute out of.*retry\.backoff`),
			},
			{
				Config:      head + queueHCL(q, nsAddr+".id", `retry = { backoff = "wild" }`),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(`exponential`),
			},
			{
				Config:      head + queueHCL(q, nsAddr+".id", `retry = { max_retries = 100000 }`),
				ExpectError: regexp.MustCompile(`(?s)retry = .*max_retries|max_retries.*between`),
			},
			{ResourceName: queueAddr, ImportState: true, ImportStateVerify: true},
			{ResourceName: queueAddr, ImportState: true, ImportStateVerify: true, ImportStateId: ns + "/" + q},
			{
				ResourceName: queueAddr, ImportState: true, ImportStateId: q,
				ExpectError: regexp.MustCompile(`isn't namespace/name`),
			},
			{
				Config:           head + queueHCL(q, nsAddr+".id", `paused = false`),
				ConfigPlanChecks: updates(queueAddr),
				Check:            resource.TestCheckResourceAttr(queueAddr, "paused", "false"),
			},
			{
				Config:           head + queueHCL("mail2", nsAddr+".id", ``),
				ConfigPlanChecks: planned(queueAddr, plancheck.ResourceActionReplace),
				Check:            s.other().queueGone(ns, q),
			},
			{Config: head, Check: s.other().queueGone(ns, "mail2")},
		},
	})
}

func TestQueue_ADifferentReferenceToTheNamespaceKeepsTheQueue(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	a, b := name(t, "before"), name(t, "after")
	head := block(s, "")
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(a, b),
		Steps: []resource.TestStep{
			{Config: head + namespaceHCL(a, ``) + queueHCL("q", nsAddr+".name", ``)},
			{Config: head + namespaceHCL(a, ``) + queueHCL("q", nsAddr+".id", ``), ConfigPlanChecks: updates(queueAddr)},
			{
				Config:           head + namespaceHCL(b, ``) + queueHCL("q", nsAddr+".id", ``),
				ConfigPlanChecks: planned(queueAddr, plancheck.ResourceActionNoop),
			},
			// A queue that is tied to the name would be replaced, with its jobs, by a mere rename.
			{Config: head + namespaceHCL(b, ``) + queueHCL("q", nsAddr+".name", ``)},
			{
				Config:      head + namespaceHCL(a, ``) + queueHCL("q", nsAddr+".name", ``),
				ExpectError: regexp.MustCompile(`(?s)Can't tell whether this is the same.*namespace.s\s+id`),
			},
		},
	})
}

// A queue that is tied to a name stays where it is when another namespace gets that name.
func TestQueue_AnotherNamespacesQueueIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n := s.other(), name(t, "swapped")
	hcl := func(most int) string {
		return block(s, "") + queueHCL("q", fmt.Sprintf("%q", n), fmt.Sprintf("max_concurrency = %d", most))
	}
	makeNamespace := func() {
		must(o.namespaces.CreateNamespace(t.Context(), connect.NewRequest(&cloudv1.CreateNamespaceRequest{Name: n})))(t)
	}
	makeNamespace()
	t.Cleanup(func() {
		for _, each := range []string{n, n + "-old"} {
			must(o.namespaces.DeleteNamespace(context.Background(), connect.NewRequest(&cloudv1.DeleteNamespaceRequest{Namespace: each, AllowMissing: true})))(t)
		}
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: hcl(5)},
			{
				PreConfig: func() {
					must(o.namespaces.UpdateNamespace(t.Context(), connect.NewRequest(&cloudv1.UpdateNamespaceRequest{
						Namespace: n, Name: n + "-old", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
					})))(t)
					makeNamespace()
					eventually.True(t, startMax, "make a queue in the new namespace", func() bool {
						status, err := o.queueCall(t.Context(), http.MethodPut, n, "/api/v1/queues/q", map[string]any{"max_concurrency": 5}, nil)
						return err == nil && status/100 == 2
					})
				},
				Config: hcl(7), ConfigPlanChecks: updates(queueAddr),
				Check: resource.ComposeAggregateTestCheckFunc(o.queueHas(n, "q", map[string]any{"max_concurrency": 5.0}), o.queueHas(n+"-old", "q", map[string]any{"max_concurrency": 7.0})),
			},
		},
	})
}

func TestQueue_DriftIsSeenAndCorrected(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns := name(t, "qdrift")
	config := block(s, "") + namespaceHCL(ns, ``) + queueHCL("q", nsAddr+".id", "max_concurrency = 3")
	o := s.other()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.namespacesGone(ns),
		Steps: []resource.TestStep{
			{Config: config},
			{
				PreConfig: func() {
					o.mustQueue(t, http.MethodPost, ns, "/api/v1/queues/q/concurrency", map[string]int{"max": 9})
				},
				Config:           config,
				ConfigPlanChecks: updates(queueAddr),
				Check:            resource.TestCheckResourceAttr(queueAddr, "max_concurrency", "3"),
			},
			{
				// Not in the configuration, so people may pause by hand.
				PreConfig:        func() { o.mustQueue(t, http.MethodPost, ns, "/api/v1/queues/q/pause", nil) },
				Config:           config,
				ConfigPlanChecks: planned(queueAddr, plancheck.ResourceActionNoop),
			},
			{
				Config:           block(s, "") + namespaceHCL(ns, ``) + queueHCL("q", nsAddr+".id", "max_concurrency = 4"),
				ConfigPlanChecks: updates(queueAddr),
				Check:            resource.TestCheckResourceAttr(queueAddr, "paused", "true"),
			},
			{
				PreConfig:        func() { o.mustQueue(t, http.MethodDelete, ns, "/api/v1/queues/q?confirm=true", nil) },
				Config:           config,
				ConfigPlanChecks: planned(queueAddr, plancheck.ResourceActionCreate),
			},
			{
				PreConfig: func() {
					if _, err := o.namespaces.DeleteNamespace(t.Context(), connect.NewRequest(&cloudv1.DeleteNamespaceRequest{Namespace: ns})); err != nil {
						t.Fatal(err)
					}
				},
				Config:           config,
				ConfigPlanChecks: planned(queueAddr, plancheck.ResourceActionCreate),
			},
		},
	})
}

// Somebody changes the queue between the plan and its apply: the apply must not undo it.
func TestQueue_AStalePlanIsRefused(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	m, ns, o := startFaultProxy(t, s), name(t, "stale"), s.other()
	head := block(s, m.URL) + namespaceHCL(ns, ``)
	config := func(most int) string {
		return head + queueHCL("q", nsAddr+".id", fmt.Sprintf("max_concurrency = %d", most))
	}
	change := func(what string, body any) func(string, int) faulttest.Fate {
		return func(call string, n int) faulttest.Fate {
			if call == "PUT queue" && n == 1 {
				o.mustQueue(t, http.MethodPost, ns, "/api/v1/queues/q/"+what, body)
			}
			return faulttest.Fate{}
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.namespacesGone(ns),
		Steps: []resource.TestStep{
			{Config: config(3)},
			{
				PreConfig:   func() { m.Decide(change("concurrency", map[string]int{"max": 9})) },
				Config:      config(4),
				ExpectError: regexp.MustCompile(`(?s)changed\s+after\s+this\s+plan`),
			},
			{
				PreConfig: func() {
					if err := o.queueHas(ns, "q", map[string]any{"max_concurrency": 9.0})(nil); err != nil {
						t.Error(err)
					}
					// A pause is left to people here, and the answer of a change may be lost.
					m.Decide(change("pause", nil))
				},
				Config: config(4),
				Check:  o.queueHas(ns, "q", map[string]any{"max_concurrency": 4.0, "paused": true}),
			},
			{
				PreConfig: func() {
					m.Decide(func(call string, n int) faulttest.Fate { return faulttest.Fate{Lose: call == "PUT queue" && n == 1} })
				},
				Config: config(5),
				Check:  o.queueHas(ns, "q", map[string]any{"max_concurrency": 5.0}),
			},
		},
	})
}

func TestQueue_ThatExistsIsTakenOverWithItsJobs(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	ns := name(t, "adopt")
	head := block(s, "") + namespaceHCL(ns, ``)
	o := s.other()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             o.namespacesGone(ns),
		Steps: []resource.TestStep{
			{Config: head},
			{
				PreConfig: func() {
					o.mustQueue(t, http.MethodPut, ns, "/api/v1/queues/q", map[string]any{"max_concurrency": 2})
				},
				Config: head + queueHCL("q", nsAddr+".id", ``),
				Check:  resource.TestCheckNoResourceAttr(queueAddr, "max_concurrency"),
			},
		},
	})
}
