package policy

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/codes"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// breakGlassLife is how long a code lets a session in.
const breakGlassLife = time.Hour

// codeKind keeps these codes apart from recovery codes.
const codeKind = "break-glass"

// CreateBreakGlassCodes replaces the tenant's codes.
func (s *Service) CreateBreakGlassCodes(ctx context.Context, _ *cloudv1.CreateBreakGlassCodesRequest) (*cloudv1.CreateBreakGlassCodesResponse, error) {
	c := access.From(ctx)
	if !c.SignedIn() || !isOwner(c.Rights) {
		return nil, fault.New(fault.Denied, "OWNERS_ONLY", "break-glass codes let owners in; only an owner who is signed in can make them, and no key can")
	}
	shown, digests := codes.New(codeKind, c.TenantID)
	return &cloudv1.CreateBreakGlassCodesResponse{Codes: shown}, s.Write(ctx, func(tx *store.Tx) error {
		return change.Make(ctx, s.Kit, tx, "break_glass_codes.create", change.BreakGlassCodes(c.TenantID, digests), change.Fields{"codes": {After: len(shown)}})
	})
}

// UseBreakGlassCode lets the session of an owner in for a while. The gate doesn't ask for the
// tenant, since it would refuse.
func (s *Service) UseBreakGlassCode(ctx context.Context, r *cloudv1.UseBreakGlassCodeRequest) (*cloudv1.UseBreakGlassCodeResponse, error) {
	c := access.From(ctx)
	if c.SessionID == "" || c.BySSO || c.OnlyTenantID != "" {
		return nil, fault.New(fault.Denied, "SIGN_IN_BY_EMAIL", "break-glass codes are for owners who signed in by emailed link; keys, invitations and single sign-on can't use them")
	}
	if r.GetTenant() == "" {
		return nil, fault.InvalidField("tenant", "enter its name")
	}
	res := &cloudv1.UseBreakGlassCodeResponse{}
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		t, may, err := ownTenant(ctx, tx, c, r.GetTenant())
		if err != nil {
			return err
		}
		if !isOwner(may) {
			return fault.New(fault.Denied, "OWNERS_ONLY", "break-glass codes are for owners of %s; ask one of them", t.Name)
		}
		c.TenantID, c.Tenant, c.Rights = t.ID, t.Name, may
		ctx := access.With(ctx, c)
		err = codes.Guess{UserID: c.UserID, Field: "code"}.Check(ctx, tx, s.Now(), func() (bool, error) {
			return s.useCode(ctx, tx, r.GetCode())
		})
		if err != nil {
			return err
		}
		return s.letIn(ctx, tx, res)
	})
	s.Wake()
	return res, err
}

// ownTenant finds a tenant that the caller is a member of, and what they may do there.
func ownTenant(ctx context.Context, tx *store.Tx, c access.Caller, named string) (store.Tenant, access.Rights, error) {
	own, err := tx.ListAccess(ctx, c.UserID)
	if err != nil {
		return store.Tenant{}, access.Rights{}, err
	}
	for _, a := range own {
		if a.Tenant.ID == named || a.Tenant.Name == named {
			may, err := rights.Of(ctx, tx, a.Tenant.ID, c.UserID)
			return a.Tenant, may, err
		}
	}
	return store.Tenant{}, access.Rights{}, fault.Missing("tenant")
}

func (s *Service) useCode(ctx context.Context, tx *store.Tx, code string) (bool, error) {
	c := access.From(ctx)
	err := tx.UseBreakGlassCode(ctx, c.TenantID, codes.Digest(codeKind, c.TenantID, code), s.Now())
	if errors.Is(err, store.ErrNotFound) {
		target := change.Target{Type: "break_glass_codes", ID: c.TenantID, Name: "Break-glass codes", TenantID: c.TenantID}
		return false, change.Make(ctx, s.Kit, tx, "break_glass_codes.refuse", change.AuditOnly(target), nil)
	}
	return err == nil, err
}

// letIn writes the entry and tells all owners.
func (s *Service) letIn(ctx context.Context, tx *store.Tx, res *cloudv1.UseBreakGlassCodeResponse) error {
	c, now := access.From(ctx), s.Now()
	left, err := tx.CountBreakGlassCodes(ctx, c.TenantID)
	if err != nil {
		return err
	}
	e := store.BreakGlassEntry{TenantID: c.TenantID, SessionID: c.SessionID, UserID: c.UserID, CreatedAt: now, ExpiresAt: now.Add(breakGlassLife)}
	err = change.Make(ctx, s.Kit, tx, "break_glass_codes.use", change.EnterByBreakGlass(e, c.Name), change.Fields{"codes_left": {After: left}})
	if err != nil {
		return err
	}
	res.ExpiresAt, res.CodesLeft = timestamppb.New(e.ExpiresAt), int32(left)
	owners, err := ownersOf(ctx, tx, c.TenantID)
	if err != nil {
		return err
	}
	for _, o := range owners {
		to, err := mail.Address(o.User.Email)
		if err != nil {
			continue // A provider may tell no address, or anything.
		}
		msg, err := mail.BreakGlassUsed(to, c.Tenant, c.Name, c.Peer, s.URLs.Console("/"+c.Tenant+"/settings/audit"), now, e.ExpiresAt, left)
		if err == nil {
			err = mail.Put(ctx, s.Kit, tx, c.TenantID, c.SessionID, msg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
