package exchange

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	github     = cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB
	gitlab     = cloudv1.TrustProvider_TRUST_PROVIDER_GITLAB
	kubernetes = cloudv1.TrustProvider_TRUST_PROVIDER_KUBERNETES
	other      = cloudv1.TrustProvider_TRUST_PROVIDER_OTHER

	audience = "http://corvo.test:8080/acme"
)

// bundle is a tenant with a service account, and an issuer.
type bundle struct {
	*cloudtest.World
	t       *testing.T
	s       *Service
	issuer  *issuer
	tenant  store.Tenant
	owner   store.User
	account store.ServiceAccount
	ctx     context.Context // A call by the owner.

	mu    sync.Mutex
	noted []refusals.Refusal // Guarded by mu.
}

func newBundle(t *testing.T, w *cloudtest.World) *bundle {
	t.Helper()
	b := &bundle{World: w, t: t, issuer: newIssuer(t, w.Now)}
	b.s = b.replica()
	b.tenant, b.owner = w.Tenant(t, "acme", "owner@acme.example")
	b.ctx, _ = w.As(t, b.tenant, b.owner, permission.RoleOwner)
	b.account = b.machine(b.tenant.ID, "deploy", permission.RoleWorker)
	return b
}

// replica is one more control plane on the same database.
func (b *bundle) replica() *Service {
	return New(Needs{
		Kit: b.Kit, Egress: egress.Options{AllowPrivate: true}, Ready: func(context.Context, string, ...string) bool { return true },
		Refused: func(r refusals.Refusal) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.noted = append(b.noted, r)
		},
	})
}

func (b *bundle) machine(tenantID, name string, roles ...string) store.ServiceAccount {
	b.t.Helper()
	a := store.ServiceAccount{TenantID: tenantID, ID: b.IDs.New(ids.ServiceAccount, b.Now()), Name: name, CreatedAt: b.Now(), UpdatedAt: b.Now(), Version: 1}
	b.Service(b.t, func(ctx context.Context, tx *store.Tx) error {
		err := tx.InsertServiceAccount(ctx, a)
		for _, role := range roles {
			err = errors.Join(err, tx.InsertBinding(ctx, store.Binding{
				TenantID: tenantID, ID: b.IDs.New(ids.Binding, b.Now()), PrincipalID: a.ID, RoleID: rights.FixedID(role), CreatedAt: b.Now(),
			}))
		}
		return err
	})
	return a
}

func condition(claim string, values ...string) *cloudv1.TrustCondition {
	return &cloudv1.TrustCondition{Claim: claim, Values: values}
}

func (b *bundle) request() *cloudv1.CreateTrustRequest {
	return &cloudv1.CreateTrustRequest{
		Name: "web", ServiceAccount: "deploy", Provider: github, Issuer: b.issuer.url(), Audience: audience,
		Conditions: []*cloudv1.TrustCondition{condition("repository", "acme/web"), condition("ref", "refs/heads/main", "refs/tags/v*")},
	}
}

func (b *bundle) trust(change func(*cloudv1.CreateTrustRequest)) *cloudv1.Trust {
	b.t.Helper()
	r := b.request()
	if change != nil {
		change(r)
	}
	res, err := b.s.CreateTrust(b.ctx, r)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.GetTrust()
}

func (b *bundle) exchangeOn(s *Service, token string) (*cloudv1.ExchangeTokenResponse, error) {
	ctx, _ := cloudtest.Public(b.t, "198.51.100.7", "")
	return s.ExchangeToken(ctx, &cloudv1.ExchangeTokenRequest{Tenant: "acme", Token: token})
}

func (b *bundle) exchange(token string) (*cloudv1.ExchangeTokenResponse, error) {
	return b.exchangeOn(b.s, token)
}

// reasons takes what was noted since it was asked last.
func (b *bundle) reasons() (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.noted {
		out = append(out, r.Value)
	}
	b.noted = nil
	return out
}

// refused demands the one answer, and the reason in the log.
func (b *bundle) refused(what string, err error, reason string) {
	b.t.Helper()
	f := cloudtest.Refused(b.t, err, "TOKEN_NOT_ACCEPTED")
	if f.Error() != errNotAccepted.Error() {
		b.t.Errorf("%s: a stranger is told %q", what, f.Error())
	}
	if got := strings.Join(b.reasons(), "\n"); !strings.Contains(got, reason) {
		b.t.Errorf("%s: noted %q, want %q", what, got, reason)
	}
}

func (b *bundle) accepted(what, token string) *cloudv1.ExchangeTokenResponse {
	b.t.Helper()
	res, err := b.exchange(token)
	if err != nil {
		b.t.Fatalf("%s: %v, %v", what, err, b.reasons())
	}
	return res
}

func (b *bundle) key(id string) store.Key {
	b.t.Helper()
	var k store.Key
	b.Service(b.t, func(ctx context.Context, tx *store.Tx) (err error) {
		k, err = tx.FindKey(ctx, id)
		return err
	})
	return k
}

