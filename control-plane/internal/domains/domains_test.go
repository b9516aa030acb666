package domains

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// world is two tenants, and a DNS server.
type world struct {
	*cloudtest.World
	*Service
	dns        *zone
	acme, evil party
}

type party struct {
	w      *world
	ctx    context.Context
	tenant store.Tenant
	owner  store.User
}

func newWorld(t *testing.T, w *cloudtest.World) *world {
	t.Helper()
	z := newZone(t)
	out := &world{World: w, Service: New(w.Kit, z.resolver()), dns: z}
	for name, p := range map[string]*party{"acme": &out.acme, "evil": &out.evil} {
		tn, owner := w.Tenant(t, name, "owner@"+name+".test")
		ctx, _ := w.As(t, tn, owner, permission.RoleOwner)
		*p = party{w: out, ctx: ctx, tenant: tn, owner: owner}
	}
	return out
}

// each runs a test in a world on both databases.
func each(t *testing.T, test func(*testing.T, *world)) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) { test(t, newWorld(t, w)) })
}

func (p party) claim(t testing.TB, name string) *cloudv1.Domain {
	t.Helper()
	res, err := p.w.CreateDomain(p.ctx, &cloudv1.CreateDomainRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetDomain()
}

// publish puts the record of a domain into DNS, beside those that are there.
func (w *world) publish(all ...*cloudv1.Domain) {
	byName := map[string][]string{}
	for _, d := range all {
		byName[d.GetTxtName()] = append(byName[d.GetTxtName()], d.GetTxtValue())
	}
	for name, values := range byName {
		w.dns.set(name, values...)
	}
}

func (p party) verify(id string) (*cloudv1.Domain, error) {
	res, err := p.w.VerifyDomain(p.ctx, &cloudv1.VerifyDomainRequest{DomainId: id})
	return res.GetDomain(), err
}

// own claims a domain, publishes its record alone, and verifies it.
func (p party) own(t testing.TB, name string) *cloudv1.Domain {
	t.Helper()
	d := p.claim(t, name)
	p.w.publish(d)
	return p.verified(t, d.GetId())
}

func (p party) verified(t testing.TB, id string) *cloudv1.Domain {
	t.Helper()
	d, err := p.verify(id)
	if err != nil || d.GetState() != cloudv1.DomainState_DOMAIN_STATE_VERIFIED || d.GetVerifiedAt() == nil || d.GetProblem() != "" {
		t.Fatalf("verify: %v, %v", d, err)
	}
	return d
}

func (p party) get(t testing.TB, id string) *cloudv1.Domain {
	t.Helper()
	res, err := p.w.GetDomain(p.ctx, &cloudv1.GetDomainRequest{DomainId: id})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetDomain()
}

func (p party) release(t testing.TB, id string) {
	t.Helper()
	if _, err := p.w.DeleteDomain(p.ctx, &cloudv1.DeleteDomainRequest{DomainId: id}); err != nil {
		t.Fatal(err)
	}
}

// connect gives the tenant a connection.
func (p party) connect(t testing.TB, enabled bool) string {
	t.Helper()
	c := store.Connection{TenantID: p.tenant.ID, ID: p.w.World.IDs.New(ids.Connection, p.w.World.Now()), Name: "Okta", Issuer: "https://id.test", Enabled: enabled, Version: 1}
	p.w.World.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, c) })
	return c.ID
}

// sent is the tenant whose provider people of an address are sent to, and by which
// connection; empty: nowhere.
func (w *world) sent(t testing.TB, email string) string {
	t.Helper()
	ctx, _ := cloudtest.Public(t, "203.0.113.7", "")
	res, err := w.FindSignIn(ctx, &cloudv1.FindSignInRequest{Email: email})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(res.GetSsoUrl(), "http://corvo.test:8080/auth/oidc/start?tenant=")
}

