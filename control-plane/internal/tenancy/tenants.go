package tenancy

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// displayRunesMax bounds names that are for people only.
const displayRunesMax = 100

// displayName tells what is wrong with a name for people; empty: nothing.
func displayName(s string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "enter a name"
	case strings.TrimSpace(s) != s:
		return "can't start or end with a space"
	case !utf8.ValidString(s) || utf8.RuneCountInString(s) > displayRunesMax:
		return fmt.Sprintf("can't have more than %d characters", displayRunesMax)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "can only have printable characters"
	case apikey.Redact(s) != s:
		return "contains an API key; everyone can see names, so revoke that key and choose another name"
	}
	return ""
}

func (s *Service) tenantMessage(t store.Tenant) *cloudv1.Tenant {
	return &cloudv1.Tenant{
		Id: t.ID, Name: t.Name, DisplayName: t.DisplayName, Plan: t.Plan, Url: s.URLs.Tenant(t.Name),
		CreatedAt: stamp(t.CreatedAt), Etag: etag.Of(t.Version, t.ID),
	}
}

// GetTenant tells about the tenant.
func (s *Service) GetTenant(ctx context.Context, _ *cloudv1.GetTenantRequest) (*cloudv1.GetTenantResponse, error) {
	t, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.Tenant, error) { return findTenant(ctx, tx) })
	return &cloudv1.GetTenantResponse{Tenant: s.tenantMessage(t)}, err
}

// UpdateTenant changes the name that people see.
func (s *Service) UpdateTenant(ctx context.Context, r *cloudv1.UpdateTenantRequest) (*cloudv1.UpdateTenantResponse, error) {
	if p := displayName(r.GetDisplayName()); p != "" {
		return nil, fault.InvalidField("display_name", "%s", p)
	}
	var t store.Tenant
	err := s.Write(ctx, func(tx *store.Tx) (err error) {
		if t, err = findTenant(ctx, tx); err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), etag.Of(t.Version, t.ID), "this"); err != nil {
			return err
		}
		was := t.DisplayName
		t.DisplayName = r.GetDisplayName()
		return change.Make(ctx, s.Kit, tx, "tenant.update", change.UpdateTenant(&t), change.Fields{"display_name": {Before: was, After: t.DisplayName}})
	})
	return &cloudv1.UpdateTenantResponse{Tenant: s.tenantMessage(t)}, err
}

// DeleteTenant ends a tenant, and tells its cell: none of its credentials opens anything from
// then on, and its name and its domains are free. Its other records stay, for whoever has to
// answer for it later.
func DeleteTenant(ctx context.Context, k kit.Kit, tx *store.Tx, t *store.Tenant) error {
	domains, err := tx.ListDomains(ctx, t.ID)
	if err != nil {
		return err
	}
	for _, d := range domains {
		if err := change.Make(ctx, k, tx, "domain.delete", change.DeleteDomain(d), nil); err != nil {
			return err
		}
	}
	t.DeletedAt = k.Now()
	return change.Make(ctx, k, tx, "tenant.delete", change.UpdateTenant(t).InCell(), nil)
}
