package proxy

import (
	"crypto/ed25519"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

// cutoffKept is how much older than the newest a cutoff is when it is dropped. No
// token that it would end can be left by then, however much the cell's clocks
// differ.
const cutoffKept = usertoken.LifeMax + 5*time.Minute

// tokens verifies the tokens of people's browsers. It never changes; nil is for a
// cell without token keys.
type tokens struct {
	keys map[string]*cellv1.TokenKey
	cuts map[userInTenant]*cellv1.UserCutoff
}

type userInTenant struct{ tenantID, userID string }

// with is the successor of t after changes, t itself if none concerns it.
func (t *tokens) with(changes []*cellv1.Change) *tokens {
	next := t
	edit := func() *tokens {
		if next == t {
			next = t.clone()
		}
		return next
	}
	for _, c := range changes {
		switch v := c.GetChange().(type) {
		case *cellv1.Change_TokenKey:
			if v.TokenKey.GetDeleted() {
				delete(edit().keys, v.TokenKey.GetId())
			} else {
				edit().keys[v.TokenKey.GetId()] = v.TokenKey
			}
		case *cellv1.Change_UserCutoff:
			edit().cut(v.UserCutoff)
		}
	}
	return next
}

func (t *tokens) clone() *tokens {
	c := &tokens{keys: map[string]*cellv1.TokenKey{}, cuts: map[userInTenant]*cellv1.UserCutoff{}}
	if t != nil {
		maps.Copy(c.keys, t.keys)
		maps.Copy(c.cuts, t.cuts)
	}
	return c
}

func (t *tokens) cut(c *cellv1.UserCutoff) {
	oldest := c.GetNotBeforeNs() - int64(cutoffKept)
	maps.DeleteFunc(t.cuts, func(_ userInTenant, old *cellv1.UserCutoff) bool { return old.GetNotBeforeNs() < oldest })
	t.cuts[userInTenant{c.GetTenantId(), c.GetUserId()}] = c
}

// state adds t to a state, in an order that does not depend on maps.
func (t *tokens) state(out *cellv1.State) {
	if t == nil {
		return
	}
	out.TokenKeys = slices.SortedFunc(maps.Values(t.keys), func(a, b *cellv1.TokenKey) int { return strings.Compare(a.GetId(), b.GetId()) })
	out.UserCutoffs = slices.SortedFunc(maps.Values(t.cuts), func(a, b *cellv1.UserCutoff) int {
		return strings.Compare(a.GetTenantId()+a.GetUserId(), b.GetTenantId()+b.GetUserId())
	})
}

// key is the public key of that id while it is valid, or nil.
func (t *tokens) key(id string, now time.Time) *cellv1.TokenKey {
	if t == nil {
		return nil
	}
	k := t.keys[id]
	if k == nil || k.GetNotAfterNs() != 0 && now.UnixNano() >= k.GetNotAfterNs() {
		return nil
	}
	return k
}

// cutOff reports whether the user's tokens of that time no longer count: they alone, or
// those of all users of the tenant.
func (t *tokens) cutOff(tenantID, userID string, issued time.Time) bool {
	if t == nil {
		return false
	}
	for _, whose := range [...]userInTenant{{tenantID, userID}, {tenantID, ""}} {
		if c := t.cuts[whose]; c != nil && issued.UnixNano() < c.GetNotBeforeNs() {
			return true
		}
	}
	return false
}

// user checks the token of a person's browser against the snapshot. The token names
// its namespace, so that a page cannot reach another with it.
func (s *snapshot) user(text string, addr address, asked []string, now time.Time) (caller, *refusal) {
	claims, err := usertoken.Verify(func(id string) ed25519.PublicKey { return s.tokens.key(id, now).GetPublicKey() }, text, now)
	if err != nil {
		return caller{}, tokenRefusal(err)
	}
	tenant, _ := s.tenants.get(claims.TenantID)
	if !tenant.alive() || s.tokens.cutOff(claims.TenantID, claims.UserID, claims.IssuedAt) {
		return caller{}, refuseWithdrawn
	}
	holder := caller{principal: identity.UserPrefix + claims.UserID, tenant: tenant.proto}
	if !addr.agrees(tenant.proto.GetName()) {
		return holder, refuseOtherTenant
	}
	ns := tenant.byID[claims.NamespaceID]
	if ns == nil || len(asked) > 1 || len(asked) == 1 && asked[0] != "" && asked[0] != ns.GetName() {
		return holder, refuseNoNamespace
	}
	notAfter := claims.ExpiresAt
	if end := s.tokens.key(claims.KeyID, now).GetNotAfterNs(); end != 0 && end < notAfter.UnixNano() {
		notAfter = time.Unix(0, end)
	}
	return caller{
		user: &claims, principal: holder.principal, here: claims.Grants,
		tenant: tenant.proto, namespace: ns, notAfter: notAfter, checked: s,
	}, nil
}

// userStillAllowed is stillAllowed for a token that was valid and has not expired.
func (s *snapshot) userStillAllowed(c *caller, now time.Time) bool {
	return s.tokens.key(c.user.KeyID, now) != nil && !s.tokens.cutOff(c.user.TenantID, c.user.UserID, c.user.IssuedAt)
}

// isUserToken reports whether a credential is meant as a token. It must be in
// Authorization: what a browser sends by itself must not grant anything here.
func isUserToken(r *http.Request, text string, fromCookie bool) bool {
	return !fromCookie && len(r.Header["X-Api-Key"]) == 0 && usertoken.LooksLike(text)
}