// A domain is taken over by nothing but the record of its present claim.
func TestO16_DomainTakeover(t *testing.T) {
	for name, attack := range map[string]func(*testing.T, *world){
		"a released domain proves nothing by its old record": func(t *testing.T, w *world) {
			old := w.acme.own(t, "example.com")
			w.acme.release(t, old.GetId())
			if to := w.sent(t, "a@example.com"); to != "" {
				t.Errorf("after the release, people are sent to %s", to)
			}
			fresh := w.acme.claim(t, "example.com")
			if fresh.GetTxtValue() == old.GetTxtValue() || fresh.GetId() == old.GetId() {
				t.Error("the new claim is the old one")
			}
			_, err := w.acme.verify(fresh.GetId())
			if f := cloudtest.Refused(t, err, "RECORD_NOT_FOUND"); !strings.Contains(f.Message, "another value") || !strings.Contains(f.Message, fresh.GetTxtValue()) {
				t.Errorf("refused with %q", f.Message)
			}
			theirs := w.evil.claim(t, "example.com")
			_, err = w.evil.verify(theirs.GetId())
			cloudtest.Refused(t, err, "RECORD_NOT_FOUND")
			w.publish(theirs)
			w.evil.verified(t, theirs.GetId())
		},
		"an expired record holds for the grace and no longer": func(t *testing.T, w *world) {
			w.acme.connect(t, true)
			d := w.acme.own(t, "example.com")
			w.dns.set(d.GetTxtName())
			w.Advance(recheckEvery)
			recheck(t, w)
			if got := w.acme.get(t, d.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_RECORD_MISSING || w.sent(t, "a@example.com") != "acme" {
				t.Errorf("in the grace: %v", got)
			}
			w.Advance(grace)
			recheck(t, w)
			if got := w.acme.get(t, d.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_PENDING || w.sent(t, "a@example.com") != "" {
				t.Errorf("after the grace: %v", got)
			}
			_, err := w.acme.verify(d.GetId())
			cloudtest.Refused(t, err, "RECORD_NOT_FOUND")
		},
		"a sub-domain is another domain, both ways": func(t *testing.T, w *world) {
			w.acme.connect(t, true)
			w.evil.connect(t, true)
			up, down := w.acme.own(t, "example.com"), w.evil.own(t, "a.example.com")
			for email, want := range map[string]string{
				"x@example.com": "acme", "x@a.example.com": "evil", "x@b.example.com": "", "x@b.a.example.com": "", "x@aexample.com": "", "x@example.com.evil.test": "",
			} {
				if got := w.sent(t, email); got != want {
					t.Errorf("%s is sent to %q, want %q", email, got, want)
				}
			}
			// The record of one is none of the other.
			w.dns.set(up.GetTxtName(), down.GetTxtValue())
			w.dns.set("example.com", up.GetTxtValue())
			w.dns.set("_corvo-challenge.a.example.com", up.GetTxtValue(), down.GetTxtValue())
			_, err := w.acme.verify(up.GetId())
			cloudtest.Refused(t, err, "RECORD_NOT_FOUND")
		},
		"a name in other letters is another name": func(t *testing.T, w *world) {
			w.acme.connect(t, true)
			w.evil.connect(t, true)
			w.acme.own(t, "example.com")
			d := w.evil.own(t, "ex\u0430mple.com") // A Cyrillic a.
			if d.GetName() != "xn--exmple-4nf.com" || d.GetTxtName() != "_corvo-challenge.xn--exmple-4nf.com" {
				t.Errorf("shown as %q", d.GetName())
			}
			w.acme.own(t, "bücher.example")
			for email, want := range map[string]string{
				"x@example.com": "acme", "x@ex\u0430mple.com": "evil", "x@xn--exmple-4nf.com": "evil", "x@ｅｘａｍｐｌｅ.com": "acme",
				"x@bücher.example": "acme", "x@xn--bcher-kva.example": "acme", "x@BU\u0308CHER.example": "acme", "x@bucher.example": "",
			} {
				if got := w.sent(t, email); got != want {
					t.Errorf("%s is sent to %q, want %q", email, got, want)
				}
			}
		},
		"a dot at the end makes no other name": func(t *testing.T, w *world) {
			w.acme.connect(t, true)
			w.acme.own(t, "example.com.")
			_, err := w.CreateDomain(w.acme.ctx, &cloudv1.CreateDomainRequest{Name: "example.com"})
			cloudtest.Refused(t, err, "DOMAIN_EXISTS")
			d := w.evil.claim(t, "example.com.")
			w.dns.set(d.GetTxtName(), d.GetTxtValue(), w.acme.get(t, "example.com").GetTxtValue())
			_, err = w.evil.verify(d.GetId())
			cloudtest.Refused(t, err, "DOMAIN_TAKEN")
			for email, want := range map[string]string{"x@example.com": "acme", "x@example.com.": "acme", "x@example.com..": "", "x@.example.com": ""} {
				if got := w.sent(t, email); got != want {
					t.Errorf("%s is sent to %q, want %q", email, got, want)
				}
			}
		},
		"a plus-address is of the domain after the last @": func(t *testing.T, w *world) {
			w.acme.connect(t, true)
			w.evil.connect(t, true)
			w.acme.own(t, "example.com")
			w.evil.own(t, "evil.test")
			for email, want := range map[string]string{
				"ada+news@example.com": "acme", "ada+x@evil.test@example.com": "acme", `"ada@example.com"@evil.test`: "evil", "ada@example.com@evil.test": "evil",
				"ada@example.com+evil.test": "", "ada%evil.test@example.com": "acme", "@example.com": "acme", "ada@": "",
			} {
				if got := w.sent(t, email); got != want {
					t.Errorf("%s is sent to %q, want %q", email, got, want)
				}
			}
		},
		"case makes no other name": func(t *testing.T, w *world) {
			w.acme.connect(t, true)
			w.acme.own(t, "Example.COM")
			_, err := w.CreateDomain(w.acme.ctx, &cloudv1.CreateDomainRequest{Name: "EXAMPLE.com"})
			cloudtest.Refused(t, err, "DOMAIN_EXISTS")
			if got := w.sent(t, "ADA@eXample.cOm"); got != "acme" {
				t.Errorf("sent to %q", got)
			}
			// The record's value is compared to the letter.
			d := w.acme.get(t, "EXAMPLE.com")
			w.dns.set(d.GetTxtName(), strings.ToLower(d.GetTxtValue()))
			_, err = w.acme.verify(d.GetId())
			cloudtest.Refused(t, err, "RECORD_NOT_FOUND")
		},
	} {
		t.Run(name, func(t *testing.T) { each(t, attack) })
	}
}

// A domain is verified for one tenant; another one needs the rule of its DNS.
func TestO17_SecondTenantVerifyingTheSameDomain(t *testing.T) {
	for name, attack := range map[string]func(*testing.T, *world){
		"both records are there: the holder stays, and isn't named": func(t *testing.T, w *world) {
			first, second := w.acme.own(t, "example.com"), w.evil.claim(t, "example.com")
			w.publish(first, second)
			_, err := w.evil.verify(second.GetId())
			f := cloudtest.Refused(t, err, "DOMAIN_TAKEN")
			for _, secret := range []string{"acme", w.acme.tenant.ID, first.GetId(), strings.TrimPrefix(first.GetTxtValue(), txtPrefix)} {
				if strings.Contains(f.Message, secret) || strings.Contains(w.evil.get(t, second.GetId()).GetProblem(), secret) {
					t.Errorf("the refusal has %q in it: %s", secret, f.Message)
				}
			}
			if got := w.acme.get(t, first.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_VERIFIED || got.GetEtag() != first.GetEtag() {
				t.Errorf("the holder's: %v", got)
			}
		},
		"only the second record is there: it takes over": func(t *testing.T, w *world) {
			w.acme.connect(t, true)
			w.evil.connect(t, true)
			first, second := w.acme.own(t, "example.com"), w.evil.claim(t, "example.com")
			w.Emails(t)
			w.publish(second)
			w.evil.verified(t, second.GetId())
			if got := w.sent(t, "a@example.com"); got != "evil" {
				t.Errorf("sent to %q", got)
			}
			got := w.acme.get(t, first.GetId())
			if got.GetState() != cloudv1.DomainState_DOMAIN_STATE_PENDING || got.GetVerifiedAt() != nil || !strings.Contains(got.GetProblem(), "another tenant") || strings.Contains(got.GetProblem(), "evil") {
				t.Errorf("the former holder's: %v", got)
			}
			if m := w.Email(t); m.To != "owner@acme.test" || strings.Contains(m.Text, "evil") || !strings.Contains(m.Text, "another tenant") {
				t.Errorf("the email: %+v", m)
			}
			w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
				all, err := tx.ListAudit(ctx, w.acme.tenant.ID, store.AuditFilter{}, store.Page{Limit: 1})
				if e := all[0]; e.Action != "domain.unverify" || e.ActorType != "system" || e.ActorID != "" || e.Actor != "" || e.Peer != "" || e.RequestID != "" {
					t.Errorf("the former holder's audit log says who did it: %+v", e)
				}
				return err
			})
			// And back, by the same rule.
			w.publish(second, first)
			_, err := w.acme.verify(first.GetId())
			cloudtest.Refused(t, err, "DOMAIN_TAKEN")
			w.publish(first)
			w.acme.verified(t, first.GetId())
		},
		"no record is there: nobody gets it": func(t *testing.T, w *world) {
			first, second := w.acme.own(t, "example.com"), w.evil.claim(t, "example.com")
			w.dns.set(first.GetTxtName())
			_, err := w.evil.verify(second.GetId())
			cloudtest.Refused(t, err, "RECORD_NOT_FOUND")
			w.publish(first)
			w.acme.verified(t, first.GetId())
		},
		"the holder's record, copied": func(t *testing.T, w *world) {
			first, second := w.acme.own(t, "example.com"), w.evil.claim(t, "example.com")
			_, err := w.evil.verify(second.GetId())
			if f := cloudtest.Refused(t, err, "RECORD_NOT_FOUND"); strings.Contains(f.Message, first.GetTxtValue()) {
				t.Errorf("refused with %q", f.Message)
			}
		},
		"another tenant's domain is nowhere": func(t *testing.T, w *world) {
			first := w.acme.own(t, "example.com")
			for _, given := range []string{first.GetId(), "example.com"} {
				_, err := w.evil.verify(given)
				cloudtest.Refused(t, err, "NOT_FOUND")
				_, err = w.DeleteDomain(w.evil.ctx, &cloudv1.DeleteDomainRequest{DomainId: given})
				cloudtest.Refused(t, err, "NOT_FOUND")
				_, err = w.UpdateDomain(w.evil.ctx, &cloudv1.UpdateDomainRequest{DomainId: given, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"connection_id"}}})
				cloudtest.Refused(t, err, "NOT_FOUND")
			}
		},
		"both at once: one gets it": func(t *testing.T, w *world) {
			first, second := w.acme.claim(t, "example.com"), w.evil.claim(t, "example.com")
			w.publish(first, second)
			errs := make(chan error, 2)
			go func() { _, err := w.acme.verify(first.GetId()); errs <- err }()
			go func() { _, err := w.evil.verify(second.GetId()); errs <- err }()
			a, b := <-errs, <-errs
			if a != nil {
				a, b = b, a
			}
			if a != nil {
				t.Fatalf("neither got it: %v, %v", a, b)
			}
			cloudtest.Refused(t, b, "DOMAIN_TAKEN")
		},
		"DNS that gives no answer decides nothing": func(t *testing.T, w *world) {
			first, second := w.acme.own(t, "example.com"), w.evil.claim(t, "example.com")
			w.publish(second)
			w.dns.broken(true, false)
			_, err := w.evil.verify(second.GetId())
			if f := cloudtest.Refused(t, err, "DNS_UNAVAILABLE"); f.Code != fault.Unavailable || strings.Contains(f.Message, "127.0.0.1") {
				t.Errorf("refused with %v %q", f.Code, f.Message)
			}
			if got := w.acme.get(t, first.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_VERIFIED {
				t.Errorf("the holder's: %v", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { each(t, attack) })
	}
}

func recheck(t testing.TB, w *world) {
	t.Helper()
	if err := w.Recheck(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRecheck_AMissingRecordWarnsAndMayComeBack(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		d := w.acme.own(t, "example.com")
		asked := len(w.dns.asked)
		recheck(t, w)
		if len(w.dns.asked) != asked {
			t.Error("DNS is asked before it is time")
		}
		w.Emails(t)
		w.dns.set(d.GetTxtName(), "something", "corvo-domain-verification=other")
		w.Advance(recheckEvery)
		recheck(t, w)
		got := w.acme.get(t, d.GetId())
		if until := got.GetUnverifiedAt().AsTime(); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_RECORD_MISSING || !got.GetMissingSince().AsTime().Equal(w.World.Now()) ||
			!until.Equal(w.World.Now().Add(grace)) || !strings.Contains(got.GetProblem(), "another value") {
			t.Errorf("the record is another one: %v", got)
		}
		if m := w.Email(t); m.To != "owner@acme.test" || !strings.Contains(m.Text, d.GetTxtValue()) || !strings.Contains(m.Text, "http://corvo.test:8080/acme/settings/domains") {
			t.Errorf("the email: %+v", m)
		}
		for range 5 { // It is told once.
			w.Advance(recheckMissing)
			recheck(t, w)
		}
		w.publish(d)
		w.Advance(recheckMissing)
		recheck(t, w)
		if got := w.acme.get(t, d.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_VERIFIED || got.GetMissingSince() != nil || got.GetProblem() != "" {
			t.Errorf("the record is back: %v", got)
		}
		// The grace begins anew: an old one doesn't count.
		w.dns.set(d.GetTxtName())
		w.Advance(grace)
		recheck(t, w)
		if got := w.acme.get(t, d.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_RECORD_MISSING {
			t.Errorf("gone again: %v", got)
		}
		w.Advance(grace - time.Minute)
		recheck(t, w)
		if got := w.acme.get(t, d.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_RECORD_MISSING {
			t.Errorf("a minute before the end of the grace: %v", got)
		}
		w.Advance(recheckMissing)
		recheck(t, w)
		if got := w.acme.get(t, d.GetId()); got.GetState() != cloudv1.DomainState_DOMAIN_STATE_PENDING || got.GetProblem() == "" {
			t.Errorf("after the grace: %v", got)
		}
		want := []string{"domain.create", "domain.verify", "domain.miss_record", "domain.find_record", "domain.miss_record", "domain.unverify"}
		if got := w.Audit(t, w.acme.tenant.ID); !slices.Equal(got, want) {
			t.Errorf("audit log %q, want %q", got, want)
		}
	})
}

func TestRecheck_WithoutAnAnswerNothingChanges(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		d := w.acme.own(t, "example.com")
		w.dns.broken(true, false)
		for range 200 {
			w.Advance(recheckEvery)
			recheck(t, w)
		}
		got := w.acme.get(t, d.GetId())
		if got.GetState() != cloudv1.DomainState_DOMAIN_STATE_VERIFIED || got.GetEtag() != d.GetEtag() || !strings.Contains(got.GetProblem(), "no answer") {
			t.Errorf("after 50 days: %v", got)
		}
		w.dns.broken(false, false)
		w.Advance(backoffMax)
		recheck(t, w)
		if got := w.acme.get(t, d.GetId()); got.GetProblem() != "" || !got.GetCheckedAt().AsTime().Equal(w.World.Now()) {
			t.Errorf("DNS answers again: %v", got)
		}
	})
}

func TestRecheck_OneProcessAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	recheck(t, w) // Has the lease now.
	w.acme.own(t, "example.com")
	w.Advance(recheckEvery)
	recheck(t, w) // Its lease has ended, and it takes it again.
	other := New(w.World.Kit, w.dns.resolver())
	asked := len(w.dns.asked)
	w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
		v, err := tx.HolderOfDomain(ctx, "example.com")
		if err != nil {
			return err
		}
		v.DueAt = w.World.Now()
		return tx.NoteDomain(ctx, v)
	})
	if err := other.Recheck(t.Context()); err != nil || len(w.dns.asked) != asked {
		t.Errorf("the other process asked DNS too (%v)", err)
	}
}

