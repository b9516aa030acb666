package signup

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// PreviewConfirm tells whose tenant a link would make, so that a page can ask before it
// signs anybody in: the link may be somebody else's, sent on to catch what is done next.
func (s *Service) PreviewConfirm(ctx context.Context, r *cloudv1.PreviewConfirmRequest) (*cloudv1.PreviewConfirmResponse, error) {
	if r.GetToken() == "" {
		return nil, fault.InvalidField("token", "use the token from the link in the email")
	}
	su, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) (store.Signup, error) {
		return s.find(ctx, tx, &cloudv1.ConfirmRequest{Token: r.GetToken()}, s.Now())
	})
	if err != nil {
		return nil, err
	}
	return &cloudv1.PreviewConfirmResponse{
		Email: su.Email, Tenant: su.TenantName,
		StartedHere: su.Browser != "" && seal.Digest(cookies.From(ctx).Started()) == su.Browser,
	}, nil
}

// Confirm makes the tenant and shows its keys. If the answer is lost on the way, so are
// the keys: the link is used, and whoever signs in makes new ones.
func (s *Service) Confirm(ctx context.Context, r *cloudv1.ConfirmRequest) (*cloudv1.ConfirmResponse, error) {
	if err := s.validateConfirm(r); err != nil {
		return nil, err
	}
	made, err := s.newMaterial()
	if err != nil {
		return nil, err
	}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		made.opened = session.Opened{}
		return s.confirm(ctx, tx, r, made)
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	if made.opened.Token != "" {
		cookies.From(ctx).SetSession(made.opened.Token, made.opened.ExpiresAt)
	}
	return s.answer(ctx, made), nil
}

func (s *Service) validateConfirm(r *cloudv1.ConfirmRequest) error {
	byCode := r.GetSignupId() != "" || r.GetCode() != ""
	switch {
	case r.GetToken() == "" && !byCode:
		return fault.InvalidField("token", "use the token from the link in the email, or signup_id and code")
	case r.GetToken() != "" && byCode:
		return fault.InvalidField("token", "use either the token, or signup_id and code")
	case r.GetToken() != "":
		return nil
	case !ids.Is(ids.Signup, r.GetSignupId()):
		return fault.InvalidField("signup_id", "must be the signup_id from the response of Start")
	case !isCode(r.GetCode()):
		return fault.InvalidField("code", "must be the six digits from the email")
	}
	return nil
}

func isCode(c string) bool {
	return len(c) == codeDigits && strings.Trim(c, "0123456789") == ""
}

// material is what one confirmation makes, drawn before the transaction so that running
// it again makes the same.
type material struct {
	tenancy.TenantSetup
	jobs   apikey.Key
	manage apikey.Key
	opened session.Opened
	now    time.Time
}

func (s *Service) newMaterial() (*material, error) {
	now := s.Now()
	jobs, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		return nil, fmt.Errorf("make a key for jobs: %w", err)
	}
	manage, err := apikey.Generate(apikey.Management)
	if err != nil {
		return nil, fmt.Errorf("make a management key: %w", err)
	}
	m := &material{jobs: jobs, manage: manage, now: now}
	m.Tenant = store.Tenant{ID: s.IDs.New(ids.Tenant, now), Plan: plans.First, Cell: s.Cell}
	m.Namespace = store.Namespace{ID: s.IDs.New(ids.Namespace, now), Name: tenancy.FirstNamespace}
	m.Owner = store.User{ID: s.IDs.New(ids.User, now), CreatedAt: now, SeenAt: now}
	forJobs := tenancy.NewFirstKey(jobs, "First key", s.IDs.New(ids.ServiceAccount, now), permission.RoleProducer, permission.RoleWorker, permission.RoleViewer)
	forJobs.NamespaceIDs = []string{m.Namespace.ID}
	m.Keys = []tenancy.FirstKey{forJobs, tenancy.NewFirstKey(manage, "First management key", s.IDs.New(ids.ServiceAccount, now))}
	return m, nil
}

// confirm keeps what was counted if it refuses before it makes anything.
func (s *Service) confirm(ctx context.Context, tx *store.Tx, r *cloudv1.ConfirmRequest, m *material) error {
	su, err := s.find(ctx, tx, r, m.now)
	if err != nil {
		return err
	}
	if err := checkFree(ctx, tx, su.TenantName); err != nil {
		return err
	}
	m.Tenant.Name, m.Owner.Email = su.TenantName, su.Email
	isNew, err := tenancy.FindOrInsertUser(ctx, tx, &m.Owner)
	if errors.Is(err, store.ErrExists) { // Another confirmation for the same address was faster.
		return fault.New(fault.Unavailable, "TRY_AGAIN", "another sign-up with %s is being confirmed right now; try again", su.Email)
	}
	if err != nil {
		return err
	}
	if !isNew {
		if err := ownsTooMany(ctx, tx, m.Owner); err != nil {
			return err
		}
	}
	if err := s.found(ctx, tx, m); err != nil {
		return err
	}
	if r.GetToken() != "" || isNew {
		if m.opened, err = session.OpenByMail(ctx, tx, s.IDs, m.now, m.Owner.ID, cookies.From(ctx).Came(), "{}"); err != nil {
			return err
		}
	}
	su.ConfirmedAt, su.TenantID = m.now, m.Tenant.ID
	return tx.UpdateSignup(ctx, su)
}

