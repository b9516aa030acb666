package proxy

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/browser"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

// nobody is a digest that no key has, drawn when the process starts.
var nobody = func() (d [sha256.Size]byte) { rand.Read(d[:]); return d }()

// unknownKey stands in for a key that does not exist, so that an unknown id takes
// the same path and the same time as a wrong secret.
var unknownKey = &keyRecord{proto: &cellv1.Key{}, digests: [digestsMax][sha256.Size]byte{nobody, nobody}}

// caller is who a request was authenticated as, by one snapshot.
type caller struct {
	// Exactly one of the two is set.
	key  *cellv1.Key
	user *usertoken.Claims

	principal string
	owner     string // Whom a key belongs to.
	// here is what the caller may do in the namespace.
	here permission.Here
	// from is where a key's call came from, if its record says from where it counts.
	from      string
	tenant    *cellv1.Tenant
	namespace *cellv1.Namespace
	digest    [sha256.Size]byte // Of a key.
	use       *use              // Of a key's secret.
	notAfter  time.Time
	// checked is the last snapshot that allowed this. Calls guards it once the
	// request is under way.
	checked *snapshot
}

// shown is the credential of a request, parsed but not checked: a token, or else a
// key with where it came from.
type shown struct {
	token  string
	key    apikey.Key
	client client
}

// client tells where a request came from. Most keys don't ask.
type client struct {
	r       *http.Request
	proxies clientnet.Proxies
}

// addr is what Networks compares; what cannot be told is in no network.
func (c client) addr() string { return c.proxies.Client(c.r) }

// authenticate checks the key or token in r, that the address names the same
// tenant, and the namespace asked for. It reads memory only. What is unknown may be
// newer than this proxy's state, and is looked up once more after asking the cell.
func (p *Proxy) authenticate(r *http.Request, addr address) (caller, *refusal) {
	cred, ref := p.read(r)
	if ref != nil {
		p.noteRefusal(r, cred, &caller{}, addr, ref)
		return caller{}, ref
	}
	asked := r.Header[identity.HeaderNamespace]
	seen := p.view.current()
	c, ref := seen.judge(cred, addr, asked, p.now())
	if ref != nil && ref.mayBeNew && p.lagChecks.caughtUp(r.Context()) {
		if now := p.view.current(); now != seen {
			c, ref = now.judge(cred, addr, asked, p.now())
		}
	}
	if ref != nil && ref.stranger && !p.view.fresh(p.now()) {
		return caller{}, refuseStale
	}
	if ref != nil && ref.ofTime && p.time != nil && !p.time.Known() {
		return caller{}, refuseClock
	}
	if ref != nil {
		p.noteRefusal(r, cred, &c, addr, ref)
		return caller{}, ref
	}
	p.uses.note(c.use, p.now())
	return c, nil
}

// read parses the credential of r.
func (p *Proxy) read(r *http.Request) (shown, *refusal) {
	text, fromCookie := browser.Credential(r)
	if text == "" {
		return shown{}, refuseNoKey
	}
	if fromCookie && p.crossOrigin.Check(r) != nil {
		// A browser adds cookies to what other sites send.
		return shown{}, refuseCrossOrigin
	}
	if isUserToken(r, text, fromCookie) {
		return shown{token: text}, nil
	}
	key, err := apikey.Parse(text)
	if err != nil || !opensDataPlane(key.Kind()) {
		return shown{}, refuseBadKey
	}
	return shown{key: key, client: client{r, p.clients}}, nil
}

func (s *snapshot) judge(cred shown, addr address, asked []string, now time.Time) (caller, *refusal) {
	if cred.token != "" {
		return s.user(cred.token, addr, asked, now)
	}
	return s.key(cred, addr, asked, now)
}

// opensDataPlane: keys of other kinds are for other APIs, whatever the state says.
func opensDataPlane(k apikey.Kind) bool {
	return k == apikey.DataPlane || k == apikey.Management || k == apikey.Personal || k == apikey.Temporary
}

// key checks an API key against the snapshot. With a refusal, the caller says at most whose
// key it is.
func (s *snapshot) key(cred shown, addr address, asked []string, now time.Time) (caller, *refusal) {
	c, rec, tenant, ref := s.lookup(cred, now)
	if ref != nil {
		return c, ref
	}
	if !addr.agrees(tenant.proto.GetName()) {
		return c, refuseOtherTenant
	}
	if len(rec.grants) == 0 { // Whatever is asked. The caller holds the secret, so it is told.
		return c, refuseNothing
	}
	if c.namespace, c.here = tenant.choose(rec, asked); c.namespace == nil {
		return c, refuseNoNamespace
	}
	return c, nil
}