func TestVerify_ReadsLargeAndSplitAnswersAndQuotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	d := w.acme.claim(t, "example.com")
	var many []string
	for range 20 {
		many = append(many, strings.Repeat("v=spf1 ", 60))
	}
	w.dns.set(d.GetTxtName(), append(many, `"`+d.GetTxtValue()+`"`)...)
	w.acme.verified(t, d.GetId())
	if w.dns.byTCP == 0 {
		t.Error("the answer was not a large one")
	}
	for range 10 {
		many = append(many, many[:10]...)
	}
	w.dns.set(d.GetTxtName(), append(many, d.GetTxtValue())...)
	_, err := w.acme.verify(d.GetId())
	cloudtest.Refused(t, err, "RECORD_NOT_FOUND") // The 121st is not looked at.
}

func TestVerify_GivesUpOnDNSThatIsMute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	d := w.acme.claim(t, "example.com")
	w.dns.broken(false, true)
	ctx, cancel := context.WithTimeout(w.acme.ctx, time.Second)
	defer cancel()
	if _, err := w.look(ctx, d.GetName()); err == nil {
		t.Error("no answer is one")
	}
}

func TestVerify_IsLimitedPerTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.VerifiesPerMinute = 2
	d := w.acme.own(t, "example.com")
	w.acme.verified(t, d.GetId())
	_, err := w.acme.verify(d.GetId())
	if f := cloudtest.Refused(t, err, "TOO_MANY_REQUESTS"); f.RetryAfter <= 0 {
		t.Errorf("%+v", f)
	}
	w.evil.own(t, "evil.test")
}