func TestExchange_GivesAKeyOfTheAccountForMinutes(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		trust := b.trust(func(r *cloudv1.CreateTrustRequest) {
			r.Permissions, r.Queues, r.Cidrs = []string{"job.fetch"}, []string{"deploy.*"}, []string{"198.51.100.0/24"}
		})
		b.Outbox(t)
		res := b.accepted("a good token", b.issuer.token(nil))
		made, err := apikey.Parse(res.GetKey())
		if err != nil || made.Kind() != apikey.Temporary || made.ID() != res.GetKeyId() {
			t.Errorf("key %v, %v", made, err)
		}
		if got := res.GetExpiresAt().AsTime(); !got.Equal(w.Now().Add(15 * time.Minute)) {
			t.Errorf("ends at %v", got)
		}
		k, digest := b.key(res.GetKeyId()), made.Digest()
		if k.OwnerID != b.account.ID || k.CreatedBy != trust.GetId() || k.Kind != cloudv1.KeyKind_KEY_KIND_TEMPORARY || !slices.Equal(k.Versions[0].Digest, digest[:]) ||
			!slices.Equal(k.Permissions, []string{"job.fetch"}) || !slices.Equal(k.Queues, []string{"deploy.*"}) || !slices.Equal(k.CIDRs, []string{"198.51.100.0/24"}) {
			t.Errorf("record %+v", k)
		}
		if rows := w.Outbox(t); len(rows) == 0 || rows[0].Subject != k.ID {
			t.Errorf("the cell learns of %v", rows)
		}
		if log := w.Audit(t, b.tenant.ID); !slices.Equal(log, []string{"trust.create", "key.create"}) {
			t.Errorf("audit log %v", log)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			all, err := tx.ListAudit(ctx, b.tenant.ID, store.AuditFilter{}, store.Page{Limit: 1})
			if e := all[0]; e.ActorType != "trust" || e.ActorID != trust.GetId() || e.Changes["subject"].After != "repo:acme/web:ref:refs/heads/main" {
				t.Errorf("audit entry %+v", e)
			}
			lasting, countErr := tx.CountKeys(ctx, b.tenant.ID)
			if lasting != 0 {
				t.Errorf("%d keys count towards the plan", lasting)
			}
			return errors.Join(err, countErr)
		})
		got, err := b.s.GetTrust(b.ctx, &cloudv1.GetTrustRequest{Trust: "web"})
		if err != nil || !got.GetTrust().GetLastUsedAt().AsTime().Equal(w.Now()) || got.GetTrust().GetServiceAccount() != "deploy" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// Every attack that came to mind, each really signed unless it is about the signature.
