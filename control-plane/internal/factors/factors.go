package factors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// factorsMax of a person.
	factorsMax = 20
	// nameMax is in characters.
	nameMax = 100
	// issuer is what authenticator apps and passkey dialogs show.
	issuer = "Corvo"
)

// Needs are what a Service is built of.
type Needs struct {
	kit.Kit
	SignIns SignIns
}

// SignIns finishes a sign-in whose second factor was shown.
type SignIns interface {
	FinishProved(ctx context.Context, tx *store.Tx, half store.Session) (*cloudv1.FinishLoginResponse, session.Opened, error)
}

// Service is the use cases of second factors.
type Service struct {
	Needs
	passkeys *webauthn.WebAuthn // nil where browsers have none.
}

// New makes a Service.
func New(n Needs) (*Service, error) {
	s := &Service{Needs: n}
	u, err := url.Parse(n.URLs.Public)
	if err != nil {
		return nil, fmt.Errorf("second factors: %w", err)
	}
	if net.ParseIP(u.Hostname()) != nil {
		return s, nil // A passkey belongs to a name.
	}
	s.passkeys, err = webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: issuer, RPOrigins: []string{n.URLs.Public}, AttestationPreference: protocol.PreferNoAttestation,
	})
	if err != nil {
		return nil, fmt.Errorf("second factors: %w", err)
	}
	return s, nil
}

// person refuses callers that are none, or whose session is not theirs to change factors in.
func person(ctx context.Context) (access.Caller, error) {
	c := access.From(ctx)
	switch {
	case !c.SignedIn() || c.ByCLI:
		return c, fault.New(fault.Denied, "NEEDS_BROWSER", "second factors are set up by a person who is signed in to the console; keys and programs can't")
	case c.OnlyTenantID != "" && !c.BySSO:
		return c, fault.New(fault.Denied, "SIGN_IN_FIRST", "this session began with an invitation; sign in with a link to %s before you set up a second factor", c.Name)
	}
	return c, nil
}

// ListFactors lists the caller's.
func (s *Service) ListFactors(ctx context.Context, _ *cloudv1.ListFactorsRequest) (*cloudv1.ListFactorsResponse, error) {
	c := access.From(ctx)
	if !c.SignedIn() {
		return nil, errKeyProves
	}
	res := &cloudv1.ListFactorsResponse{}
	return res, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		all, err := tx.ListFactors(ctx, c.UserID)
		if err != nil {
			return err
		}
		for _, f := range all {
			res.Factors = append(res.Factors, message(f))
		}
		n, err := tx.CountRecoveryCodes(ctx, c.UserID)
		res.RecoveryCodes = int32(n)
		return err
	})
}

func message(f store.Factor) *cloudv1.Factor {
	m := &cloudv1.Factor{Id: f.ID, Kind: cloudv1.FactorKind_FACTOR_KIND_PASSKEY, Name: f.Name, CreatedAt: timestamppb.New(f.CreatedAt)}
	if f.Kind == store.FactorTOTP {
		m.Kind = cloudv1.FactorKind_FACTOR_KIND_TOTP
	}
	if !f.UsedAt.IsZero() {
		m.LastUsedAt = timestamppb.New(f.UsedAt)
	}
	return m
}

// RenameFactor changes what people see.
func (s *Service) RenameFactor(ctx context.Context, r *cloudv1.RenameFactorRequest) (*cloudv1.RenameFactorResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	name, err := factorName(r.GetName(), "")
	if err != nil {
		return nil, err
	}
	res := &cloudv1.RenameFactorResponse{}
	return res, s.Store.Service(ctx, func(tx *store.Tx) error {
		f, err := find(ctx, tx, c.UserID, r.GetFactorId())
		if err != nil {
			return err
		}
		f.Name, res.Factor = name, message(f)
		res.Factor.Name = name
		return tx.RenameFactor(ctx, f)
	})
}

