package factors

import (
	"context"
	"errors"
	"fmt"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// errKeyProves: keys have no second factor.
var errKeyProves = fault.New(fault.Invalid, "NO_SESSION", "a key has no second factor; this is for people")

// StartProof tells what the caller may show.
func (s *Service) StartProof(ctx context.Context, _ *cloudv1.StartProofRequest) (*cloudv1.StartProofResponse, error) {
	c := access.From(ctx)
	if !c.SignedIn() {
		return nil, errKeyProves
	}
	res := &cloudv1.StartProofResponse{}
	return res, s.Store.Service(ctx, func(tx *store.Tx) error {
		all, err := tx.ListFactors(ctx, c.UserID)
		if err != nil {
			return err
		}
		for _, f := range all {
			res.Totp = res.Totp || f.Kind == store.FactorTOTP
		}
		left, err := tx.CountRecoveryCodes(ctx, c.UserID)
		if err != nil {
			return err
		}
		res.Recovery = left > 0
		o, _, err := ownerOf(ctx, tx, c)
		if err != nil || len(o.keys) == 0 || s.passkeys == nil {
			return err
		}
		options, data, err := s.passkeys.BeginLogin(o)
		if err != nil {
			return fmt.Errorf("begin a passkey's proof: %w", err)
		}
		res.Ceremony, res.OptionsJson, err = s.begin(ctx, tx, proof, c, options.Response, data)
		return err
	})
}

// Prove checks a second factor: it finishes a sign-in, or makes the session's proof fresh.
func (s *Service) Prove(ctx context.Context, r *cloudv1.ProveRequest) (*cloudv1.ProveResponse, error) {
	c := access.From(ctx)
	if !c.SignedIn() {
		return nil, errKeyProves
	}
	var opened session.Opened
	res := &cloudv1.ProveResponse{}
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		opened = session.Opened{}
		own, err := tx.GetSessionOfUser(ctx, c.UserID, c.SessionID)
		if errors.Is(err, store.ErrNotFound) { // Ended beside this call.
			return fault.New(fault.Unauthenticated, "SESSION_ENDED", "your session has ended; sign in again")
		}
		if err == nil {
			err = s.check(ctx, tx, c, r)
		}
		switch {
		case err != nil:
			return err
		case own.Pending == "":
			return tx.ProveSession(ctx, own.Digest, s.Now())
		}
		var done *cloudv1.FinishLoginResponse
		if done, opened, err = s.SignIns.FinishProved(ctx, tx, own); err != nil {
			return err
		}
		res.Tenants, res.Joined = done.GetTenants(), done.GetJoined()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if opened.Token != "" {
		cookies.From(ctx).SetSession(opened.Token, opened.ExpiresAt)
	}
	return res, nil
}

func (s *Service) check(ctx context.Context, tx *store.Tx, c access.Caller, r *cloudv1.ProveRequest) error {
	switch p := r.GetProof().(type) {
	case *cloudv1.ProveRequest_TotpCode:
		return s.proveByTotp(ctx, tx, c.UserID, p.TotpCode)
	case *cloudv1.ProveRequest_RecoveryCode:
		return s.proveByRecovery(ctx, tx, c, p.RecoveryCode)
	case *cloudv1.ProveRequest_Passkey:
		return s.proveByPasskey(ctx, tx, c, p.Passkey)
	}
	return fault.InvalidField("proof", "show a code, a recovery code or a passkey")
}
