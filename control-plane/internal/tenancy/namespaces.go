package tenancy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/names"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	labelsMax     = 64
	labelRunesMax = 256
	labelKeyForm  = `^[a-z][a-z0-9._/-]{0,62}$`
)

func (s *Service) namespaceMessage(n store.Namespace, t placed) *cloudv1.Namespace {
	return &cloudv1.Namespace{
		Id: n.ID, TenantId: n.TenantID, Name: n.Name, Labels: n.Labels, DeleteProtection: n.DeleteProtection, Region: cmp.Or(n.Region, t.Cell),
		Sync: syncOf(n.Generation, n.Observed, !n.DeletedAt.IsZero()), Generation: uint64(n.Generation), ObservedGeneration: uint64(n.Observed),
		CreatedAt: stamp(n.CreatedAt), UpdatedAt: stamp(n.UpdatedAt), Etag: etag.Of(n.Version, n.ID), Endpoint: s.URLs.Tenant(t.Name),
		Retention: ownRetention(n.Retention), EffectiveRetention: retentionMessage(effectiveRetention(t.may, n.Retention)),
		RetentionMax: retentionMessage(mostKept(t.may)),
	}
}

// CreateNamespace makes a namespace.
func (s *Service) CreateNamespace(ctx context.Context, r *cloudv1.CreateNamespaceRequest) (*cloudv1.CreateNamespaceResponse, error) {
	call, err := once.Of(ctx, "CreateNamespace", r)
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(r.GetName(), r.GetLabels(), r.GetRetention()); err != nil {
		return nil, err
	}
	res := new(cloudv1.CreateNamespaceResponse)
	repeated, err := call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		n, err := s.insertNamespace(ctx, tx, r)
		if err != nil {
			return err
		}
		t, err := s.placed(ctx, tx)
		if err != nil {
			return err
		}
		res.Namespace = s.namespaceMessage(n, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, s.refresh(ctx, res, repeated)
}

// refresh waits until the namespace of an answer is usable and shows it as it is then.
// One that was deleted since a repeated call's first answer stays as it was shown.
func (s *Service) refresh(ctx context.Context, res *cloudv1.CreateNamespaceResponse, repeated bool) error {
	now, err := s.namespaceObserved(ctx, res.GetNamespace().GetId(), int64(res.GetNamespace().GetGeneration()))
	if gone(err) && repeated {
		return nil
	}
	res.Namespace = now
	return err
}

// checkNamespace checks what people choose about a namespace.
func checkNamespace(name string, labels map[string]string, r *cloudv1.Retention) error {
	var wrong []fault.Field
	if p := names.Namespace(name); p != "" {
		wrong = append(wrong, fault.Field{Name: "name", Problem: p})
	}
	return fault.InvalidFields(slices.Concat(wrong, checkLabels(labels), checkRetention(r)))
}

func checkLabels(labels map[string]string) (wrong []fault.Field) {
	if len(labels) > labelsMax {
		wrong = append(wrong, fault.Field{Name: "labels", Problem: fmt.Sprintf("can't have more than %d", labelsMax)})
	}
	form := regexp.MustCompile(labelKeyForm)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if !form.MatchString(k) {
			wrong = append(wrong, fault.Field{Name: "labels", Problem: fmt.Sprintf("key %q must match %s", k, labelKeyForm)})
		}
		if v := labels[k]; !utf8.ValidString(v) || utf8.RuneCountInString(v) > labelRunesMax {
			wrong = append(wrong, fault.Field{Name: "labels", Problem: fmt.Sprintf("the value of %q can't have more than %d characters", k, labelRunesMax)})
		}
	}
	return wrong
}

func (s *Service) insertNamespace(ctx context.Context, tx *store.Tx, r *cloudv1.CreateNamespaceRequest) (store.Namespace, error) {
	tenantID, now := access.From(ctx).TenantID, s.Now()
	t, err := s.placed(ctx, tx)
	if err != nil {
		return store.Namespace{}, err
	}
	if r.GetRegion() != "" && r.GetRegion() != t.Cell {
		return store.Namespace{}, fault.InvalidField("region", "the namespaces of tenant %s are in %s; leave region out", t.Name, t.Cell)
	}
	if err := planKeeps(t, r.GetRetention()); err != nil {
		return store.Namespace{}, err
	}
	if err := s.freeName(ctx, tx, tenantID, r.GetName()); err != nil {
		return store.Namespace{}, err
	}
	if err := plans.Another(ctx, tx, tenantID, now, plans.Namespaces, 0); err != nil {
		return store.Namespace{}, err
	}
	n := store.Namespace{
		TenantID: tenantID, ID: s.IDs.New(ids.Namespace, now), Name: r.GetName(), Labels: r.GetLabels(), DeleteProtection: r.GetDeleteProtection(),
		Region: t.Cell, Retention: storedRetention(r.GetRetention()), CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1,
	}
	fields := change.Fields{
		"name": {After: n.Name}, "labels": {After: n.Labels}, "delete_protection": {After: n.DeleteProtection}, "region": {After: n.Region},
	}
	if n.Retention != (store.Retention{}) {
		fields["retention"] = store.Change{After: n.Retention}
	}
	err = change.Make(ctx, s.Kit, tx, "namespace.create", change.InsertNamespace(n), fields)
	if errors.Is(err, store.ErrExists) {
		err = nameTaken(r.GetName())
	}
	return n, err
}