func TestExchange_Attacks(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(nil)
	weak, strong := rsaKey(t, 1024), rsaKey(t, 2048)
	b.issuer.with(func(i *issuer) {
		i.published = append(i.published, jose.JSONWebKey{Key: weak.Public(), KeyID: "weak"}, jose.JSONWebKey{Key: strong.Public(), KeyID: "rsa", Use: "sig"},
			jose.JSONWebKey{Key: strong.Public(), KeyID: "for-encryption", Use: "enc"}, jose.JSONWebKey{Key: []byte("a secret that both sides would share"), KeyID: "shared"})
	})
	der, err := x509.MarshalPKIXPublicKey(strong.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	var lured atomic.Int64
	lure := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { lured.Add(1) }))
	t.Cleanup(lure.Close)
	mine := newIssuer(t, b.Now)
	now := b.Now()
	with := b.issuer.token
	claim := func(name string, v any) string { return with(map[string]any{name: v}) }
	raw := func(text string) string { return sign(t, jose.ES256, b.issuer.key, "key-1", nil, []byte(text)) }
	good := with(nil)
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	otherBody := strings.Split(claim("repository", "acme/web"), ".")[1]
	for name, tc := range map[string]struct{ token, reason string }{
		"none":                          {unsigned("none", b.issuer.claims(nil)), "alg"},
		"None":                          {unsigned("None", b.issuer.claims(nil)), "alg"},
		"no algorithm":                  {unsigned("", b.issuer.claims(nil)), ""},
		"HS256 with the public key":     {sign(t, jose.HS256, public, "rsa", nil, b.issuer.claims(nil)), "alg"},
		"HS256 with a published secret": {sign(t, jose.HS256, []byte("a secret that both sides would share"), "shared", nil, b.issuer.claims(nil)), "alg"},
		"signature cut off":             {head + "." + body + ".", "signature"},
		"signature of another token":    {head + "." + otherBody + "." + signature, "signature"},
		"signed by somebody else":       {sign(t, jose.ES256, mine.key, "key-1", nil, b.issuer.claims(nil)), "signature"},
		"RSA of 1,024 bits":             {sign(t, jose.RS256, weak, "weak", nil, b.issuer.claims(nil)), "none of the issuer's keys"},
		"key for encryption":            {sign(t, jose.RS256, strong, "for-encryption", nil, b.issuer.claims(nil)), "none of the issuer's keys"},
		"algorithm of another key":      {sign(t, jose.ES384, ec384(t), "key-1", nil, b.issuer.claims(nil)), "none of the issuer's keys"},
		"no kid, several keys":          {sign(t, jose.RS256, strong, "", nil, b.issuer.claims(nil)), "none of the issuer's keys"},
		"jku":                           {sign(t, jose.ES256, mine.key, "mine", map[jose.HeaderKey]any{"jku": lure.URL}, b.issuer.claims(nil)), "none of the issuer's keys"},
		"x5u":                           {sign(t, jose.ES256, mine.key, "mine", map[jose.HeaderKey]any{"x5u": lure.URL}, b.issuer.claims(nil)), "none of the issuer's keys"},
		"jwk in the header":             {sign(t, jose.ES256, mine.key, "key-1", map[jose.HeaderKey]any{"jwk": mine.published[0]}, b.issuer.claims(nil)), "signature"},
		"another issuer":                {mine.token(nil), "no trust"},
		"issuer with a slash":           {claim("iss", b.issuer.url()+"/"), "no trust"},
		"issuer in capitals":            {claim("iss", strings.ToUpper(b.issuer.url())), "no trust"},
		"issuers":                       {claim("iss", []string{b.issuer.url()}), "no trust"},
		"no issuer":                     {claim("iss", nil), "no trust"},
		"another audience":              {claim("aud", "https://elsewhere.example"), "aud"},
		"audience and more":             {claim("aud", audience+"/x"), "aud"},
		"audience's beginning":          {claim("aud", audience[:len(audience)-1]), "aud"},
		"two audiences":                 {claim("aud", []string{audience, "https://elsewhere.example"}), "aud"},
		"no audience":                   {claim("aud", nil), "aud"},
		"audience in a list of lists":   {claim("aud", [][]string{{audience}}), "aud"},
		"expired":                       {claim("exp", now.Add(-skewMax).Unix()), "exp"},
		"no end":                        {claim("exp", nil), "exp"},
		"end as a text":                 {claim("exp", fmt.Sprint(now.Add(time.Hour).Unix())), "exp"},
		"end beyond all numbers":        {raw(strings.Replace(string(marshal(t, b.issuer.claims(map[string]any{"exp": 1}))), `"exp":1,`, `"exp":1e999,`, 1)), ""},
		"not yet":                       {claim("nbf", now.Add(skewMax+2*time.Second).Unix()), "nbf"},
		"nbf as a text":                 {claim("nbf", "never"), "nbf"},
		"issued in the future":          {claim("iat", now.Add(skewMax+2*time.Second).Unix()), "iat"},
		"not issued":                    {claim("iat", nil), "iat"},
		"older than a day":              {with(map[string]any{"iat": now.Add(-25 * time.Hour).Unix(), "exp": now.Add(time.Hour).Unix()}), "more than a day"},
		"repository beginning with it":  {claim("repository", "acme/web-evil"), "repository doesn't match acme/web"},
		"repository below it":           {claim("repository", "acme/web/evil"), "repository doesn't match"},
		"repository ending with it":     {claim("repository", "evil/acme/web"), "repository doesn't match"},
		"repository in capitals":        {claim("repository", "Acme/web"), "repository doesn't match"},
		"space behind it":               {claim("repository", "acme/web "), "repository doesn't match"},
		"NUL behind it":                 {claim("repository", "acme/web\x00"), "repository doesn't match"},
		"letters that look so":          {claim("repository", "acmе/web"), "repository doesn't match"},
		"no repository":                 {claim("repository", nil), "no claim repository"},
		"claim in capitals":             {with(map[string]any{"repository": nil, "Repository": "acme/web"}), "no claim repository"},
		"a list with it":                {claim("repository", []string{"acme/web"}), "no claim repository"},
		"an object with it":             {claim("repository", map[string]any{"acme/web": true}), "no claim repository"},
		"null":                          {raw(strings.Replace(string(marshal(t, b.issuer.claims(nil))), `"repository":"acme/web"`, `"repository":null`, 1)), "no claim repository"},
		"another branch":                {claim("ref", "refs/heads/evil"), "ref doesn't match refs/heads/main or refs/tags/v*"},
		"prefix in the middle":          {claim("ref", "x/refs/tags/v1"), "ref doesn't match"},
		"a star in the claim":           {claim("ref", "refs/tags/*"), "ref doesn't match"},
		"the same claim twice":          {raw(strings.Replace(string(marshal(t, b.issuer.claims(map[string]any{"repository": "evil/web"}))), `{`, `{"repository":"acme/web",`, 1)), "can't be read"},
		"claims in a list":              {raw(`["acme/web"]`), "can't be read"},
		"two objects":                   {raw(string(marshal(t, b.issuer.claims(nil))) + "{}"), "can't be read"},
		"no claims":                     {raw(`{}`), "no trust"},
		"not JSON":                      {raw(`acme/web`), "can't be read"},
		"1 MB":                          {claim("x", strings.Repeat("a", 1<<20)), "too large"},
		"a million dots":                {strings.Repeat(".", tokenMax), "three parts"},
		"five parts":                    {good + "..", "three parts"},
		"empty":                         {"", "three parts"},
		"JSON with signatures":          {`{"payload":"e30","signatures":[]}`, "three parts"},
		"a key of ours":                 {"corvo_dp_" + strings.Repeat("a", 61), "three parts"},
	} {
		_, err := b.exchange(tc.token)
		b.refused(name, err, tc.reason)
	}
	if lured.Load() > 0 {
		t.Error("what the token's header names was called")
	}
	// The RSA key and the rest are fine, and so is the good token after all that.
	b.accepted("RS256", sign(t, jose.RS256, strong, "rsa", nil, b.issuer.claims(nil)))
	b.accepted("PS256", sign(t, jose.PS256, strong, "rsa", nil, b.issuer.claims(nil)))
	b.accepted("a tag", claim("ref", "refs/tags/v1"))
	b.accepted("one audience in a list", claim("aud", []string{audience}))
	b.accepted("a clock that is a little off", with(map[string]any{"iat": now.Add(30 * time.Second).Unix(), "nbf": now.Add(30 * time.Second).Unix()}))
	b.accepted("a good token", good)
}

