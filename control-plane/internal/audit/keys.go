package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Keys signs with the key of the calendar year, which it makes when it is first needed. Old
// keys stay, since what they signed does.
type Keys struct {
	Store store.Store
	Seal  *seal.Box
	Now   func() time.Time
}

// signing is the key of this year. Of two that make it at a time, the first counts.
func (k Keys) signing(ctx context.Context, tx *store.Tx) (ed25519.PrivateKey, error) {
	year := int64(k.Now().UTC().Year())
	private, err := k.open(ctx, tx, year)
	if !errors.Is(err, store.ErrNotFound) {
		return private, err
	}
	if err := k.make(ctx, tx, year); err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("make audit key of %d: %w", year, err)
	}
	return k.open(ctx, tx, year)
}

func (k Keys) open(ctx context.Context, tx *store.Tx, year int64) (ed25519.PrivateKey, error) {
	key, err := tx.GetAuditKey(ctx, year)
	if err != nil {
		return nil, fmt.Errorf("audit key of %d: %w", year, err)
	}
	seed, err := k.Seal.Open(seal.AuditKey, key.Sealed)
	if err == nil && len(seed) != ed25519.SeedSize {
		err = fmt.Errorf("%d bytes", len(seed))
	}
	if err != nil {
		return nil, fmt.Errorf("open audit key of %d: %w", year, err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func (k Keys) make(ctx context.Context, tx *store.Tx, year int64) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	sealed, err := k.Seal.Seal(seal.AuditKey, private.Seed())
	if err != nil {
		return err
	}
	return tx.InsertAuditKey(ctx, store.AuditKey{
		Year: year, ID: auditlog.KeyID(public), PublicKey: base64.StdEncoding.EncodeToString(public), Sealed: sealed, CreatedAt: k.Now(),
	})
}

// Public lists the keys that ever signed.
func Public(ctx context.Context, tx *store.Tx) (lines []auditlog.Key, _ error) {
	keys, err := tx.ListAuditKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		raw, err := base64.StdEncoding.DecodeString(key.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("audit key of %d: %w", key.Year, err)
		}
		lines = append(lines, auditlog.NewKey(raw, key.CreatedAt))
	}
	return lines, nil
}
