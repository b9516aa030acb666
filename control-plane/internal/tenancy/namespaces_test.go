package tenancy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

func (w *world) namespaceFor(t *testing.T, ctx context.Context, name string) *cloudv1.Namespace {
	t.Helper()
	return must(w.CreateNamespace(ctx, &cloudv1.CreateNamespaceRequest{Name: name}))(t).GetNamespace()
}

func TestCreateNamespace_LeavesRowAuditAndOutboxTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	n := w.namespaceFor(t, ctx, "orders")
	if n.GetSync() != cloudv1.Sync_SYNC_PENDING || n.GetGeneration() != 1 || n.GetEndpoint() != "http://corvo.test:8080/t/acme" || n.GetRegion() != "cell-1" {
		t.Errorf("%v", n)
	}
	if rows := w.outbox(t); len(rows) != 1 || rows[0].Kind != store.OutboxNamespace || rows[0].Subject != n.GetId() {
		t.Errorf("outbox %v", rows)
	}
	log := w.auditOf(t, ctx)
	if len(log) != 1 || log[0].GetAction() != "namespace.create" || log[0].GetTargetId() != n.GetId() || log[0].GetActorType() != "user" ||
		log[0].GetChanges().GetFields()["name"].GetStructValue().GetFields()["after"].GetStringValue() != "orders" {
		t.Errorf("audit %v", log)
	}
	if w.woken.Load() == 0 {
		t.Error("nobody told the reconciler")
	}
	// A refused call leaves nothing.
	_, err := w.CreateNamespace(ctx, &cloudv1.CreateNamespaceRequest{Name: "orders"})
	refused(t, err, "NAMESPACE_EXISTS")
	if len(w.outbox(t)) != 0 || len(w.auditOf(t, ctx)) != 1 {
		t.Error("a refused call left a trace")
	}
}

func TestCreateNamespace_IsReadyWhenTheCellHasConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ObserveWait = 10 * time.Second
	ctx := w.tenant(t, "acme", plans.First)(owner)
	// A cell that confirms everything as soon as it is told.
	w.Wake = func() {
		for _, o := range w.outbox(t) {
			if err := w.Store.Tenant(t.Context(), o.TenantID, func(tx *store.Tx) error { return tx.ObserveNamespace(t.Context(), o.TenantID, o.Subject, 1) }); err != nil {
				t.Error(err)
			}
		}
	}
	if n := w.namespaceFor(t, ctx, "orders"); n.GetSync() != cloudv1.Sync_SYNC_READY || n.GetObservedGeneration() != 1 {
		t.Errorf("%v", n)
	}
}

func TestDeleteNamespace_WaitsForTheCellToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	n := w.namespaceFor(t, ctx, "orders")
	w.outbox(t)
	w.ObserveWait = 10 * time.Second
	var cell sync.WaitGroup
	defer cell.Wait() // The caller is answered before the cell's call returns.
	w.Wake = func() {
		cell.Go(func() {
			time.Sleep(50 * time.Millisecond) // A cell that takes its time.
			tenantID := access.From(ctx).TenantID
			if err := w.Store.Tenant(t.Context(), tenantID, func(tx *store.Tx) error { return tx.ObserveNamespace(t.Context(), tenantID, n.GetId(), 2) }); err != nil {
				t.Error(err)
			}
		})
	}
	must(w.DeleteNamespace(ctx, &cloudv1.DeleteNamespaceRequest{Namespace: "orders"}))(t)
	if got := w.observed(t, ctx, n.GetId()); got != 2 {
		t.Errorf("it returned when the cell was at generation %d", got)
	}
}

