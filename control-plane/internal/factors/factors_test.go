package factors

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/codes"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/login"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	wrongMax = codes.WrongMax
	lockLife = codes.LockLife
)

// stage is a tenant whose owner signs in by email.
type stage struct {
	*cloudtest.World
	s      *Service
	login  *login.Service
	tenant store.Tenant
	ada    store.User
}

func newStage(t *testing.T, w *cloudtest.World) *stage {
	t.Helper()
	st := &stage{World: w}
	st.login = login.New(login.Needs{Kit: w.Kit, Invitations: members.New(members.Needs{Kit: w.Kit})})
	var err error
	if st.s, err = New(Needs{Kit: w.Kit, SignIns: st.login}); err != nil {
		t.Fatal(err)
	}
	st.tenant, st.ada = w.Tenant(t, "acme", "ada@example.com")
	return st
}

// browser is one after a mailed link: its cookie, and the answer that it got.
type browser struct {
	st     *stage
	cookie string
	signIn *cloudv1.FinishLoginResponse
}

func (st *stage) follow(t *testing.T) *browser {
	t.Helper()
	link, err := st.login.SignInLink(t.Context(), st.ada.Email)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(link, "#token=")
	ctx, jar := cloudtest.Public(t, "203.0.113.5", "")
	res, err := st.login.FinishLogin(ctx, &cloudv1.FinishLoginRequest{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return &browser{st, cloudtest.SessionOf(jar), res}
}

// call is the context of a call, as the gate makes it, and the jar of its answer.
func (b *browser) call(t *testing.T) (context.Context, *cookies.Jar) {
	t.Helper()
	var s store.Session
	b.st.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		s, err = session.FindAlsoHalf(ctx, tx, b.cookie, b.st.Now())
		return err
	})
	ctx, jar := b.st.As(t, b.st.tenant, b.st.ada, permission.RoleOwner)
	c := access.From(ctx)
	c.SessionID, c.HalfOpen, c.ProvedAt = s.ID, s.Pending != "", s.ProvedAt
	return access.With(ctx, c), jar
}

// whole reports whether the browser's session counts.
func (b *browser) whole(t *testing.T) (whole bool) {
	t.Helper()
	b.st.Service(t, func(ctx context.Context, tx *store.Tx) error {
		_, err := session.Find(ctx, tx, b.cookie, b.st.Now())
		whole = err == nil
		if errors.Is(err, session.ErrNone) {
			err = nil
		}
		return err
	})
	return whole
}

func (b *browser) prove(t *testing.T, r *cloudv1.ProveRequest) (*cloudv1.ProveResponse, error) {
	t.Helper()
	ctx, jar := b.call(t)
	res, err := b.st.s.Prove(ctx, r)
	if next := cloudtest.SessionOf(jar); next != "" {
		b.cookie = next
	}
	return res, err
}

func byTotp(code string) *cloudv1.ProveRequest {
	return &cloudv1.ProveRequest{Proof: &cloudv1.ProveRequest_TotpCode{TotpCode: code}}
}

func byRecovery(code string) *cloudv1.ProveRequest {
	return &cloudv1.ProveRequest{Proof: &cloudv1.ProveRequest_RecoveryCode{RecoveryCode: code}}
}

// app is an authenticator app.
type app struct{ secret string }

func (st *stage) code(t *testing.T, a app) string {
	t.Helper()
	code, err := totp.GenerateCode(a.secret, st.Now())
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// enrol sets up an app, and lets the code that did it pass.
func (st *stage) enrol(t *testing.T, b *browser) (a app, codes []string) {
	t.Helper()
	ctx, _ := b.call(t)
	started, err := st.s.StartTotp(ctx, &cloudv1.StartTotpRequest{})
	if err != nil {
		t.Fatal(err)
	}
	a = app{started.GetSecret()}
	done, err := st.s.FinishTotp(ctx, &cloudv1.FinishTotpRequest{FactorId: started.GetFactorId(), Code: st.code(t, a), Name: "Phone"})
	if err != nil {
		t.Fatal(err)
	}
	return a, done.GetRecoveryCodes()
}

func wrong(code string) string {
	return strings.Map(func(r rune) rune { return '0' + (r-'0'+1)%10 }, code)
}

func TestTotp_SignInByLinkThenAsksForIt(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		first := st.follow(t)
		if first.signIn.GetSecondFactorRequired() || !first.whole(t) {
			t.Fatal("asked for a factor that is not there")
		}
		phone, codes := st.enrol(t, first)
		if len(codes) != 10 || !regexp.MustCompile(`^([a-z2-9]{4}-){3}[a-z2-9]{4}$`).MatchString(codes[0]) {
			t.Errorf("recovery codes %v", codes)
		}
		b := st.follow(t)
		if !b.signIn.GetSecondFactorRequired() || len(b.signIn.GetTenants()) > 0 || b.whole(t) {
			t.Fatal("signed in without the factor")
		}
		half := b.cookie
		_, err := b.prove(t, byTotp(wrong(st.code(t, phone))))
		cloudtest.Refused(t, err, "WRONG_CODE")
		_, err = b.prove(t, byTotp(st.code(t, phone))) // The code that set it up.
		cloudtest.Refused(t, err, "WRONG_CODE")
		st.Advance(period)
		res, err := b.prove(t, byTotp(st.code(t, phone)))
		if err != nil || !b.whole(t) || len(res.GetTenants()) != 1 {
			t.Fatalf("%v, %v", res, err)
		}
		// O19: a planted half-open session is worth nothing after the sign-in.
		if old := (&browser{st: st, cookie: half}); half == b.cookie || old.whole(t) {
			t.Error("the session was not exchanged")
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if _, err := session.FindAlsoHalf(ctx, tx, half, st.Now()); !errors.Is(err, session.ErrNone) {
				t.Errorf("the half-open session is still there: %v", err)
			}
			return nil
		})
		if log := strings.Join(w.Audit(t, st.tenant.ID), " "); log != "session.create factor.create session.create" {
			t.Errorf("the audit log has %s", log)
		}
	})
}

