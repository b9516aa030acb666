package exchange

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
)

const (
	// trustsMax bounds what one exchange looks through.
	trustsMax   = 200
	lifeDefault = 15 * time.Minute
	lifeMin     = 5 * time.Minute
	lifeMax     = time.Hour
	issuerMax   = 512
	audienceMax = 512
	// readyWait is how long a call waits for every proxy to know its keys.
	readyWait = 5 * time.Second
)

// Limits are how many keys exchanges may give; 0: no limit.
type Limits struct {
	// Living is in a tenant at a time, PerDay in 24 hours whatever became of them: an ended
	// key leaves a record in the cell for a while.
	Living, PerDay int
}

// DefaultLimits let a busy CI run.
func DefaultLimits() Limits { return Limits{Living: 500, PerDay: 10_000} }

// Needs are what a Service is built of.
type Needs struct {
	kit.Kit
	// Egress is how issuers are called.
	Egress egress.Options
	Limits Limits
	// Ready waits until every proxy has the newest generation of some keys; false if ctx ends
	// before.
	Ready func(ctx context.Context, tenantID string, keyIDs ...string) bool
	// Refused notes why a token was not accepted, for the tenant's audit log.
	Refused func(refusals.Refusal)
}

// Service is the use cases.
type Service struct {
	Needs
	issuers *issuers
}

// New makes a Service.
func New(n Needs) *Service { return &Service{Needs: n, issuers: newIssuers(n.Egress, n.Now)} }

// CreateTrust makes a trust.
func (s *Service) CreateTrust(ctx context.Context, r *cloudv1.CreateTrustRequest) (*cloudv1.CreateTrustResponse, error) {
	call, err := once.Of(ctx, "CreateTrust", r)
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.CreateTrustResponse)
	if repeated, err := call.Answered(ctx, s.Kit, res); err != nil || repeated {
		return res, err
	}
	c, now := access.From(ctx), s.Now()
	v := store.Trust{
		TenantID: c.TenantID, ID: s.IDs.New(ids.Trust, now), Name: r.GetName(), Provider: int64(r.GetProvider()), Issuer: cmp.Or(r.GetIssuer(), issuerOf(r.GetProvider())),
		JWKS: r.GetJwks(), Audience: cmp.Or(r.GetAudience(), s.URLs.Public+"/"+c.Tenant), Conditions: conditionsOf(r.GetConditions()),
		Permissions: r.GetPermissions(), Queues: r.GetQueues(), CIDRs: tenancy.Networks(r.GetCidrs()),
		KeyLife: cmp.Or(time.Duration(r.GetKeyLifeSeconds())*time.Second, lifeDefault), AllowReuse: r.GetAllowReuse(),
		CreatedBy: c.ID(), CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	if err := s.check(v); err != nil {
		return nil, err
	}
	if err := s.reachable(ctx, v); err != nil {
		return nil, err
	}
	_, err = call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		a, err := principals.FindServiceAccount(ctx, tx, r.GetServiceAccount())
		if f, ok := fault.As(err); ok && f.Code == fault.NotFound {
			return fault.InvalidField("service_account", "%q is no service account of this tenant; ListServiceAccounts lists them", r.GetServiceAccount())
		}
		if err != nil {
			return err
		}
		v.AccountID = a.ID
		if v.NamespaceIDs, err = tenancy.NamespaceIDs(ctx, tx, r.GetNamespaces()); err != nil {
			return err
		}
		if err := mayMake(ctx, tx, v); err != nil {
			return err
		}
		if n, err := tx.CountTrusts(ctx, v.TenantID); err != nil || n >= trustsMax {
			return cmp.Or(err, error(fault.New(fault.Conflict, "TRUST_LIMIT", "a tenant can have at most %d trusts; delete one first", trustsMax)))
		}
		res.Trust = s.message(v, a.Name)
		return taken(change.Make(ctx, s.Kit, tx, "trust.create", change.InsertTrust(v), fieldsOf(v)))
	})
	return res, err
}

func taken(err error) error {
	if errors.Is(err, store.ErrExists) {
		return fault.New(fault.Exists, "NAME_TAKEN", "there is a trust of this name; choose another one")
	}
	return err
}

// mayMake asks for what making a lasting key of the account needs: a trust goes on giving
// keys.
func mayMake(ctx context.Context, tx *store.Tx, v store.Trust) error {
	if c := access.From(ctx); c.KeyID != "" {
		by, err := tx.GetKey(ctx, v.TenantID, c.KeyID)
		if err != nil {
			return err
		}
		if !by.ExpiresAt.IsZero() {
			return fault.New(fault.Denied, "KEY_EXPIRES", "this call is made by a key that expires, and a trust gives keys after that; sign in, or use a key that doesn't expire")
		}
	}
	if err := tenancy.MayMakeKey(ctx, tx, keyOf(v)); err != nil {
		return err
	}
	return withinPolicy(ctx, tx, v)
}

