package tenancy

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

func (s *Service) keyMessage(k store.Key, uses map[store.KeyUse]time.Time) *cloudv1.ApiKey {
	m := &cloudv1.ApiKey{
		Id: k.ID, TenantId: k.TenantID, Name: k.Name, Kind: k.Kind, OwnerId: k.OwnerID, Permissions: k.Permissions, NamespaceIds: k.NamespaceIDs,
		Queues: k.Queues, Cidrs: k.CIDRs, LastUsedAt: stamp(k.LastUsedAt),
		Prefix:    KeyPrefix(k),
		ExpiresAt: stamp(k.ExpiresAt), RevokedAt: stamp(k.RevokedAt), CreatedAt: stamp(k.CreatedAt), CreatedBy: k.CreatedBy,
		Sync:       syncOf(k.Generation, k.Observed, !k.RevokedAt.IsZero()),
		Generation: uint64(k.Generation), ObservedGeneration: uint64(k.Observed), Etag: etag.Of(k.Version, k.ID),
	}
	for _, v := range living(k.Versions, s.Now()) {
		used := uses[store.KeyUse{KeyID: k.ID, Digest: hex.EncodeToString(v.Digest)}]
		m.Versions = append(m.Versions, &cloudv1.ApiKeyVersion{CreatedAt: stamp(v.CreatedAt), ExpiresAt: stamp(v.ExpiresAt), LastUsedAt: stamp(used)})
	}
	return m
}

// shownKey is a key with what is shown of its owner and of what it may do.
func (s *Service) shownKey(ctx context.Context, tx *store.Tx, k store.Key) (*cloudv1.ApiKey, error) {
	uses, err := tx.KeyUses(ctx, k.TenantID, k.ID, k.ID)
	if err != nil {
		return nil, err
	}
	m := s.keyMessage(k, uses)
	owner, err := principals.NewNamer(tx, k.TenantID).Principal(ctx, k.OwnerID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	may, err := rights.OfKey(ctx, tx, k)
	if err != nil {
		return nil, err
	}
	m.Owner = owner
	var nowhere bool
	if m.StoppedForJobs, nowhere, err = policy.NewReader(tx, k.TenantID).Stopped(ctx, k); err != nil || nowhere {
		return m, err
	}
	for _, g := range may.Grants {
		m.Effective = append(m.Effective, &cloudv1.EffectiveGrant{Permissions: g.Permissions.Names(), NamespaceIds: g.Namespaces, Queues: g.Queues})
	}
	return m, nil
}

func kindOf(k cloudv1.KeyKind) apikey.Kind {
	switch k {
	case cloudv1.KeyKind_KEY_KIND_MANAGEMENT:
		return apikey.Management
	case cloudv1.KeyKind_KEY_KIND_PERSONAL:
		return apikey.Personal
	case cloudv1.KeyKind_KEY_KIND_TEMPORARY:
		return apikey.Temporary
	}
	return apikey.DataPlane
}

// CreateApiKey makes a key, or takes over one that the caller made.
func (s *Service) CreateApiKey(ctx context.Context, r *cloudv1.CreateApiKeyRequest) (*cloudv1.CreateApiKeyResponse, error) {
	call, err := once.Of(ctx, "CreateApiKey", r)
	if err != nil {
		return nil, err
	}
	wanted, secret, err := s.keyOf(ctx, r)
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.CreateApiKeyResponse)
	repeated, err := call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		k := wanted
		if k.NamespaceIDs, err = namespaceIDs(ctx, tx, r.GetNamespaces()); err != nil {
			return err
		}
		if k.OwnerID, err = s.ownerOf(ctx, tx, k, r); err != nil {
			return err
		}
		if err := mayMake(ctx, tx, k); err != nil {
			return err
		}
		if err := policy.CheckKey(ctx, tx, k, "expires_at", "cidrs"); err != nil {
			return err
		}
		if err := s.insertKey(ctx, tx, k); err != nil {
			return err
		}
		res.ApiKey, err = s.shownKey(ctx, tx, k)
		return err
	})
	if err != nil {
		return nil, err
	}
	// Keys are never removed, so a repeated call finds its key, too.
	if res.ApiKey, err = s.keyObserved(ctx, res.GetApiKey().GetId(), int64(res.GetApiKey().GetGeneration())); err != nil {
		return nil, err
	}
	if !repeated {
		res.Secret = secret
	}
	return res, nil
}

// keyOf makes the record, all but its namespaces, and checks it. The secret is empty
// if the caller has it.
func (s *Service) keyOf(ctx context.Context, r *cloudv1.CreateApiKeyRequest) (k store.Key, secret string, _ error) {
	c, now := access.From(ctx), s.Now()
	k = store.Key{
		TenantID: c.TenantID, Name: r.GetName(), Kind: r.GetKind(), Permissions: r.GetPermissions(), Queues: r.GetQueues(), CIDRs: networks(r.GetCidrs()),
		CreatedBy: c.ID(), CreatedAt: now, UpdatedAt: now, Version: 1, Generation: 1,
	}
	if r.GetExpiresAt() != nil {
		if err := r.GetExpiresAt().CheckValid(); err != nil {
			return k, "", fault.InvalidField("expires_at", "must be a valid time")
		}
		k.ExpiresAt = r.GetExpiresAt().AsTime()
	}
	if err := checkKey(k, now); err != nil {
		return k, "", err
	}
	if err := checkOwner(k, r); err != nil {
		return k, "", err
	}
	digest := r.GetDigest()
	switch {
	case r.GetKeyId() == "" && len(digest) == 0:
		made, err := apikey.Generate(kindOf(k.Kind))
		if err != nil {
			return k, "", err
		}
		sum := made.Digest()
		k.ID, digest, secret = made.ID(), sum[:], made.Reveal()
	default:
		if err := checkCallersKey(r.GetKeyId(), digest); err != nil {
			return k, "", err
		}
		k.ID = r.GetKeyId()
	}
	k.Versions = []store.KeyVersion{{Digest: digest, CreatedAt: now}}
	return k, secret, nil
}

