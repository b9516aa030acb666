package tenancy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	// keyNamespacesMax bounds the namespaces of one key: proxies hold them in memory. A
	// cell takes no more.
	keyNamespacesMax = 64
	// keyQueuesMax and keyCIDRsMax are a cell's too.
	keyQueuesMax = 64
	keyCIDRsMax  = 32
	// keyLifeMax keeps an end inside what a count of nanoseconds can tell, which stops in
	// the year 2262.
	keyLifeMax = 100 * 365 * 24 * time.Hour
)

// checkKey says what is wrong with a key by itself, whoever makes it.
func checkKey(k store.Key, now time.Time) error {
	var wrong []fault.Field
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Name: field, Problem: fmt.Sprintf(format, args...)})
	}
	if p := displayName(k.Name); p != "" {
		add("name", "%s", p)
	}
	switch k.Kind {
	case cloudv1.KeyKind_KEY_KIND_JOBS, cloudv1.KeyKind_KEY_KIND_MANAGEMENT, cloudv1.KeyKind_KEY_KIND_PERSONAL:
	default:
		add("kind", "must be KEY_KIND_JOBS, KEY_KIND_MANAGEMENT or KEY_KIND_PERSONAL")
	}
	for i, name := range k.Permissions {
		if _, ok := permission.Named(name); !ok {
			add(fmt.Sprintf("permissions[%d]", i), "%q is no permission; ListPermissions lists them", name)
		}
	}
	for i, pattern := range k.Queues {
		if err := permission.CheckPattern(pattern); err != nil {
			add(fmt.Sprintf("queues[%d]", i), "%s", err)
		}
	}
	for i, c := range k.CIDRs {
		if _, ok := clientnet.Network(c); !ok {
			add(fmt.Sprintf("cidrs[%d]", i), "must be a network such as 203.0.113.0/24 or 2001:db8::/32, or a single address")
		}
	}
	for field, n := range map[string]struct{ has, most int }{
		"namespaces": {len(k.NamespaceIDs), keyNamespacesMax}, "queues": {len(k.Queues), keyQueuesMax}, "cidrs": {len(k.CIDRs), keyCIDRsMax},
	} {
		if n.has > n.most {
			add(field, "can't have more than %d; leave it empty for all", n.most)
		}
	}
	if ended(k.ExpiresAt, now) {
		add("expires_at", "is in the past")
	}
	if k.ExpiresAt.After(now.Add(keyLifeMax)) {
		add("expires_at", "is more than 100 years away; leave it out for a key that doesn't expire")
	}
	return fault.InvalidFields(wrong)
}

// checkOwner says what is wrong with whose a key shall be.
func checkOwner(k store.Key, r *cloudv1.CreateApiKeyRequest) error {
	personal := k.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL
	switch {
	case personal && (len(r.GetRoles()) > 0 || r.GetOwner() != "" && r.GetOwner() != ownerMe):
		return fault.InvalidField("owner", `a personal key belongs to who makes it; leave roles out, and owner out or "me"`)
	case personal:
		return nil
	case r.GetOwner() == ownerMe:
		return fault.InvalidField("kind", "a key of your own must be KEY_KIND_PERSONAL")
	case r.GetOwner() != "" && len(r.GetRoles()) > 0:
		return fault.InvalidField("roles", "a key may do what its owner may; give the service account the roles, or leave owner out for a new one")
	case r.GetOwner() == "" && len(r.GetRoles()) == 0:
		return fault.InvalidField("owner", "choose a service account, or roles for a new one, such as producer and worker")
	}
	return nil
}

// ownerMe is the caller.
const ownerMe = "me"

// ownerOf finds the owner of a new key, or makes a service account for the key alone.
func (s *Service) ownerOf(ctx context.Context, tx *store.Tx, k store.Key, r *cloudv1.CreateApiKeyRequest) (string, error) {
	c := access.From(ctx)
	switch {
	case k.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL && c.UserID == "":
		return "", fault.InvalidField("kind", "only a person can make a personal key; this call is made by a service account")
	case k.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL:
		return c.UserID, nil
	case r.GetOwner() != "":
		a, err := principals.FindServiceAccount(ctx, tx, r.GetOwner())
		if gone(err) {
			err = fault.InvalidField("owner", "%q is no service account of this tenant; ListServiceAccounts lists them", r.GetOwner())
		}
		return a.ID, err
	}
	if !c.May(permission.ServiceAccountUpdate) {
		return "", fault.New(fault.Denied, "PERMISSION_DENIED", "to make a key with roles of its own you need the permission service_account.update; choose a service account as the owner")
	}
	return s.newOwner(ctx, tx, k, r.GetRoles())
}