// withinPolicy holds the keys of a trust against the tenant's sign-in policy.
func withinPolicy(ctx context.Context, tx *store.Tx, v store.Trust) error {
	k := keyOf(v)
	k.CreatedAt, k.ExpiresAt = v.CreatedAt, v.CreatedAt.Add(v.KeyLife)
	err := policy.CheckKey(ctx, tx, k, "expires_at", "cidrs")
	if f, ok := fault.As(err); ok {
		for i := range f.Fields {
			if f.Fields[i].Name == "expires_at" {
				f.Fields[i].Name = "key_life_seconds"
			}
		}
	}
	return err
}

// keyOf is a key that a trust gives, without what makes it one.
func keyOf(v store.Trust) store.Key {
	return store.Key{
		TenantID: v.TenantID, Name: v.Name, Kind: cloudv1.KeyKind_KEY_KIND_TEMPORARY, OwnerID: v.AccountID, Permissions: v.Permissions, NamespaceIDs: v.NamespaceIDs,
		Queues: v.Queues, CIDRs: v.CIDRs,
	}
}

// check says what is wrong with a trust by itself.
func (s *Service) check(v store.Trust) error {
	var wrong []fault.Field
	add := func(field, problem string) {
		if problem != "" {
			wrong = append(wrong, fault.Field{Name: field, Problem: problem})
		}
	}
	if err := tenancy.CheckKey(keyOf(v), s.Now()); err != nil {
		f, ok := fault.As(err)
		if !ok {
			return err
		}
		wrong = append(wrong, f.Fields...)
	}
	provider := cloudv1.TrustProvider(v.Provider)
	if provider < cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB || provider > cloudv1.TrustProvider_TRUST_PROVIDER_OTHER {
		add("provider", "must be TRUST_PROVIDER_GITHUB, _GITLAB, _KUBERNETES or _OTHER")
	}
	add("issuer", s.issuerProblem(v))
	if v.JWKS != "" {
		add("jwks", jwksProblem(v.JWKS))
	}
	add("audience", plainProblem(v.Audience, audienceMax))
	if v.KeyLife < lifeMin || v.KeyLife > lifeMax {
		add("key_life_seconds", fmt.Sprintf("must be %d to %d", int(lifeMin.Seconds()), int(lifeMax.Seconds())))
	}
	conditions := checkConditions(v.Conditions)
	wrong = append(wrong, conditions...)
	if len(conditions) == 0 && len(wrong) == 0 {
		add("conditions", pinned(provider, v.Issuer, v.Conditions))
	}
	return fault.InvalidFields(wrong)
}

// plainProblem is about a text that must be there, and that people can read.
func plainProblem(text string, most int) string {
	switch {
	case text == "":
		return "is required"
	case len(text) > most:
		return fmt.Sprintf("can't have more than %d bytes", most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f && r < 0xa0 }):
		return "can't contain spaces or control characters"
	}
	return ""
}

func (s *Service) issuerProblem(v store.Trust) string {
	if v.Issuer == "" {
		return "write the issuer as it stands in the tokens (iss)"
	}
	if p := plainProblem(v.Issuer, issuerMax); p != "" {
		return p
	}
	u, err := url.Parse(v.Issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "must be the issuer's URL exactly as it stands in the tokens (iss), without a query or fragment"
	}
	if v.JWKS != "" {
		return "" // Never called.
	}
	if err := s.Egress.CheckURL(u); err != nil {
		return err.Error() + "; for an issuer that can't be reached from here, set jwks to its keys"
	}
	return ""
}

func jwksProblem(text string) string {
	if len(text) > jwksMax {
		return fmt.Sprintf("can't have more than %d bytes", jwksMax)
	}
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	_ = json.Unmarshal([]byte(text), &set) // readKeys says what is wrong.
	if slices.ContainsFunc(set.Keys, func(k map[string]any) bool { return k["d"] != nil || k["k"] != nil }) {
		return "has a private or shared key; use the public keys alone, and replace that one where it is used"
	}
	if _, err := readKeys([]byte(text)); err != nil {
		return err.Error()
	}
	return ""
}

// reachable reads the keys of an issuer, so that a mistyped one is told at once. Those of the
// presets are known to be there.
func (s *Service) reachable(ctx context.Context, v store.Trust) error {
	if v.JWKS != "" || v.Issuer == githubIssuer || v.Issuer == gitlabIssuer {
		return nil
	}
	if _, err := s.issuers.fetch(ctx, v.Issuer); err != nil {
		return fault.InvalidField("issuer", "%s; if it can't be reached from here, set jwks to its keys", err)
	}
	return nil
}

