package factors

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/codes"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/urls"
)

// device is a person's, with a passkey for one console.
type device struct {
	rp  virtualwebauthn.RelyingParty
	key virtualwebauthn.Credential
	all virtualwebauthn.Authenticator
}

func newDevice(origin string) *device {
	return &device{
		rp:  virtualwebauthn.RelyingParty{Name: issuer, ID: "corvo.test", Origin: origin},
		key: wholeKey(),
		all: virtualwebauthn.NewAuthenticator(),
	}
}

// wholeKey is one whose coordinates don't begin with a zero: the library leaves those out of
// what it registers, one key in 128, and then no signature counts.
func wholeKey() virtualwebauthn.Credential {
	for {
		c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		parsed, _ := x509.ParsePKCS8PrivateKey(c.Key.Data) // As it was made.
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok {
			panic("the library's key is of another type")
		}
		if point, err := key.PublicKey.Bytes(); err == nil && point[1] != 0 && point[1+len(point)/2] != 0 {
			return c
		}
	}
}

// create answers the dialog of a setup.
func (d *device) create(t *testing.T, optionsJSON string) string {
	t.Helper()
	o, err := virtualwebauthn.ParseAttestationOptions(`{"publicKey":` + optionsJSON + `}`)
	if err != nil {
		t.Fatal(err)
	}
	return virtualwebauthn.CreateAttestationResponse(d.rp, d.all, d.key, *o)
}

// get answers the dialog of a proof.
func (d *device) get(t *testing.T, optionsJSON string) string {
	t.Helper()
	o, err := virtualwebauthn.ParseAssertionOptions(`{"publicKey":` + optionsJSON + `}`)
	if err != nil {
		t.Fatal(err)
	}
	d.key.Counter++
	return virtualwebauthn.CreateAssertionResponse(d.rp, d.all, d.key, *o)
}

const origin = "http://corvo.test:8080"

// enrolPasskey sets one up.
func (st *stage) enrolPasskey(t *testing.T, b *browser, d *device) *cloudv1.FinishPasskeyResponse {
	t.Helper()
	ctx, _ := b.call(t)
	started, err := st.s.StartPasskey(ctx, &cloudv1.StartPasskeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	done, err := st.s.FinishPasskey(ctx, &cloudv1.FinishPasskeyRequest{Ceremony: started.GetCeremony(), CredentialJson: d.create(t, started.GetOptionsJson()), Name: "Laptop"})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// dialog begins a proof, and gives the answer of a device.
func (b *browser) dialog(t *testing.T, d *device) *cloudv1.ProveRequest {
	t.Helper()
	ctx, _ := b.call(t)
	started, err := b.st.s.StartProof(ctx, &cloudv1.StartProofRequest{})
	if err != nil {
		t.Fatal(err)
	}
	proof := &cloudv1.PasskeyProof{Ceremony: started.GetCeremony(), CredentialJson: d.get(t, started.GetOptionsJson())}
	return &cloudv1.ProveRequest{Proof: &cloudv1.ProveRequest_Passkey{Passkey: proof}}
}

func TestPasskey_SignInByLinkThenAsksForIt(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st, laptop := newStage(t, w), newDevice(origin)
		done := st.enrolPasskey(t, st.follow(t), laptop)
		if len(done.GetRecoveryCodes()) != 10 || done.GetFactor().GetName() != "Laptop" {
			t.Errorf("%v", done)
		}
		b := st.follow(t)
		if !b.signIn.GetSecondFactorRequired() || b.whole(t) {
			t.Fatal("signed in without the passkey")
		}
		answer := b.dialog(t, laptop)
		if _, err := b.prove(t, answer); err != nil || !b.whole(t) {
			t.Fatal(err)
		}
		_, err := st.follow(t).prove(t, answer) // Replayed, in another session.
		cloudtest.Refused(t, err, "CEREMONY_ENDED")
		_, err = b.prove(t, answer)
		cloudtest.Refused(t, err, "CEREMONY_ENDED")
	})
}

// Whoever took a session before there was a second factor must not have one after: what is
// begun without a proof can't be finished once one can be asked for.
func TestPasskey_ASetupBegunBeforeTheFirstFactorNeedsAProof(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st, foreign := newStage(t, w), newDevice(origin)
		thief, b := st.follow(t), st.follow(t)
		ctx, _ := thief.call(t)
		begun, err := st.s.StartPasskey(ctx, &cloudv1.StartPasskeyRequest{})
		if err != nil {
			t.Fatal(err)
		}
		phone, _ := st.enrol(t, b)
		finish := &cloudv1.FinishPasskeyRequest{Ceremony: begun.GetCeremony(), CredentialJson: foreign.create(t, begun.GetOptionsJson())}
		_, err = st.s.FinishPasskey(ctx, finish)
		cloudtest.Refused(t, err, "STEP_UP_REQUIRED")
		// Its owner, who shows the factor, goes on with it.
		st.Advance(period)
		if _, err := thief.prove(t, byTotp(st.code(t, phone))); err != nil {
			t.Fatal(err)
		}
		ctx, _ = thief.call(t)
		if _, err := st.s.FinishPasskey(ctx, finish); err != nil {
			t.Error(err)
		}
	})
}

