package proxy

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/sampled"
)

// Kinds of refusals that are counted at a time, of each tenant. Every one may be an entry of
// its audit log; strangers cost it little, however many there are.
const (
	holdersMax   = 1000
	strangersMax = 20
)

// Reasons of refusals whose refusal has several, or depends on who is told.
const (
	reasonUnknownKey  = "unknown key"
	reasonWrongSecret = "wrong secret"
	reasonReplaced    = "replaced secret"
)

// refusedKind is what is counted as one.
type refusedKind struct{ tenant, principal, key, network, reason string }

type counter = sampled.Counter[refusedKind, string] // With the address of the first.

// refusals are what the audit logs of tenants are to be told.
type refusals struct {
	// holders have a secret of a key, or did; strangers leave no room for themselves only.
	holders, strangers *counter

	mu     sync.Mutex
	untold []*cellv1.Refusal // What no node has taken yet. Guarded by mu.
}

func newRefusals(now func() time.Time) *refusals {
	own := func(k refusedKind, peer string) (refusedKind, string) {
		k.network = strings.Clone(k.network)
		return k, strings.Clone(peer)
	}
	return &refusals{holders: sampled.New(now, holdersMax, own), strangers: sampled.New(now, strangersMax, own)}
}

// noteRefusal counts a refusal for the tenants that it concerns: whose the credential is, and
// whose URL was called. To the latter, a caller with a credential of somebody else is as
// unknown as any other. Unless the caller holds a secret, it is always counted twice, if need
// be for nobody, so that the time it takes does not tell which keys and tenants exist.
func (p *Proxy) noteRefusal(r *http.Request, cred shown, c *caller, addr address, ref *refusal) {
	if ref.reason == "" {
		return
	}
	s := p.view.current()
	peer := p.clients.Client(r)
	network := clientnet.Wide(peer)
	owner, reason := s.aliveID(c.tenant.GetId()), reasonUnknownKey
	switch {
	case c.principal != "":
		p.noteHolder(owner, c.principal, peer, ref)
	case ref == refuseBadKey:
		owner = p.noteWrongSecret(s, cred, network)
	default:
		reason = ref.reason
	}
	at := s.named(addr)
	if at == owner {
		at = ""
	}
	p.refusals.strangers.Note(at, refusedKind{tenant: at, network: network, reason: reason}, network)
}

// noteHolder is for callers that have, or had, a credential of the tenant.
func (p *Proxy) noteHolder(owner, principal, peer string, ref *refusal) {
	k := refusedKind{tenant: owner, key: principal, reason: ref.reason}
	switch {
	case ref.ofHolder:
		k.principal, k.key = principal, ""
	case ref == refuseBadKey:
		k.reason = reasonReplaced
	}
	p.refusals.holders.Note(owner, k, peer)
}

// noteWrongSecret returns whose key was shown with a secret that it doesn't have, if any is. A
// revoked key has none any more.
func (p *Proxy) noteWrongSecret(s *snapshot, cred shown, network string) (owner string) {
	k := refusedKind{network: network, reason: reasonWrongSecret}
	if rec, known := s.keys.get(cred.key.ID()); known {
		owner = s.aliveID(rec.proto.GetTenantId())
		k.tenant, k.key = owner, rec.proto.GetId()
		if rec.proto.GetRevoked() {
			k.reason = refuseRevoked.reason
		}
	}
	p.refusals.strangers.Note(owner, k, network)
	return owner
}

// aliveID is the id of a tenant, empty if there is none.
func (s *snapshot) aliveID(id string) string {
	t, _ := s.tenants.get(id)
	if !t.alive() {
		return ""
	}
	return id
}

// named is the id of the tenant that a URL names, if it names one.
func (s *snapshot) named(addr address) string {
	name := addr.hostTenant
	if name == "" {
		name = addr.pathTenant
	}
	if !addr.agrees(name) {
		return ""
	}
	id, _ := s.names.get(name)
	return id
}

// take is what nodes are to be told. What they didn't take the last time comes first, alone,
// and as the same: one of them may have it.
func (r *refusals) take() []*cellv1.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.untold) > 0 {
		taken := r.untold
		r.untold = nil
		return taken
	}
	var taken []*cellv1.Refusal
	for _, c := range slices.Concat(r.holders.Take(), r.strangers.Take()) {
		if c.Owner == "" {
			continue
		}
		taken = append(taken, &cellv1.Refusal{
			Id: rand.Text(), TenantId: c.Kind.tenant, Principal: c.Kind.principal, KeyId: c.Kind.key, Peer: c.First,
			Reason: c.Kind.reason, Times: int64(c.Times), SinceNs: c.Since.UnixNano(),
		})
	}
	return taken
}

// back returns what could not be told.
func (r *refusals) back(taken []*cellv1.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.untold = append(r.untold, taken...)
}
