package celladmin

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

var (
	// ErrNotFound says that the cell's state has no such record.
	ErrNotFound = errors.New("not found")
	// ErrControlled says that a control plane decides: what is changed beside it would not
	// be shown there, and not last.
	ErrControlled = errors.New("a control plane manages this cell's tenants and namespaces")
)

// TenantChange writes a tenant.
func TenantChange(t *cellv1.Tenant) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: t}}
}

// NamespaceChange writes a namespace.
func NamespaceChange(n *cellv1.Namespace) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: n}}
}

// KeyChange writes a key's record.
func KeyChange(k *cellv1.Key) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Key{Key: k}}
}

// NodeChange writes where a node is.
func NodeChange(n *cellv1.Node) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Node{Node: n}}
}

// TokenKeyChange writes a key that verifies user tokens.
func TokenKeyChange(k *cellv1.TokenKey) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_TokenKey{TokenKey: k}}
}

// TokenKey is the record of a public key; a zero notAfter never ends it.
func TokenKey(public ed25519.PublicKey, notAfter time.Time) *cellv1.TokenKey {
	k := &cellv1.TokenKey{Id: usertoken.KeyID(public), PublicKey: public}
	if !notAfter.IsZero() {
		k.NotAfterNs = notAfter.UnixNano()
	}
	return k
}

// UserCutoffChange ends the tokens of a user in a tenant that were issued before
// notBefore; without a user, those of all its users.
func UserCutoffChange(tenantID, userID string, notBefore time.Time) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_UserCutoff{UserCutoff: &cellv1.UserCutoff{
		TenantId: tenantID, UserId: userID, NotBeforeNs: notBefore.UnixNano(),
	}}}
}

// NewTenant is a tenant that does not exist yet, without limits.
func NewTenant(name string) *cellv1.Tenant {
	return &cellv1.Tenant{Id: "tn_" + ulid.Make().String(), Name: name}
}

// NewNamespace is a namespace that does not exist yet; the cell places it.
func NewNamespace(tenantID, name string) *cellv1.Namespace {
	return &cellv1.Namespace{Id: "ns_" + ulid.Make().String(), TenantId: tenantID, Name: name}
}

// KeyRecord is what a cell knows of a key: its id and digest, never the key.
func KeyRecord(k apikey.Key, tenantID, name string, grants permission.Grants) *cellv1.Key {
	digest := k.Digest()
	return &cellv1.Key{Id: k.ID(), TenantId: tenantID, Name: name, Digests: [][]byte{digest[:]}, Grants: GrantsOf(grants)}
}

// FindTenant finds the live tenant of that name.
func FindTenant(s *cellv1.State, name string) (*cellv1.Tenant, error) {
	i := slices.IndexFunc(s.GetTenants(), func(t *cellv1.Tenant) bool { return !t.GetDeleted() && t.GetName() == name })
	if i < 0 {
		return nil, fmt.Errorf("tenant %q: %w", name, ErrNotFound)
	}
	return s.GetTenants()[i], nil
}

// FindNamespace finds the tenant's live namespace of that name.
func FindNamespace(s *cellv1.State, tenantID, name string) (*cellv1.Namespace, error) {
	i := slices.IndexFunc(s.GetNamespaces(), func(n *cellv1.Namespace) bool {
		return !n.GetDeleted() && n.GetTenantId() == tenantID && n.GetName() == name
	})
	if i < 0 {
		return nil, fmt.Errorf("namespace %q: %w", name, ErrNotFound)
	}
	return s.GetNamespaces()[i], nil
}

// FindKey finds the key with that id, revoked or not.
func FindKey(s *cellv1.State, id string) (*cellv1.Key, error) {
	i := slices.IndexFunc(s.GetKeys(), func(k *cellv1.Key) bool { return k.GetId() == id })
	if i < 0 {
		return nil, fmt.Errorf("key %s: %w", id, ErrNotFound)
	}
	return s.GetKeys()[i], nil
}

// CreateTenant makes a tenant with a first namespace called "default".
func (c *Client) CreateTenant(ctx context.Context, name string, limits *cellv1.Limits) (*cellv1.Tenant, error) {
	t := NewTenant(name)
	t.Limits = limits
	if _, err := c.Apply(ctx, TenantChange(t), NamespaceChange(NewNamespace(t.GetId(), DefaultNamespace))); err != nil {
		return nil, fmt.Errorf("create tenant %q: %w", name, err)
	}
	return t, nil
}

// DefaultNamespace is the namespace of a caller that names none.
const DefaultNamespace = "default"

// CreateNamespace makes a namespace of an existing tenant; keeps may be nil.
func (c *Client) CreateNamespace(ctx context.Context, tenant, name string, keeps *cellv1.Retention) (*cellv1.Namespace, error) {
	s, err := c.State(ctx)
	if err != nil {
		return nil, err
	}
	t, err := FindTenant(s, tenant)
	if err != nil {
		return nil, err
	}
	n := NewNamespace(t.GetId(), name)
	n.Retention = keeps
	if _, err := c.Apply(ctx, NamespaceChange(n)); err != nil {
		return nil, fmt.Errorf("create namespace %q: %w", name, err)
	}
	return n, nil
}

