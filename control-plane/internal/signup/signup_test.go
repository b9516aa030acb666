package signup

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const peer = "203.0.113.7"

func newService(w *cloudtest.World) *Service {
	return New(Needs{
		Kit: w.Kit, Cell: "eu-1", Limits: DefaultLimits(),
		Ready: func(context.Context, string, ...string) bool { return true },
	})
}

// start signs up and returns what the email contains.
func start(t *testing.T, w *cloudtest.World, s *Service, email, tenant string) (id, token, code string) {
	t.Helper()
	ctx, _ := cloudtest.Public(t, peer, "")
	res, err := s.Start(ctx, &cloudv1.StartRequest{Email: email, Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	msg := w.Email(t)
	if want := strings.ToLower(email); msg.To != want {
		t.Errorf("the email goes to %q, want %q", msg.To, want)
	}
	_, code, _ = strings.Cut(msg.Text, "code: ")
	return res.GetSignupId(), cloudtest.Token(t, msg), code[:codeDigits]
}

func confirm(t *testing.T, s *Service, r *cloudv1.ConfirmRequest) (*cloudv1.ConfirmResponse, string, error) {
	t.Helper()
	ctx, jar := cloudtest.Public(t, peer, "")
	res, err := s.Confirm(ctx, r)
	return res, cloudtest.SessionOf(jar), err
}

func TestConfirm_MakesEverythingAtOnce(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		_, token, _ := start(t, w, s, "Ada@Example.com", "acme")
		res, cookie, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if res.GetTenant() != "acme" || res.GetNamespace() != "default" || !res.GetReady() || res.GetTenantUrl() != "http://corvo.test:8080/t/acme" {
			t.Errorf("answer %v", res)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			checkMade(t, ctx, tx, w, res, cookie)
			return nil
		})
		var kinds []string
		for _, row := range w.Outbox(t) {
			kinds = append(kinds, string(row.Kind))
			if row.TenantID != res.GetTenantId() || row.Payload != "" {
				t.Errorf("outbox row %+v", row)
			}
		}
		if got := strings.Join(kinds, " "); got != "cell.tenant cell.namespace cell.key cell.key" {
			t.Errorf("outbox has %s", got)
		}
		if got := strings.Join(w.Audit(t, res.GetTenantId()), " "); got != "tenant.create namespace.create member.create service_account.create key.create service_account.create key.create" {
			t.Errorf("audit has %s", got)
		}
	})
}

func checkMade(t *testing.T, ctx context.Context, tx *store.Tx, w *cloudtest.World, res *cloudv1.ConfirmResponse, cookie string) {
	t.Helper()
	tn, err := tx.GetTenantByName(ctx, "acme")
	if err != nil || tn.ID != res.GetTenantId() || tn.Cell != "eu-1" || tn.Plan != "free" {
		t.Errorf("tenant %+v, %v", tn, err)
	}
	if ns, err := tx.GetNamespaceByName(ctx, tn.ID, "default"); err != nil || ns.ID != res.GetNamespaceId() {
		t.Errorf("namespace %+v, %v", ns, err)
	}
	u, err := tx.GetUserByEmail(ctx, "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if may, err := rights.Of(ctx, tx, tn.ID, u.ID); err != nil || strings.Join(may.Roles, " ") != permission.RoleOwner {
		t.Errorf("roles %v, %v", may.Roles, err)
	}
	if found, err := session.Find(ctx, tx, cookie, w.Now()); err != nil || found.UserID != u.ID {
		t.Errorf("session of the cookie %q: %+v, %v", cookie, found, err)
	}
	for _, text := range []string{res.GetApiKey(), res.GetToken()} {
		k, err := apikey.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := tx.FindKey(ctx, k.ID())
		if err != nil {
			t.Fatal(err)
		}
		digest := k.Digest()
		if len(stored.Versions) != 1 || string(stored.Versions[0].Digest) != string(digest[:]) {
			t.Errorf("%s: the stored digest is not the key's", k)
		}
		may, err := rights.OfKey(ctx, tx, stored)
		if err != nil {
			t.Fatal(err)
		}
		switch k.Kind() {
		case apikey.DataPlane:
			if len(stored.NamespaceIDs) != 1 || strings.Join(may.Roles, " ") != "producer viewer worker" || may.Grants.Anywhere(permission.TenantRead) {
				t.Errorf("the key for jobs may do %+v", stored)
			}
		case apikey.Management:
			if strings.Join(may.Roles, " ") != permission.RoleOwner || !may.Grants.Tenant(permission.TenantDelete) {
				t.Errorf("the management key may do %+v", stored)
			}
		}
	}
}