func TestDomains_AreMadeChangedAndReleased(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const id = "0b0e8c3e-6f0a-4b52-9f9e-4d8c2b3f7a11"
		r := &cloudv1.CreateDomainRequest{Name: "Example.com", RequestId: id}
		first, err := w.CreateDomain(w.acme.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.CreateDomain(w.acme.ctx, r)
		if err != nil || again.GetDomain().GetTxtValue() != first.GetDomain().GetTxtValue() {
			t.Errorf("repeated: %v, %v", again, err)
		}
		d := first.GetDomain()
		if d.GetName() != "example.com" || d.GetState() != cloudv1.DomainState_DOMAIN_STATE_PENDING || d.GetTxtName() != "_corvo-challenge.example.com" || len(d.GetTxtValue()) < len(txtPrefix)+40 {
			t.Errorf("made: %v", d)
		}
		connection, foreign := w.acme.connect(t, true), w.evil.connect(t, true)
		set := func(id, tag string) (*cloudv1.UpdateDomainResponse, error) {
			return w.UpdateDomain(w.acme.ctx, &cloudv1.UpdateDomainRequest{DomainId: d.GetId(), ConnectionId: id, Etag: tag, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"connection_id"}}})
		}
		_, err = set(foreign, "")
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		_, err = w.CreateDomain(w.acme.ctx, &cloudv1.CreateDomainRequest{Name: "b.example.com", ConnectionId: foreign})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		changed, err := set(connection, d.GetEtag())
		if err != nil || changed.GetDomain().GetConnectionId() != connection || changed.GetDomain().GetEtag() == d.GetEtag() {
			t.Errorf("changed: %v, %v", changed, err)
		}
		_, err = set("", d.GetEtag())
		cloudtest.Refused(t, err, "ETAG_MISMATCH")
		_, err = w.UpdateDomain(w.acme.ctx, &cloudv1.UpdateDomainRequest{DomainId: d.GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		for _, own := range []string{"corvo.test", "a.corvo.test.", "co.uk", "127.0.0.1"} {
			_, err := w.CreateDomain(w.acme.ctx, &cloudv1.CreateDomainRequest{Name: own})
			if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "name" {
				t.Errorf("%s: %v", own, f)
			}
		}
		w.acme.claim(t, "b.example.com")
		list, err := w.ListDomains(w.acme.ctx, nil)
		if err != nil || len(list.GetDomains()) != 2 || list.GetDomains()[0].GetName() != "b.example.com" {
			t.Errorf("list: %v, %v", list, err)
		}
		w.acme.release(t, d.GetId())
		_, err = w.DeleteDomain(w.acme.ctx, &cloudv1.DeleteDomainRequest{DomainId: d.GetId()})
		cloudtest.Refused(t, err, "NOT_FOUND")
		if _, err = w.DeleteDomain(w.acme.ctx, &cloudv1.DeleteDomainRequest{DomainId: d.GetId(), AllowMissing: true}); err != nil {
			t.Error(err)
		}
	})
}

