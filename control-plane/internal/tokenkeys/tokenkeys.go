// Package tokenkeys owns the Ed25519 keys with which browsers' tokens for jobs are
// signed: one for each calendar year, sealed in the database, made before it is needed
// and known to cells for a while after.
//
// It must not know tokens. Surprising: nothing is ever rotated by an act. Which key signs
// follows from the date, so that all control planes agree without talking, and next
// year's key is made a month ahead, so that every cell has it when it is first used.
package tokenkeys

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

const (
	purpose       = "user-token-key"
	settingPrefix = "user-token-key/"
	// ahead is how long before its year a key is made.
	ahead = 30 * 24 * time.Hour
	// overlap is how long after its year tokens of a key are taken: longer than any
	// lives, with room for clocks.
	overlap = usertoken.LifeMax + time.Hour
)

// Keys makes and reads signing keys.
type Keys struct {
	Store store.Store
	Seal  *seal.Box
	Now   func() time.Time
}

// Public is what a cell must know of a key.
type Public struct {
	ID       string
	Key      ed25519.PublicKey
	NotAfter time.Time
}

// Signing gives the key that signs now, and its id.
func (k Keys) Signing(ctx context.Context) (ed25519.PrivateKey, string, error) {
	private, err := k.of(ctx, k.Now().UTC().Year())
	if err != nil {
		return nil, "", err
	}
	return private, usertoken.KeyID(private.Public().(ed25519.PublicKey)), nil
}

// Public lists the keys that cells should take tokens of. Call it now and then: it makes
// the key of the next year in time.
func (k Keys) Public(ctx context.Context) ([]Public, error) {
	now := k.Now().UTC()
	years := []int{now.Year()}
	if next := now.Add(ahead).Year(); next != now.Year() {
		years = append(years, next)
	}
	if last := now.Add(-overlap).Year(); last != now.Year() {
		years = append(years, last)
	}
	var out []Public
	for _, y := range years {
		private, err := k.of(ctx, y)
		if err != nil {
			return nil, err
		}
		public := private.Public().(ed25519.PublicKey)
		out = append(out, Public{ID: usertoken.KeyID(public), Key: public, NotAfter: endOf(y).Add(overlap)})
	}
	return out, nil
}

func endOf(year int) time.Time { return time.Date(year+1, time.January, 1, 0, 0, 0, 0, time.UTC) }

// of reads a year's key, or makes it; of two that make it at a time, the first counts.
func (k Keys) of(ctx context.Context, year int) (ed25519.PrivateKey, error) {
	name := settingPrefix + strconv.Itoa(year)
	text, err := k.read(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		if err := k.make(ctx, name); err != nil {
			return nil, err
		}
		text, err = k.read(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	seed, err := k.Seal.Open(purpose, text)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("open %s: %d bytes", name, len(seed))
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func (k Keys) read(ctx context.Context, name string) (text string, _ error) {
	err := k.Store.ReadService(ctx, func(tx store.Tx) (err error) {
		text, err = tx.GetSetting(ctx, name)
		return err
	})
	return text, err
}

func (k Keys) make(ctx context.Context, name string) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	sealed, err := k.Seal.Seal(purpose, private.Seed())
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	err = k.Store.Service(ctx, func(tx store.Tx) error { return tx.InsertSetting(ctx, name, sealed, k.Now()) })
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	return nil
}
