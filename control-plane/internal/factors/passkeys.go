package factors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// ceremonyLife is how long a browser may take.
	ceremonyLife   = 5 * time.Minute
	ceremonyPrefix = "corvo_ceremony_"
	setup          = "passkey.setup"
	proof          = "passkey.proof"
)

// owner is a person as the library asks for one.
type owner struct {
	c    access.Caller
	keys []webauthn.Credential
}

func (o owner) WebAuthnID() []byte                         { return []byte(o.c.UserID) }
func (o owner) WebAuthnName() string                       { return o.c.Name }
func (o owner) WebAuthnDisplayName() string                { return o.c.Name }
func (o owner) WebAuthnCredentials() []webauthn.Credential { return o.keys }

// ownerOf is the caller with their passkeys.
func ownerOf(ctx context.Context, tx *store.Tx, c access.Caller) (o owner, passkeys []store.Factor, _ error) {
	all, err := tx.ListFactors(ctx, c.UserID)
	if err != nil {
		return o, nil, err
	}
	o.c = c
	for _, f := range all {
		if f.Kind != store.FactorPasskey {
			continue
		}
		var k webauthn.Credential
		if err := json.Unmarshal([]byte(f.Credential), &k); err != nil {
			return o, nil, fmt.Errorf("read passkey %s: %w", f.ID, err)
		}
		o.keys, passkeys = append(o.keys, k), append(passkeys, f)
	}
	return o, passkeys, nil
}

// StartPasskey begins the setup of one.
func (s *Service) StartPasskey(ctx context.Context, _ *cloudv1.StartPasskeyRequest) (*cloudv1.StartPasskeyResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	if s.passkeys == nil {
		return nil, fault.New(fault.Conflict, "NO_PASSKEYS_HERE", "browsers have no passkeys for addresses like %s; open the console under a host name, or set up an authenticator app", s.URLs.Public)
	}
	res := &cloudv1.StartPasskeyResponse{}
	return res, s.Store.Service(ctx, func(tx *store.Tx) error {
		if _, err := s.mayAdd(ctx, tx, c); err != nil {
			return err
		}
		o, _, err := ownerOf(ctx, tx, c)
		if err != nil {
			return err
		}
		known := webauthn.Credentials(o.keys).CredentialDescriptors()
		options, data, err := s.passkeys.BeginRegistration(o, webauthn.WithExclusions(known))
		if err != nil {
			return fmt.Errorf("begin a passkey: %w", err)
		}
		res.Ceremony, res.OptionsJson, err = s.begin(ctx, tx, setup, c, options.Response, data)
		return err
	})
}

// begin keeps the challenge for the session that asked, and gives what the browser needs.
func (s *Service) begin(ctx context.Context, tx *store.Tx, purpose string, c access.Caller, options any, data *webauthn.SessionData) (ceremony, optionsJSON string, _ error) {
	raw, err := json.Marshal(options)
	if err != nil {
		return "", "", fmt.Errorf("encode passkey options: %w", err)
	}
	kept, err := json.Marshal(data)
	if err != nil {
		return "", "", fmt.Errorf("keep a passkey's challenge: %w", err)
	}
	now := s.Now()
	token, digest := seal.NewToken(ceremonyPrefix)
	t := store.Token{Digest: digest, Purpose: purpose, Subject: c.SessionID, Data: string(kept), CreatedAt: now, ExpiresAt: now.Add(ceremonyLife)}
	return token, string(raw), tx.InsertToken(ctx, t)
}

