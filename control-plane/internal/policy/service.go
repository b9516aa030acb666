package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// sessionIdleMin is several times how exactly idleness is known.
	sessionIdleMin = 15 * time.Minute
	sessionLifeMin = time.Hour
	keyLifeMin     = time.Hour
	keyLifeMax     = 10 * 365 * 24 * time.Hour
	// auditRetentionMin leaves time to notice what was done.
	auditRetentionMin = 90 * 24 * time.Hour
	auditRetentionMax = 10 * 365 * 24 * time.Hour
	// outsideMax bounds a listing.
	outsideMax = 1000
)

// Service is the use cases of the policy.
type Service struct{ kit.Kit }

func message(p store.SignInPolicy) *cloudv1.SignInPolicy {
	m := &cloudv1.SignInPolicy{
		TenantId: p.TenantID, RequireSso: p.RequireSSO, RequireSecondFactor: p.RequireSecondFactor,
		SessionIdleSeconds: seconds(p.SessionIdle), SessionLifeSeconds: seconds(p.SessionLife), KeyLifeMaxSeconds: seconds(p.KeyLife),
		KeyNetworksRequired: p.KeyNetworks, ForbidPersonalKeysForJobs: p.NoPersonalKeys,
		AuditPayloadReads: p.AuditPayloadReads, AuditRetentionSeconds: seconds(p.AuditRetention), Etag: tag(p),
	}
	if !p.UpdatedAt.IsZero() {
		m.UpdatedAt = timestamppb.New(p.UpdatedAt)
	}
	return m
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

func tag(p store.SignInPolicy) string { return etag.Of(p.Version, "policy", p.TenantID) }

// GetSignInPolicy gives the policy, and what is missing to require single sign-on.
func (s *Service) GetSignInPolicy(ctx context.Context, _ *cloudv1.GetSignInPolicyRequest) (*cloudv1.GetSignInPolicyResponse, error) {
	c := access.From(ctx)
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetSignInPolicyResponse, error) {
		p, err := tx.GetSignInPolicy(ctx, c.TenantID)
		if err != nil {
			return nil, err
		}
		needs, left, err := needsOf(ctx, tx, c.TenantID)
		return &cloudv1.GetSignInPolicyResponse{
			Policy: message(p), BreakGlassCodesLeft: int32(left), RequireSsoNeeds: needs, SsoUrl: s.URLs.OIDCStart(c.Tenant),
		}, err
	})
}

// needsOf is what is missing to require single sign-on, and how many break-glass codes
// there are.
func needsOf(ctx context.Context, tx *store.Tx, tenantID string) (needs []string, left int, _ error) {
	door, err := missingDoor(ctx, tx, tenantID, "")
	if err != nil {
		return nil, 0, err
	}
	if door != "" {
		needs = append(needs, door)
	}
	if left, err = tx.CountBreakGlassCodes(ctx, tenantID); err != nil {
		return nil, 0, err
	}
	if left == 0 {
		needs = append(needs, "break-glass codes, for when your identity provider is down: corvo policy break-glass create")
	}
	owners, err := ownersOf(ctx, tx, tenantID)
	if err != nil {
		return nil, 0, err
	}
	if !slices.ContainsFunc(owners, func(m store.Member) bool { return m.User.HomeTenant == "" }) {
		needs = append(needs, "an owner who signs in by emailed link, who alone can use a break-glass code")
	}
	return needs, left, nil
}

// UpdateSignInPolicy changes the fields that the mask names.
func (s *Service) UpdateSignInPolicy(ctx context.Context, r *cloudv1.UpdateSignInPolicyRequest) (*cloudv1.UpdateSignInPolicyResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	err := fault.InvalidMask(paths, "require_sso", "require_second_factor", "session_idle_seconds", "session_life_seconds", "key_life_max_seconds",
		"key_networks_required", "forbid_personal_keys_for_jobs", "audit_payload_reads", "audit_retention_seconds")
	if err == nil {
		err = checkSpans(r.GetPolicy(), paths)
	}
	if err != nil {
		return nil, err
	}
	res := &cloudv1.UpdateSignInPolicyResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		before, err := tx.GetSignInPolicy(ctx, access.From(ctx).TenantID)
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(before), "the sign-in policy"); err != nil {
			return err
		}
		after := before
		set(&after, r.GetPolicy(), paths)
		changes := differences(before, after)
		if len(changes) == 0 {
			res.Policy = message(before)
			return nil
		}
		if after.RequireSSO && !before.RequireSSO {
			if err := mayRequireSSO(ctx, tx, after.TenantID); err != nil {
				return err
			}
		}
		err = change.Make(ctx, s.Kit, tx, "policy.update", change.PutSignInPolicy(&after), changes)
		if errors.Is(err, store.ErrExists) { // Two calls write the first one.
			err = fault.New(fault.Conflict, etag.Mismatch, "someone else changed the sign-in policy at the same time; reload it and try again")
		}
		res.Policy = message(after)
		return err
	})
}

func mayRequireSSO(ctx context.Context, tx *store.Tx, tenantID string) error {
	needs, _, err := needsOf(ctx, tx, tenantID)
	if err != nil || len(needs) == 0 {
		return err
	}
	return &fault.Error{
		Code: fault.Conflict, Reason: "SSO_NOT_READY", Message: "single sign-on can't be required yet, because you could lock yourselves out",
		Fields: []fault.Field{{Name: "policy.require_sso", Problem: "needs " + strings.Join(needs, "; ")}},
	}
}

