package policy

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
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Admit refuses a person whom the policy of the tenant that they call in keeps out. The
// caller's rights there are loaded.
func Admit(ctx context.Context, k kit.Kit, c access.Caller) error {
	if c.UserID == "" || c.BySSO {
		return nil
	}
	_, err := kit.Read(access.With(ctx, c), k, func(tx *store.Tx) (none struct{}, _ error) {
		p, err := tx.GetSignInPolicy(ctx, c.TenantID)
		if err != nil || !p.RequireSSO && !p.RequireSecondFactor {
			return none, err
		}
		if c.KeyID != "" { // Only a session says how its user came.
			by, err := bySSO(ctx, tx, c.TenantID, c.UserID)
			if err != nil || by {
				return none, err
			}
		}
		if p.RequireSSO {
			in, err := enteredByCode(ctx, tx, c, k.Now())
			if err != nil {
				return none, err
			}
			if !in {
				return none, ssoRequired(k, c.Tenant)
			}
		}
		if p.RequireSecondFactor {
			return none, secondFactor(ctx, tx, c)
		}
		return none, nil
	})
	return err
}

// Reason is the refusal's, for the audit log.
func Reason(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Reason
	}
	return "error"
}

func ssoRequired(k kit.Kit, tenant string) error {
	return fault.New(fault.Denied, "SSO_REQUIRED",
		"%s requires single sign-on; sign in at %s. If your identity provider is down, an owner can use a break-glass code: corvo policy break-glass use", tenant, k.URLs.OIDCStart(tenant))
}

// bySSO reports whether a user comes by the tenant's own provider.
func bySSO(ctx context.Context, tx *store.Tx, tenantID, userID string) (bool, error) {
	u, err := tx.GetUser(ctx, userID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return u.HomeTenant == tenantID, err
}

// enteredByCode reports whether the session of an owner showed a break-glass code not long
// ago.
func enteredByCode(ctx context.Context, tx *store.Tx, c access.Caller, now time.Time) (bool, error) {
	if c.SessionID == "" || !isOwner(c.Rights) {
		return false, nil
	}
	e, err := tx.GetBreakGlassEntry(ctx, c.TenantID, c.SessionID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return e.UserID == c.UserID && now.Before(e.ExpiresAt), err
}

func isOwner(r access.Rights) bool { return slices.Contains(r.Roles, permission.RoleOwner) }

// secondFactor refuses a person who has none, and a session that began without theirs.
func secondFactor(ctx context.Context, tx *store.Tx, c access.Caller) error {
	all, err := tx.ListFactors(ctx, c.UserID)
	has := len(all) > 0
	switch {
	case err != nil:
		return err
	case !has && c.OnlyTenantID != "":
		return fault.New(fault.Denied, "SECOND_FACTOR_SETUP_REQUIRED",
			"%s requires a second factor, and this session began with an invitation; sign in with a link to %s, then set one up on your account page", c.Tenant, c.Name)
	case !has:
		return fault.New(fault.Denied, "SECOND_FACTOR_SETUP_REQUIRED",
			"%s requires a second factor; set up a passkey or an authenticator app on your account page, then try again", c.Tenant)
	case c.SessionID == "" || !c.ProvedAt.IsZero():
		return nil
	case c.ByCLI:
		return approvedWithout(c, all)
	}
	return fault.New(fault.Unauthenticated, "SESSION_ENDED", "%s requires a second factor, and this session began without one; sign in again", c.Tenant)
}

// approvedWithout refuses a program's session that is older than its person's factors: its
// approval asked for none. One that is younger was approved with one.
func approvedWithout(c access.Caller, factors []store.Factor) error {
	first := slices.MinFunc(factors, func(a, b store.Factor) int { return a.ConfirmedAt.Compare(b.ConfirmedAt) })
	if c.SignedInAt.After(first.ConfirmedAt) {
		return nil
	}
	return fault.New(fault.Denied, "SECOND_FACTOR_REQUIRED",
		"%s requires a second factor, and this session was approved without one; show it, or sign in again", c.Tenant)
}

// RefuseInvitation refuses to let somebody in by an invitation where single sign-on is
// required: its link would be a way around it.
func RefuseInvitation(ctx context.Context, tx *store.Tx, k kit.Kit, t store.Tenant) error {
	p, err := tx.GetSignInPolicy(ctx, t.ID)
	if err != nil || !p.RequireSSO {
		return err
	}
	return fault.New(fault.Denied, "SSO_REQUIRED", "%s requires single sign-on, so this link can't let you in; sign in at %s", t.Name, k.URLs.OIDCStart(t.Name))
}

// MayTry reports whether a user's session may try the tenant's single sign-on.
func MayTry(ctx context.Context, tx *store.Tx, k kit.Kit, tenantID string, s store.Session, may access.Rights) (bool, error) {
	p, err := tx.GetSignInPolicy(ctx, tenantID)
	if err != nil || !p.RequireSSO {
		return err == nil, err
	}
	by, err := bySSO(ctx, tx, tenantID, s.UserID)
	if err != nil || by {
		return by, err
	}
	return enteredByCode(ctx, tx, access.Caller{TenantID: tenantID, UserID: s.UserID, SessionID: s.ID, Rights: may}, k.Now())
}

// CheckKey says what is wrong with a key that is being made or changed. Of one that is there,
// only what is being changed counts.
func CheckKey(ctx context.Context, tx *store.Tx, k store.Key, changed ...string) error {
	p, err := tx.GetSignInPolicy(ctx, k.TenantID)
	if err != nil {
		return err
	}
	return fault.InvalidFields(slices.DeleteFunc(outside(p, k), func(f fault.Field) bool { return !slices.Contains(changed, f.Name) }))
}

// outside is what of a key the policy doesn't allow, also of one that a trust gives.
func outside(p store.SignInPolicy, k store.Key) (wrong []fault.Field) {
	if last := k.CreatedAt.Add(p.KeyLife); p.KeyLife > 0 && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(last)) {
		wrong = append(wrong, fault.Field{Name: "expires_at", Problem: fmt.Sprintf(
			"this tenant's policy wants keys to expire %s after they are made at the latest, which is %s for this one", days(p.KeyLife), last.UTC().Format(time.RFC3339))})
	}
	if p.KeyNetworks && len(k.CIDRs) == 0 {
		wrong = append(wrong, fault.Field{Name: "cidrs", Problem: "this tenant's policy wants keys to name the networks they work from, such as 203.0.113.0/24"})
	}
	if p.NoPersonalKeys && k.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL {
		wrong = append(wrong, fault.Field{Name: "kind", Problem: "this tenant's policy lets personal keys do nothing at the tenant URL; use a service account's for jobs"})
	}
	return wrong
}

// days writes a span as people set it.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return fmt.Sprintf("%d hours", d/time.Hour)
}

