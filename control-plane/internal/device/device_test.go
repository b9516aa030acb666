package device

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	pending  = cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_AUTHORIZATION_PENDING
	slowDown = cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_SLOW_DOWN
	approved = cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_APPROVED
	denied   = cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_DENIED
	expired  = cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_EXPIRED
)

// stage is a tenant whose owner is signed in to the console.
type stage struct {
	*cloudtest.World
	s      *Service
	tenant store.Tenant
	ada    store.User
	browser
}

// browser is a signed-in one, and its context.
type browser struct {
	opened session.Opened
	ctx    context.Context
}

func newStage(t *testing.T, w *cloudtest.World) *stage {
	t.Helper()
	st := &stage{World: w, s: New(Needs{Kit: w.Kit, Limits: DefaultLimits()})}
	st.tenant, st.ada = w.Tenant(t, "acme", "ada@example.com")
	st.browser = st.signIn(t, st.ada, "")
	return st
}

func (st *stage) signIn(t *testing.T, u store.User, onlyTenantID string) (b browser) {
	t.Helper()
	ctx, _ := st.As(t, st.tenant, u, permission.RoleOwner)
	st.Service(t, func(_ context.Context, tx *store.Tx) (err error) {
		b.opened, err = session.Open(ctx, tx, st.IDs, st.Now(), u.ID, onlyTenantID, "")
		return err
	})
	c := access.From(ctx)
	c.SessionID, c.OnlyTenantID = b.opened.ID, onlyTenantID
	b.ctx = access.With(ctx, c)
	return b
}

func (st *stage) start(t *testing.T) *cloudv1.StartDeviceLoginResponse {
	t.Helper()
	ctx, _ := cloudtest.Public(t, "198.51.100.7", "")
	started, err := st.s.StartDeviceLogin(ctx, &cloudv1.StartDeviceLoginRequest{ClientName: "corvo on ada-laptop"})
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func (st *stage) poll(t *testing.T, started *cloudv1.StartDeviceLoginResponse) *cloudv1.PollDeviceLoginResponse {
	t.Helper()
	ctx, _ := cloudtest.Public(t, "198.51.100.7", "")
	res, err := st.s.PollDeviceLogin(ctx, &cloudv1.PollDeviceLoginRequest{DeviceCode: started.GetDeviceCode()})
	if err != nil {
		t.Fatal(err)
	}
	if (res.GetToken() != "") != (res.GetStatus() == approved) {
		t.Fatalf("%v with the token %q", res.GetStatus(), res.GetToken())
	}
	return res
}

func (st *stage) wants(t *testing.T, started *cloudv1.StartDeviceLoginResponse, want cloudv1.DeviceLoginStatus) *cloudv1.PollDeviceLoginResponse {
	t.Helper()
	res := st.poll(t, started)
	if res.GetStatus() != want {
		t.Fatalf("poll says %v, want %v", res.GetStatus(), want)
	}
	return res
}

func (st *stage) approve(t *testing.T, b browser, code string) {
	t.Helper()
	if _, err := st.s.ApproveDeviceLogin(b.ctx, &cloudv1.ApproveDeviceLoginRequest{UserCode: code}); err != nil {
		t.Fatal(err)
	}
}

// find gives the session that a program's token stands for.
func (st *stage) find(t *testing.T, token string) (found store.Session, err error) {
	t.Helper()
	st.Service(t, func(ctx context.Context, tx *store.Tx) error {
		found, err = session.FindCLI(ctx, tx, token, st.Now())
		return nil
	})
	return found, err
}

func TestDeviceLogin_ApprovedCodeGivesOneSession(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		started := st.start(t)
		if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(started.GetUserCode()) {
			t.Errorf("user code %q", started.GetUserCode())
		}
		if uri := started.GetVerificationUri(); uri != "http://corvo.test:8080/device" {
			t.Errorf("the page is %q: it must not carry the code", uri)
		}
		st.wants(t, started, pending)
		st.approve(t, st.browser, strings.ToLower(started.GetUserCode()))
		st.Advance(interval)
		done := st.wants(t, started, approved)
		found, err := st.find(t, done.GetToken())
		if err != nil || found.UserID != st.ada.ID || found.Client != "corvo on ada-laptop" || found.TenantID != "" || done.GetEmail() != "ada@example.com" {
			t.Errorf("%+v, %v", found, err)
		}
		ctx, _ := cloudtest.Public(t, "198.51.100.7", "")
		_, err = st.s.PollDeviceLogin(ctx, &cloudv1.PollDeviceLoginRequest{DeviceCode: started.GetDeviceCode()})
		cloudtest.Refused(t, err, "DEVICE_CODE_USED")
		_, err = st.s.ApproveDeviceLogin(st.ctx, &cloudv1.ApproveDeviceLoginRequest{UserCode: started.GetUserCode()})
		cloudtest.Refused(t, err, "CODE_USED")
		if log := w.Audit(t, st.tenant.ID); len(log) != 1 || log[0] != "session.create" {
			t.Errorf("the audit log has %v", log)
		}
	})
}

