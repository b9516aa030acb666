package acceptance

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/faulttest"
)

const nsAddr = "corvo_namespace.this"

func namespaceHCL(name, more string) string {
	return fmt.Sprintf("resource \"corvo_namespace\" \"this\" {\n  name = %q\n  %s\n}\n", name, more)
}

// find is nil if there is no such namespace.
func (o other) find(ctx context.Context, nameOrID string) (*cloudv1.Namespace, error) {
	res, err := o.namespaces.GetNamespace(ctx, connect.NewRequest(&cloudv1.GetNamespaceRequest{Namespace: nameOrID}))
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return res.Msg.GetNamespace(), nil
}

func (o other) relabel(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	_, err := o.namespaces.UpdateNamespace(t.Context(), connect.NewRequest(&cloudv1.UpdateNamespaceRequest{
		Namespace: name, Labels: labels, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
}

// namespacesGone fails if any of the names still exists.
func (o other) namespacesGone(names ...string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		for _, n := range names {
			ns, err := o.find(context.Background(), n)
			if err != nil {
				return err
			}
			if ns != nil {
				return fmt.Errorf("namespace %s is still there", n)
			}
		}
		return nil
	}
}

func TestNamespace_IsCreatedChangedImportedAndDestroyed(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	a, b := name(t, "life"), name(t, "lively")
	head := block(s, "")
	same := statecheck.CompareValue(compareSame())
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(a, b),
		Steps: []resource.TestStep{
			{
				Config: head + namespaceHCL(a, `labels = { team = "orders" }`),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("id"), knownvalue.StringRegexp(regexp.MustCompile(`^ns_[0-9A-Z]{26}$`))),
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("tenant_id"), knownvalue.StringRegexp(regexp.MustCompile(`^tn_[0-9A-Z]{26}$`))),
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("status"), knownvalue.StringExact("ready")),
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("endpoint"), knownvalue.StringExact(s.url())),
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("delete_protection"), knownvalue.Bool(false)),
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("region"), knownvalue.NotNull()),
					same.AddStateValue(nsAddr, tfjsonpath.New("id")),
				},
			},
			{ResourceName: nsAddr, ImportState: true, ImportStateVerify: true},
			{ResourceName: nsAddr, ImportState: true, ImportStateVerify: true, ImportStateId: a},
			{
				Config:            head + namespaceHCL(b, `labels = { team = "orders" }`),
				ConfigPlanChecks:  updates(nsAddr),
				ConfigStateChecks: []statecheck.StateCheck{same.AddStateValue(nsAddr, tfjsonpath.New("id"))},
			},
			{
				Config:           head + namespaceHCL(b, `labels = { team = "billing", tier = "1" }`),
				ConfigPlanChecks: updates(nsAddr),
			},
			{
				Config:           head + namespaceHCL(b, `delete_protection = true`),
				ConfigPlanChecks: updates(nsAddr),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("labels"), knownvalue.Null()),
				},
			},
			{
				Config:      head,
				ExpectError: regexp.MustCompile(`(?s)The namespace is protected.*delete_protection = false`),
			},
			{
				Config:            head + namespaceHCL(b, ``),
				ConfigPlanChecks:  updates(nsAddr),
				ConfigStateChecks: []statecheck.StateCheck{same.AddStateValue(nsAddr, tfjsonpath.New("id"))},
			},
		},
	})
}

// updates expects an in-place update.
func updates(addr string) resource.ConfigPlanChecks {
	return planned(addr, plancheck.ResourceActionUpdate)
}

func planned(addr string, action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(addr, action)}}
}

// Terraform distinguishes {} from null, the service does not: going from one to the other
// changes the state only, and there is no permanent diff.
func TestNamespace_EmptyLabelsAreNoLabels(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "labels")
	m := startFaultProxy(t, s)
	head := block(s, m.URL)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n),
		Steps: []resource.TestStep{
			{Config: head + namespaceHCL(n, `labels = {}`)},
			{Config: head + namespaceHCL(n, ``)},
			{Config: head + namespaceHCL(n, `labels = {}`)},
			{Config: head + namespaceHCL(n, `labels = { a = "1" }`), ConfigPlanChecks: updates(nsAddr)},
			{Config: head + namespaceHCL(n, ``), ConfigPlanChecks: updates(nsAddr)},
			{Config: head + namespaceHCL(n, `labels = {}`)},
		},
	})
	if n := m.Calls()["UpdateNamespace"]; n != 2 {
		t.Fatalf("changed %d times, want 2", n)
	}
}