func TestConfirm_EveryDeadLinkSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		_, first, _ := start(t, w, s, "ada@example.com", "acme")
		_, second, _ := start(t, w, s, "ada@example.com", "acme")
		_, _, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: "corvo_signup_nonsense"})
		cloudtest.Refused(t, err, "LINK_UNKNOWN")
		_, _, err = confirm(t, s, &cloudv1.ConfirmRequest{Token: first})
		cloudtest.Refused(t, err, "LINK_REPLACED")
		if _, _, err = confirm(t, s, &cloudv1.ConfirmRequest{Token: second}); err != nil {
			t.Fatal(err)
		}
		_, cookie, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: second})
		used := cloudtest.Refused(t, err, "LINK_USED")
		if !strings.Contains(used.Message, "http://corvo.test:8080/signin") || cookie != "" {
			t.Errorf("no way out: %s (cookie %q)", used.Message, cookie)
		}
		_, late, _ := start(t, w, s, "ada@example.com", "other")
		w.Advance(life)
		_, _, err = confirm(t, s, &cloudv1.ConfirmRequest{Token: late})
		cloudtest.Refused(t, err, "LINK_EXPIRED")
	})
}

func TestConfirm_NameTakenMeanwhileMakesNothing(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	_, ada, _ := start(t, w, s, "ada@example.com", "acme")
	_, eve, _ := start(t, w, s, "eve@example.com", "acme")
	if _, _, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: eve}); err != nil {
		t.Fatal(err)
	}
	_, cookie, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: ada})
	f := cloudtest.Refused(t, err, "TENANT_NAME_TAKEN")
	if !strings.Contains(f.Error(), "acme-hq") || cookie != "" {
		t.Errorf("refused with %s, cookie %q", f.Error(), cookie)
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.GetUserByEmail(ctx, "ada@example.com"); err == nil {
			t.Error("a user was made")
		}
		return nil
	})
}

func TestConfirm_OfManyAtOnceOneWins(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		_, token, _ := start(t, w, s, "ada@example.com", "acme")
		const callers = 6
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { _, _, errs[i] = confirm(t, s, &cloudv1.ConfirmRequest{Token: token}) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			cloudtest.Refused(t, err, "LINK_USED")
		}
		if won != 1 {
			t.Errorf("%d confirmations won", won)
		}
	})
}

func TestConfirm_CodeStandsFiveGuesses(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	id, token, code := start(t, w, s, "ada@example.com", "acme")
	wrong := "000000"
	if code == wrong {
		wrong = "000001"
	}
	for range attemptsMax {
		_, _, err := confirm(t, s, &cloudv1.ConfirmRequest{SignupId: id, Code: wrong})
		cloudtest.Refused(t, err, "WRONG_CODE")
	}
	_, _, err := confirm(t, s, &cloudv1.ConfirmRequest{SignupId: id, Code: code})
	cloudtest.Refused(t, err, "TOO_MANY_CODES")
	if _, _, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: token}); err != nil {
		t.Errorf("the link died with the code: %v", err)
	}
}

func TestConfirm_NewMailsBringNoNewGuesses(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	s.Limits.CodesPerDay = 3
	guess := func(id, code string) error {
		_, _, err := confirm(t, s, &cloudv1.ConfirmRequest{SignupId: id, Code: code})
		return err
	}
	id, _, code := start(t, w, s, "ada@example.com", "acme")
	wrong := "000000"
	if code == wrong {
		wrong = "000001"
	}
	for range 3 {
		cloudtest.Refused(t, guess(id, wrong), "WRONG_CODE")
	}
	id, _, code = start(t, w, s, "ada@example.com", "acme")
	f := cloudtest.Refused(t, guess(id, code), "TOO_MANY_CODES")
	if f.RetryAfter <= 0 {
		t.Error("it does not say when to try again")
	}
}

func TestConfirm_CodeOpensNoSessionOfAnOldUser(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	id, _, code := start(t, w, s, "new@example.com", "newcomers")
	if _, cookie, err := confirm(t, s, &cloudv1.ConfirmRequest{SignupId: id, Code: code}); err != nil || cookie == "" {
		t.Errorf("a newcomer: cookie %q, %v", cookie, err)
	}
	id, _, code = start(t, w, s, "new@example.com", "second")
	res, cookie, err := confirm(t, s, &cloudv1.ConfirmRequest{SignupId: id, Code: code})
	if err != nil || res.GetApiKey() == "" {
		t.Fatal(err)
	}
	if cookie != "" {
		t.Error("six digits opened a session of somebody who was a user before")
	}
}

func TestConfirm_EndsTheSessionThatTheBrowserCameWith(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	_, token, _ := start(t, w, s, "ada@example.com", "acme")
	_, planted, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ = start(t, w, s, "eve@example.com", "other")
	ctx, jar := cloudtest.Public(t, peer, planted)
	if _, err := s.Confirm(ctx, &cloudv1.ConfirmRequest{Token: token}); err != nil {
		t.Fatal(err)
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if _, err := session.Find(ctx, tx, planted, w.Now()); err == nil {
			t.Error("the old session lives on")
		}
		if _, err := session.Find(ctx, tx, cloudtest.SessionOf(jar), w.Now()); err != nil {
			t.Errorf("the new session: %v", err)
		}
		return nil
	})
}