// challenge uses up the one of a ceremony, which counts for the session that began it.
func (s *Service) challenge(ctx context.Context, tx *store.Tx, purpose, ceremony string, c access.Caller) (data webauthn.SessionData, _ error) {
	now := s.Now()
	t, err := tx.UseToken(ctx, seal.Digest(ceremony), purpose, now)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return data, err
	case err != nil || t.Subject != c.SessionID || !t.UsedAt.IsZero() || !now.Before(t.ExpiresAt):
		return data, store.CommitDespite(fault.New(fault.Conflict, "CEREMONY_ENDED", "the passkey dialog was open for too long, or was answered already; try again"))
	}
	if err := json.Unmarshal([]byte(t.Data), &data); err != nil {
		return data, fmt.Errorf("read a passkey's challenge: %w", err)
	}
	return data, nil
}

// badPasskey keeps what was used up; the library's reason goes to the log alone.
func (s *Service) badPasskey(ctx context.Context, err error) error {
	s.Log.InfoContext(ctx, "passkey refused", "error", err)
	return store.CommitDespite(fault.New(fault.Invalid, "PASSKEY_REFUSED", "the passkey's answer doesn't count; try again, or use another factor"))
}

// FinishPasskey adds the passkey that the browser made.
func (s *Service) FinishPasskey(ctx context.Context, r *cloudv1.FinishPasskeyRequest) (*cloudv1.FinishPasskeyResponse, error) {
	c, err := person(ctx)
	if err != nil {
		return nil, err
	}
	name, err := factorName(r.GetName(), "Passkey")
	if err != nil {
		return nil, err
	}
	res := &cloudv1.FinishPasskeyResponse{}
	return res, s.Store.Service(ctx, func(tx *store.Tx) error {
		had, err := s.mayAdd(ctx, tx, c) // First, so that a refusal does not use the ceremony up.
		if err != nil {
			return err
		}
		data, err := s.challenge(ctx, tx, setup, r.GetCeremony(), c)
		if err != nil {
			return err
		}
		answer, err := protocol.ParseCredentialCreationResponseBytes([]byte(r.GetCredentialJson()))
		if err != nil {
			return s.badPasskey(ctx, err)
		}
		made, err := s.passkeys.CreateCredential(owner{c: c}, data, answer)
		if err != nil {
			return s.badPasskey(ctx, err)
		}
		kept, err := json.Marshal(made)
		if err != nil {
			return fmt.Errorf("keep a passkey: %w", err)
		}
		now := s.Now()
		f := store.Factor{ID: s.IDs.New(ids.Factor, now), UserID: c.UserID, Kind: store.FactorPasskey, Name: name, Credential: string(kept), CreatedAt: now, ConfirmedAt: now}
		if err := tx.InsertFactor(ctx, f); err != nil {
			return err
		}
		res.Factor = message(f)
		res.RecoveryCodes, err = s.added(ctx, tx, c, f, had)
		return err
	})
}

// proveByPasskey accepts an assertion of one of the person's passkeys. A counter that went
// back is a copy.
func (s *Service) proveByPasskey(ctx context.Context, tx *store.Tx, c access.Caller, p *cloudv1.PasskeyProof) error {
	data, err := s.challenge(ctx, tx, proof, p.GetCeremony(), c)
	if err != nil {
		return err
	}
	answer, err := protocol.ParseCredentialRequestResponseBytes([]byte(p.GetCredentialJson()))
	if err != nil {
		return s.badPasskey(ctx, err)
	}
	o, passkeys, err := ownerOf(ctx, tx, c)
	if err != nil {
		return err
	}
	used, err := s.passkeys.ValidateLogin(o, data, answer)
	if err != nil {
		return s.badPasskey(ctx, err)
	}
	if used.Authenticator.CloneWarning {
		return s.badPasskey(ctx, errors.New("its counter went back"))
	}
	i := slices.IndexFunc(o.keys, func(k webauthn.Credential) bool { return slices.Equal(k.ID, used.ID) })
	kept, err := json.Marshal(used)
	if err != nil || i < 0 {
		return fmt.Errorf("keep a passkey: %w", err)
	}
	f := passkeys[i]
	f.Credential, f.UsedAt = string(kept), s.Now()
	return tx.UsePasskey(ctx, f)
}