func TestTotp_EachStepCountsOnce(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		phone, _ := st.enrol(t, st.follow(t))
		st.Advance(2 * period)
		early := st.code(t, phone)
		st.Advance(period)
		code := st.code(t, phone)
		if _, err := st.follow(t).prove(t, byTotp(code)); err != nil {
			t.Fatal(err)
		}
		for _, again := range []string{code, early} { // Nor one before a used one.
			_, err := st.follow(t).prove(t, byTotp(again))
			cloudtest.Refused(t, err, "WRONG_CODE")
		}
	})
}

func TestTotp_FiveWrongCodesLockCodesForAWhile(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		phone, codes := st.enrol(t, st.follow(t))
		st.Advance(period)
		for i := range wrongMax {
			// From a new sign-in each: it is the person's count.
			_, err := st.follow(t).prove(t, byTotp(wrong(st.code(t, phone))))
			if i < wrongMax-1 {
				cloudtest.Refused(t, err, "WRONG_CODE")
			} else if f := cloudtest.Refused(t, err, "FACTOR_LOCKED"); f.RetryAfter != lockLife {
				t.Errorf("retry after %v", f.RetryAfter)
			}
		}
		_, err := st.follow(t).prove(t, byTotp(st.code(t, phone)))
		cloudtest.Refused(t, err, "FACTOR_LOCKED")
		_, err = st.follow(t).prove(t, byRecovery(codes[0]))
		cloudtest.Refused(t, err, "FACTOR_LOCKED")
		st.Advance(lockLife)
		if _, err := st.follow(t).prove(t, byTotp(st.code(t, phone))); err != nil {
			t.Errorf("after the lock: %v", err)
		}
	})
}

func TestRecoveryCodes_CountOnceEachAndAreReplacedTogether(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		first := st.follow(t)
		_, codes := st.enrol(t, first)
		b := st.follow(t)
		if _, err := b.prove(t, byRecovery(" "+strings.ToUpper(strings.ReplaceAll(codes[3], "-", " ")))); err != nil || !b.whole(t) {
			t.Fatal(err)
		}
		_, err := st.follow(t).prove(t, byRecovery(codes[3]))
		cloudtest.Refused(t, err, "WRONG_CODE")
		ctx, _ := first.call(t)
		if all, err := st.s.ListFactors(ctx, &cloudv1.ListFactorsRequest{}); err != nil || all.GetRecoveryCodes() != 9 || len(all.GetFactors()) != 1 {
			t.Errorf("%v, %v", all, err)
		}
		made, err := st.s.CreateRecoveryCodes(ctx, &cloudv1.CreateRecoveryCodesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.follow(t).prove(t, byRecovery(codes[0]))
		cloudtest.Refused(t, err, "WRONG_CODE")
		if _, err := st.follow(t).prove(t, byRecovery(made.GetRecoveryCodes()[0])); err != nil {
			t.Error(err)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			all, err := tx.ListFactors(ctx, st.ada.ID)
			if err == nil && (len(all) != 1 || strings.Contains(all[0].Secret, "otpauth") || !strings.HasPrefix(all[0].Secret, "s1.")) {
				t.Errorf("the secret lies open: %+v", all)
			}
			return err
		})
	})
}

func TestRemoveFactor_TheLastOneTakesTheRecoveryCodesWithIt(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		b := st.follow(t)
		st.enrol(t, b)
		ctx, _ := b.call(t)
		all, err := st.s.ListFactors(ctx, &cloudv1.ListFactorsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		id := all.GetFactors()[0].GetId()
		if renamed, err := st.s.RenameFactor(ctx, &cloudv1.RenameFactorRequest{FactorId: id, Name: "Old phone"}); err != nil || renamed.GetFactor().GetName() != "Old phone" {
			t.Errorf("%v, %v", renamed, err)
		}
		if _, err := st.s.RemoveFactor(ctx, &cloudv1.RemoveFactorRequest{FactorId: id}); err != nil {
			t.Fatal(err)
		}
		_, err = st.s.RemoveFactor(ctx, &cloudv1.RemoveFactorRequest{FactorId: id})
		cloudtest.Refused(t, err, "NOT_FOUND")
		_, err = st.s.CreateRecoveryCodes(ctx, &cloudv1.CreateRecoveryCodesRequest{})
		cloudtest.Refused(t, err, "NO_FACTOR")
		if !st.follow(t).whole(t) {
			t.Error("still asked for a factor")
		}
	})
}

