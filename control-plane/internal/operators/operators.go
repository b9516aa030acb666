package operators

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
)

// reasonMax is in characters.
const reasonMax = 500

// Needs of a Service: the rooms whose use cases it calls in a tenant.
type Needs struct {
	kit.Kit
	Plans  *plans.Service
	Usage  *usage.Service
	Stripe *stripe.Service
}

// Service is the use cases and the loop.
type Service struct {
	Needs

	loop *recurring.Loop
}

// New makes a Service.
func New(n Needs) *Service {
	s := &Service{Needs: n}
	s.loop = recurring.New(n.Kit, recurring.Work{
		Name: "operator-figures", Every: tick, Lease: leaseFor, Failed: "can't compute tenants' figures for operators", Pass: s.pass,
	})
	return s
}

// Add makes a person who has an account an operator, or gives an operator another role. By is
// who does it, for the log.
func Add(ctx context.Context, k kit.Kit, tx *store.Tx, email, role, by string) (store.Operator, error) {
	if role != store.OperatorViewer && role != store.OperatorAdmin {
		return store.Operator{}, fault.InvalidField("role", "is %q, must be %s or %s", role, store.OperatorViewer, store.OperatorAdmin)
	}
	u, err := userOf(ctx, tx, email)
	if err != nil {
		return store.Operator{}, err
	}
	o := store.Operator{UserID: u.ID, Email: u.Email, Role: role, AddedAt: k.Now(), AddedBy: by}
	was, err := tx.GetOperator(ctx, u.ID)
	switch {
	case err == nil && was.Role == role:
		return was, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return o, err
	}
	if err := tx.PutOperator(ctx, o); err != nil {
		return o, err
	}
	return o, note(ctx, k, tx, by, "operator.add", u.Email, role)
}

// Remove makes somebody no operator, from their next call on.
func Remove(ctx context.Context, k kit.Kit, tx *store.Tx, email, by string) error {
	u, err := userOf(ctx, tx, email)
	if err != nil {
		return err
	}
	err = tx.DeleteOperator(ctx, u.ID)
	if errors.Is(err, store.ErrNotFound) {
		return fault.New(fault.NotFound, "NOT_FOUND", "%s is no operator", u.Email)
	}
	if err != nil {
		return err
	}
	return note(ctx, k, tx, by, "operator.remove", u.Email, "")
}

// userOf finds the account of an address that signs in by email: what a tenant's identity
// provider says of an address proves nothing here.
func userOf(ctx context.Context, tx *store.Tx, email string) (store.User, error) {
	u, err := tx.GetUserByEmail(ctx, strings.ToLower(strings.TrimSpace(email)))
	if errors.Is(err, store.ErrNotFound) {
		return u, fault.New(fault.NotFound, "NOT_FOUND", "nobody signs in by email as %q; they sign up or accept an invitation first", email)
	}
	return u, err
}

// note writes into the operators' log.
func note(ctx context.Context, k kit.Kit, tx *store.Tx, by, action, target, detail string) error {
	now := k.Now()
	e := store.OperatorEntry{ID: k.IDs.New(ids.Audit, now), At: now, Actor: by, Action: action, Target: target, Detail: detail}
	if err := tx.InsertOperatorEntry(ctx, e); err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	return nil
}

// ApplyPlan is plans.Apply with its entry in the operators' log.
func ApplyPlan(ctx context.Context, k kit.Kit, tx *store.Tx, s plans.Spec, base int64, dryRun bool, by, reason string) (int64, []plans.Difference, error) {
	version, differ, err := plans.Apply(ctx, tx, k.Now(), s, base, dryRun)
	if errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrExists) {
		err = fault.New(fault.Conflict, "CONFLICT", "somebody else applied a version of plan %s at this moment; load it again", s.Name)
	}
	if err != nil || dryRun || len(differ) == 0 {
		return version, differ, err
	}
	return version, differ, note(ctx, k, tx, by, "plan.apply", fmt.Sprintf("%s %d", s.Name, version), reason)
}

// reasonOf checks why an operator changes something.
func reasonOf(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		return "", fault.InvalidField("reason", "say why")
	case n > reasonMax:
		return "", fault.InvalidField("reason", "can't have more than %d characters", reasonMax)
	}
	return text, nil
}

// in is a context in which an operator's call is about a tenant.
func in(ctx context.Context, t store.Tenant) context.Context {
	c := access.From(ctx)
	c.TenantID, c.Tenant, c.Plan = t.ID, t.Name, t.Plan
	return access.With(ctx, c)
}

// find a living tenant by its name or id.
func find(ctx context.Context, tx *store.Tx, named string) (store.Tenant, error) {
	t, err := tx.GetTenantByName(ctx, named)
	if errors.Is(err, store.ErrNotFound) {
		t, err = tx.GetTenant(ctx, named)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fault.Missing("tenant")
	}
	return t, err
}

// checkEnd wants an end.
func checkEnd(ends time.Time) error {
	if ends.IsZero() {
		return fault.InvalidField("ends_at", "say when the plan counts again")
	}
	return nil
}