// ChangeTenant changes the record of an existing tenant. It is read, changed and written:
// of two such changes at the same time, one may be lost. Refused with ErrControlled where a
// control plane writes the cell's state.
func (c *Client) ChangeTenant(ctx context.Context, name string, change func(*cellv1.Tenant) error) (*cellv1.Tenant, error) {
	s, err := c.uncontrolled(ctx)
	if err != nil {
		return nil, err
	}
	t, err := FindTenant(s, name)
	if err != nil {
		return nil, err
	}
	if err := change(t); err != nil {
		return nil, err
	}
	if _, err := c.Apply(ctx, TenantChange(t)); err != nil {
		return nil, fmt.Errorf("change tenant %q: %w", name, err)
	}
	return t, nil
}

// ChangeNamespace is ChangeTenant for a namespace; change may look at its tenant.
func (c *Client) ChangeNamespace(ctx context.Context, tenant, name string, change func(*cellv1.Tenant, *cellv1.Namespace) error) (*cellv1.Namespace, error) {
	s, err := c.uncontrolled(ctx)
	if err != nil {
		return nil, err
	}
	t, err := FindTenant(s, tenant)
	if err != nil {
		return nil, err
	}
	n, err := FindNamespace(s, t.GetId(), name)
	if err != nil {
		return nil, err
	}
	if err := change(t, n); err != nil {
		return nil, err
	}
	if _, err := c.Apply(ctx, NamespaceChange(n)); err != nil {
		return nil, fmt.Errorf("change namespace %q: %w", name, err)
	}
	return n, nil
}

// uncontrolled is the newest state of a cell that no control plane writes to.
func (c *Client) uncontrolled(ctx context.Context) (*cellv1.State, error) {
	res, err := call(ctx, c, &cellv1.GetIndexRequest{}, cellv1connect.CellServiceClient.GetIndex)
	if err != nil {
		return nil, err
	}
	if res.GetIncarnation() != "" {
		return nil, ErrControlled
	}
	return c.StateAt(ctx, res.GetIndex())
}

// NewKey says which key to make.
type NewKey struct {
	Tenant string
	Name   string
	// Roles are names of fixed roles, Permissions names of permissions; the key has all of
	// both.
	Roles       []string
	Permissions []string
	// Namespaces are names; the first is the default. Empty: all of the tenant.
	Namespaces []string
	// Queues are names or patterns of queues. Empty: all of them.
	Queues []string
	// CIDRs are addresses and prefixes from which the key counts. Empty: any.
	CIDRs []string
	Kind  apikey.Kind
}

// set is what the key may do, as far as it can be given at its place.
func (n *NewKey) set() (permission.Set, error) {
	set := permission.Set{}
	for _, name := range n.Roles {
		r, ok := permission.FixedRole(name)
		if !ok {
			return set, fmt.Errorf("%q is not a role", name)
		}
		set = set.Or(r.Permissions)
	}
	named, unknown := permission.SetOf(n.Permissions)
	if len(unknown) > 0 {
		return set, fmt.Errorf("%q is not a permission", unknown[0])
	}
	level := permission.OfNamespace
	if len(n.Queues) > 0 {
		level = permission.OfQueue
	}
	if beyond := named.Without(permission.OfLevel(level)); !beyond.Empty() {
		return set, fmt.Errorf("the permission %s can't be given for a %s", beyond.Names()[0], level)
	}
	if set = set.Or(named).At(level); set.Empty() {
		return set, fmt.Errorf("the key would have no permission for a %s", level)
	}
	return set, nil
}

// canonical spells addresses and prefixes as a record has them.
func canonical(cidrs []string) (out []string, err error) {
	list, err := clientnet.ParseProxies(cidrs)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// CreateKey makes a key. It cannot be read again later.
func (c *Client) CreateKey(ctx context.Context, in NewKey) (apikey.Key, error) {
	s, err := c.State(ctx)
	if err != nil {
		return apikey.Key{}, err
	}
	t, err := FindTenant(s, in.Tenant)
	if err != nil {
		return apikey.Key{}, err
	}
	var ids []string
	for _, name := range in.Namespaces {
		n, err := FindNamespace(s, t.GetId(), name)
		if err != nil {
			return apikey.Key{}, err
		}
		ids = append(ids, n.GetId())
	}
	set, err := in.set()
	if err != nil {
		return apikey.Key{}, fmt.Errorf("create key: %w", err)
	}
	k, err := apikey.Generate(in.Kind)
	if err != nil {
		return apikey.Key{}, fmt.Errorf("create key: %w", err)
	}
	rec := KeyRecord(k, t.GetId(), in.Name, permission.Grants{{Permissions: set, Namespaces: ids, Queues: in.Queues}})
	if rec.Cidrs, err = canonical(in.CIDRs); err != nil {
		return apikey.Key{}, fmt.Errorf("create key: %w", err)
	}
	if _, err := c.Apply(ctx, KeyChange(rec)); err != nil {
		return apikey.Key{}, fmt.Errorf("create key: %w", err)
	}
	return k, nil
}

// RevokeKey revokes a key; it may be repeated.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	s, err := c.State(ctx)
	if err != nil {
		return err
	}
	k, err := FindKey(s, id)
	if err != nil {
		return err
	}
	k.Revoked, k.Digests = true, nil
	if _, err := c.Apply(ctx, KeyChange(k)); err != nil {
		return fmt.Errorf("revoke key %s: %w", id, err)
	}
	return nil
}