func TestDomains_ATenantHasSoMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.World.Service(t, func(ctx context.Context, tx *store.Tx) error {
		for i := range domainsMax {
			name := strings.Repeat("a", i/26+1) + string(rune('a'+i%26)) + ".test"
			if err := tx.InsertDomain(ctx, store.Domain{TenantID: w.acme.tenant.ID, ID: w.World.IDs.New(ids.Domain, w.World.Now()), Name: name, Version: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	_, err := w.CreateDomain(w.acme.ctx, &cloudv1.CreateDomainRequest{Name: "one.more.test"})
	cloudtest.Refused(t, err, "DOMAIN_LIMIT")
}

func TestFindSignIn_GoesByDomainAndEnabledConnectionAlone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		d := w.acme.claim(t, "acme.test") // Its owner is owner@acme.test.
		ask := func(want, when string) {
			t.Helper()
			for _, email := range []string{"owner@acme.test", "nobody@acme.test"} {
				if got := w.sent(t, email); got != want {
					t.Errorf("%s: %s is sent to %q, want %q", when, email, got, want)
				}
			}
		}
		connection := w.acme.connect(t, true)
		ask("", "while the claim isn't verified")
		w.publish(d)
		w.acme.verified(t, d.GetId())
		ask("acme", "verified")
		off := w.acme.connect(t, false)
		use := func(id string) {
			t.Helper()
			if _, err := w.UpdateDomain(w.acme.ctx, &cloudv1.UpdateDomainRequest{DomainId: d.GetId(), ConnectionId: id, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"connection_id"}}}); err != nil {
				t.Fatal(err)
			}
		}
		use(connection)
		ask("acme&connection="+connection, "with a connection")
		use(off)
		ask("", "with one that is off")
		_, err := w.FindSignIn(access.With(t.Context(), access.Caller{}), &cloudv1.FindSignInRequest{Email: "acme.test"})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		if got := w.sent(t, "a@"+strings.Repeat("a", 2000)); got != "" {
			t.Errorf("sent to %q", got)
		}
	})
}
