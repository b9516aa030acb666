package factors

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/codes"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// period of a code of an app, and how many periods a clock may be off.
	period = 30 * time.Second
	skew   = 1

	// codeKind is what recovery codes are among one-time codes.
	codeKind = "recovery"
)

// StartTotp draws the secret of an authenticator app. An older one that was set up halfway
// is forgotten.
func (s *Service) StartTotp(ctx context.Context, _ *cloudv1.StartTotpRequest) (*cloudv1.StartTotpResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: c.Name})
	if err != nil {
		return nil, fmt.Errorf("draw the secret of an app: %w", err)
	}
	sealed, err := s.Seal.Seal(seal.TotpSecret, []byte(key.Secret()))
	if err != nil {
		return nil, err
	}
	now := s.Now()
	f := store.Factor{ID: s.IDs.New(ids.Factor, now), UserID: c.UserID, Kind: store.FactorTOTP, Secret: sealed, CreatedAt: now}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		if _, err := s.mayAdd(ctx, tx, c); err != nil {
			return err
		}
		if err := tx.DeleteHalfFactors(ctx, c.UserID); err != nil {
			return err
		}
		return tx.InsertFactor(ctx, f)
	})
	return &cloudv1.StartTotpResponse{FactorId: f.ID, Secret: key.Secret(), Uri: key.URL()}, err
}

// FinishTotp makes an app count that has given a code.
func (s *Service) FinishTotp(ctx context.Context, r *cloudv1.FinishTotpRequest) (*cloudv1.FinishTotpResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	name, err := factorName(r.GetName(), "Authenticator app")
	if err != nil {
		return nil, err
	}
	res := &cloudv1.FinishTotpResponse{}
	return res, s.Store.Service(ctx, func(tx *store.Tx) error {
		f, err := tx.GetFactor(ctx, c.UserID, r.GetFactorId())
		if errors.Is(err, store.ErrNotFound) || err == nil && (f.Kind != store.FactorTOTP || !f.ConfirmedAt.IsZero()) {
			return fault.Missing("factor")
		}
		if err != nil {
			return err
		}
		had, err := s.mayAdd(ctx, tx, c)
		if err != nil {
			return err
		}
		err = s.guarded(ctx, tx, c.UserID, "code", func() (bool, error) {
			step, err := s.stepOf(f, r.GetCode())
			f.Step = step
			return step != 0, err
		})
		if err != nil {
			return err
		}
		f.Name, f.ConfirmedAt = name, s.Now()
		if err := tx.ConfirmFactor(ctx, f); err != nil {
			return err
		}
		res.Factor = message(f)
		res.RecoveryCodes, err = s.added(ctx, tx, c, f, had)
		return err
	})
}

// stepOf is the step whose code that is, and 0 if it is of none that counts now.
func (s *Service) stepOf(f store.Factor, code string) (int64, error) {
	secret, err := s.Seal.Open(seal.TotpSecret, f.Secret)
	if err != nil {
		return 0, err
	}
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	now, found := s.Now(), int64(0)
	for off := -skew; off <= skew; off++ {
		at := now.Add(time.Duration(off) * period)
		want, err := totp.GenerateCodeCustom(string(secret), at, totp.ValidateOpts{Period: uint(period.Seconds()), Digits: otp.DigitsSix})
		if err != nil {
			return 0, fmt.Errorf("compute a code: %w", err)
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			found = at.Unix() / int64(period.Seconds())
		}
	}
	return found, nil
}

// proveByTotp accepts a code of any of the person's apps, each step once.
func (s *Service) proveByTotp(ctx context.Context, tx *store.Tx, userID, code string) error {
	return s.guarded(ctx, tx, userID, "proof.totp_code", func() (bool, error) {
		all, err := tx.ListFactors(ctx, userID)
		if err != nil {
			return false, err
		}
		for _, f := range all {
			if f.Kind != store.FactorTOTP {
				continue
			}
			step, err := s.stepOf(f, code)
			if err != nil {
				return false, err
			}
			if step == 0 {
				continue
			}
			err = tx.UseStep(ctx, f.ID, step, s.Now())
			if !errors.Is(err, store.ErrNotFound) { // Used already.
				return err == nil, err
			}
		}
		return false, nil
	})
}

// guarded is Guess with a factor of the person.
func (s *Service) guarded(ctx context.Context, tx *store.Tx, userID, field string, check func() (bool, error)) error {
	return codes.Guess{UserID: userID, Field: field, Otherwise: "; a passkey does"}.Check(ctx, tx, s.Now(), check)
}

// CreateRecoveryCodes replaces the caller's.
func (s *Service) CreateRecoveryCodes(ctx context.Context, _ *cloudv1.CreateRecoveryCodesRequest) (*cloudv1.CreateRecoveryCodesResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	res := &cloudv1.CreateRecoveryCodesResponse{}
	return res, s.Store.Service(ctx, func(tx *store.Tx) error {
		has, err := tx.HasFactor(ctx, c.UserID)
		if err == nil && !has {
			err = fault.New(fault.Conflict, "NO_FACTOR", "recovery codes are for those who have a passkey or an authenticator app; set up one first")
		}
		if err != nil {
			return err
		}
		if res.RecoveryCodes, err = s.newRecoveryCodes(ctx, tx, c.UserID); err != nil {
			return err
		}
		return s.record(ctx, tx, c, "recovery_codes.create", store.Factor{ID: c.UserID, Kind: "recovery_codes"})
	})
}

func (s *Service) newRecoveryCodes(ctx context.Context, tx *store.Tx, userID string) ([]string, error) {
	shown, digests := codes.New(codeKind, userID)
	return shown, tx.PutRecoveryCodes(ctx, userID, digests, s.Now())
}

// proveByRecovery accepts a recovery code, once.
func (s *Service) proveByRecovery(ctx context.Context, tx *store.Tx, c access.Caller, code string) error {
	return s.guarded(ctx, tx, c.UserID, "proof.recovery_code", func() (bool, error) {
		err := tx.UseRecoveryCode(ctx, c.UserID, codes.Digest(codeKind, c.UserID, code), s.Now())
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err == nil {
			err = s.record(ctx, tx, c, "recovery_codes.use", store.Factor{ID: c.UserID, Kind: "recovery_code"})
		}
		return err == nil, err
	})
}
