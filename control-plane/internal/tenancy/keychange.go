package tenancy

import (
	"context"
	"fmt"
	"slices"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// overlapMax is how long the old secret of a rotated key may work on.
const overlapMax = 7 * 24 * time.Hour

// changeable reads a key that the caller may change: it lives and is not broader.
func changeable(ctx context.Context, tx *store.Tx, id string) (store.Key, error) {
	k, err := findKey(ctx, tx, id)
	if err != nil {
		return k, err
	}
	if !k.RevokedAt.IsZero() {
		return k, fault.New(fault.Conflict, "KEY_REVOKED", "key %s was revoked, which can't be undone; create a new key", k.ID)
	}
	if k.Kind == cloudv1.KeyKind_KEY_KIND_TEMPORARY {
		return k, fault.New(fault.Conflict, "KEY_TEMPORARY", "key %s is temporary: it can't be changed or renewed; exchange a token for another one", k.ID)
	}
	return k, mayMake(ctx, tx, k)
}

// UpdateApiKey changes the fields that the mask names.
func (s *Service) UpdateApiKey(ctx context.Context, r *cloudv1.UpdateApiKeyRequest) (*cloudv1.UpdateApiKeyResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	err := fault.InvalidMask(paths, "name", "namespaces", "permissions", "queues", "cidrs", "expires_at")
	if err != nil {
		return nil, err
	}
	if r.GetExpiresAt() != nil && r.GetExpiresAt().CheckValid() != nil {
		return nil, fault.InvalidField("expires_at", "must be a valid time")
	}
	var k store.Key
	err = s.Write(ctx, func(tx *store.Tx) (err error) {
		if k, err = changeable(ctx, tx, r.GetKeyId()); err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), etag.Of(k.Version, k.ID), "this"); err != nil {
			return err
		}
		end := k.ExpiresAt
		changes, err := edit(ctx, tx, &k, r, paths)
		if err != nil {
			return err
		}
		if !k.ExpiresAt.Equal(end) {
			k.EndSetAt = s.Now()
		}
		if err := checkKey(k, s.Now()); err != nil {
			return err
		}
		if err := mayMake(ctx, tx, k); err != nil {
			return err
		}
		if err := policy.CheckKey(ctx, tx, k, paths...); err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "key.update", change.UpdateKey(&k), changes)
	})
	if err != nil {
		return nil, err
	}
	m, err := s.keyObserved(ctx, k.ID, k.Generation)
	return &cloudv1.UpdateApiKeyResponse{ApiKey: m}, err
}

func edit(ctx context.Context, tx *store.Tx, k *store.Key, r *cloudv1.UpdateApiKeyRequest, paths []string) (change.Fields, error) {
	was, changes := *k, change.Fields{}
	for _, p := range paths {
		switch p {
		case "name":
			k.Name = r.GetName()
			changes["name"] = store.Change{Before: was.Name, After: k.Name}
		case "namespaces":
			var err error
			if k.NamespaceIDs, err = namespaceIDs(ctx, tx, r.GetNamespaces()); err != nil {
				return nil, err
			}
			changes["namespace_ids"] = store.Change{Before: was.NamespaceIDs, After: k.NamespaceIDs}
		case "permissions":
			k.Permissions = r.GetPermissions()
			changes["permissions"] = store.Change{Before: was.Permissions, After: k.Permissions}
		case "queues":
			k.Queues = r.GetQueues()
			changes["queues"] = store.Change{Before: was.Queues, After: k.Queues}
		case "cidrs":
			k.CIDRs = networks(r.GetCidrs())
			changes["cidrs"] = store.Change{Before: was.CIDRs, After: k.CIDRs}
		case "expires_at":
			k.ExpiresAt = time.Time{}
			if r.GetExpiresAt() != nil {
				k.ExpiresAt = r.GetExpiresAt().AsTime()
			}
			changes["expires_at"] = store.Change{Before: timeText(was.ExpiresAt), After: timeText(k.ExpiresAt)}
		}
	}
	return changes, nil
}

func timeText(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(timeForm)
}

// RotateApiKey gives a key another secret beside the one it has.
func (s *Service) RotateApiKey(ctx context.Context, r *cloudv1.RotateApiKeyRequest) (*cloudv1.RotateApiKeyResponse, error) {
	call, err := once.Of(ctx, "RotateApiKey", r)
	if err != nil {
		return nil, err
	}
	var wrong []fault.Field
	if o := r.GetOverlapSeconds(); o < 0 || o > int64(overlapMax/time.Second) {
		wrong = append(wrong, fault.Field{Name: "overlap_seconds", Problem: fmt.Sprintf("must be 0 to %d (seven days)", int64(overlapMax/time.Second))})
	}
	if len(r.GetDigest()) > 0 {
		wrong = append(wrong, checkDigest(r.GetDigest())...)
	}
	if err := fault.InvalidFields(wrong); err != nil {
		return nil, err
	}
	now, err := s.cellNow(ctx)
	if err != nil {
		return nil, err
	}
	var k store.Key
	var secret string
	res := new(cloudv1.RotateApiKeyResponse)
	repeated, err := call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		if k, err = changeable(ctx, tx, r.GetKeyId()); err != nil {
			return err
		}
		if secret, err = s.addVersion(&k, r, now); err != nil {
			return err
		}
		if err := change.Make(ctx, s.Kit, tx, "key.rotate", change.UpdateKey(&k), change.Fields{"overlap_seconds": {After: r.GetOverlapSeconds()}}); err != nil {
			return err
		}
		res.ApiKey, err = s.shownKey(ctx, tx, k)
		return err
	})
	if err != nil {
		return nil, err
	}
	if res.ApiKey, err = s.keyObserved(ctx, res.GetApiKey().GetId(), int64(res.GetApiKey().GetGeneration())); err != nil {
		return nil, err
	}
	if !repeated {
		res.Secret = secret
	}
	return res, nil
}

