package tenancy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

func (s *Service) keyMessage(k store.Key) *cloudv1.ApiKey {
	m := &cloudv1.ApiKey{
		Id: k.ID, TenantId: k.TenantID, Name: k.Name, Kind: k.Kind, NamespaceIds: k.NamespaceIDs, Roles: k.Roles, TenantRole: k.TenantRole,
		Prefix:    KeyPrefix(k),
		ExpiresAt: stamp(k.ExpiresAt), RevokedAt: stamp(k.RevokedAt), CreatedAt: stamp(k.CreatedAt), CreatedBy: k.CreatedBy,
		Sync:       syncOf(k.Generation, k.Observed, !k.RevokedAt.IsZero()),
		Generation: uint64(k.Generation), ObservedGeneration: uint64(k.Observed), Etag: etag.Of(k.Version, k.ID),
	}
	for _, v := range living(k.Versions, s.Now()) {
		m.Versions = append(m.Versions, &cloudv1.ApiKeyVersion{CreatedAt: stamp(v.CreatedAt), ExpiresAt: stamp(v.ExpiresAt)})
	}
	return m
}

func kindOf(k cloudv1.KeyKind) apikey.Kind {
	if k == cloudv1.KeyKind_KEY_KIND_MANAGEMENT {
		return apikey.Management
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
		if err := s.insertKey(ctx, tx, k); err != nil {
			return err
		}
		res.ApiKey = s.keyMessage(k)
		return nil
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
		TenantID: c.TenantID, Name: r.GetName(), Kind: r.GetKind(), Roles: r.GetRoles(), TenantRole: r.GetTenantRole(),
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
	if k.Kind == cloudv1.KeyKind_KEY_KIND_MANAGEMENT && len(r.GetNamespaces()) > 0 {
		return k, "", fault.InvalidField("namespaces", "a management key always covers the whole tenant; leave this out")
	}
	if err := MayHold(c, k); err != nil {
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
	if len(digest) != sha256.Size || bytes.Equal(digest, make([]byte, sha256.Size)) {
		return []fault.Field{{Name: "digest", Problem: "must be the 32 bytes of the key's SHA-256 digest"}}
	}
	return nil
}

func (s *Service) insertKey(ctx context.Context, tx *store.Tx, k store.Key) error {
	if err := s.within(ctx, tx, k.TenantID, "keys", tx.CountKeys, func(l limits) quota { return l.keys }); err != nil {
		return err
	}
	changes := change.Fields{"name": {After: k.Name}}
	if k.Kind == cloudv1.KeyKind_KEY_KIND_MANAGEMENT {
		changes["tenant_role"] = store.Change{After: access.RoleName(k.TenantRole)}
	} else {
		changes["roles"], changes["namespace_ids"] = store.Change{After: access.NamespaceRoleNames(k.Roles)}, store.Change{After: k.NamespaceIDs}
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
	k, err := s.key(ctx, id)
	return s.keyMessage(k), err
}

func (s *Service) key(ctx context.Context, id string) (store.Key, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.Key, error) { return findKey(ctx, tx, id) })
}

func findKey(ctx context.Context, tx *store.Tx, id string) (store.Key, error) {
	k, err := tx.GetKey(ctx, access.From(ctx).TenantID, id)
	return k, missing(err, "key")
}

// GetApiKey tells about one key, revoked or not.
func (s *Service) GetApiKey(ctx context.Context, r *cloudv1.GetApiKeyRequest) (*cloudv1.GetApiKeyResponse, error) {
	k, err := s.key(ctx, r.GetKeyId())
	return &cloudv1.GetApiKeyResponse{ApiKey: s.keyMessage(k)}, err
}

// ListApiKeys lists by id.
func (s *Service) ListApiKeys(ctx context.Context, r *cloudv1.ListApiKeysRequest) (*cloudv1.ListApiKeysResponse, error) {
	shown, next, err := listing.Of[store.Key, *cloudv1.ApiKey]{
		Method: "ListApiKeys", Filter: []any{r.GetShowRevoked()}, Key: func(k store.Key) string { return k.ID }, Show: s.keyMessage,
		Page: func(tx *store.Tx, tenantID string, p store.Page) ([]store.Key, error) {
			return tx.ListKeys(ctx, tenantID, r.GetShowRevoked(), p)
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListApiKeysResponse{ApiKeys: shown, NextPageToken: next}, err
}
