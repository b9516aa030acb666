// Package access owns who calls, and what a caller may do: rights that were loaded with the
// caller, asked by permission and place.
//
// It must not know stores or transports, nor where rights come from (package rights does).
// Surprising: a right is asked for by its place. May is about the whole tenant; what can be
// given in one namespace too is asked for with MayIn, where the namespace is known.
package access

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Rights are what a principal may do in a tenant.
type Rights struct {
	Grants permission.Grants
	// Roles are the names of those in the whole tenant, for people.
	Roles []string
}

// Caller is who makes a call, in one tenant.
type Caller struct {
	// TenantID is the tenant that the call is about; empty for calls about the caller.
	TenantID string
	// Tenant is its name, Plan what its limits are.
	Tenant, Plan string
	Rights       Rights
	// UserID is set for a person, also one who calls with a key of theirs; KeyID for a key;
	// OwnerID is the principal that the key belongs to. None of them is for a public call.
	UserID  string
	KeyID   string
	OwnerID string
	// Name is the email address or the key's name, for people.
	Name string
	// SessionID is set for a user who signed in, and SignedInAt is when.
	SessionID  string
	SignedInAt time.Time
	// OnlyTenantID is set for a session that is good in one tenant only: its provider
	// opened it, or its invitation. BySSO tells the two apart.
	OnlyTenantID string
	BySSO        bool
	// TrustID is set for a token that a trust accepted; nothing else is.
	TrustID string
	// Directory is set for a connection's directory: the connection's id. KeyID is its token's.
	Directory string
	// ByCLI is set for the session of a program.
	ByCLI bool
	// Operator is set for calls to the operators' service, whose caller is one.
	Operator bool
	// HalfOpen is set for a session whose sign-in lacks the second factor; ProvedAt is when
	// a session showed one last.
	HalfOpen  bool
	ProvedAt  time.Time
	RequestID string
	// Peer is the client's address; UserAgent what the client says it is.
	Peer      string
	UserAgent string
}

// ID of the key, user or trust; empty for a public call.
func (c Caller) ID() string { return cmp.Or(c.KeyID, c.UserID, c.TrustID) }

// SignedIn reports whether a person calls who signed in. A key of theirs is narrowed to a
// tenant, and to more; their account is none of its business.
func (c Caller) SignedIn() bool { return c.UserID != "" && c.KeyID == "" }

// ByEmail reports whether a person calls in a browser that they signed in to by email: no
// tenant, with its provider or an invitation, says who they are.
func (c Caller) ByEmail() bool {
	return c.SignedIn() && c.SessionID != "" && !c.ByCLI && !c.BySSO && c.OnlyTenantID == ""
}

// PrincipalID is whose rights the caller has: a user's or a service account's.
func (c Caller) PrincipalID() string { return cmp.Or(c.OwnerID, c.UserID) }

// Type is the audit's word for the caller.
func (c Caller) Type() string {
	switch {
	case c.Directory != "":
		return "directory"
	case c.Operator:
		return "operator"
	case c.KeyID != "":
		return "key"
	case c.UserID != "" && c.BySSO:
		return "sso"
	case c.UserID != "":
		return "user"
	case c.TrustID != "":
		return "trust"
	}
	return "public"
}

// May reports whether the caller has the permission in the whole tenant.
func (c Caller) May(p permission.Permission) bool { return c.Rights.Grants.Tenant(p) }

// MayIn reports whether the caller has the permission in all of a namespace.
func (c Caller) MayIn(p permission.Permission, namespaceID string) bool {
	return c.Rights.Grants.Namespace(p, namespaceID)
}

// Enters reports whether the caller gets past the gate of a call: what is of the tenant must
// be held in all of it, and anything else somewhere, for its use case asks where.
func (c Caller) Enters(p cloudv1.Permission) bool {
	if p == cloudv1.Permission_PERMISSION_IN_TENANT {
		return c.TenantID != ""
	}
	asked := permission.Permission(p)
	if asked.Level() == permission.OfTenant {
		return c.May(asked)
	}
	return asked.Known() && c.Rights.Grants.Anywhere(asked)
}

// Covers reports whether the caller has all of some rights, and so may give them and take
// them away.
func (c Caller) Covers(g permission.Grants) bool { return c.Rights.Grants.Covers(g) }

// RolesText is what the caller is, for a refusal.
func (c Caller) RolesText() string {
	switch len(c.Rights.Roles) {
	case 0:
		return "no role in the whole tenant"
	case 1:
		return "the role " + c.Rights.Roles[0]
	}
	const shown = 5
	if more := len(c.Rights.Roles) - shown; more > 0 {
		return fmt.Sprintf("the roles %s and %d more", strings.Join(c.Rights.Roles[:shown], ", "), more)
	}
	return "the roles " + strings.Join(c.Rights.Roles, ", ")
}

// Knows reports whether the caller has any right in a namespace. To anybody else it is as if
// it did not exist.
func (c Caller) Knows(namespaceID string) bool {
	here := c.Rights.Grants.At(namespaceID)
	return !here.None()
}

type contextKey struct{}

// With hands a caller down.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From gives the caller; the zero Caller may do nothing.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(contextKey{}).(Caller)
	return c
}