func (s *Service) freeName(ctx context.Context, tx *store.Tx, tenantID, name string) error {
	_, err := tx.GetNamespaceByName(ctx, tenantID, name)
	switch {
	case err == nil:
		return nameTaken(name)
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return err
}

func nameTaken(name string) error {
	return fault.New(fault.Exists, "NAMESPACE_EXISTS", "this tenant already has a namespace %s; choose another name", name)
}

// namespaceObserved waits for a generation and gives the namespace as it is then.
func (s *Service) namespaceObserved(ctx context.Context, id string, generation int64) (*cloudv1.Namespace, error) {
	tenantID := access.From(ctx).TenantID
	if err := s.awaitNamespace(ctx, tenantID, id, generation); err != nil {
		return nil, err
	}
	n, t, err := s.namespace(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.namespaceMessage(n, t), nil
}

func (s *Service) awaitNamespace(ctx context.Context, tenantID, id string, generation int64) error {
	return s.awaited(ctx, func(tx *store.Tx) (bool, error) {
		n, err := tx.GetNamespace(ctx, tenantID, id)
		return n.Observed >= generation, err
	})
}

// placed is a tenant with what it may have: what its namespaces stand in.
type placed struct {
	store.Tenant
	may plans.Entitlements
}

// placed reads the caller's tenant.
func (s *Service) placed(ctx context.Context, tx *store.Tx) (p placed, err error) {
	if p.Tenant, err = findTenant(ctx, tx); err == nil {
		p.may, err = plans.Of(ctx, tx, p.ID, s.Now())
	}
	return p, err
}

// namespace reads a namespace and its tenant.
func (s *Service) namespace(ctx context.Context, nameOrID string) (n store.Namespace, t placed, _ error) {
	n, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (n store.Namespace, err error) {
		if t, err = s.placed(ctx, tx); err != nil {
			return n, err
		}
		return findNamespace(ctx, tx, nameOrID)
	})
	return n, t, err
}

// findNamespace finds a living namespace of the caller's tenant, by name or id, in which the
// caller has a right.
func findNamespace(ctx context.Context, tx *store.Tx, nameOrID string) (store.Namespace, error) {
	c := access.From(ctx)
	n, err := principals.FindNamespace(ctx, tx, c.TenantID, nameOrID)
	if err == nil && !c.Knows(n.ID) {
		err = store.ErrNotFound
	}
	return n, missing(err, "namespace")
}

// mayIn refuses what the caller may not do in a namespace that they know.
func mayIn(ctx context.Context, p permission.Permission, n store.Namespace) error {
	if c := access.From(ctx); !c.MayIn(p, n.ID) {
		return fault.New(fault.Denied, "PERMISSION_DENIED", "you don't have the permission %s in namespace %s of tenant %s; ask an owner or admin for a role that has it", p, n.Name, c.Tenant)
	}
	return nil
}

// GetNamespace tells about one namespace.
func (s *Service) GetNamespace(ctx context.Context, r *cloudv1.GetNamespaceRequest) (*cloudv1.GetNamespaceResponse, error) {
	n, t, err := s.namespace(ctx, r.GetNamespace())
	return &cloudv1.GetNamespaceResponse{Namespace: s.namespaceMessage(n, t)}, err
}

// ListNamespaces lists by name.
func (s *Service) ListNamespaces(ctx context.Context, r *cloudv1.ListNamespacesRequest) (*cloudv1.ListNamespacesResponse, error) {
	var t placed
	shown, next, err := listing.Of[store.Namespace, *cloudv1.Namespace]{
		Method: "ListNamespaces", Key: func(n store.Namespace) string { return n.Name },
		Show: func(n store.Namespace) *cloudv1.Namespace { return s.namespaceMessage(n, t) },
		Page: func(tx *store.Tx, tenantID string, p store.Page) (_ []store.Namespace, err error) {
			if t, err = s.placed(ctx, tx); err != nil {
				return nil, err
			}
			return known(ctx, p, func(p store.Page) ([]store.Namespace, error) { return tx.ListNamespaces(ctx, tenantID, p) })
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListNamespacesResponse{Namespaces: shown, NextPageToken: next}, err
}

// known lists the namespaces in which the caller has a right, as many as a page has.
func known(ctx context.Context, p store.Page, list func(store.Page) ([]store.Namespace, error)) (out []store.Namespace, _ error) {
	c := access.From(ctx)
	for {
		page, err := list(p)
		if err != nil {
			return nil, err
		}
		for _, n := range page {
			if c.Knows(n.ID) && len(out) < p.Limit {
				out = append(out, n)
			}
		}
		if len(page) < p.Limit || len(out) == p.Limit {
			return out, nil
		}
		p.After = page[len(page)-1].Name
	}
}

// UpdateNamespace changes the fields that the mask names.
func (s *Service) UpdateNamespace(ctx context.Context, r *cloudv1.UpdateNamespaceRequest) (*cloudv1.UpdateNamespaceResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	err := fault.InvalidMask(paths, "name", "labels", "delete_protection", "retention")
	if err != nil {
		return nil, err
	}
	var n store.Namespace
	var t placed
	err = s.Write(ctx, func(tx *store.Tx) (err error) {
		if n, err = findNamespace(ctx, tx, r.GetNamespace()); err != nil {
			return err
		}
		if err := mayIn(ctx, permission.NamespaceUpdate, n); err != nil {
			return err
		}
		if t, err = s.placed(ctx, tx); err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), etag.Of(n.Version, n.ID), "this"); err != nil {
			return err
		}
		return s.changeNamespace(ctx, tx, t, &n, r, paths)
	})
	if err != nil {
		return nil, err
	}
	if n.Observed >= n.Generation {
		return &cloudv1.UpdateNamespaceResponse{Namespace: s.namespaceMessage(n, t)}, nil
	}
	m, err := s.namespaceObserved(ctx, n.ID, n.Generation)
	return &cloudv1.UpdateNamespaceResponse{Namespace: m}, err
}

func (s *Service) changeNamespace(ctx context.Context, tx *store.Tx, t placed, n *store.Namespace, r *cloudv1.UpdateNamespaceRequest, paths []string) error {
	was, record, changes := *n, change.UpdateNamespace(n), change.Fields{}
	for _, p := range paths {
		switch p {
		case "name":
			n.Name = r.GetName()
		case "labels":
			n.Labels = r.GetLabels()
			changes["labels"] = store.Change{Before: was.Labels, After: n.Labels}
		case "delete_protection":
			n.DeleteProtection = r.GetDeleteProtection()
			changes["delete_protection"] = store.Change{Before: was.DeleteProtection, After: n.DeleteProtection}
		case "retention":
			n.Retention = storedRetention(r.GetRetention())
			changes["retention"] = store.Change{Before: was.Retention, After: n.Retention}
		}
	}
	if err := checkNamespace(n.Name, n.Labels, ownRetention(n.Retention)); err != nil {
		return err
	}
	if n.Retention != was.Retention {
		if err := planKeeps(t, ownRetention(n.Retention)); err != nil {
			return err
		}
	}
	if n.Name != was.Name {
		if err := s.freeName(ctx, tx, n.TenantID, n.Name); err != nil {
			return err
		}
		changes["name"] = store.Change{Before: was.Name, After: n.Name}
		record = record.As(n.Name)
	}
	if n.Name != was.Name || n.Retention != was.Retention {
		record = record.InCell() // The cell goes by both.
	}
	err := change.Make(ctx, s.Kit, tx, "namespace.update", record, changes)
	if errors.Is(err, store.ErrExists) {
		return nameTaken(n.Name)
	}
	return err
}

// DeleteNamespace ends a namespace, and the keys that were good for it alone.
func (s *Service) DeleteNamespace(ctx context.Context, r *cloudv1.DeleteNamespaceRequest) (*cloudv1.DeleteNamespaceResponse, error) {
	var ended store.Namespace
	err := s.Write(ctx, func(tx *store.Tx) error {
		n, err := findNamespace(ctx, tx, r.GetNamespace())
		if err != nil {
			return err
		}
		if err := mayIn(ctx, permission.NamespaceDelete, n); err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), etag.Of(n.Version, n.ID), "this"); err != nil {
			return err
		}
		if n.DeleteProtection {
			return fault.New(fault.Conflict, "DELETE_PROTECTED", "namespace %s is protected from deletion; turn off its delete protection first", n.Name)
		}
		ended, err = s.endNamespace(ctx, tx, n)
		return err
	})
	switch {
	case gone(err) && r.GetAllowMissing():
		return &cloudv1.DeleteNamespaceResponse{}, nil
	case err != nil:
		return nil, err
	}
	return &cloudv1.DeleteNamespaceResponse{}, s.awaitNamespace(ctx, ended.TenantID, ended.ID, ended.Generation)
}

func (s *Service) endNamespace(ctx context.Context, tx *store.Tx, n store.Namespace) (store.Namespace, error) {
	if err := s.leaveNamespace(ctx, tx, n.ID); err != nil {
		return n, err
	}
	was := n.Name
	n.DeletedAt, n.Name = s.Now(), n.ID // So that the name is free.
	err := change.Make(ctx, s.Kit, tx, "namespace.delete", change.UpdateNamespace(&n).As(was).InCell(), nil)
	return n, err
}
