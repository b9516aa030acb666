package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
)

const (
	// rememberedFor is how long after its end a token is remembered: longer than any clock
	// takes it for one that has not ended.
	rememberedFor = 10 * time.Minute
	// reasonsMax is how many trusts one refused token is noted for.
	reasonsMax = 5
	// subjectMax is how much of a token's subject the audit log has.
	subjectMax = 256
	// keySetsMax is how many key sets one call verifies a token by. Trusts of the same keys
	// share one, so that only pasted sets can be more.
	keySetsMax = 8
)

// errNotAccepted is for every token that is not accepted, also for one of a tenant that is not
// there.
var errNotAccepted = fault.New(fault.Unauthenticated, "TOKEN_NOT_ACCEPTED",
	"the token wasn't accepted; if the tenant's name is right, its admins find the reason in its audit log (token_exchange.refuse)")

// ExchangeToken gives a key for a token that a trust accepts.
func (s *Service) ExchangeToken(ctx context.Context, r *cloudv1.ExchangeTokenRequest) (*cloudv1.ExchangeTokenResponse, error) {
	tenant, trusts, err := s.trustsOf(ctx, r.GetTenant())
	if err != nil {
		return nil, err
	}
	t, unreadable := readToken(strings.TrimSpace(r.GetToken())) // Also if there is no tenant.
	if tenant.ID == "" {
		return nil, errNotAccepted
	}
	if unreadable != nil {
		return nil, s.refuse(ctx, tenant, nil, unreadable.Error())
	}
	trusts = slices.DeleteFunc(trusts, func(v store.Trust) bool {
		return v.Issuer != t.text("iss") || r.GetTrust() != "" && r.GetTrust() != v.ID && r.GetTrust() != v.Name
	})
	if len(trusts) == 0 {
		return nil, s.refuse(ctx, tenant, nil, "no trust has the token's issuer (iss), or not under the name that was asked for")
	}
	fitting, why := s.fitting(ctx, trusts, t)
	if keySets(fitting) > keySetsMax {
		return nil, s.refuse(ctx, tenant, nil, fmt.Sprintf("the token fits trusts with more than %d different key sets; name one trust in the request", keySetsMax))
	}
	accepting := s.proven(ctx, fitting, t, why)
	switch len(accepting) {
	case 0:
		for _, v := range trusts[:min(len(trusts), reasonsMax)] {
			_ = s.refuse(ctx, tenant, &v, why[v.ID]) // The same for all.
		}
		return nil, errNotAccepted
	case 1:
		return s.give(ctx, tenant, accepting[0], t)
	}
	var names []string
	for _, v := range accepting {
		names = append(names, v.Name)
	}
	return nil, fault.InvalidField("trust", "several trusts accept this token; choose one of %s", strings.Join(names, ", "))
}

// trustsOf finds a tenant by name or id, and its trusts. A tenant that is not there is empty.
func (s *Service) trustsOf(ctx context.Context, nameOrID string) (tenant store.Tenant, trusts []store.Trust, _ error) {
	err := s.Store.ReadService(ctx, func(tx *store.Tx) (err error) {
		tenant, err = tx.GetTenantByName(ctx, nameOrID)
		if errors.Is(err, store.ErrNotFound) {
			tenant, err = tx.GetTenant(ctx, nameOrID)
		}
		if errors.Is(err, store.ErrNotFound) {
			tenant, err = store.Tenant{}, nil
		}
		if err == nil {
			trusts, err = tx.ListTrusts(ctx, tenant.ID, "", store.Page{Limit: trustsMax})
		}
		return err
	})
	return tenant, trusts, err
}

// fitting are the trusts that would accept a token if its signature is right, and why the others
// don't. The signature comes last: it costs more than all the rest, and strangers pay nothing
// for a token that they wrote themselves.
func (s *Service) fitting(ctx context.Context, trusts []store.Trust, t token) (fit []store.Trust, why map[string]string) {
	why = map[string]string{}
	for _, v := range trusts {
		if reason := s.judge(ctx, v, t); reason != "" {
			why[v.ID] = reason
		} else {
			fit = append(fit, v)
		}
	}
	return fit, why
}