func TestExchange_ATokenCountsOnceForAllReplicasAndOverRestarts(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		b.trust(nil)
		token := b.issuer.token(nil)
		b.accepted("once", token)
		_, err := b.exchange(token)
		b.refused("twice", err, "exchanged before")
		_, err = b.exchangeOn(b.replica(), token)
		b.refused("at another replica, or after a restart", err, "exchanged before")
		// Without an id, the token itself is what counts.
		nameless := b.issuer.token(map[string]any{"jti": nil})
		b.accepted("a token without jti", nameless)
		_, err = b.exchange(nameless)
		b.refused("it again", err, "exchanged before")
		for way, again := range rewritten(t, nameless) {
			_, err = b.exchange(again)
			b.refused("it again, with "+way, err, "no signed token")
		}
		_, err = b.exchange(b.issuer.token(map[string]any{"jti": "one"}))
		if err != nil {
			t.Error(err)
		}
		_, err = b.exchange(b.issuer.token(map[string]any{"jti": "one"}))
		b.refused("another token of the same id", err, "exchanged before")
		// It is remembered as long as anybody's clock takes it.
		w.Advance(5*time.Minute + skewMax - time.Second)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.DeleteTrustTokensBefore(ctx, w.Now())
			return err
		})
		_, err = b.exchange(token)
		b.refused("shortly before its end", err, "exchanged before")
		w.Advance(2 * rememberedFor)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.DeleteTrustTokensBefore(ctx, w.Now())
			if n != 3 {
				t.Errorf("%d tokens forgotten, want 3", n)
			}
			return err
		})
		// Of many at the same time, one gets a key.
		token = b.issuer.token(nil)
		var got atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			s := b.replica()
			all.Go(func() {
				if _, err := b.exchangeOn(s, token); err == nil {
					got.Add(1)
				}
			})
		}
		all.Wait()
		if got.Load() != 1 {
			t.Errorf("%d keys for one token", got.Load())
		}
	})
}

// rewritten is a token in other texts that a lenient decoder reads as the same bytes.
func rewritten(t *testing.T, token string) map[string]string {
	t.Helper()
	header, rest, _ := strings.Cut(token, ".")
	claims, signature, _ := strings.Cut(rest, ".")
	last := header[len(header)-1]
	unused := header[:len(header)-1] + string(last+1) // "A" and "B" differ in bits beyond the last byte.
	is, isErr := base64.RawURLEncoding.DecodeString(header)
	same, sameErr := base64.RawURLEncoding.DecodeString(unused)
	if err := errors.Join(isErr, sameErr); err != nil || !bytes.Equal(is, same) {
		t.Fatalf("%q and %q are not the same header: %v", header, unused, err)
	}
	return map[string]string{
		"a line feed in the header":    header[:4] + "\n" + header[4:] + "." + rest,
		"a line feed in the claims":    header + "." + claims[:4] + "\n" + claims[4:] + "." + signature,
		"a line feed in the signature": header + "." + claims + "." + signature[:4] + "\r\n" + signature[4:],
		"other unused bits":            unused + "." + rest,
	}
}

func TestExchange_ATrustMayAllowATokenAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(func(r *cloudv1.CreateTrustRequest) { r.AllowReuse = true })
	token := b.issuer.token(nil)
	first, second := b.accepted("once", token), b.accepted("twice", token)
	if first.GetKey() == second.GetKey() {
		t.Error("the same key was given twice")
	}
	b.Advance(5*time.Minute + skewMax)
	_, err := b.exchange(token)
	b.refused("after its end", err, "expired")
}

func TestExchange_AFloodOfUnknownKeysReadsTheKeySetOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(nil)
	b.accepted("a good token", b.issuer.token(nil))
	before := b.issuer.reads
	for i := range 100 {
		_, err := b.exchange(sign(t, jose.ES256, b.issuer.key, fmt.Sprintf("unknown-%d", i), nil, b.issuer.claims(nil)))
		b.refused("unknown key", err, "none of the issuer's keys")
	}
	if n := b.issuer.reads - before; n != 1 {
		t.Errorf("the key set was read %d times for unknown keys, want 1", n)
	}
	// A real change of keys is seen, though somebody floods.
	b.Advance(searchEvery)
	b.issuer.rotate("key-2")
	b.accepted("the new key", b.issuer.token(nil))
	// A key that its issuer took back is not good for longer than the set is fresh.
	b.issuer.rotate("key-3")
	b.Advance(freshFor)
	old := b.issuer.token(map[string]any{"exp": b.Now().Add(time.Hour).Unix()})
	b.issuer.rotate("key-4")
	b.Advance(freshFor)
	_, err := b.exchange(old)
	b.refused("a key that was taken back", err, "none of the issuer's keys")
}