// issuerOf is a provider's own issuer.
func issuerOf(p cloudv1.TrustProvider) string {
	switch p {
	case cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB:
		return githubIssuer
	case cloudv1.TrustProvider_TRUST_PROVIDER_GITLAB:
		return gitlabIssuer
	}
	return ""
}

// find finds a trust of the caller's tenant by id or name.
func find(ctx context.Context, tx *store.Tx, idOrName string) (store.Trust, error) {
	tenantID := access.From(ctx).TenantID
	v, err := tx.GetTrust(ctx, tenantID, idOrName)
	if errors.Is(err, store.ErrNotFound) {
		v, err = tx.GetTrustByName(ctx, tenantID, idOrName)
	}
	if errors.Is(err, store.ErrNotFound) {
		return v, fault.Missing("trust")
	}
	return v, err
}

// named is a trust with its service account's name.
func (s *Service) named(ctx context.Context, tx *store.Tx, v store.Trust) (*cloudv1.Trust, error) {
	a, err := tx.GetServiceAccount(ctx, v.TenantID, v.AccountID)
	return s.message(v, a.Name), err
}

// GetTrust finds one by id or name.
func (s *Service) GetTrust(ctx context.Context, r *cloudv1.GetTrustRequest) (*cloudv1.GetTrustResponse, error) {
	m, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.Trust, error) {
		v, err := find(ctx, tx, r.GetTrust())
		if err != nil {
			return nil, err
		}
		return s.named(ctx, tx, v)
	})
	return &cloudv1.GetTrustResponse{Trust: m}, err
}