func TestNamespace_DriftIsSeenAndCorrected(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "drift")
	config := block(s, "") + namespaceHCL(n, `labels = { team = "a" }`)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n),
		Steps: []resource.TestStep{
			{Config: config},
			{
				PreConfig:        func() { s.other().relabel(t, n, map[string]string{"team": "b", "x": "y"}) },
				Config:           config,
				ConfigPlanChecks: updates(nsAddr),
				Check:            resource.TestCheckResourceAttr(nsAddr, "labels.team", "a"),
			},
			{
				PreConfig: func() {
					if _, err := s.other().namespaces.DeleteNamespace(t.Context(), connect.NewRequest(&cloudv1.DeleteNamespaceRequest{Namespace: n})); err != nil {
						t.Fatal(err)
					}
				},
				Config:           config,
				ConfigPlanChecks: planned(nsAddr, plancheck.ResourceActionCreate),
			},
		},
	})
}

func TestNamespace_NameThatIsTakenTellsHowToImport(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "taken")
	o := s.other()
	res, err := o.namespaces.CreateNamespace(t.Context(), connect.NewRequest(&cloudv1.CreateNamespaceRequest{Name: n}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := o.namespaces.DeleteNamespace(context.Background(), connect.NewRequest(&cloudv1.DeleteNamespaceRequest{Namespace: n})); err != nil {
			t.Error(err)
		}
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{{
			Config:      block(s, "") + namespaceHCL(n, ``),
			ExpectError: regexp.MustCompile(`(?s)it already exists.*terraform import\s+<address>\s+` + res.Msg.GetNamespace().GetId() + `.*Request id:`),
		}},
	})
}

// A run that dies before the response, and the next run, make one namespace.
func TestNamespace_LostAnswerIsFoundByTheNextRun(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "lost")
	m := startFaultProxy(t, s)
	var made string
	config := block(s, m.URL, `max_retries = 0`) + namespaceHCL(n, `labels = { a = "1", b = "2" }`)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n),
		Steps: []resource.TestStep{
			{
				PreConfig: func() {
					m.Decide(func(call string, _ int) faulttest.Fate { return faulttest.Fate{Lose: call == "CreateNamespace"} })
				},
				Config:      config,
				ExpectError: regexp.MustCompile(`the service can't be\s+reached`),
			},
			{
				PreConfig: func() {
					m.Decide(nil)
					ns, err := s.other().find(t.Context(), n)
					if err != nil || ns == nil {
						t.Fatalf("the first run should have made it: %v %v", ns, err)
					}
					made = ns.GetId()
				},
				Config: config,
				Check: func(st *terraform.State) error {
					if got := st.RootModule().Resources[nsAddr].Primary.ID; got != made {
						return fmt.Errorf("state has %s, the first run made %s", got, made)
					}
					return nil
				},
			},
		},
	})
}

// What an earlier run made may be in use by now: it is imported, and never taken over in
// silence.
func TestNamespace_OneOfAnEarlierRunIsNotTakenOver(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	o, n := s.other(), name(t, "earlier")
	m := startFaultProxy(t, s)
	config := block(s, m.URL, `max_retries = 0`) + namespaceHCL(n, ``)
	t.Cleanup(func() {
		if _, err := o.namespaces.DeleteNamespace(context.Background(), connect.NewRequest(&cloudv1.DeleteNamespaceRequest{Namespace: n, AllowMissing: true})); err != nil {
			t.Error(err)
		}
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{
				PreConfig: func() {
					m.Decide(func(call string, _ int) faulttest.Fate { return faulttest.Fate{Lose: call == "CreateNamespace"} })
				},
				Config:      config,
				ExpectError: regexp.MustCompile(`the service can't be\s+reached`),
			},
			{
				PreConfig: func() {
					m.Decide(func(call string, _ int) faulttest.Fate { return faulttest.Fate{Edit: earlier(call)} })
				},
				Config:      config,
				ExpectError: regexp.MustCompile(`(?s)it already exists.*terraform import\s+<address>\s+ns_`),
			},
		},
	})
}

// earlier makes namespaces look as if they were made ten minutes before.
func earlier(call string) func(int, []byte) []byte {
	before := func(ns *cloudv1.Namespace) {
		ns.CreatedAt = timestamppb.New(ns.GetCreatedAt().AsTime().Add(-10 * time.Minute))
	}
	switch call {
	case "CreateNamespace":
		return edited(&cloudv1.CreateNamespaceResponse{}, func(r *cloudv1.CreateNamespaceResponse) { before(r.GetNamespace()) })
	case "GetNamespace":
		return edited(&cloudv1.GetNamespaceResponse{}, func(r *cloudv1.GetNamespaceResponse) { before(r.GetNamespace()) })
	}
	return nil
}