// An app that never gave a code locks nobody out, and one of somebody else is nowhere.
func TestTotp_SetUpHalfwayDoesNotCount(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	ctx, _ := st.follow(t).call(t)
	started, err := st.s.StartTotp(ctx, &cloudv1.StartTotpRequest{})
	if err != nil || !strings.HasPrefix(started.GetUri(), "otpauth://totp/Corvo:ada@example.com?") {
		t.Fatalf("%v, %v", started, err)
	}
	if !st.follow(t).whole(t) {
		t.Error("asked for an app that was never confirmed")
	}
	c := access.From(ctx)
	c.UserID = "usr_other"
	_, err = st.s.FinishTotp(access.With(ctx, c), &cloudv1.FinishTotpRequest{FactorId: started.GetFactorId(), Code: st.code(t, app{started.GetSecret()})})
	cloudtest.Refused(t, err, "NOT_FOUND")
}

// Whoever took a session before there was a second factor must not have one after.
func TestTotp_ASetupBegunBeforeTheFirstFactorEnds(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	st := newStage(t, w)
	thief, b := st.follow(t), st.follow(t)
	ctx, _ := thief.call(t)
	half, err := st.s.StartTotp(ctx, &cloudv1.StartTotpRequest{})
	if err != nil {
		t.Fatal(err)
	}
	st.enrolPasskey(t, b, newDevice(st.URLs.Public))
	_, err = st.s.FinishTotp(ctx, &cloudv1.FinishTotpRequest{FactorId: half.GetFactorId(), Code: st.code(t, app{secret: half.GetSecret()})})
	cloudtest.Refused(t, err, "NOT_FOUND")
}

// O20: whoever had the invitation's email must not set up what locks the address's owner out.
func TestFactors_SessionsOfInvitationsAndProgramsSetUpNone(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	ctx, _ := st.follow(t).call(t)
	c := access.From(ctx)
	c.OnlyTenantID = st.tenant.ID
	_, err := st.s.StartTotp(access.With(ctx, c), &cloudv1.StartTotpRequest{})
	cloudtest.Refused(t, err, "SIGN_IN_FIRST")
	_, err = st.s.StartPasskey(access.With(ctx, c), &cloudv1.StartPasskeyRequest{})
	cloudtest.Refused(t, err, "SIGN_IN_FIRST")
	c.OnlyTenantID, c.ByCLI = "", true
	_, err = st.s.StartTotp(access.With(ctx, c), &cloudv1.StartTotpRequest{})
	cloudtest.Refused(t, err, "NEEDS_BROWSER")
}

func TestProve_HalfOpenSessionEndsByItself(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	st.enrol(t, st.follow(t))
	b := st.follow(t)
	st.Advance(10 * time.Minute)
	st.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if _, err := session.FindAlsoHalf(ctx, tx, b.cookie, st.Now()); !errors.Is(err, session.ErrNone) {
			t.Errorf("still there: %v", err)
		}
		return nil
	})
}

// A link that accepts an invitation accepts it once the factor was shown.
func TestProve_AcceptsTheInvitationOfTheLink(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		phone, _ := st.enrol(t, st.follow(t))
		beta, boss := w.Tenant(t, "beta", "boss@example.com")
		ctx, _ := w.As(t, beta, boss, permission.RoleOwner)
		team := members.New(members.Needs{Kit: w.Kit})
		if _, err := team.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: st.ada.Email, Roles: []string{permission.RoleViewer}}); err != nil {
			t.Fatal(err)
		}
		invitation := cloudtest.Token(t, w.Email(t))
		public, _ := cloudtest.Public(t, "203.0.113.5", "")
		if _, err := st.login.StartLogin(public, &cloudv1.StartLoginRequest{Invitation: invitation}); err != nil {
			t.Fatal(err)
		}
		public, jar := cloudtest.Public(t, "203.0.113.5", "")
		res, err := st.login.FinishLogin(public, &cloudv1.FinishLoginRequest{Token: cloudtest.Token(t, w.Email(t))})
		if err != nil || res.GetJoined() != "" || !res.GetSecondFactorRequired() {
			t.Fatalf("%v, %v", res, err)
		}
		st.Advance(period)
		b := &browser{st: st, cookie: cloudtest.SessionOf(jar)}
		if done, err := b.prove(t, byTotp(st.code(t, phone))); err != nil || done.GetJoined() != "beta" || len(done.GetTenants()) != 2 {
			t.Errorf("%v, %v", done, err)
		}
	})
}