func TestConfirm_AnAddressOwnsSoManyTenants(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	s.Limits = Limits{}
	for i := range tenantsMax {
		_, token, _ := start(t, w, s, "ada@example.com", fmt.Sprintf("acme-%d", i))
		if _, _, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: token}); err != nil {
			t.Fatal(err)
		}
	}
	_, token, _ := start(t, w, s, "ada@example.com", "one-more")
	_, _, err := confirm(t, s, &cloudv1.ConfirmRequest{Token: token})
	cloudtest.Refused(t, err, "TENANT_LIMIT")
}

func TestConfirm_WantsOneWayOfTwo(t *testing.T) {
	t.Parallel()
	s := newService(cloudtest.New(t))
	for field, r := range map[string]*cloudv1.ConfirmRequest{
		"token":     {},
		"token ":    {Token: "a", Code: "123456"},
		"signup_id": {SignupId: "x", Code: "123456"},
		"code":      {SignupId: "sgn_01JD0000000000000000000000", Code: "12345a"},
	} {
		_, _, err := confirm(t, s, r)
		f := cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		if len(f.Fields) != 1 || f.Fields[0].Name != strings.TrimSpace(field) {
			t.Errorf("%v: fields %+v", r, f.Fields)
		}
	}
}

func TestStart_FloodIsRefusedWithATime(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		try := func(from, email string) error {
			ctx, _ := cloudtest.Public(t, from, "")
			_, err := s.Start(ctx, &cloudv1.StartRequest{Email: email, Tenant: "acme"})
			return err
		}
		for range s.Limits.EmailPerHour {
			if err := try(peer, "ada@example.com"); err != nil {
				t.Fatal(err)
			}
		}
		f := cloudtest.Refused(t, try(peer, "ada@example.com"), "TOO_MANY_REQUESTS")
		if f.Code != fault.Exhausted || f.RetryAfter <= 0 || f.RetryAfter > time.Hour+time.Second {
			t.Errorf("%+v", f)
		}
		if n := len(w.Emails(t)); n != s.Limits.EmailPerHour {
			t.Errorf("%d emails, want %d", n, s.Limits.EmailPerHour)
		}
		if err := try("198.51.100.1", "ada@example.com"); err != nil {
			t.Errorf("a stranger's flood keeps the address's owner out: %v", err)
		}
		var last error
		for i := range s.Limits.PeerPerHour + 1 {
			last = try(peer, fmt.Sprintf("a%d@example.com", i))
		}
		cloudtest.Refused(t, last, "TOO_MANY_REQUESTS")
		if err := try("198.51.100.2", "bob@example.com"); err != nil {
			t.Errorf("somebody else is refused too: %v", err)
		}
		w.Advance(time.Hour)
		if err := try(peer, "ada@example.com"); err != nil {
			t.Errorf("still refused after the window: %v", err)
		}
	})
}

func TestStart_ListsEveryWrongField(t *testing.T) {
	t.Parallel()
	s := newService(cloudtest.New(t))
	ctx, _ := cloudtest.Public(t, peer, "")
	_, err := s.Start(ctx, &cloudv1.StartRequest{Email: "nobody", Tenant: "Acme Inc"})
	if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); len(f.Fields) != 2 {
		t.Errorf("fields %+v", f.Fields)
	}
}

func TestCheckName_SaysWhyNotAndWhatInstead(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	w.Tenant(t, "acme", "ada@example.com")
	for name, problem := range map[string]string{
		"fresh-name": "", "acme": "acme-hq", "www": "reserved", "api": "reserved", "xn--acme": "hyphens", "a": "characters", "Acme": "lowercase letters",
		"acme-": "hyphen", "-acme": "letter", "9acme": "letter", "": "enter", strings.Repeat("a", 41): "characters", "acme.co": "letters",
	} {
		res, err := s.CheckName(t.Context(), &cloudv1.CheckNameRequest{Tenant: name})
		if err != nil {
			t.Fatal(err)
		}
		if res.GetAvailable() != (problem == "") || !strings.Contains(res.GetProblem(), problem) || (res.GetTenantUrl() != "") != res.GetAvailable() {
			t.Errorf("CheckName(%q) = %v, want %q", name, res, problem)
		}
	}
}

func TestLetter_HoldsTheSecretsAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	ctx, _ := cloudtest.Public(t, peer, "")
	res, err := s.Start(ctx, &cloudv1.StartRequest{Email: "ada@example.com", Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	rows := w.Outbox(t)
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	if strings.Contains(rows[0].Payload, "corvo_signup_") || strings.Contains(res.String(), "corvo_signup_") {
		t.Error("the link is readable outside the email")
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		su, err := tx.GetSignup(ctx, res.GetSignupId())
		if err == nil && (len(su.Digest) != 64 || len(su.CodeDigest) != 64) {
			t.Errorf("stored %+v", su)
		}
		return err
	})
}