func TestExchange_AnIssuerThatIsAwayIsUsedByWhatItSaidForAnHour(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(nil)
	b.accepted("while it is there", b.issuer.token(nil))
	b.issuer.with(func(i *issuer) { i.down = true })
	b.Advance(goodFor - time.Minute)
	b.accepted("while it is away", b.issuer.token(nil))
	b.Advance(2 * time.Minute)
	_, err := b.exchange(b.issuer.token(nil))
	b.refused("away for long", err, "status 503")
	if strings.Contains(fmt.Sprint(b.noted), "secret inside") {
		t.Error("what the issuer answered is in the log")
	}
}

func TestExchange_AForeignTenantsTrustCountsNothing(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		foreign := b.trust(nil)
		evil, mallory := w.Tenant(t, "evil", "mallory@evil.example")
		ctx, _ := w.As(t, evil, mallory, permission.RoleOwner)
		b.machine(evil.ID, "deploy", permission.RoleOwner)
		token := b.issuer.token(nil)
		public, _ := cloudtest.Public(t, "198.51.100.7", "")
		ask := func(tenant, trust string) error {
			_, err := b.s.ExchangeToken(public, &cloudv1.ExchangeTokenRequest{Tenant: tenant, Token: token, Trust: trust})
			return err
		}
		b.refused("a tenant without trusts", ask("evil", ""), "no trust")
		b.refused("another tenant's trust by its id", ask("evil", foreign.GetId()), "no trust")
		b.refused("a tenant that is not there", ask("nobody", ""), "")
		b.refused("no tenant", ask("", ""), "")
		for what, call := range map[string]func() error{
			"get": func() error {
				_, err := b.s.GetTrust(ctx, &cloudv1.GetTrustRequest{Trust: foreign.GetId()})
				return err
			},
			"by name": func() error { _, err := b.s.GetTrust(ctx, &cloudv1.GetTrustRequest{Trust: "web"}); return err },
			"update": func() error {
				_, err := b.s.UpdateTrust(ctx, &cloudv1.UpdateTrustRequest{TrustId: foreign.GetId(), Name: "x", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
				return err
			},
			"delete": func() error {
				_, err := b.s.DeleteTrust(ctx, &cloudv1.DeleteTrustRequest{TrustId: foreign.GetId()})
				return err
			},
		} {
			if f := cloudtest.Refused(t, call(), "NOT_FOUND"); f.Error() != "trust not found" {
				t.Errorf("%s: %v", what, f)
			}
		}
		_, err := b.s.CreateTrust(ctx, func() *cloudv1.CreateTrustRequest {
			r := b.request()
			r.ServiceAccount = b.account.ID
			return r
		}())
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "service_account" {
			t.Errorf("%v", f)
		}
		if list, err := b.s.ListTrusts(ctx, new(cloudv1.ListTrustsRequest)); err != nil || len(list.GetTrusts()) != 0 {
			t.Errorf("%v, %v", list, err)
		}
		b.accepted("the own tenant", token) // Nothing of all that used it up.
	})
}

func TestExchange_WhatEndsAnAccountEndsItsKeys(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		trust := b.trust(nil)
		first := b.accepted("a good token", b.issuer.token(nil))
		update := func(paths string, change func(*cloudv1.UpdateTrustRequest)) {
			t.Helper()
			r := &cloudv1.UpdateTrustRequest{TrustId: trust.GetId(), Etag: trust.GetEtag(), UpdateMask: &fieldmaskpb.FieldMask{Paths: strings.Split(paths, " ")}}
			change(r)
			res, err := b.s.UpdateTrust(b.ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			trust = res.GetTrust()
		}
		update("name key_life_seconds", func(r *cloudv1.UpdateTrustRequest) { r.Name, r.KeyLifeSeconds = "web deploys", 300 })
		if k := b.key(first.GetKeyId()); !k.RevokedAt.IsZero() {
			t.Error("another name ended a key")
		}
		second := b.accepted("shorter", b.issuer.token(nil))
		if !second.GetExpiresAt().AsTime().Equal(w.Now().Add(5 * time.Minute)) {
			t.Errorf("ends at %v", second.GetExpiresAt().AsTime())
		}
		update("conditions", func(r *cloudv1.UpdateTrustRequest) {
			r.Conditions = []*cloudv1.TrustCondition{condition("repository", "acme/*")}
		})
		for _, id := range []string{first.GetKeyId(), second.GetKeyId()} {
			if k := b.key(id); k.RevokedAt.IsZero() || k.Generation != 2 {
				t.Errorf("the conditions changed, and key %s lives", id)
			}
		}
		third := b.accepted("as it is now", b.issuer.token(map[string]any{"repository": "acme/other"}))
		if _, err := b.s.DeleteTrust(b.ctx, &cloudv1.DeleteTrustRequest{TrustId: trust.GetId()}); err != nil {
			t.Fatal(err)
		}
		if k := b.key(third.GetKeyId()); k.RevokedAt.IsZero() {
			t.Error("the trust is gone, and its key lives")
		}
		_, err := b.exchange(b.issuer.token(nil))
		b.refused("no trust", err, "no trust")

		trust = b.trust(nil)
		b.Service(t, func(ctx context.Context, tx *store.Tx) error {
			a, err := tx.GetServiceAccount(ctx, b.tenant.ID, b.account.ID)
			a.Disabled = true
			return errors.Join(err, tx.UpdateServiceAccount(ctx, &a))
		})
		token := b.issuer.token(nil)
		_, err = b.exchange(token)
		b.refused("disabled", err, "disabled")
		b.Service(t, func(ctx context.Context, tx *store.Tx) error {
			a, err := tx.GetServiceAccount(ctx, b.tenant.ID, b.account.ID)
			a.Disabled = false
			return errors.Join(err, tx.UpdateServiceAccount(ctx, &a))
		})
		b.accepted("a token that was refused isn't used up", token)
		idle := b.machine(b.tenant.ID, "idle")
		b.trust(func(r *cloudv1.CreateTrustRequest) { r.Name, r.ServiceAccount = "idle", idle.ID })
		public, _ := cloudtest.Public(t, "198.51.100.7", "")
		_, err = b.s.ExchangeToken(public, &cloudv1.ExchangeTokenRequest{Tenant: b.tenant.ID, Token: b.issuer.token(nil), Trust: "idle"})
		b.refused("no role", err, "no role")
		// Two trusts that accept it: the caller, whose token is good, is told.
		_, err = b.exchange(b.issuer.token(nil))
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "trust" {
			t.Errorf("%v", f)
		}
		// With its account, a trust goes.
		b.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.DeleteServiceAccount(ctx, b.tenant.ID, b.account.ID); err != nil {
				return err
			}
			_, err := tx.GetTrust(ctx, b.tenant.ID, trust.GetId())
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the trust of a deleted account: %v", err)
			}
			return nil
		})
	})
}