// addVersion ends the present secret after the overlap and adds a new one. now is the
// cell's: proxies judge by it when the overlap is over.
func (s *Service) addVersion(k *store.Key, r *cloudv1.RotateApiKeyRequest, now time.Time) (secret string, _ error) {
	k.Versions = living(k.Versions, now)
	if n := len(k.Versions); n > 1 {
		return "", fault.New(fault.Conflict, "ROTATION_UNDERWAY",
			"key %s already has two secrets; rotate it again after the older one expires at %s", k.ID, k.Versions[0].ExpiresAt.UTC().Format(timeForm))
	}
	digest := r.GetDigest()
	if len(digest) == 0 {
		made, err := apikey.Renew(kindOf(k.Kind), k.ID)
		if err != nil {
			return "", err
		}
		sum := made.Digest()
		digest, secret = sum[:], made.Reveal()
	}
	for i := range k.Versions {
		if slices.Equal(k.Versions[i].Digest, digest) {
			return "", fault.InvalidField("digest", "is already the digest of this key; use a new secret")
		}
		k.Versions[i].ExpiresAt = now.Add(time.Duration(r.GetOverlapSeconds()) * time.Second)
	}
	k.Versions = append(living(k.Versions, now), store.KeyVersion{Digest: digest, CreatedAt: now})
	return secret, nil
}

// RevokeApiKey ends a key. Doing so twice is the same as once.
func (s *Service) RevokeApiKey(ctx context.Context, r *cloudv1.RevokeApiKeyRequest) (*cloudv1.RevokeApiKeyResponse, error) {
	var k store.Key
	var absent bool
	err := s.Write(ctx, func(tx *store.Tx) (err error) {
		absent = false
		k, err = findKey(ctx, tx, r.GetKeyId())
		if gone(err) && r.GetAllowMissing() {
			absent = true
			return nil
		}
		if err != nil || !k.RevokedAt.IsZero() {
			return err
		}
		if err := principals.MayEndKey(ctx, tx, k); err != nil {
			return err
		}
		return s.endKey(ctx, tx, &k, "")
	})
	if err != nil || absent {
		return &cloudv1.RevokeApiKeyResponse{}, err
	}
	m, err := s.keyObserved(ctx, k.ID, k.Generation)
	return &cloudv1.RevokeApiKeyResponse{ApiKey: m}, err
}

// endKey revokes; why is for the audit log and may be empty.
func (s *Service) endKey(ctx context.Context, tx *store.Tx, k *store.Key, why string) error {
	k.RevokedAt = s.Now()
	changes := change.Fields{}
	if why != "" {
		changes["reason"] = store.Change{After: why}
	}
	return change.Make(ctx, s.Kit, tx, "key.revoke", change.UpdateKey(k), changes)
}

// leaveNamespace takes a namespace from every key, and the roles that were given in it. A key
// that was good for it alone is revoked: without it, its list would be empty and mean every
// namespace.
func (s *Service) leaveNamespace(ctx context.Context, tx *store.Tx, id string) error {
	tenantID := access.From(ctx).TenantID
	for k, err := range tx.AllKeys(ctx, tenantID, false) {
		if err == nil {
			err = s.leave(ctx, tx, k, id)
		}
		if err != nil {
			return fmt.Errorf("take namespace %s from keys: %w", id, err)
		}
	}
	given := store.All(func(p store.Page) ([]store.Binding, error) { return tx.BindingsIn(ctx, tenantID, id, p) }, func(b store.Binding) string { return b.ID })
	names := principals.NewNamer(tx, tenantID)
	for b, err := range given {
		if err != nil {
			return fmt.Errorf("take the roles of namespace %s away: %w", id, err)
		}
		named, err := names.Binding(ctx, b)
		if err != nil {
			return err
		}
		if err := change.Make(ctx, s.Kit, tx, "role_binding.delete", change.DeleteBinding(named), change.Fields{"reason": {After: "its namespace was deleted"}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) leave(ctx context.Context, tx *store.Tx, k store.Key, id string) error {
	if !slices.Contains(k.NamespaceIDs, id) {
		return nil
	}
	if len(k.NamespaceIDs) == 1 {
		return s.endKey(ctx, tx, &k, "its namespace was deleted")
	}
	was := slices.Clone(k.NamespaceIDs)
	k.NamespaceIDs = slices.DeleteFunc(slices.Clone(was), func(n string) bool { return n == id })
	return change.Make(ctx, s.Kit, tx, "key.update", change.UpdateKey(&k), change.Fields{"namespace_ids": {Before: was, After: k.NamespaceIDs}})
}
