package login

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const peer = "203.0.113.7"

func newService(w *cloudtest.World) *Service {
	return New(Needs{
		Kit: w.Kit, Limits: DefaultLimits(),
	})
}

func start(t *testing.T, w *cloudtest.World, s *Service, email string) mail.Message {
	t.Helper()
	ctx, _ := cloudtest.Public(t, peer, "")
	if _, err := s.StartLogin(ctx, &cloudv1.StartLoginRequest{Email: email}); err != nil {
		t.Fatal(err)
	}
	return w.Email(t)
}

func finish(t *testing.T, s *Service, token, came string) (*cloudv1.FinishLoginResponse, string, error) {
	t.Helper()
	ctx, jar := cloudtest.Public(t, peer, came)
	res, err := s.FinishLogin(ctx, &cloudv1.FinishLoginRequest{Token: token})
	return res, cloudtest.SessionOf(jar), err
}

func alive(t *testing.T, w *cloudtest.World, token string) bool {
	t.Helper()
	ok := false
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		_, err := session.Find(ctx, tx, token, w.Now())
		ok = err == nil
		return nil
	})
	return ok
}

func TestFinishLogin_LinkWorksOnce(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, _ := w.Tenant(t, "acme", "ada@example.com")
		token := cloudtest.Token(t, start(t, w, s, " Ada@Example.com "))
		const callers = 4
		cookies, errs := make([]string, callers), make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { _, cookies[i], errs[i] = finish(t, s, token, "") })
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
				if !alive(t, w, cookies[i]) {
					t.Error("the session does not count")
				}
				continue
			}
			cloudtest.Refused(t, err, "LINK_USED")
		}
		if won != 1 {
			t.Errorf("%d sign-ins by one link", won)
		}
		if got := strings.Join(w.Audit(t, tn.ID), " "); got != "session.create" {
			t.Errorf("audit has %q", got)
		}
	})
}

func TestFinishLogin_DeadLinksAreDistinguished(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	w.Tenant(t, "acme", "ada@example.com")
	_, _, err := finish(t, s, "corvo_login_nonsense", "")
	cloudtest.Refused(t, err, "LINK_UNKNOWN")
	token := cloudtest.Token(t, start(t, w, s, "ada@example.com"))
	w.Advance(life)
	_, cookie, err := finish(t, s, token, "")
	cloudtest.Refused(t, err, "LINK_EXPIRED")
	if cookie != "" {
		t.Error("an expired link signed in")
	}
	_, _, err = finish(t, s, "", "")
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
}

func TestStartLogin_AnswerDoesNotTellWhoIsKnown(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	w.Tenant(t, "acme", "ada@example.com")
	ctx, _ := cloudtest.Public(t, peer, "")
	known, err := s.StartLogin(ctx, &cloudv1.StartLoginRequest{Email: "ada@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := s.StartLogin(ctx, &cloudv1.StartLoginRequest{Email: "eve@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if known.String() != unknown.String() {
		t.Errorf("%v and %v", known, unknown)
	}
	emails := w.Emails(t)
	if len(emails) != 2 {
		t.Fatalf("%d emails: both cost the same work", len(emails))
	}
	if strings.Contains(emails[1].Text, "#token=") || !strings.Contains(emails[1].Text, "/signup") {
		t.Errorf("the stranger's email:\n%s", emails[1].Text)
	}
}

// A provider may claim any address; its users cannot sign in by email, and do not get in
// the way of the address's real owner.
func TestStartLogin_PeopleOfAProviderAreUnknown(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, _ := w.Tenant(t, "acme", "ada@example.com")
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertUser(ctx, store.User{ID: w.IDs.New(ids.User, w.Now()), Email: "ceo@victim.example", HomeTenant: tn.ID, CreatedAt: w.Now()})
	})
	if msg := start(t, w, s, "ceo@victim.example"); strings.Contains(msg.Text, "#token=") {
		t.Error("a link was mailed for a user whom only a provider vouches for")
	}
	if _, err := s.SignInLink(t.Context(), "ceo@victim.example"); err == nil {
		t.Error("a link was made")
	}
}

func TestStartLogin_FloodIsRefused(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	ctx, _ := cloudtest.Public(t, peer, "")
	var err error
	for range s.Limits.EmailPerHour + 1 {
		_, err = s.StartLogin(ctx, &cloudv1.StartLoginRequest{Email: "ada@example.com"})
	}
	if f := cloudtest.Refused(t, err, "TOO_MANY_REQUESTS"); f.RetryAfter <= 0 {
		t.Error("no time to wait")
	}
	_, err = s.StartLogin(ctx, &cloudv1.StartLoginRequest{Email: "no address"})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
}