// judge says why a trust does not accept a token, but for its signature; empty if it does.
// Whether the token was used is asked when it is.
func (s *Service) judge(ctx context.Context, v store.Trust, t token) string {
	if !t.isFor(v.Audience) {
		return "the token is for another audience, or for several (aud); ask for one for " + v.Audience
	}
	if reason := t.timely(s.Now()); reason != "" {
		return reason
	}
	if reason := unmet(v.Conditions, t.claims); reason != "" {
		return reason
	}
	if !clientnet.NetworksOf(v.CIDRs).Has(access.From(ctx).Peer) {
		return "the call came from none of the trust's networks"
	}
	return ""
}

// keySets counts different ones. Trusts without a pasted one share their issuer's.
func keySets(trusts []store.Trust) int {
	all := map[string]bool{}
	for _, v := range trusts {
		all[v.JWKS] = true
	}
	return len(all)
}

// proven are the trusts by whose keys a token was signed, each key set asked once; why gets the
// reasons of the others.
func (s *Service) proven(ctx context.Context, trusts []store.Trust, t token, why map[string]string) (all []store.Trust) {
	said := map[string]error{} // By key set.
	for _, v := range trusts {
		err, asked := said[v.JWKS]
		if !asked {
			err = s.issuers.verify(ctx, v.TenantID, v.Issuer, v.JWKS, t)
			said[v.JWKS] = err
		}
		if err != nil {
			why[v.ID] = err.Error()
		} else {
			all = append(all, v)
		}
	}
	return all
}

// refuse notes why, for one trust or the whole tenant, and gives the one answer.
func (s *Service) refuse(ctx context.Context, tenant store.Tenant, v *store.Trust, why string) error {
	target := change.Target{Type: "tenant", ID: tenant.ID, Name: tenant.Name, TenantID: tenant.ID}
	if v != nil {
		target = change.Target{Type: "trust", ID: v.ID, Name: v.Name, TenantID: tenant.ID}
	}
	s.Refused(refusals.Refusal{Action: refusals.Token, Caller: access.From(ctx), Target: target, Field: "reason", Value: why})
	return errNotAccepted
}

// refusal is why a token is not accepted after all, found in the transaction that would have
// used it.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// give makes a key for a token that a trust accepts.
func (s *Service) give(ctx context.Context, tenant store.Tenant, v store.Trust, t token) (*cloudv1.ExchangeTokenResponse, error) {
	made, err := apikey.Generate(apikey.Temporary)
	if err != nil {
		return nil, err
	}
	now, digest := s.Now(), made.Digest()
	k := keyOf(v)
	k.ID, k.Versions, k.ExpiresAt = made.ID(), []store.KeyVersion{{Digest: digest[:], CreatedAt: now}}, now.Add(v.KeyLife)
	k.CreatedBy, k.CreatedAt, k.UpdatedAt, k.Version, k.Generation = v.ID, now, now, 1, 1
	c := access.From(ctx)
	c.TenantID, c.Tenant, c.TrustID, c.Name = tenant.ID, tenant.Name, v.ID, v.Name
	var account store.ServiceAccount
	err = s.Store.Tenant(ctx, tenant.ID, func(tx *store.Tx) (err error) {
		if err = s.within(ctx, tx, tenant.ID); err != nil {
			return err
		}
		if account, err = s.use(ctx, tx, v, t); err != nil {
			return err
		}
		k := k // The transaction may run again.
		if k.NamespaceIDs, err = living(ctx, tx, k); err != nil {
			return err
		}
		if may, err := rights.OfKey(ctx, tx, k); err != nil {
			return err
		} else if len(may.Grants) == 0 {
			return refusal("its service account has no role that the trust leaves anything of")
		}
		return change.Make(access.With(ctx, c), s.Kit, tx, "key.create", change.InsertKey(k), change.Fields{
			"trust_id": {After: v.ID}, "owner_id": {After: v.AccountID}, "subject": {After: clip(t.text("sub"))}, "expires_at": {After: k.ExpiresAt.UTC().Format(time.RFC3339)},
		})
	})
	var why refusal
	if errors.As(err, &why) {
		return nil, s.refuse(ctx, tenant, &v, string(why))
	}
	if err != nil {
		return nil, err
	}
	res := &cloudv1.ExchangeTokenResponse{
		Key: made.Reveal(), KeyId: k.ID, ExpiresAt: stamp(k.ExpiresAt), TenantId: tenant.ID, Tenant: tenant.Name, TenantUrl: s.URLs.Tenant(tenant.Name),
		TrustId: v.ID, ServiceAccountId: account.ID, ServiceAccount: account.Name, Sync: cloudv1.Sync_SYNC_PENDING,
	}
	wait, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if s.Ready(wait, tenant.ID, k.ID) {
		res.Sync = cloudv1.Sync_SYNC_READY
	}
	return res, nil
}