func checkSpans(p *cloudv1.SignInPolicy, paths []string) error {
	var wrong []fault.Field
	for _, f := range []struct {
		name     string
		value    int64
		min, max time.Duration
	}{
		{"session_idle_seconds", p.GetSessionIdleSeconds(), sessionIdleMin, session.IdleMax},
		{"session_life_seconds", p.GetSessionLifeSeconds(), sessionLifeMin, session.LifeMax},
		{"key_life_max_seconds", p.GetKeyLifeMaxSeconds(), keyLifeMin, keyLifeMax},
		{"audit_retention_seconds", p.GetAuditRetentionSeconds(), auditRetentionMin, auditRetentionMax},
	} {
		if slices.Contains(paths, f.name) && f.value != 0 && (f.value < seconds(f.min) || f.value > seconds(f.max)) {
			wrong = append(wrong, fault.Field{Name: "policy." + f.name, Problem: fmt.Sprintf("must be %d to %d, or 0 for the default", seconds(f.min), seconds(f.max))})
		}
	}
	return fault.InvalidFields(wrong)
}

func set(p *store.SignInPolicy, to *cloudv1.SignInPolicy, paths []string) {
	for _, path := range paths {
		switch path {
		case "require_sso":
			p.RequireSSO = to.GetRequireSso()
		case "require_second_factor":
			p.RequireSecondFactor = to.GetRequireSecondFactor()
		case "session_idle_seconds":
			p.SessionIdle = time.Duration(to.GetSessionIdleSeconds()) * time.Second
		case "session_life_seconds":
			p.SessionLife = time.Duration(to.GetSessionLifeSeconds()) * time.Second
		case "key_life_max_seconds":
			p.KeyLife = time.Duration(to.GetKeyLifeMaxSeconds()) * time.Second
		case "key_networks_required":
			p.KeyNetworks = to.GetKeyNetworksRequired()
		case "forbid_personal_keys_for_jobs":
			p.NoPersonalKeys = to.GetForbidPersonalKeysForJobs()
		case "audit_payload_reads":
			p.AuditPayloadReads = to.GetAuditPayloadReads()
		case "audit_retention_seconds":
			p.AuditRetention = time.Duration(to.GetAuditRetentionSeconds()) * time.Second
		}
	}
}

func differences(a, b store.SignInPolicy) change.Fields {
	out := change.Fields{}
	add := func(field string, before, after any) {
		if before != after {
			out[field] = store.Change{Before: before, After: after}
		}
	}
	add("require_sso", a.RequireSSO, b.RequireSSO)
	add("require_second_factor", a.RequireSecondFactor, b.RequireSecondFactor)
	add("session_idle_seconds", seconds(a.SessionIdle), seconds(b.SessionIdle))
	add("session_life_seconds", seconds(a.SessionLife), seconds(b.SessionLife))
	add("key_life_max_seconds", seconds(a.KeyLife), seconds(b.KeyLife))
	add("key_networks_required", a.KeyNetworks, b.KeyNetworks)
	add("forbid_personal_keys_for_jobs", a.NoPersonalKeys, b.NoPersonalKeys)
	add("audit_payload_reads", a.AuditPayloadReads, b.AuditPayloadReads)
	add("audit_retention_seconds", seconds(a.AuditRetention), seconds(b.AuditRetention))
	return out
}

// ListKeysOutsidePolicy lists living keys that the policy would not allow to be made now.
// Temporary ones are gone before anybody reads it.
func (s *Service) ListKeysOutsidePolicy(ctx context.Context, _ *cloudv1.ListKeysOutsidePolicyRequest) (*cloudv1.ListKeysOutsidePolicyResponse, error) {
	c := access.From(ctx)
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ListKeysOutsidePolicyResponse, error) {
		p, err := tx.GetSignInPolicy(ctx, c.TenantID)
		if err != nil {
			return nil, err
		}
		res, names := new(cloudv1.ListKeysOutsidePolicyResponse), principals.NewNamer(tx, c.TenantID)
		for k, err := range tx.AllKeys(ctx, c.TenantID, false) {
			if err != nil {
				return nil, err
			}
			wrong := outside(p, k)
			if len(wrong) == 0 || k.Kind == cloudv1.KeyKind_KEY_KIND_TEMPORARY || !k.ExpiresAt.IsZero() && !s.Now().Before(k.ExpiresAt) {
				continue
			}
			if res.Total++; res.Total > outsideMax {
				continue
			}
			m, err := keyMessage(ctx, names, k, wrong)
			if err != nil {
				return nil, err
			}
			res.Keys = append(res.Keys, m)
		}
		return res, nil
	})
}

func keyMessage(ctx context.Context, names *principals.Namer, k store.Key, wrong []fault.Field) (*cloudv1.KeyOutsidePolicy, error) {
	m := &cloudv1.KeyOutsidePolicy{KeyId: k.ID, Name: k.Name, OwnerId: k.OwnerID}
	if !k.ExpiresAt.IsZero() {
		m.ExpiresAt = timestamppb.New(k.ExpiresAt)
	}
	for _, f := range wrong {
		m.Problems = append(m.Problems, f.Name+": "+f.Problem)
	}
	owner, err := names.Principal(ctx, k.OwnerID)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	m.Owner = owner
	return m, err
}