// A proof that was fresh when the setup began may have ended since.
func TestFactors_ASecondOneIsFinishedWithAFreshProof(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	b := st.follow(t)
	st.enrol(t, b)
	ctx, _ := b.call(t)
	begun, err := st.s.StartTotp(ctx, &cloudv1.StartTotpRequest{})
	if err != nil {
		t.Fatal(err)
	}
	st.Advance(10 * time.Minute)
	_, err = st.s.FinishTotp(ctx, &cloudv1.FinishTotpRequest{FactorId: begun.GetFactorId(), Code: st.code(t, app{begun.GetSecret()})})
	cloudtest.Refused(t, err, "STEP_UP_REQUIRED")
}

func TestPasskey_WhatDoesNotCount(t *testing.T) {
	t.Parallel()
	st, laptop := newStage(t, cloudtest.New(t)), newDevice(origin)
	st.enrolPasskey(t, st.follow(t), laptop)

	phishing := *laptop
	phishing.rp.Origin = "http://c0rvo.test:8080"
	b := st.follow(t)
	_, err := b.prove(t, b.dialog(t, &phishing))
	cloudtest.Refused(t, err, "PASSKEY_REFUSED")

	stranger := newDevice(origin)
	stranger.key.ID = laptop.key.ID
	_, err = b.prove(t, b.dialog(t, stranger))
	cloudtest.Refused(t, err, "PASSKEY_REFUSED")

	late := b.dialog(t, laptop)
	st.Advance(ceremonyLife)
	_, err = b.prove(t, late)
	cloudtest.Refused(t, err, "CEREMONY_ENDED")

	// A ceremony counts for the session that began it.
	other := st.follow(t)
	_, err = other.prove(t, st.follow(t).dialog(t, laptop))
	cloudtest.Refused(t, err, "CEREMONY_ENDED")

	// A counter that goes back is a copy's.
	laptop.key.Counter += 5
	if _, err := st.provesWith(t, laptop); err != nil {
		t.Fatal(err)
	}
	laptop.key.Counter -= 3
	_, err = st.provesWith(t, laptop)
	cloudtest.Refused(t, err, "PASSKEY_REFUSED")

	for _, nonsense := range []string{"", "{}", "null", `{"id":"AA"}`} {
		b := st.follow(t)
		r := b.dialog(t, laptop)
		r.GetPasskey().CredentialJson = nonsense
		_, err = b.prove(t, r)
		cloudtest.Refused(t, err, "PASSKEY_REFUSED")
	}
}

func (st *stage) provesWith(t *testing.T, d *device) (*cloudv1.ProveResponse, error) {
	t.Helper()
	b := st.follow(t)
	return b.prove(t, b.dialog(t, d))
}

// Wrong codes of an app lock nobody out who has a passkey.
func TestPasskey_CountsWhileCodesAreLocked(t *testing.T) {
	t.Parallel()
	st, laptop := newStage(t, cloudtest.New(t)), newDevice(origin)
	first := st.follow(t)
	phone, _ := st.enrol(t, first)
	st.enrolPasskey(t, first, laptop)
	for range codes.WrongMax {
		_, _ = st.follow(t).prove(t, byTotp(wrong(st.code(t, phone)))) // Refused.
	}
	if _, err := st.provesWith(t, laptop); err != nil {
		t.Error(err)
	}
}

// In a whole session a proof is for dangerous methods.
func TestProve_MakesTheProofOfASessionFresh(t *testing.T) {
	t.Parallel()
	st, laptop := newStage(t, cloudtest.New(t)), newDevice(origin)
	b := st.follow(t)
	st.enrolPasskey(t, b, laptop)
	st.Advance(time.Hour)
	before := b.cookie
	if _, err := b.prove(t, b.dialog(t, laptop)); err != nil || b.cookie != before {
		t.Fatal(err)
	}
	ctx, _ := b.call(t)
	all, err := st.s.ListFactors(ctx, &cloudv1.ListFactorsRequest{})
	if err != nil || !all.GetFactors()[0].GetLastUsedAt().AsTime().Equal(st.Now()) {
		t.Errorf("%v, %v", all, err)
	}
	st.Service(t, func(_ context.Context, tx *store.Tx) error {
		own, err := tx.ListSessionsOfUser(t.Context(), st.ada.ID, "")
		if err == nil && !own[0].ProvedAt.Equal(st.Now()) {
			t.Errorf("proved at %v", own[0].ProvedAt)
		}
		return err
	})
}

func TestPasskey_NotForAnAddressWithoutAName(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	kit := st.Kit
	var err error
	if kit.URLs, err = urls.New("http://127.0.0.1:8080", func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	s, err := New(Needs{Kit: kit, SignIns: st.login})
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := st.follow(t).call(t)
	_, err = s.StartPasskey(ctx, &cloudv1.StartPasskeyRequest{})
	cloudtest.Refused(t, err, "NO_PASSKEYS_HERE")
}