func TestDeviceLogin_DeniedAndExpiredCodesGiveNone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		refused, late := st.start(t), st.start(t)
		if _, err := st.s.DenyDeviceLogin(st.ctx, &cloudv1.DenyDeviceLoginRequest{UserCode: refused.GetUserCode()}); err != nil {
			t.Fatal(err)
		}
		st.wants(t, refused, denied)
		_, err := st.s.ApproveDeviceLogin(st.ctx, &cloudv1.ApproveDeviceLoginRequest{UserCode: refused.GetUserCode()})
		cloudtest.Refused(t, err, "CODE_USED")
		st.wants(t, refused, denied)

		st.Advance(life)
		_, err = st.s.ApproveDeviceLogin(st.ctx, &cloudv1.ApproveDeviceLoginRequest{UserCode: late.GetUserCode()})
		cloudtest.Refused(t, err, "CODE_EXPIRED")
		st.wants(t, late, expired)
		_, err = st.s.PreviewDeviceLogin(st.ctx, &cloudv1.PreviewDeviceLoginRequest{UserCode: "BBBB-BBBB"})
		cloudtest.Refused(t, err, "CODE_UNKNOWN")
		for _, wrong := range []string{"", "WDJB", "WDJB-MJH0", "WDJB-MJHTT", "ÄÄÄÄ"} {
			_, err = st.s.PreviewDeviceLogin(st.ctx, &cloudv1.PreviewDeviceLoginRequest{UserCode: wrong})
			cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		}
	})
}

// An approved code that nobody fetched in time is worth nothing either.
func TestDeviceLogin_ApprovalExpiresToo(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	started := st.start(t)
	st.approve(t, st.browser, started.GetUserCode())
	st.Advance(life)
	st.wants(t, started, expired)
}

func TestPollDeviceLogin_TooSoonMakesTheIntervalLonger(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		started := st.start(t)
		st.wants(t, started, pending)
		st.Advance(interval - time.Second)
		if res := st.wants(t, started, slowDown); res.GetIntervalSeconds() != seconds(2*interval) {
			t.Errorf("interval %d s", res.GetIntervalSeconds())
		}
		st.approve(t, st.browser, started.GetUserCode())
		st.Advance(interval)
		st.wants(t, started, slowDown) // Approved, but asked too soon again.
		st.Advance(3 * interval)
		st.wants(t, started, approved)
	})
}

// O22: what the person must see before they approve.
func TestPreviewDeviceLogin_ShowsWhoAsksAndFromWhere(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	started := st.start(t)
	seen, err := st.s.PreviewDeviceLogin(st.ctx, &cloudv1.PreviewDeviceLoginRequest{UserCode: strings.ReplaceAll(started.GetUserCode(), "-", " ")})
	if err != nil {
		t.Fatal(err)
	}
	if seen.GetUserCode() != started.GetUserCode() || seen.GetClientName() != "corvo on ada-laptop" || seen.GetIp() != "198.51.100.7" ||
		!seen.GetCreatedAt().AsTime().Equal(st.Now()) || !seen.GetExpiresAt().AsTime().Equal(st.Now().Add(life)) ||
		len(seen.GetTenants()) != 1 || seen.GetTenants()[0] != "acme" {
		t.Errorf("%v", seen)
	}
	st.wants(t, started, pending) // Looking decides nothing.
	for _, name := range []string{"", strings.Repeat("x", clientNameMax+1), "corvo\u202eno ", "a\nb"} {
		_, err := st.s.StartDeviceLogin(st.ctx, &cloudv1.StartDeviceLoginRequest{ClientName: name})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	}
}

func TestApproveDeviceLogin_OnlyABrowserMay(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	started := st.start(t)
	c := access.From(st.ctx)
	c.ByCLI = true
	_, err := st.s.ApproveDeviceLogin(access.With(st.ctx, c), &cloudv1.ApproveDeviceLoginRequest{UserCode: started.GetUserCode()})
	cloudtest.Refused(t, err, "NEEDS_BROWSER")
	_, err = st.s.ApproveDeviceLogin(access.With(st.ctx, access.Caller{KeyID: "key_1"}), &cloudv1.ApproveDeviceLoginRequest{UserCode: started.GetUserCode()})
	cloudtest.Refused(t, err, "NEEDS_BROWSER")
	st.wants(t, started, pending)
}