// checkCallersKey checks the form of what a caller who made the key gives in its place.
func checkCallersKey(id string, digest []byte) error {
	var wrong []fault.Field
	if !apikey.IsID(id) {
		wrong = append(wrong, fault.Field{Name: "key_id", Problem: "must be key_ followed by the 12 characters of the key's id; set both this and digest, or neither"})
	}
	return fault.InvalidFields(append(wrong, checkDigest(digest)...))
}

func checkDigest(digest []byte) []fault.Field {
	if !apikey.IsDigest(digest) {
		return []fault.Field{{Name: "digest", Problem: "must be the 32 bytes of the key's SHA-256 digest"}}
	}
	return nil
}

func (s *Service) insertKey(ctx context.Context, tx *store.Tx, k store.Key) error {
	if err := plans.Another(ctx, tx, k.TenantID, s.Now(), plans.Keys, 0); err != nil {
		return err
	}
	changes := change.Fields{"name": {After: k.Name}, "owner_id": {After: k.OwnerID}}
	for field, list := range map[string][]string{"permissions": k.Permissions, "namespace_ids": k.NamespaceIDs, "queues": k.Queues, "cidrs": k.CIDRs} {
		if len(list) > 0 {
			changes[field] = store.Change{After: list}
		}
	}
	if !k.ExpiresAt.IsZero() {
		changes["expires_at"] = store.Change{After: k.ExpiresAt.UTC().Format(timeForm)}
	}
	err := change.Make(ctx, s.Kit, tx, "key.create", change.InsertKey(k), changes)
	if errors.Is(err, store.ErrExists) {
		return fault.New(fault.Exists, "KEY_EXISTS", "a key with the id %s already exists; generate a new one", k.ID)
	}
	return err
}

// timeForm is how times stand in the audit log.
const timeForm = "2006-01-02T15:04:05Z07:00"

// keyObserved waits for a generation and gives the key as it is then.
func (s *Service) keyObserved(ctx context.Context, id string, generation int64) (*cloudv1.ApiKey, error) {
	tenantID := access.From(ctx).TenantID
	err := s.awaited(ctx, func(tx *store.Tx) (bool, error) {
		k, err := tx.GetKey(ctx, tenantID, id)
		return k.Observed >= generation, err
	})
	if err != nil {
		return nil, err
	}
	return s.key(ctx, id)
}

func (s *Service) key(ctx context.Context, id string) (*cloudv1.ApiKey, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ApiKey, error) {
		k, err := findKey(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		return s.shownKey(ctx, tx, k)
	})
}

func findKey(ctx context.Context, tx *store.Tx, id string) (store.Key, error) {
	k, err := tx.GetKey(ctx, access.From(ctx).TenantID, id)
	return k, missing(err, "key")
}

// GetApiKey tells about one key, revoked or not.
func (s *Service) GetApiKey(ctx context.Context, r *cloudv1.GetApiKeyRequest) (*cloudv1.GetApiKeyResponse, error) {
	k, err := s.key(ctx, r.GetKeyId())
	return &cloudv1.GetApiKeyResponse{ApiKey: k}, err
}

// ListApiKeys lists by id.
func (s *Service) ListApiKeys(ctx context.Context, r *cloudv1.ListApiKeysRequest) (*cloudv1.ListApiKeysResponse, error) {
	shown, next, err := listing.Of[ownedKey, *cloudv1.ApiKey]{
		Method: "ListApiKeys", Filter: []any{r.GetShowRevoked(), r.GetOwnerId(), r.GetShowTemporary()}, Key: func(k ownedKey) string { return k.ID },
		Show: func(k ownedKey) *cloudv1.ApiKey {
			m := s.keyMessage(k.Key, k.uses)
			m.Owner = k.owner
			return m
		},
		Page: func(tx *store.Tx, tenantID string, p store.Page) ([]ownedKey, error) {
			if !r.GetShowTemporary() {
				keys, err := tx.ListLastingKeys(ctx, tenantID, r.GetOwnerId(), r.GetShowRevoked() && r.GetOwnerId() == "", p)
				return withOwners(ctx, tx, tenantID, keys, err)
			}
			if r.GetOwnerId() != "" {
				keys, err := tx.ListKeysOf(ctx, tenantID, r.GetOwnerId(), p)
				return withOwners(ctx, tx, tenantID, keys, err)
			}
			keys, err := tx.ListKeys(ctx, tenantID, r.GetShowRevoked(), p)
			return withOwners(ctx, tx, tenantID, keys, err)
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListApiKeysResponse{ApiKeys: shown, NextPageToken: next}, err
}

// ownedKey is a key with its owner's name, and the uses of the keys in its list.
type ownedKey struct {
	store.Key
	owner string
	uses  map[store.KeyUse]time.Time
}

func withOwners(ctx context.Context, tx *store.Tx, tenantID string, keys []store.Key, err error) (out []ownedKey, _ error) {
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	uses, err := tx.KeyUses(ctx, tenantID, keys[0].ID, keys[len(keys)-1].ID)
	if err != nil {
		return nil, err
	}
	names := principals.NewNamer(tx, tenantID)
	for _, k := range keys {
		owner, nameErr := names.Principal(ctx, k.OwnerID)
		if nameErr != nil && !errors.Is(nameErr, store.ErrNotFound) {
			return nil, nameErr
		}
		out = append(out, ownedKey{k, owner, uses})
	}
	return out, nil
}