func TestExchange_KeysAreCountedAndSweptAway(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		b := newBundle(t, w)
		b.s.Limits = Limits{Living: 2, PerDay: 3}
		b.trust(nil)
		first := b.accepted("1", b.issuer.token(nil))
		b.accepted("2", b.issuer.token(nil))
		kept := b.issuer.token(nil)
		_, err := b.exchange(kept)
		cloudtest.Refused(t, err, "TOO_MANY_KEYS")
		w.Advance(2 * time.Minute)
		sweep := func() {
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.EndTemporaryKeys(ctx, w.Now())
				_, oldErr := tx.DeleteTemporaryKeysBefore(ctx, w.Now().Add(-48*time.Hour))
				return errors.Join(err, oldErr)
			})
		}
		sweep()
		if k := b.key(first.GetKeyId()); !k.RevokedAt.IsZero() {
			t.Error("swept before its end")
		}
		w.Advance(14 * time.Minute)
		sweep()
		k := b.key(first.GetKeyId())
		if !k.RevokedAt.Equal(k.ExpiresAt) || k.Generation != 2 {
			t.Errorf("after its end: %+v", k)
		}
		b.accepted("3", b.issuer.token(nil))
		_, err = b.exchange(b.issuer.token(nil))
		cloudtest.Refused(t, err, "TOO_MANY_REQUESTS")
		w.Advance(72 * time.Hour)
		sweep()
		b.key(first.GetKeyId()) // The cell has not said that it forgot it.
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.ObserveKey(ctx, k.TenantID, k.ID, 2) })
		sweep()
		err = w.Store.Service(t.Context(), func(tx *store.Tx) error { _, err := tx.FindKey(t.Context(), k.ID); return err })
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("long after its end: %v", err)
		}
	})
}