// A name that a rename has set free is another namespace's, although the one that had it
// was asked for in the same words.
func TestNamespace_ANameThatWasRenamedAwayIsANewOne(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "renamed")
	head := block(s, "")
	second := fmt.Sprintf("resource \"corvo_namespace\" \"second\" {\n  name = %q\n}\n", n)
	differ := statecheck.CompareValue(compareDiffer())
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n, n+"-old"),
		Steps: []resource.TestStep{
			{Config: head + namespaceHCL(n, ``)},
			{Config: head + namespaceHCL(n+"-old", ``), ConfigPlanChecks: updates(nsAddr), ConfigStateChecks: []statecheck.StateCheck{differ.AddStateValue(nsAddr, tfjsonpath.New("id"))}},
			{
				Config: head + namespaceHCL(n+"-old", ``) + second,
				ConfigStateChecks: []statecheck.StateCheck{
					differ.AddStateValue("corvo_namespace.second", tfjsonpath.New("id")),
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("name"), knownvalue.StringExact(n+"-old")),
				},
			},
		},
	})
}

// Two blocks never have one namespace: the one that is removed would take the other's with
// it.
func TestNamespace_TwoBlocksOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "twice")
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n),
		Steps: []resource.TestStep{
			{
				Config:      block(s, "") + namespaceHCL(n, ``) + fmt.Sprintf("resource \"corvo_namespace\" \"second\" {\n  name = %q\n}\n", n),
				ExpectError: regexp.MustCompile(`(?s)it already exists.*terraform import\s+<address>\s+ns_`),
			},
		},
	})
}

func TestNamespace_LostAnswersAreAskedForAgainInOneRun(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "again")
	m := startFaultProxy(t, s)
	head := block(s, m.URL)
	m.Decide(func(call string, n int) faulttest.Fate {
		return faulttest.Fate{Lose: n == 1 && (call == "CreateNamespace" || call == "UpdateNamespace" || call == "DeleteNamespace")}
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n, n+"-2"),
		Steps: []resource.TestStep{
			{Config: head + namespaceHCL(n, ``)},
			// The repeated change meets its own etag conflict and sees that it is done.
			{Config: head + namespaceHCL(n+"-2", `labels = { a = "1" }`), ConfigPlanChecks: updates(nsAddr)},
		},
	})
	if m.Calls()["CreateNamespace"] != 2 || m.Calls()["UpdateNamespace"] != 2 || m.Calls()["DeleteNamespace"] != 2 {
		t.Fatalf("calls: %v", m.Calls())
	}
}

// Created, destroyed and created again within a day: the service repeats its first answer
// to the first request id, which is about a namespace that is gone.
func TestNamespace_CreatedAgainAfterDestroyIsANewOne(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "phoenix")
	head := block(s, "")
	differ := statecheck.CompareValue(compareDiffer())
	step := func() resource.TestStep {
		return resource.TestStep{
			Config:            head + namespaceHCL(n, ``),
			ConfigStateChecks: []statecheck.StateCheck{differ.AddStateValue(nsAddr, tfjsonpath.New("id"))},
		}
	}
	gone := resource.TestStep{Config: head, Check: s.other().namespacesGone(n)}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n),
		Steps:                    []resource.TestStep{step(), gone, step(), gone, step()},
	})
}

// A resource that is created but not in effect yet stays in the state, untainted, and the
// next apply continues to wait.
func TestNamespace_AnInterruptedWaitContinues(t *testing.T) {
	t.Parallel()
	s := cloud(t)
	n := name(t, "slow")
	m := startFaultProxy(t, s)
	config := block(s, m.URL, `operation_timeout = "2s"`) + namespaceHCL(n, ``)
	same := statecheck.CompareValue(compareSame())
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             s.other().namespacesGone(n),
		Steps: []resource.TestStep{
			{
				PreConfig: func() {
					m.Decide(func(call string, _ int) faulttest.Fate { return faulttest.Fate{Edit: pending(call)} })
				},
				Config:             config,
				ExpectNonEmptyPlan: true, // It will wait.
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("status"), knownvalue.StringExact("pending")),
					same.AddStateValue(nsAddr, tfjsonpath.New("id")),
				},
			},
			{
				// It becomes ready after some more looks.
				PreConfig: func() {
					m.Decide(func(call string, n int) (f faulttest.Fate) {
						if call == "GetNamespace" && n < 5 {
							f.Edit = pending(call)
						}
						return f
					})
				},
				Config:           config,
				ConfigPlanChecks: updates(nsAddr),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(nsAddr, tfjsonpath.New("status"), knownvalue.StringExact("ready")),
					same.AddStateValue(nsAddr, tfjsonpath.New("id")),
				},
			},
		},
	})
}

// pending makes namespaces look as if the cell did not know them yet.
func pending(call string) func(int, []byte) []byte {
	switch call {
	case "CreateNamespace":
		return edited(&cloudv1.CreateNamespaceResponse{}, func(r *cloudv1.CreateNamespaceResponse) {
			r.Namespace.Sync = cloudv1.Sync_SYNC_PENDING
		})
	case "GetNamespace":
		return edited(&cloudv1.GetNamespaceResponse{}, func(r *cloudv1.GetNamespaceResponse) {
			r.Namespace.Sync = cloudv1.Sync_SYNC_PENDING
		})
	}
	return nil
}