// newOwner makes a service account for a key: with its roles in the key's namespaces, or in
// the whole tenant.
func (s *Service) newOwner(ctx context.Context, tx *store.Tx, k store.Key, names []string) (string, error) {
	c := access.From(ctx)
	roles, err := rights.FindRoles(ctx, tx, c.TenantID, "roles", names)
	if err != nil {
		return "", err
	}
	a := store.ServiceAccount{
		TenantID: c.TenantID, ID: s.IDs.New(ids.ServiceAccount, k.CreatedAt), CreatedBy: c.ID(), CreatedAt: k.CreatedAt, UpdatedAt: k.CreatedAt, Version: 1,
	}
	if a.Name, err = freeAccountName(ctx, tx, c.TenantID, k); err != nil {
		return "", err
	}
	var bindings []store.Binding
	var given permission.Grants
	for _, role := range roles {
		for _, place := range (permission.Grant{Namespaces: k.NamespaceIDs}).Places() {
			b := principals.Bindings(s.Kit, c, c.TenantID, a.ID, "", []rights.Role{role}, k.CreatedAt)[0]
			b.NamespaceID = place.Namespace
			bindings, given = append(bindings, b), append(given, role.Grant(place.Namespace, ""))
		}
	}
	if err := principals.MayGive(c, given, "this key"); err != nil {
		return "", err
	}
	return a.ID, principals.NewServiceAccount(ctx, s.Kit, tx, a, bindings)
}

// freeAccountName is the key's name, or if a service account has it, that and the key's id.
func freeAccountName(ctx context.Context, tx *store.Tx, tenantID string, k store.Key) (string, error) {
	_, err := tx.GetServiceAccountByName(ctx, tenantID, k.Name)
	if errors.Is(err, store.ErrNotFound) {
		return k.Name, nil
	}
	return fmt.Sprintf("%s (%s)", k.Name, strings.TrimPrefix(k.ID, "key_")), err
}

// mayMake refuses to make, change or rotate a key that may do more than the caller, and one
// of somebody else: whoever rotates a key has it.
func mayMake(ctx context.Context, tx *store.Tx, k store.Key) error {
	c := access.From(ctx)
	if strings.HasPrefix(k.OwnerID, string(ids.User)) && k.OwnerID != c.UserID {
		return fault.New(fault.Denied, "PERSONAL_KEY", "key %s is somebody's own: only they can change it, and you can revoke it", k.ID)
	}
	if err := principals.MayEndKey(ctx, tx, k); err != nil {
		return err
	}
	if err := fits(ctx, tx, k); err != nil {
		return err
	}
	return withinCallersKey(ctx, tx, c, k)
}

// fits refuses a key that may do more than a cell takes for one.
func fits(ctx context.Context, tx *store.Tx, k store.Key) error {
	return principals.Fits(ctx, tx, k, func(beyond error) error {
		return fault.InvalidField("owner", "what this key may do %s; narrow the key to fewer namespaces or queues, or give its owner roles in the whole tenant", beyond)
	})
}

// withinCallersKey refuses a key that works longer, or from more networks, than the key that
// makes it.
func withinCallersKey(ctx context.Context, tx *store.Tx, c access.Caller, k store.Key) error {
	by, err := callersKey(ctx, tx, c)
	if err != nil {
		return err
	}
	if !by.ExpiresAt.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(by.ExpiresAt)) {
		return fault.InvalidField("expires_at", "can't be later than the end of the key that makes this call, %s", by.ExpiresAt.UTC().Format(timeForm))
	}
	if !clientnet.NetworksOf(by.CIDRs).Covers(clientnet.NetworksOf(k.CIDRs)) {
		return fault.InvalidField("cidrs", "must be within the networks of the key that makes this call: %s", strings.Join(by.CIDRs, ", "))
	}
	return nil
}

// callersKey is the key that makes the call; one without end or networks if none does.
func callersKey(ctx context.Context, tx *store.Tx, c access.Caller) (store.Key, error) {
	if c.KeyID == "" {
		return store.Key{}, nil
	}
	k, err := tx.GetKey(ctx, c.TenantID, c.KeyID)
	return k, missing(err, "key")
}

// networks writes networks in their one form, without repetition. What is none stays as it
// is, to be refused.
func networks(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		if form, _ := clientnet.Network(text); !slices.Contains(out, form) {
			out = append(out, form)
		}
	}
	return out
}

// namespaceIDs resolves names and ids of living namespaces, without repetition.
func namespaceIDs(ctx context.Context, tx *store.Tx, namesOrIDs []string) ([]string, error) {
	if len(namesOrIDs) > keyNamespacesMax {
		return nil, fault.InvalidField("namespaces", "can't have more than %d; leave it empty for all namespaces", keyNamespacesMax)
	}
	var out []string
	for _, text := range namesOrIDs {
		n, err := findNamespace(ctx, tx, text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, n.ID) {
			out = append(out, n.ID)
		}
	}
	return out, nil
}

// living leaves out the secrets that have ended.
func living(versions []store.KeyVersion, now time.Time) []store.KeyVersion {
	return slices.DeleteFunc(slices.Clone(versions), func(v store.KeyVersion) bool { return ended(v.ExpiresAt, now) })
}

// KeyPrefix is what people recognize a key by: its text up to the secret.
func KeyPrefix(k store.Key) string {
	return "corvo_" + string(kindOf(k.Kind)) + "_" + strings.TrimPrefix(k.ID, "key_")
}