// use records that a trust took a token, if both are still good.
func (s *Service) use(ctx context.Context, tx *store.Tx, v store.Trust, t token) (a store.ServiceAccount, _ error) {
	is, err := tx.GetTrust(ctx, v.TenantID, v.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && is.Version != v.Version:
		return a, refusal("the trust was changed at the same time")
	case err != nil:
		return a, err
	}
	if a, err = tx.GetServiceAccount(ctx, v.TenantID, v.AccountID); err != nil {
		return a, err
	}
	if a.Disabled {
		return a, refusal("its service account is disabled")
	}
	if err := withinPolicy(ctx, tx, v); err != nil {
		if _, ok := fault.As(err); ok {
			err = refusal("the tenant's policy doesn't allow the keys that the trust gives; it was set after the trust was made")
		}
		return a, err
	}
	if !v.AllowReuse {
		ends, _ := t.when("exp")
		err := tx.UseTrustToken(ctx, v.TenantID, v.ID, t.digest, ends.Add(rememberedFor))
		if errors.Is(err, store.ErrExists) {
			return a, refusal("the token was exchanged before; each counts once")
		}
		if err != nil {
			return a, err
		}
	}
	return a, tx.TouchTrust(ctx, v.TenantID, v.ID, s.Now())
}

// living are the namespaces of a key that are still there. A trust that was for others alone
// gives nothing.
func living(ctx context.Context, tx *store.Tx, k store.Key) (out []string, _ error) {
	for _, id := range k.NamespaceIDs {
		n, err := tx.GetNamespace(ctx, k.TenantID, id)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		case err == nil && n.DeletedAt.IsZero():
			out = append(out, id)
		}
	}
	if len(k.NamespaceIDs) > 0 && len(out) == 0 {
		return nil, refusal("all namespaces that it is for were deleted")
	}
	return out, nil
}

// within refuses one key too many. It is told openly: the token was accepted.
func (s *Service) within(ctx context.Context, tx *store.Tx, tenantID string) error {
	n, err := tx.CountTemporaryKeys(ctx, tenantID)
	if err != nil {
		return fmt.Errorf("count temporary keys: %w", err)
	}
	if most := s.Limits.Living; most > 0 && n >= most {
		f := fault.New(fault.Exhausted, "TOO_MANY_KEYS", "this tenant has %d temporary keys, and can have no more at a time; exchange fewer tokens, or give the keys a shorter life", n)
		f.RetryAfter = time.Minute
		return f
	}
	return ratelimit.Count(ctx, tx, s.Now(), ratelimit.Limit{
		Bucket: "exchange:" + tenantID, Window: 24 * time.Hour, Max: s.Limits.PerDay, What: "token exchanges in this tenant",
	})
}

func clip(text string) string {
	if len(text) > subjectMax {
		return strings.ToValidUTF8(text[:subjectMax], "") + "…"
	}
	return text
}
