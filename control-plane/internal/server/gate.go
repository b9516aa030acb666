package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// gate lets a call through to its use case if its caller may make it.
type gate struct {
	kit.Kit
	rule   rule
	policy cookies.Policy
	limits *limits
	// refusals are what the tenant's audit log says of them.
	refusals *refusals.Log
}

// before authenticates by the headers alone, so that a stranger's body is not read.
func (g *gate) before(next http.Handler, errs *connect.ErrorWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := g.authenticate(r)
		if err != nil {
			refused := refuse(r.Context(), g.Log, g.rule.procedure, err)
			if refused.Code() == connect.CodeUnauthenticated {
				refused.Meta().Set("WWW-Authenticate", `Bearer realm="corvo"`)
			}
			if err := errs.Write(w, r, refused); err != nil {
				g.Log.DebugContext(ctx, "refusal not sent", "error", err)
			}
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (g *gate) authenticate(r *http.Request) (context.Context, error) {
	ctx := r.Context()
	bare := access.From(ctx)
	if g.rule.permission == cloudv1.Permission_PERMISSION_PUBLIC {
		if refusal := g.limits.anonymous.Take(bare.Peer, g.Now()); refusal != nil {
			return ctx, refusal
		}
		// Another site must not sign a browser in, or out, as somebody of its choice.
		return ctx, foreignSite(r.Header, g.URLs.Public)
	}
	// A bad credential costs a database query too. One that was good recently is let
	// through, so that a neighbour's guesses do not lock its owner out.
	shown := credentialOf(r.Header, g.policy)
	if refusal := g.limits.guesses.Check(bare.Peer, g.Now()); refusal != nil && !g.limits.good.Has(shown) {
		return ctx, refusal
	}
	c, byCookie, err := g.caller(ctx, r.Header, bare)
	if err != nil {
		if f, ok := fault.As(err); ok && f.Code == fault.Unauthenticated {
			_ = g.limits.guesses.Take(bare.Peer, g.Now()) // Counted; this one is answered.
		}
		return ctx, err
	}
	g.limits.good.Add(shown)
	if byCookie && !sameOrigin(r.Header, g.URLs.Public) {
		return ctx, errCrossSite
	}
	return access.With(ctx, c), nil
}

var errCrossSite = fault.New(fault.Denied, "CROSS_SITE",
	"a session cookie only works for requests from the console; use a management key in programs")

// sameOrigin reports whether a browser proves that our own page, or its user by hand,
// made the request.
func sameOrigin(h http.Header, public string) bool {
	switch h.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
		return h.Get("Origin") == public
	}
	return false
}

// foreignSite refuses a request that, by the browser's headers, another site made.
// Programs send no such headers.
func foreignSite(h http.Header, public string) error {
	site, origin := h.Get("Sec-Fetch-Site"), h.Get("Origin")
	if site == "cross-site" || site == "same-site" || site == "" && origin != "" && origin != public {
		return errCrossSite
	}
	return nil
}

// WrapUnary checks tenant and permission once the request is known, and turns errors
// into refusals.
func (g *gate) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		began := g.Now()
		jar := cookies.NewJar(g.policy.Session(r.Header()), g.policy.Started(r.Header()))
		ctx, err := g.enter(cookies.With(ctx, jar), r.Any())
		var res connect.AnyResponse
		if err == nil {
			res, err = next(ctx, r)
		}
		c := access.From(ctx)
		attrs := []any{"procedure", g.rule.procedure, "request_id", c.RequestID, "tenant", c.TenantID, "caller", c.ID(), "took", g.Now().Sub(began)}
		if err != nil {
			refused := refuse(ctx, g.Log, g.rule.procedure, err)
			g.Log.InfoContext(ctx, "request refused", append(attrs, "code", refused.Code().String())...)
			return nil, refused
		}
		jar.Write(g.policy, res.Header())
		g.Log.DebugContext(ctx, "call", attrs...)
		return res, nil
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (*gate) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor; there are no streams, see ruleOf.
func (*gate) WrapStreamingHandler(connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(context.Context, connect.StreamingHandlerConn) error {
		return connect.NewError(connect.CodeUnimplemented, nil)
	}
}

func (g *gate) enter(ctx context.Context, request any) (context.Context, error) {
	if g.rule.permission == cloudv1.Permission_PERMISSION_PUBLIC {
		return ctx, nil
	}
	c, err := g.admit(ctx, access.From(ctx), request)
	ctx = access.With(ctx, c)
	if err != nil {
		return ctx, err
	}
	if !g.rule.safe && g.rule.inTenant() && c.Plan != plans.Operators {
		if wait := g.limits.writes.Take(c.TenantID, g.Now()); wait > 0 {
			return ctx, ratelimit.TooMany("TOO_MANY_WRITES", "changes in tenant "+c.Tenant, wait)
		}
	}
	return ctx, nil
}

// admit is the one place that every good credential passes, of whatever kind, with all that
// it must fulfil for this call. It gives the caller in the tenant that the call is about.
func (g *gate) admit(ctx context.Context, c access.Caller, request any) (_ access.Caller, err error) {
	if c.HalfOpen && !g.rule.halfOpen { // Before it learns which tenants there are.
		return c, errHalfOpen
	}
	if g.rule.forOperators() {
		return g.asOperator(ctx, c)
	}
	if g.rule.inTenant() {
		if c, err = g.inTenant(ctx, c, tenantOf(request)); err != nil {
			return c, err
		}
		if err := policy.Admit(ctx, g.Kit, c); err != nil {
			g.refusals.Note(refusals.Refusal{
				Action: refusals.Access, Caller: c, Target: change.Target{Type: "tenant", ID: c.TenantID, Name: c.Tenant, TenantID: c.TenantID},
				Field: "reason", Value: policy.Reason(err),
			})
			return c, err
		}
		if !c.Enters(g.rule.permission) {
			g.refusals.Note(refusals.Refusal{
				Action: refusals.Access, Caller: c, Target: change.Target{Type: "tenant", ID: c.TenantID, Name: c.Tenant, TenantID: c.TenantID},
				Field: "permission", Value: permissionName(g.rule.permission),
			})
			return c, denied(c, g.rule.permission)
		}
	}
	return c, g.proved(ctx, c)
}

var errHalfOpen = fault.New(fault.Unauthenticated, "SECOND_FACTOR_REQUIRED", "your sign-in isn't finished: show your second factor")

// proved refuses a dangerous method to a person who has a second factor and has not shown
// it for a while.
func (g *gate) proved(ctx context.Context, c access.Caller) error {
	if !g.rule.stepUp || c.UserID == "" || session.Proved(c.ProvedAt, g.Now()) {
		return nil
	}
	has, err := store.Get(ctx, g.Store.ReadService, func(tx *store.Tx) (bool, error) { return tx.HasFactor(ctx, c.UserID) })
	if err != nil {
		return fmt.Errorf("look for a second factor: %w", err)
	}
	switch {
	case has && c.KeyID != "":
		return errKeyStepUp
	case has:
		return session.ErrStepUp
	}
	return nil
}

// errKeyStepUp is for a personal key: who holds it may not be its owner.
var errKeyStepUp = fault.New(fault.Denied, session.ErrStepUp.Reason,
	"this needs its caller's second factor, which a personal key can't show; sign in, or use a service account's key")

// limits are rate limits, counted in memory.
type limits struct {
	// anonymous are calls without a credential, guesses those with a bad one.
	anonymous, guesses *ratelimit.Anonymous
	// writes are changes, per tenant, so that no tenant keeps the database from the
	// others.
	writes *ratelimit.Buckets
	// good are credentials that were good when they were shown last, by their digest.
	// They are looked up all the same.
	good *ratelimit.Recent
}

// credentialOf is the digest of what a caller shows.
func credentialOf(h http.Header, policy cookies.Policy) string {
	return seal.Digest(strings.Join(h.Values("Authorization"), "\n") + "\n" + policy.Session(h))
}

// writesRate is enough for Terraform to apply a large plan, and for any person.
var writesRate = ratelimit.Rate{PerSecond: 20, Burst: 500}

func newLimits() *limits {
	return &limits{anonymous: ratelimit.NewAnonymous(), guesses: ratelimit.NewAnonymous(), writes: ratelimit.NewBuckets(writesRate), good: ratelimit.NewRecent()}
}

func tenantOf(request any) string {
	m, ok := request.(proto.Message)
	if !ok {
		return ""
	}
	r := m.ProtoReflect()
	return r.Get(r.Descriptor().Fields().ByName(tenantField)).String()
}

// inTenant finds the named tenant among the caller's own.
func (g *gate) inTenant(ctx context.Context, c access.Caller, named string) (access.Caller, error) {
	if c.KeyID != "" {
		if named != "" && named != c.TenantID && named != c.Tenant {
			return c, fault.Missing("tenant")
		}
		return c, nil
	}
	own, err := store.Get(ctx, g.Store.ReadService, func(tx *store.Tx) ([]store.Access, error) { return tenancy.Own(ctx, tx, c) })
	if err != nil {
		return c, err
	}
	if named == "" {
		if len(own) != 1 {
			return c, fault.InvalidField("tenant", "choose one: you are a member of %s", listOf(own))
		}
		named = own[0].Tenant.ID
	}
	i := slices.IndexFunc(own, func(a store.Access) bool { return a.Tenant.ID == named || a.Tenant.Name == named })
	if i < 0 {
		return c, fault.Missing("tenant")
	}
	c.TenantID, c.Tenant, c.Plan = own[i].Tenant.ID, own[i].Tenant.Name, own[i].Tenant.Plan
	c.Rights, err = store.Get(ctx, g.Store.ReadService, func(tx *store.Tx) (access.Rights, error) { return rights.Of(ctx, tx, c.TenantID, c.UserID) })
	return c, err
}

func listOf(own []store.Access) string {
	const shown = 10
	var names []string
	for _, a := range own[:min(shown, len(own))] {
		names = append(names, a.Tenant.Name)
	}
	switch {
	case len(own) == 0:
		return "none"
	case len(own) > shown:
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// denied names the missing permission and the roles that have it.
func denied(c access.Caller, p cloudv1.Permission) error {
	var may []string
	for _, r := range permission.Roles() {
		if r.Permissions.Has(permission.Permission(p)) {
			may = append(may, r.Name)
		}
	}
	return fault.New(fault.Denied, "PERMISSION_DENIED", "you have %s in tenant %s, which doesn't give the permission %s; ask an owner or admin for one of the roles %s",
		c.RolesText(), c.Tenant, permissionName(p), strings.Join(may, ", "))
}