func TestSignInLink_SignsIn(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	w.Tenant(t, "acme", "ada@example.com")
	link, err := s.SignInLink(t.Context(), "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	_, token, ok := strings.Cut(link, "http://corvo.test:8080/signin/confirm#token=")
	if !ok {
		t.Fatalf("link %s", link)
	}
	res, cookie, err := finish(t, s, token, "")
	if err != nil || !alive(t, w, cookie) || len(res.GetTenants()) != 1 || res.GetTenants()[0] != "acme" {
		t.Errorf("%v, cookie %q, %v", res, cookie, err)
	}
}

// O19: a session that somebody planted before the sign-in is worthless after it.
func TestFinishLogin_PlantedSessionEnds(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	w.Tenant(t, "acme", "ada@example.com")
	_, first, err := finish(t, s, cloudtest.Token(t, start(t, w, s, "ada@example.com")), "")
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := finish(t, s, cloudtest.Token(t, start(t, w, s, "ada@example.com")), first)
	if err != nil {
		t.Fatal(err)
	}
	if first == second || alive(t, w, first) || !alive(t, w, second) {
		t.Error("the browser kept its old session")
	}
}

func TestSession_EndsIdleAndEndsOld(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	w.Tenant(t, "acme", "ada@example.com")
	signIn := func() string {
		_, cookie, err := finish(t, s, cloudtest.Token(t, start(t, w, s, "ada@example.com")), "")
		if err != nil {
			t.Fatal(err)
		}
		return cookie
	}
	idle := signIn()
	w.Advance(session.IdleMax - 1)
	if !alive(t, w, idle) {
		t.Error("ended too early")
	}
	w.Advance(1)
	if alive(t, w, idle) {
		t.Error("idle and alive")
	}
	old := signIn()
	for range 4 {
		w.Advance(session.LifeMax / 4)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			found, err := session.Find(ctx, tx, old, w.Now())
			if err != nil {
				return nil // Ended; checked below.
			}
			if !session.TouchDue(found, w.Now()) {
				t.Error("use is not noted")
			}
			return tx.TouchSession(ctx, found.Digest, w.Now(), session.Expiry(found, w.Now()))
		})
	}
	if alive(t, w, old) {
		t.Error("used for ever")
	}
}

func TestLogout_EverywhereEndsSessionsAndTokens(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, u := w.Tenant(t, "acme", "ada@example.com")
		var tokens []string
		for range 3 {
			_, cookie, err := finish(t, s, cloudtest.Token(t, start(t, w, s, "ada@example.com")), "")
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, cookie)
		}
		ctx, _ := w.As(t, tn, u, permission.RoleOwner)
		c := access.From(ctx)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			found, err := session.Find(ctx, tx, tokens[0], w.Now())
			c.SessionID = found.ID
			return err
		})
		ctx = access.With(ctx, c)
		if _, err := s.Logout(ctx, &cloudv1.LogoutRequest{}); err != nil {
			t.Fatal(err)
		}
		if alive(t, w, tokens[0]) || !alive(t, w, tokens[1]) {
			t.Error("signing out of one browser ends that session and no other")
		}
		res, err := s.Logout(ctx, &cloudv1.LogoutRequest{Everywhere: true})
		if err != nil || res.GetSessionsEnded() != 2 {
			t.Errorf("%v, %v", res, err)
		}
		rows := w.Outbox(t)
		if len(rows) != 1 || rows[0].Kind != store.OutboxUser || rows[0].Subject != u.ID || rows[0].TenantID != tn.ID {
			t.Errorf("the cell is told %+v", rows)
		}
	})
}

// Whatever strangers do, the owner of an address can sign in: with the link asked for, or
// with one that a stranger had sent to the very same mailbox and that still works.
func TestStartLogin_StrangersLockNobodyOut(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	w.Tenant(t, "acme", "ada@example.com")
	var newest mail.Message
	for minute := range 120 {
		// Each minute from a different network, more often than any limit.
		for range 20 {
			ctx, _ := cloudtest.Public(t, fmt.Sprintf("198.51.%d.9", minute), "")
			_, _ = s.StartLogin(ctx, &cloudv1.StartLoginRequest{Email: "ada@example.com"}) // Refused from the sixth on.
		}
		if emails := w.Emails(t); len(emails) > 0 {
			newest = emails[len(emails)-1]
		}
		if minute%15 == 14 { // Ada asks.
			ctx, _ := cloudtest.Public(t, "203.0.113.5", "")
			_, err := s.StartLogin(ctx, &cloudv1.StartLoginRequest{Email: "ada@example.com"})
			if f, refused := fault.As(err); refused && !strings.Contains(f.Message, "still work") {
				t.Fatalf("minute %d: %v", minute, err)
			} else if err == nil {
				newest = w.Email(t)
			}
			if _, cookie, err := finish(t, s, cloudtest.Token(t, newest), ""); err != nil || !alive(t, w, cookie) {
				t.Errorf("minute %d: no link in the mailbox works: %v", minute, err)
			}
		}
		w.Advance(time.Minute)
	}
	// And no shared limit is used up.
	bob, _ := cloudtest.Public(t, "198.51.200.1", "")
	if _, err := s.StartLogin(bob, &cloudv1.StartLoginRequest{Email: "bob@example.com"}); err != nil {
		t.Errorf("somebody else is refused: %v", err)
	}
}