// observed is the generation that the cell confirmed.
func (w *world) observed(t *testing.T, ctx context.Context, id string) (g int64) {
	t.Helper()
	err := w.Store.ReadTenant(t.Context(), access.From(ctx).TenantID, func(tx *store.Tx) error {
		n, err := tx.GetNamespace(t.Context(), access.From(ctx).TenantID, id)
		g = n.Observed
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestCreateNamespace_SameRequestIDGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	ctx := people(owner)
	r := &cloudv1.CreateNamespaceRequest{Tenant: "acme", RequestId: uuid, Name: "orders", Labels: map[string]string{"a": "1", "b": "2"}}
	first := must(w.CreateNamespace(ctx, r))(t)
	byID := proto.Clone(r).(*cloudv1.CreateNamespaceRequest)
	byID.Tenant = access.From(ctx).TenantID
	for range 3 {
		if again := must(w.CreateNamespace(ctx, byID))(t); again.GetNamespace().GetId() != first.GetNamespace().GetId() {
			t.Errorf("%v, first %v", again, first)
		}
	}
	other := proto.Clone(r).(*cloudv1.CreateNamespaceRequest)
	other.Name = "billing"
	_, err := w.CreateNamespace(ctx, other)
	field(t, err, "request_id")
	// Somebody else's request with the same id is a different one.
	_, err = w.CreateNamespace(people(admin), r)
	refused(t, err, "NAMESPACE_EXISTS")
	r.RequestId = "not-a-uuid"
	_, err = w.CreateNamespace(ctx, r)
	field(t, err, "request_id")
}

func TestCreateNamespace_RefusesFieldByField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	for name, tc := range map[string]struct {
		r     *cloudv1.CreateNamespaceRequest
		field string
	}{
		"no name":        {&cloudv1.CreateNamespaceRequest{}, "name"},
		"separator":      {&cloudv1.CreateNamespaceRequest{Name: "a::b"}, "name"},
		"label key":      {&cloudv1.CreateNamespaceRequest{Name: "abc", Labels: map[string]string{"A B": ""}}, "labels"},
		"long label":     {&cloudv1.CreateNamespaceRequest{Name: "abc", Labels: map[string]string{"a": strings.Repeat("x", 257)}}, "labels"},
		"many labels":    {&cloudv1.CreateNamespaceRequest{Name: "abc", Labels: many}, "labels"},
		"another region": {&cloudv1.CreateNamespaceRequest{Name: "abc", Region: "moon"}, "region"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.CreateNamespace(ctx, tc.r)
			field(t, err, tc.field)
		})
	}
}

func TestCreateNamespace_PlanLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	for i := range freeNamespaces {
		w.namespaceFor(t, ctx, fmt.Sprintf("n-%d-x", i))
	}
	_, err := w.CreateNamespace(ctx, &cloudv1.CreateNamespaceRequest{Name: "one-more"})
	refused(t, err, "PLAN_LIMIT")
	free := w.tenant(t, "operator", plans.Operators)(owner)
	for i := range freeNamespaces + 1 {
		w.namespaceFor(t, free, fmt.Sprintf("n-%d-x", i))
	}
}

func TestListNamespaces_PagesWithoutGapAndTokensAreBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	ctx := people(owner)
	for i := range 7 {
		w.namespaceFor(t, ctx, fmt.Sprintf("n-%d-x", i))
	}
	var got []string
	var token, second string
	for {
		res := must(w.ListNamespaces(ctx, &cloudv1.ListNamespacesRequest{PageSize: 3, PageToken: token}))(t)
		for _, n := range res.GetNamespaces() {
			got = append(got, n.GetName())
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
		second = token
	}
	if len(got) != 7 || got[0] != "n-0-x" || got[6] != "n-6-x" {
		t.Errorf("%v", got)
	}
	for name, ctx := range map[string]context.Context{"another caller": people(admin), "another tenant": w.tenant(t, "other", plans.First)(owner)} {
		t.Run(name, func(t *testing.T) {
			_, err := w.ListNamespaces(ctx, &cloudv1.ListNamespacesRequest{PageSize: 3, PageToken: second})
			field(t, err, "page_token")
		})
	}
	_, err := w.ListApiKeys(ctx, &cloudv1.ListApiKeysRequest{PageToken: second})
	field(t, err, "page_token")
	_, err = w.ListNamespaces(ctx, &cloudv1.ListNamespacesRequest{PageSize: -1})
	field(t, err, "page_size")
	if res := must(w.ListNamespaces(ctx, &cloudv1.ListNamespacesRequest{PageSize: 1 << 30}))(t); len(res.GetNamespaces()) != 7 {
		t.Errorf("a large page size is cut down, not refused: %d", len(res.GetNamespaces()))
	}
}