func TestCreate_NobodyGivesMoreThanTheyHave(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.machine(b.tenant.ID, "boss", permission.RoleOwner)
	developer := b.Member(t, b.tenant.ID, "dev@acme.example", permission.RoleDeveloper)
	ctx, _ := b.As(t, b.tenant, developer, permission.RoleDeveloper)
	r := b.request()
	r.ServiceAccount = "boss"
	_, err := b.s.CreateTrust(ctx, r)
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	// Narrowed to what they have, it is theirs to give; then they can't widen it.
	r.Permissions = []string{"job.enqueue"}
	res, err := b.s.CreateTrust(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.s.UpdateTrust(ctx, &cloudv1.UpdateTrustRequest{TrustId: res.GetTrust().GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"permissions"}}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	// Nor end or change what gives more than they have.
	wide := b.trust(func(r *cloudv1.CreateTrustRequest) { r.Name, r.ServiceAccount = "wide", "boss" })
	_, err = b.s.DeleteTrust(ctx, &cloudv1.DeleteTrustRequest{TrustId: wide.GetId()})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = b.s.UpdateTrust(ctx, &cloudv1.UpdateTrustRequest{TrustId: wide.GetId(), Permissions: []string{"job.enqueue"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"permissions"}}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	// A key that ends would live on in a trust.
	b.trust(func(r *cloudv1.CreateTrustRequest) { r.Name = "deploys" })
	public, _ := cloudtest.Public(t, "198.51.100.7", "")
	given, err := b.s.ExchangeToken(public, &cloudv1.ExchangeTokenRequest{Tenant: "acme", Token: b.issuer.token(nil), Trust: "wide"})
	if err != nil {
		t.Fatal(err, b.reasons())
	}
	machine := access.From(b.ctx)
	machine.KeyID, machine.UserID = given.GetKeyId(), ""
	r.Name = "again"
	_, err = b.s.CreateTrust(access.With(t.Context(), machine), r)
	cloudtest.Refused(t, err, "KEY_EXPIRES")
}

func TestCreate_WhatEverybodyWouldPassIsRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	one := func(claim string, values ...string) []*cloudv1.TrustCondition {
		return []*cloudv1.TrustCondition{condition(claim, values...)}
	}
	for name, tc := range map[string]struct {
		provider   cloudv1.TrustProvider
		conditions []*cloudv1.TrustCondition
	}{
		"none":                          {github, nil},
		"a branch of anybody":           {github, one("ref", "refs/heads/main")},
		"a workflow that anybody calls": {github, one("job_workflow_ref", "acme/ci/.github/workflows/deploy.yml@refs/heads/main")},
		"an owner whose name goes on":   {github, one("repository", "acme*")},
		"a slash alone":                 {github, one("repository", "/*")},
		"one of two":                    {github, one("repository", "acme/web", "a*")},
		"an owner's beginning":          {github, one("repository_owner", "acme*")},
		"an id's beginning":             {github, one("repository_owner_id", "12*")},
		"sub of any repository":         {github, one("sub", "repo:*")},
		"sub of an owner that goes on":  {github, one("sub", "repo:acme*")},
		"sub without repository":        {github, one("sub", "acme/web")},
		"nothing behind the owner":      {github, one("repository", "acme/")},
		"any protected branch":          {gitlab, one("ref_protected", "true")},
		"a group whose name goes on":    {gitlab, one("project_path", "acme*")},
		"any project by sub":            {gitlab, one("sub", "project_path:*")},
		"any account of a cluster":      {kubernetes, one("sub", "system:serviceaccount:*")},
		"a namespace that goes on":      {kubernetes, one("sub", "system:serviceaccount:prod*")},
		"an account by its name":        {kubernetes, one("kubernetes.io/serviceaccount/service-account.name", "web")},
		"any user of another issuer":    {other, one("email_verified", "true")},
		"a subject that goes on":        {other, one("sub", "organization:acme*")},
		"one part of a subject":         {other, one("sub", "organization:*")},
	} {
		r := b.request()
		r.Provider, r.Conditions = tc.provider, tc.conditions
		_, err := b.s.CreateTrust(b.ctx, r)
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "conditions" || !strings.Contains(f.Fields[0].Problem, "pass") {
			t.Errorf("%s: %v", name, f)
		}
	}
	for name, tc := range map[string]struct {
		provider   cloudv1.TrustProvider
		conditions []*cloudv1.TrustCondition
	}{
		"a repository":          {github, one("repository", "acme/web")},
		"an owner":              {github, one("repository", "acme/*")},
		"an owner's id":         {github, one("repository_owner_id", "1234")},
		"sub":                   {github, one("sub", "repo:acme/web:environment:production")},
		"sub that is open":      {github, one("sub", "repo:acme/web:*")},
		"a project":             {gitlab, one("project_path", "acme/tools/web")},
		"a group":               {gitlab, one("project_path", "acme/*")},
		"a namespace's id":      {gitlab, one("namespace_id", "77")},
		"an account":            {kubernetes, one("sub", "system:serviceaccount:prod:web")},
		"a namespace":           {kubernetes, one("sub", "system:serviceaccount:prod:*")},
		"a subject":             {other, one("sub", "107517467455664443765")},
		"an owner in a subject": {other, one("sub", "organization:acme:*")},
	} {
		b.trust(func(r *cloudv1.CreateTrustRequest) {
			r.Name, r.Provider, r.Conditions = name, tc.provider, tc.conditions
		})
	}
	for _, issuer := range []string{githubIssuer, githubIssuer + "/octo", "https://TOKEN.actions.githubusercontent.com"} {
		r := b.request()
		r.Issuer, r.Provider, r.Jwks, r.Conditions = issuer, other, b.jwks(), one("sub", "x")
		_, err := b.s.CreateTrust(b.ctx, r)
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); !strings.Contains(f.Error(), "choose the provider GitHub") {
			t.Errorf("%s as another provider: %v", issuer, f)
		}
	}
}

func (b *bundle) jwks() string {
	return string(marshal(b.t, jose.JSONWebKeySet{Keys: b.issuer.published}))
}