// Reader reads what a tenant's keys may do at the tenant URL: as package rights says, and
// nothing if the policy stops them there. It is for one transaction.
type Reader struct {
	rights   *rights.Reader
	tx       *store.Tx
	tenantID string
	policy   *store.SignInPolicy
	stopped  map[string]bool // By user.
}

// NewReader makes a Reader.
func NewReader(tx *store.Tx, tenantID string) *Reader {
	return &Reader{rights: rights.NewReader(tx, tenantID), tx: tx, tenantID: tenantID, stopped: map[string]bool{}}
}

// Stopped reports whether the policy lets a key do nothing at the tenant URL, and whether it
// keeps it out of the control API too, as Admit does.
func (r *Reader) Stopped(ctx context.Context, k store.Key) (forJobs, everywhere bool, err error) {
	if k.Kind != cloudv1.KeyKind_KEY_KIND_PERSONAL {
		return false, false, nil
	}
	if forJobs, err = r.stops(ctx, k.OwnerID); err != nil || !forJobs {
		return forJobs, false, err
	}
	everywhere, err = r.keepsOut(ctx, k.OwnerID)
	return forJobs, everywhere, err
}

// OfKey is what a key may do at the tenant URL.
func (r *Reader) OfKey(ctx context.Context, k store.Key) (access.Rights, error) {
	if k.Kind == cloudv1.KeyKind_KEY_KIND_PERSONAL {
		stopped, err := r.stops(ctx, k.OwnerID)
		if err != nil || stopped {
			return access.Rights{}, err
		}
	}
	return r.rights.OfKey(ctx, k)
}