func TestApproveDeviceLogin_GuessingIsRefused(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	var err error
	for range st.s.Limits.CodesPerHour {
		_, err = st.s.ApproveDeviceLogin(st.ctx, &cloudv1.ApproveDeviceLoginRequest{UserCode: newCode()})
		cloudtest.Refused(t, err, "CODE_UNKNOWN")
	}
	_, err = st.s.ApproveDeviceLogin(st.ctx, &cloudv1.ApproveDeviceLoginRequest{UserCode: newCode()})
	cloudtest.Refused(t, err, "TOO_MANY_REQUESTS")
}

func TestStartDeviceLogin_FloodIsRefused(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	for range st.s.Limits.PeerPerHour {
		st.start(t)
	}
	ctx, _ := cloudtest.Public(t, "198.51.100.7", "")
	_, err := st.s.StartDeviceLogin(ctx, &cloudv1.StartDeviceLoginRequest{ClientName: "x"})
	cloudtest.Refused(t, err, "TOO_MANY_REQUESTS")
	ctx, _ = cloudtest.Public(t, "203.0.113.99", "")
	if _, err := st.s.StartDeviceLogin(ctx, &cloudv1.StartDeviceLoginRequest{ClientName: "x"}); err != nil {
		t.Errorf("a neighbour pays for it: %v", err)
	}
}

func TestDeviceLogin_EndsWithTheSessionThatApprovedUntilItIsFetched(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		started := st.start(t)
		st.approve(t, st.browser, started.GetUserCode())
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.DeleteSessionsOfUser(ctx, st.ada.ID, "")
			return err
		})
		st.wants(t, started, denied)
	})
}

// Whoever approved without a factor, and has one by the time the program fetches its session,
// approves again: what is younger than a factor counts as approved with it.
func TestDeviceLogin_ApprovedBeforeTheFirstFactorIsApprovedAgain(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		before, proved := st.start(t), st.start(t)
		st.approve(t, st.browser, before.GetUserCode())
		st.approve(t, st.browser, proved.GetUserCode())
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertFactor(ctx, store.Factor{ID: w.IDs.New(ids.Factor, w.Now()), UserID: st.ada.ID, Kind: store.FactorPasskey, Credential: "{}", CreatedAt: w.Now(), ConfirmedAt: w.Now()})
		})
		st.wants(t, before, denied)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.ProveSession(ctx, seal.Digest(st.browser.opened.Token), w.Now())
		})
		st.wants(t, proved, approved)
	})
}

// A session of a tenant's provider lets nothing in that reaches further or lives longer.
func TestDeviceLogin_IsNoBroaderThanTheSessionThatApproved(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		st := newStage(t, w)
		b := st.signIn(t, st.ada, st.tenant.ID)
		st.Advance(time.Hour)
		started := st.start(t)
		st.approve(t, b, started.GetUserCode())
		done := st.wants(t, started, approved)
		found, err := st.find(t, done.GetToken())
		if err != nil || found.TenantID != st.tenant.ID || !found.ExpiresAt.Equal(b.opened.ExpiresAt) || !session.Expiry(found, st.Now()).Equal(b.opened.ExpiresAt) {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

func TestDeviceLogin_SessionSlidesWithUse(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	started := st.start(t)
	st.approve(t, st.browser, started.GetUserCode())
	token := st.wants(t, started, approved).GetToken()
	for range 3 {
		st.Advance(session.CLILife - time.Second)
		found, err := st.find(t, token)
		if err != nil {
			t.Fatal(err)
		}
		st.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.TouchSession(ctx, found.Digest, st.Now(), session.Expiry(found, st.Now()))
		})
	}
	st.Advance(session.CLILife)
	if _, err := st.find(t, token); !errors.Is(err, session.ErrNone) {
		t.Errorf("unused for too long and alive: %v", err)
	}
}

// Neither kind of token counts in the place of the other.
func TestSession_TokensOfBrowsersAndProgramsAreApart(t *testing.T) {
	t.Parallel()
	st := newStage(t, cloudtest.New(t))
	started := st.start(t)
	st.approve(t, st.browser, started.GetUserCode())
	token := st.wants(t, started, approved).GetToken()
	st.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if _, err := session.Find(ctx, tx, token, st.Now()); !errors.Is(err, session.ErrNone) {
			t.Errorf("a program's token in a cookie: %v", err)
		}
		if _, err := session.FindCLI(ctx, tx, st.opened.Token, st.Now()); !errors.Is(err, session.ErrNone) {
			t.Errorf("a cookie's token in a header: %v", err)
		}
		return nil
	})
}