// lookup finds the key's record and compares its digests. All failures that a
// stranger can cause give the same answer.
func (s *snapshot) lookup(cred shown, now time.Time) (caller, *keyRecord, *tenantRecord, *refusal) {
	rec, known := s.keys.get(cred.key.ID())
	if !known {
		rec = unknownKey
	}
	digest := cred.key.Digest()
	match, which := 0, 0
	for i := range rec.digests {
		same := subtle.ConstantTimeCompare(rec.digests[i][:], digest[:])
		match |= same
		which = subtle.ConstantTimeSelect(same, i, which)
	}
	tenant, _ := s.tenants.get(rec.proto.GetTenantId())
	if match != 1 || !known {
		return caller{}, nil, nil, refuseBadKey
	}
	// From here on the caller holds the secret.
	holder := caller{principal: rec.proto.GetId(), tenant: tenant.record()}
	from := ""
	if rec.networks.Limited() {
		if from = cred.client.addr(); !rec.networks.Has(from) {
			return holder, nil, nil, refuseAddress
		}
	}
	if rec.proto.GetRevoked() || !tenant.alive() {
		return holder, nil, nil, refuseRevoked
	}
	if !rec.notAfter.IsZero() && !now.Before(rec.notAfter) {
		return holder, nil, nil, refuseExpired
	}
	if ends := rec.ends[which]; !ends.IsZero() && !now.Before(ends) {
		return holder, nil, nil, refuseBadKey // It was replaced by another secret.
	}
	return caller{
		key: rec.proto, principal: rec.proto.GetId(), owner: rec.proto.GetPrincipalId(), from: from,
		tenant: tenant.proto, digest: digest, use: &rec.uses[which], notAfter: rec.until(digest), checked: s,
	}, rec, tenant, nil
}

// choose is the namespace a key works in, and what it may do there: the one named, else
// the first choice of its record. One where it may do nothing gets the same answer as one
// that does not exist.
func (t *tenantRecord) choose(key *keyRecord, asked []string) (*cellv1.Namespace, permission.Here) {
	if len(asked) > 1 {
		return nil, permission.Here{}
	}
	if len(asked) == 1 && asked[0] != "" {
		return openTo(t.byName[asked[0]], key)
	}
	for _, id := range key.first {
		if ns, here := openTo(t.byID[id], key); ns != nil {
			return ns, here
		}
	}
	return t.byDefault(key)
}

// openTo is the namespace and what the key may do there, if it may do anything.
func openTo(ns *cellv1.Namespace, key *keyRecord) (*cellv1.Namespace, permission.Here) {
	if ns == nil {
		return nil, permission.Here{}
	}
	here := key.here(ns.GetId())
	if here.None() {
		return nil, here
	}
	return ns, here
}

// byDefault is the namespace of a key whose record names none that is open to it: the one
// called default, else the oldest (ids are ULIDs and sort by age).
func (t *tenantRecord) byDefault(key *keyRecord) (oldest *cellv1.Namespace, may permission.Here) {
	if ns, here := openTo(t.byName["default"], key); ns != nil {
		return ns, here
	}
	for _, ns := range t.byID {
		if oldest != nil && oldest.GetId() < ns.GetId() {
			continue
		}
		if ns, here := openTo(ns, key); ns != nil {
			oldest, may = ns, here
		}
	}
	return oldest, may
}

// stillAllowed reports whether c's rights are unchanged in s. It is called for all
// calls under way whenever the state changes.
func (s *snapshot) stillAllowed(c *caller, now time.Time) bool {
	if c.expired(now) {
		return false
	}
	if c.checked == s {
		return true
	}
	if c.user != nil && !s.userStillAllowed(c, now) || c.user == nil && !s.keyStillAllowed(c, now) {
		return false
	}
	tenant, _ := s.tenants.get(c.tenant.GetId())
	if !tenant.alive() || tenant.byID[c.namespace.GetId()] == nil {
		return false
	}
	c.checked = s
	return true
}

func (c *caller) expired(now time.Time) bool { return !c.notAfter.IsZero() && !now.Before(c.notAfter) }

// keyStillAllowed also adopts a changed expiry.
func (s *snapshot) keyStillAllowed(c *caller, now time.Time) bool {
	rec, ok := s.keys.get(c.key.GetId())
	if !ok || rec.proto.GetRevoked() || !rec.notAfter.IsZero() && !now.Before(rec.notAfter) {
		return false
	}
	if rec.proto != c.key { // It was written since; usually the record is the same.
		if !slices.Contains(rec.digests[:], c.digest) || rec.proto.GetTenantId() != c.key.GetTenantId() || rec.proto.GetPrincipalId() != c.owner {
			return false
		}
		if here := rec.here(c.namespace.GetId()); !same(here, c.here) || !rec.networks.Has(c.from) {
			return false
		}
	}
	c.notAfter = rec.until(c.digest)
	return !c.expired(now)
}

// same reports whether two say that the same may be done. It may miss that they do when
// they say it differently, and a call is ended that needn't be.
func same(a, b permission.Here) bool {
	return a.All == b.All && slices.EqualFunc(a.Some, b.Some, func(a, b permission.InQueues) bool {
		return a.Permissions == b.Permissions && slices.Equal(a.Queues, b.Queues)
	})
}