// ListTrusts lists by id.
func (s *Service) ListTrusts(ctx context.Context, r *cloudv1.ListTrustsRequest) (*cloudv1.ListTrustsResponse, error) {
	shown, next, err := listing.Of[*cloudv1.Trust, *cloudv1.Trust]{
		Method: "ListTrusts", Filter: []any{r.GetServiceAccountId()}, Key: (*cloudv1.Trust).GetId, Show: func(m *cloudv1.Trust) *cloudv1.Trust { return m },
		Page: func(tx *store.Tx, tenantID string, p store.Page) (out []*cloudv1.Trust, _ error) {
			all, err := tx.ListTrusts(ctx, tenantID, r.GetServiceAccountId(), p)
			for _, v := range all {
				m, nameErr := s.named(ctx, tx, v)
				if nameErr != nil {
					return nil, nameErr
				}
				out = append(out, m)
			}
			return out, err
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListTrustsResponse{Trusts: shown, NextPageToken: next}, err
}

// UpdateTrust changes the fields that the mask names.
func (s *Service) UpdateTrust(ctx context.Context, r *cloudv1.UpdateTrustRequest) (*cloudv1.UpdateTrustResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	err := fault.InvalidMask(paths, "name", "jwks", "audience", "conditions", "permissions", "namespaces", "queues", "cidrs", "key_life_seconds", "allow_reuse")
	if err != nil {
		return nil, err
	}
	var ended []string
	res := new(cloudv1.UpdateTrustResponse)
	err = s.Write(ctx, func(tx *store.Tx) error {
		v, err := find(ctx, tx, r.GetTrustId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(v), "this trust"); err != nil {
			return err
		}
		// Who changes what it gives must be able to give all of it, before and after.
		if err := mayMake(ctx, tx, v); err != nil {
			return err
		}
		fields, err := edit(ctx, tx, &v, r, paths)
		if err != nil {
			return err
		}
		if err := s.check(v); err != nil {
			return err
		}
		if err := mayMake(ctx, tx, v); err != nil {
			return err
		}
		if slices.ContainsFunc(paths, func(p string) bool { return p != "name" && p != "key_life_seconds" }) {
			if ended, err = principals.RevokeKeysOfTrust(ctx, s.Kit, tx, v, "the trust that gave it was changed"); err != nil {
				return err
			}
		}
		if err := taken(change.Make(ctx, s.Kit, tx, "trust.update", change.UpdateTrust(&v), fields)); err != nil {
			return err
		}
		res.Trust, err = s.named(ctx, tx, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx, ended)
	return res, nil
}

func edit(ctx context.Context, tx *store.Tx, v *store.Trust, r *cloudv1.UpdateTrustRequest, paths []string) (change.Fields, error) {
	was := fieldsOf(*v)
	for _, p := range paths {
		switch p {
		case "name":
			v.Name = r.GetName()
		case "jwks":
			v.JWKS = r.GetJwks()
		case "audience":
			v.Audience = r.GetAudience()
		case "conditions":
			v.Conditions = conditionsOf(r.GetConditions())
		case "permissions":
			v.Permissions = r.GetPermissions()
		case "namespaces":
			var err error
			if v.NamespaceIDs, err = tenancy.NamespaceIDs(ctx, tx, r.GetNamespaces()); err != nil {
				return nil, err
			}
		case "queues":
			v.Queues = r.GetQueues()
		case "cidrs":
			v.CIDRs = tenancy.Networks(r.GetCidrs())
		case "key_life_seconds":
			v.KeyLife = time.Duration(r.GetKeyLifeSeconds()) * time.Second
		case "allow_reuse":
			v.AllowReuse = r.GetAllowReuse()
		}
	}
	fields := change.Fields{}
	for name, now := range fieldsOf(*v) {
		if before := was[name].After; fmt.Sprint(before) != fmt.Sprint(now.After) {
			fields[name] = store.Change{Before: before, After: now.After}
		}
	}
	return fields, nil
}

// DeleteTrust deletes a trust.
func (s *Service) DeleteTrust(ctx context.Context, r *cloudv1.DeleteTrustRequest) (*cloudv1.DeleteTrustResponse, error) {
	var ended []string
	err := s.Write(ctx, func(tx *store.Tx) error {
		v, err := find(ctx, tx, r.GetTrustId())
		if f, ok := fault.As(err); ok && f.Code == fault.NotFound && r.GetAllowMissing() {
			return nil
		}
		if err != nil {
			return err
		}
		if err := principals.MayEndKey(ctx, tx, keyOf(v)); err != nil {
			return err
		}
		if ended, err = principals.RevokeKeysOfTrust(ctx, s.Kit, tx, v, "the trust that gave it was deleted"); err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "trust.delete", change.DeleteTrust(v), nil)
	})
	if err != nil {
		return nil, err
	}
	s.settled(ctx, ended)
	return new(cloudv1.DeleteTrustResponse), nil
}

// settled waits some seconds until the proxies know that keys have ended.
func (s *Service) settled(ctx context.Context, keyIDs []string) {
	if len(keyIDs) == 0 {
		return
	}
	wait, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	_ = s.Ready(wait, access.From(ctx).TenantID, keyIDs...) // They are on their way.
}

func conditionsOf(all []*cloudv1.TrustCondition) []store.TrustCondition {
	out := make([]store.TrustCondition, len(all))
	for i, c := range all {
		out[i] = store.TrustCondition{Claim: c.GetClaim(), Values: c.GetValues()}
	}
	return out
}

// conditionTexts are conditions for people: repository = acme/web.
func conditionTexts(all []store.TrustCondition) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.Claim + " = " + strings.Join(c.Values, " or ")
	}
	return out
}

// fieldsOf are a trust's, for the audit log.
func fieldsOf(v store.Trust) change.Fields {
	fields := change.Fields{
		"name": {After: v.Name}, "service_account_id": {After: v.AccountID}, "issuer": {After: v.Issuer}, "audience": {After: v.Audience},
		"conditions": {After: conditionTexts(v.Conditions)}, "key_life_seconds": {After: int64(v.KeyLife.Seconds())}, "allow_reuse": {After: v.AllowReuse},
		"own_keys": {After: v.JWKS != ""},
	}
	for name, list := range map[string][]string{"permissions": v.Permissions, "namespace_ids": v.NamespaceIDs, "queues": v.Queues, "cidrs": v.CIDRs} {
		fields[name] = store.Change{After: list}
	}
	return fields
}

func tag(v store.Trust) string { return etag.Of(v.Version, v.TenantID, v.ID) }

func (s *Service) message(v store.Trust, account string) *cloudv1.Trust {
	m := &cloudv1.Trust{
		Id: v.ID, TenantId: v.TenantID, Name: v.Name, ServiceAccountId: v.AccountID, ServiceAccount: account, Provider: cloudv1.TrustProvider(v.Provider),
		Issuer: v.Issuer, Jwks: v.JWKS, Audience: v.Audience, Permissions: v.Permissions, NamespaceIds: v.NamespaceIDs, Queues: v.Queues, Cidrs: v.CIDRs,
		KeyLifeSeconds: int64(v.KeyLife.Seconds()), AllowReuse: v.AllowReuse, CreatedBy: v.CreatedBy, CreatedAt: stamp(v.CreatedAt), UpdatedAt: stamp(v.UpdatedAt),
		LastUsedAt: stamp(v.LastUsedAt), Etag: tag(v),
	}
	for _, c := range v.Conditions {
		m.Conditions = append(m.Conditions, &cloudv1.TrustCondition{Claim: c.Claim, Values: c.Values})
	}
	return m
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