func TestCreate_ListsEveryWrongField(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	_, err := b.s.CreateTrust(b.ctx, &cloudv1.CreateTrustRequest{
		Provider: 9, Issuer: "ftp://x", Audience: "a b", Permissions: []string{"fly"}, Queues: []string{"a*b"}, Cidrs: []string{"x"}, KeyLifeSeconds: 86400,
		Conditions: []*cloudv1.TrustCondition{condition("repository", "acme/web"), condition("repository", "*"), condition("aud", "x"), condition("a\x00", ""), condition("b"), condition("ref", "a*b")},
	})
	f := cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	var got []string
	for _, field := range f.Fields {
		got = append(got, field.Name)
	}
	want := "name permissions[0] queues[0] cidrs[0] provider issuer audience key_life_seconds conditions[1].claim conditions[1].values[0] conditions[2].claim conditions[3].claim " +
		"conditions[3].values[0] conditions[4].values conditions[5].values[0]"
	if strings.Join(got, " ") != want {
		t.Errorf("fields %v\nwant   %v", got, want)
	}
	for name, tc := range map[string]struct{ issuer, jwks, field string }{
		"a private key":       {"https://cluster.example", string(marshal(t, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: b.issuer.key, KeyID: "1"}}})), "jwks"},
		"a shared key":        {"https://cluster.example", `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`, "jwks"},
		"no key":              {"https://cluster.example", `{"keys":[]}`, "jwks"},
		"no set":              {"https://cluster.example", `[]`, "jwks"},
		"nobody there":        {"http://127.0.0.1:1", "", "issuer"},
		"the clouds' secrets": {"https://169.254.169.254", "", "issuer"},
		"a query":             {"https://cluster.example?x=1", "", "issuer"},
		"user and password":   {"https://a:b@cluster.example", "", "issuer"},
	} {
		r := b.request()
		r.Issuer, r.Jwks = tc.issuer, tc.jwks
		_, err := b.s.CreateTrust(b.ctx, r)
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != tc.field || strings.Contains(f.Error(), "c2VjcmV0") {
			t.Errorf("%s: %v", name, f)
		}
	}
	for name, document := range map[string]map[string]any{
		"another issuer": {"issuer": "https://evil.example"}, "keys in a file": {"jwks_uri": "file:///etc/passwd"}, "keys at the metadata": {"jwks_uri": "https://169.254.169.254/"}, "no keys": {"jwks_uri": ""},
	} {
		b.issuer.with(func(i *issuer) { i.document = document })
		_, err := b.s.CreateTrust(b.ctx, b.request())
		if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "issuer" {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// A cluster that nobody can reach, and the hosted service, which calls nothing inside.
func TestExchange_PastedKeysAreNeverCalledFor(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	hosted := New(Needs{Kit: b.Kit, Egress: egress.Options{}, Ready: b.s.Ready, Refused: b.s.Refused})
	r := b.request()
	_, err := hosted.CreateTrust(b.ctx, r)
	if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "issuer" || !strings.Contains(f.Error(), "jwks") {
		t.Errorf("%v", f)
	}
	r.Provider, r.Jwks, r.Conditions = kubernetes, b.jwks(), []*cloudv1.TrustCondition{condition("sub", "system:serviceaccount:prod:web")}
	if _, err := hosted.CreateTrust(b.ctx, r); err != nil {
		t.Fatal(err)
	}
	token := b.issuer.token(map[string]any{"sub": "system:serviceaccount:prod:web"})
	if _, err := b.exchangeOn(hosted, token); err != nil {
		t.Error(err, b.reasons())
	}
	_, err = b.exchangeOn(hosted, b.issuer.token(map[string]any{"sub": "system:serviceaccount:prod:web2"}))
	b.refused("another account", err, "sub doesn't match")
	b.issuer.rotate("key-1")
	_, err = b.exchangeOn(hosted, b.issuer.token(map[string]any{"sub": "system:serviceaccount:prod:web"}))
	b.refused("another key of the same id", err, "signature")
	if b.issuer.reads != 0 {
		t.Error("the issuer was called")
	}
}

func TestExchange_NamespacesThatAreGoneAreLeftOut(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	var made []store.Namespace
	for _, name := range []string{"one", "two"} {
		n := store.Namespace{TenantID: b.tenant.ID, ID: b.IDs.New(ids.Namespace, b.Now()), Name: name, CreatedAt: b.Now(), UpdatedAt: b.Now(), Version: 1, Generation: 1}
		b.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertNamespace(ctx, n) })
		made = append(made, n)
	}
	b.trust(func(r *cloudv1.CreateTrustRequest) { r.Namespaces = []string{"one", "two"} })
	gone := func(n store.Namespace) {
		n.DeletedAt, n.Name = b.Now(), n.ID
		b.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.UpdateNamespace(ctx, &n) })
	}
	gone(made[0])
	res := b.accepted("one is left", b.issuer.token(nil))
	if k := b.key(res.GetKeyId()); !slices.Equal(k.NamespaceIDs, []string{made[1].ID}) {
		t.Errorf("namespaces %v", k.NamespaceIDs)
	}
	gone(made[1])
	_, err := b.exchange(b.issuer.token(nil))
	b.refused("none is left", err, "deleted")
}

func TestExchange_OnlyFromTheTrustsNetworks(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(func(r *cloudv1.CreateTrustRequest) { r.Cidrs = []string{"203.0.113.0/24"} })
	_, err := b.exchange(b.issuer.token(nil))
	b.refused("from elsewhere", err, "networks")
}

// A policy that wants networks counts for trusts too, also for those that were made before it.
func TestExchange_ThePolicyForKeysCounts(t *testing.T) {
	t.Parallel()
	b := newBundle(t, cloudtest.New(t))
	b.trust(nil)
	b.Service(t, func(ctx context.Context, tx *store.Tx) error {
		p, err := tx.GetSignInPolicy(ctx, b.tenant.ID)
		p.TenantID, p.KeyNetworks, p.Version = b.tenant.ID, true, 1
		return errors.Join(err, tx.InsertSignInPolicy(ctx, p))
	})
	_, err := b.exchange(b.issuer.token(nil))
	b.refused("without networks", err, "policy")
	r := b.request()
	r.Name = "another"
	_, err = b.s.CreateTrust(b.ctx, r)
	if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "cidrs" {
		t.Errorf("%v", f)
	}
}