// find gives the sign-up that may be confirmed now, or says why it may not.
func (s *Service) find(ctx context.Context, tx *store.Tx, r *cloudv1.ConfirmRequest, now time.Time) (su store.Signup, err error) {
	if r.GetToken() != "" {
		su, err = tx.GetSignupByDigest(ctx, seal.Digest(r.GetToken()))
	} else {
		su, err = tx.GetSignup(ctx, r.GetSignupId())
	}
	if errors.Is(err, store.ErrNotFound) {
		return su, fault.New(fault.NotFound, "LINK_UNKNOWN", "this link is incomplete or too old; sign up again")
	}
	if err == nil && r.GetToken() == "" {
		err = s.checkCode(ctx, tx, &su, r.GetCode(), now)
	}
	if err != nil {
		return su, err
	}
	return su, s.ended(su, now)
}

// ended says why a sign-up is over; nil if it is not.
func (s *Service) ended(su store.Signup, now time.Time) error {
	switch {
	case !su.ConfirmedAt.IsZero():
		return store.CommitDespite(fault.New(fault.Conflict, "LINK_USED",
			"this sign-up is already confirmed, and %s exists; its keys can't be shown again. Sign in at %s with the same address and create a new key",
			su.TenantName, s.URLs.Console("/signin")))
	case su.ExpiresAt.Before(su.CreatedAt.Add(life)):
		return store.CommitDespite(fault.New(fault.Conflict, "LINK_REPLACED", "a newer email was sent for %s; use its link or code instead", su.TenantName))
	case !now.Before(su.ExpiresAt):
		return store.CommitDespite(fault.New(fault.Conflict, "LINK_EXPIRED", "this link expired after %d minutes; sign up again to get a new one", int(life.Minutes())))
	}
	return nil
}

// checkCode counts every code that is tried for an address, right or wrong: otherwise a
// new mail would bring whoever guesses new attempts for ever.
func (s *Service) checkCode(ctx context.Context, tx *store.Tx, su *store.Signup, code string, now time.Time) error {
	if su.Attempts >= attemptsMax {
		return fault.New(fault.Exhausted, "TOO_MANY_CODES", "too many wrong codes; open the link in the email, or sign up again for a new code")
	}
	err := ratelimit.Count(ctx, tx, now, ratelimit.Limit{
		Bucket: "signup.code:" + su.Email, Window: 24 * time.Hour, Max: s.Limits.CodesPerDay, What: "codes for this email address",
	})
	if refusal, ok := fault.As(err); ok {
		refusal.Reason = "TOO_MANY_CODES"
		refusal.Message += "; the link in the email still works"
	}
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(su.CodeDigest), []byte(codeDigest(su.ID, code))) == 1 {
		return nil
	}
	su.Attempts++
	if err := tx.UpdateSignup(ctx, *su); err != nil {
		return err
	}
	return store.CommitDespite(fault.New(fault.Invalid, "WRONG_CODE", "the code is wrong; attempts left: %d. You can also open the link in the email", attemptsMax-su.Attempts))
}

func ownsTooMany(ctx context.Context, tx *store.Tx, u store.User) error {
	all, err := tx.ListAccess(ctx, u.ID)
	if err != nil {
		return err
	}
	owned := 0
	for _, a := range all {
		held, err := principals.InTenant(ctx, tx, a.Tenant.ID, u.ID)
		if err != nil {
			return err
		}
		if principals.IsOwner(principals.RolesOf(held)) {
			owned++
		}
	}
	if owned < tenantsMax {
		return nil
	}
	return store.CommitDespite(fault.New(fault.Exhausted, "TENANT_LIMIT", "%s already owns %d tenants, the most that one person can own; use namespaces instead, or contact support", u.Email, owned))
}

// found makes the tenant, with the owner as the actor.
func (s *Service) found(ctx context.Context, tx *store.Tx, m *material) error {
	c := access.From(ctx)
	c.TenantID, c.Tenant = m.Tenant.ID, m.Tenant.Name
	c.UserID, c.KeyID, c.OwnerID, c.Name, c.OnlyTenantID, c.BySSO = m.Owner.ID, "", "", m.Owner.Email, "", false
	for i := range m.Keys {
		m.Keys[i].CreatedBy = m.Owner.ID
	}
	err := tenancy.EnsureTenant(access.With(ctx, c), s.Kit, tx, m.TenantSetup)
	if errors.Is(err, store.ErrExists) {
		return nameTaken(m.Tenant.Name, nil)
	}
	return err
}

// answer shows the keys, after they work or after waitMax.
func (s *Service) answer(ctx context.Context, m *material) *cloudv1.ConfirmResponse {
	ctx, cancel := context.WithTimeout(ctx, waitMax)
	defer cancel()
	return &cloudv1.ConfirmResponse{
		Tenant: m.Tenant.Name, TenantId: m.Tenant.ID, TenantUrl: s.URLs.Tenant(m.Tenant.Name),
		Namespace: m.Namespace.Name, NamespaceId: m.Namespace.ID,
		ApiKey: m.jobs.Reveal(), Token: m.manage.Reveal(),
		ConsoleUrl: s.URLs.Console("/" + m.Tenant.Name),
		Ready:      s.Ready(ctx, m.Tenant.ID, m.jobs.ID(), m.manage.ID()),
	}
}