// RemoveFactor removes one; recovery codes are worth nothing without a factor.
func (s *Service) RemoveFactor(ctx context.Context, r *cloudv1.RemoveFactorRequest) (*cloudv1.RemoveFactorResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	return &cloudv1.RemoveFactorResponse{}, s.Store.Service(ctx, func(tx *store.Tx) error {
		f, err := find(ctx, tx, c.UserID, r.GetFactorId())
		if err != nil {
			return err
		}
		if err := tx.DeleteFactor(ctx, c.UserID, f.ID); err != nil {
			return err
		}
		left, err := tx.HasFactor(ctx, c.UserID)
		if err == nil && !left {
			err = tx.PutRecoveryCodes(ctx, c.UserID, nil, s.Now())
		}
		if err != nil {
			return err
		}
		return s.recordRights(ctx, tx, c, "factor.delete", f, !left)
	})
}

// find gives a factor that counts.
func find(ctx context.Context, tx *store.Tx, userID, id string) (store.Factor, error) {
	f, err := tx.GetFactor(ctx, userID, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && f.ConfirmedAt.IsZero() {
		return f, fault.Missing("factor")
	}
	return f, err
}

// added does what belongs to every new factor: the first one comes with recovery codes.
func (s *Service) added(ctx context.Context, tx *store.Tx, c access.Caller, f store.Factor, had bool) (codes []string, err error) {
	if !had {
		if codes, err = s.newRecoveryCodes(ctx, tx, c.UserID); err != nil {
			return nil, err
		}
		// What was begun before needed no proof: whoever else has a session of this person
		// must not finish it now.
		if err := tx.DeleteHalfFactors(ctx, c.UserID); err != nil {
			return nil, err
		}
		// Whoever sets it up has it at hand; they are not asked again at once.
		own, err := tx.GetSessionOfUser(ctx, c.UserID, c.SessionID)
		if err == nil {
			err = tx.ProveSession(ctx, own.Digest, s.Now())
		}
		if err != nil {
			return nil, err
		}
	}
	return codes, s.recordRights(ctx, tx, c, "factor.create", f, !had)
}

// record writes into the logs of all tenants that the person is a member of.
func (s *Service) record(ctx context.Context, tx *store.Tx, c access.Caller, action string, f store.Factor) error {
	return s.recordRights(ctx, tx, c, action, f, false)
}

// recordRights is record, with what the person's keys may do where a second factor is
// required, if that has changed.
func (s *Service) recordRights(ctx context.Context, tx *store.Tx, c access.Caller, action string, f store.Factor, changed bool) error {
	own, err := tx.ListAccess(ctx, c.UserID)
	if err != nil {
		return err
	}
	for _, a := range own {
		target := change.Target{Type: "factor", ID: f.ID, Name: c.Name, TenantID: a.Tenant.ID}
		r := change.AuditOnly(target)
		if changed {
			p, err := tx.GetSignInPolicy(ctx, a.Tenant.ID)
			if err != nil {
				return err
			}
			if p.RequireSecondFactor {
				r = r.Rights(c.UserID)
			}
		}
		if err := change.Make(ctx, s.Kit, tx, action, r, change.Fields{"kind": {After: string(f.Kind)}}); err != nil {
			return err
		}
	}
	return nil
}

// mayAdd refuses more factors than anybody has, and a caller who has one and hasn't shown it,
// and tells whether there is one. The gate asks for the proof too, but before the transaction:
// the first factor may have come since.
func (s *Service) mayAdd(ctx context.Context, tx *store.Tx, c access.Caller) (had bool, _ error) {
	all, err := tx.ListFactors(ctx, c.UserID)
	switch {
	case err != nil:
		return false, err
	case len(all) >= factorsMax:
		return true, fault.New(fault.Exhausted, "FACTOR_LIMIT", "you have %d second factors; remove one that you no longer use", len(all))
	case len(all) > 0 && !session.Proved(c.ProvedAt, s.Now()):
		return true, session.ErrStepUp
	}
	return len(all) > 0, nil
}

func factorName(text, otherwise string) (string, error) {
	name := strings.TrimSpace(text)
	if name == "" {
		name = otherwise
	}
	switch {
	case name == "":
		return "", fault.InvalidField("name", "enter a name")
	case utf8.RuneCountInString(name) > nameMax:
		return "", fault.InvalidField("name", "can't have more than %d characters", nameMax)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", fault.InvalidField("name", "can't contain control characters")
	}
	return name, nil
}