func TestUpdateNamespace_MaskAndEtag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	n := w.namespaceFor(t, ctx, "orders")
	w.namespaceFor(t, ctx, "billing")
	w.outbox(t)
	update := func(r *cloudv1.UpdateNamespaceRequest, paths ...string) (*cloudv1.Namespace, error) {
		r.Namespace, r.UpdateMask = n.GetId(), &fieldmaskpb.FieldMask{Paths: paths}
		res, err := w.UpdateNamespace(ctx, r)
		return res.GetNamespace(), err
	}
	// What the mask does not name stays, and the cell does not know labels.
	got := must(update(&cloudv1.UpdateNamespaceRequest{Name: "ignored", Labels: map[string]string{"team": "a"}, Etag: n.GetEtag()}, "labels"))(t)
	if got.GetName() != "orders" || got.GetLabels()["team"] != "a" || got.GetEtag() == n.GetEtag() || got.GetGeneration() != 1 || len(w.outbox(t)) != 0 {
		t.Errorf("%v", got)
	}
	_, err := update(&cloudv1.UpdateNamespaceRequest{Etag: n.GetEtag()}, "labels")
	refused(t, err, "ETAG_MISMATCH")
	_, err = update(&cloudv1.UpdateNamespaceRequest{})
	field(t, err, "update_mask")
	_, err = update(&cloudv1.UpdateNamespaceRequest{}, "tenant_id")
	field(t, err, "update_mask")
	_, err = update(&cloudv1.UpdateNamespaceRequest{Name: "billing"}, "name")
	refused(t, err, "NAMESPACE_EXISTS")
	got = must(update(&cloudv1.UpdateNamespaceRequest{Name: "sales"}, "name"))(t)
	if got.GetName() != "sales" || got.GetGeneration() != 2 || len(w.outbox(t)) != 1 {
		t.Errorf("a new name is for the cell, too: %v", got)
	}
}

func TestDeleteNamespace_ProtectionNamesAndKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	n := must(w.CreateNamespace(ctx, &cloudv1.CreateNamespaceRequest{Name: "orders", DeleteProtection: true}))(t).GetNamespace()
	other := w.namespaceFor(t, ctx, "billing")
	key := func(namespaces ...string) *cloudv1.ApiKey {
		return must(w.CreateApiKey(ctx, &cloudv1.CreateApiKeyRequest{
			Name: "k", Kind: cloudv1.KeyKind_KEY_KIND_JOBS, Roles: []string{permission.RoleWorker}, Namespaces: namespaces,
		}))(t).GetApiKey()
	}
	alone, both, all := key("orders"), key("orders", "billing"), key()
	_, err := w.DeleteNamespace(ctx, &cloudv1.DeleteNamespaceRequest{Namespace: "orders"})
	refused(t, err, "DELETE_PROTECTED")
	must(w.UpdateNamespace(ctx, &cloudv1.UpdateNamespaceRequest{Namespace: "orders", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"delete_protection"}}}))(t)
	_, err = w.DeleteNamespace(ctx, &cloudv1.DeleteNamespaceRequest{Namespace: "orders", Etag: n.GetEtag()})
	refused(t, err, "ETAG_MISMATCH")
	must(w.DeleteNamespace(ctx, &cloudv1.DeleteNamespaceRequest{Namespace: "orders"}))(t)

	get := func(k *cloudv1.ApiKey) *cloudv1.ApiKey {
		return must(w.GetApiKey(ctx, &cloudv1.GetApiKeyRequest{KeyId: k.GetId()}))(t).GetApiKey()
	}
	if got := get(alone); got.GetRevokedAt() == nil {
		t.Errorf("a key of the deleted namespace alone lives on: %v", got)
	}
	if got := get(both); got.GetRevokedAt() != nil || len(got.GetNamespaceIds()) != 1 || got.GetNamespaceIds()[0] != other.GetId() || got.GetGeneration() != 2 {
		t.Errorf("a key of two namespaces: %v", got)
	}
	if got := get(all); got.GetRevokedAt() != nil || got.GetGeneration() != 1 {
		t.Errorf("a key of all namespaces: %v", got)
	}
	for _, r := range []string{"orders", n.GetId()} {
		_, err = w.GetNamespace(ctx, &cloudv1.GetNamespaceRequest{Namespace: r})
		refused(t, err, "NOT_FOUND")
		_, err = w.DeleteNamespace(ctx, &cloudv1.DeleteNamespaceRequest{Namespace: r})
		refused(t, err, "NOT_FOUND")
		must(w.DeleteNamespace(ctx, &cloudv1.DeleteNamespaceRequest{Namespace: r, AllowMissing: true}))(t)
	}
	if again := w.namespaceFor(t, ctx, "orders"); again.GetId() == n.GetId() {
		t.Error("the name came back with the old id")
	}
}