// stops reports whether a person's own keys do nothing.
func (r *Reader) stops(ctx context.Context, userID string) (bool, error) {
	if known, ok := r.stopped[userID]; ok {
		return known, nil
	}
	if r.policy == nil {
		p, err := r.tx.GetSignInPolicy(ctx, r.tenantID)
		if err != nil {
			return false, err
		}
		r.policy = &p
	}
	stops := r.policy.NoPersonalKeys
	if !stops {
		var err error
		if stops, err = r.keepsOut(ctx, userID); err != nil {
			return false, err
		}
	}
	r.stopped[userID] = stops
	return stops, nil
}

// keepsOut reports whether a person lacks what the policy asks of people. The policy is read.
func (r *Reader) keepsOut(ctx context.Context, userID string) (bool, error) {
	if !r.policy.RequireSSO && !r.policy.RequireSecondFactor {
		return false, nil
	}
	by, err := bySSO(ctx, r.tx, r.tenantID, userID)
	if err != nil || by || r.policy.RequireSSO {
		return !by, err
	}
	has, err := r.tx.HasFactor(ctx, userID)
	return !has, err
}

// KeepDoor refuses to turn off or delete the last connection by which an owner can come in
// while single sign-on is required.
func KeepDoor(ctx context.Context, tx *store.Tx, going store.Connection) error {
	p, err := tx.GetSignInPolicy(ctx, going.TenantID)
	if err != nil || !p.RequireSSO {
		return err
	}
	missing, err := missingDoor(ctx, tx, going.TenantID, going.ID)
	if err != nil || missing == "" {
		return err
	}
	return fault.New(fault.Conflict, "SSO_REQUIRED_BY_POLICY",
		"the sign-in policy requires single sign-on, and no other connection lets an owner in; turn require_sso off first: corvo policy set --require-sso=false")
}

// missingDoor is what is missing of a connection by which an owner can come in, but for
// one of an id; empty: nothing.
func missingDoor(ctx context.Context, tx *store.Tx, tenantID, but string) (string, error) {
	all, err := tx.ListConnections(ctx, tenantID)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(c store.Connection) bool { return c.ID == but || !c.Enabled || c.Tested != c.Settings })
	if len(all) == 0 {
		return "an enabled single sign-on connection whose test sign-in passed with its present settings", nil
	}
	owner := func(id string) bool { return id == store.RoleOwner }
	for _, c := range all {
		if owner(c.DefaultRole) || slices.ContainsFunc(c.GroupMappings, func(m store.GroupMapping) bool { return owner(string(m.Role)) }) {
			return "", nil
		}
	}
	owners, err := ownersOf(ctx, tx, tenantID)
	if err != nil {
		return "", err
	}
	for _, o := range owners {
		if slices.ContainsFunc(all, func(c store.Connection) bool { return c.ID == o.ConnectionID }) {
			return "", nil
		}
	}
	return "an owner who signs in through single sign-on: map a group to the role owner, or make somebody who came that way an owner", nil
}

// ownersOf are the members who are owners of the whole tenant, directly or by a group.
func ownersOf(ctx context.Context, tx *store.Tx, tenantID string) (out []store.Member, _ error) {
	known := map[string]bool{}
	add := func(userID string) error {
		if known[userID] {
			return nil
		}
		known[userID] = true
		m, err := tx.GetMembership(ctx, tenantID, userID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		u, err := tx.GetUser(ctx, userID)
		out = append(out, store.Member{Membership: m, User: u})
		return err
	}
	all := store.All(func(p store.Page) ([]store.Binding, error) {
		return tx.ListBindings(ctx, tenantID, store.BindingFilter{RoleID: store.RoleOwner}, p)
	}, func(b store.Binding) string { return b.ID })
	for b, err := range all {
		if err != nil {
			return nil, err
		}
		if b.NamespaceID != "" || b.Queues != "" {
			continue
		}
		if strings.HasPrefix(b.PrincipalID, "usr_") {
			if err := add(b.PrincipalID); err != nil {
				return nil, err
			}
			continue
		}
		in := store.All(func(p store.Page) ([]store.UserInGroup, error) {
			return tx.ListGroupMembers(ctx, tenantID, b.PrincipalID, p)
		},
			func(u store.UserInGroup) string { return u.UserID })
		for u, err := range in {
			if err == nil {
				err = add(u.UserID)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
