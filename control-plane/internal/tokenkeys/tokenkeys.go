// Package tokenkeys owns the Ed25519 keys with which browsers' tokens for jobs are
// signed: one for each calendar year, sealed in the database, made before it is needed
// and known to cells for a while after.
//
// It must not know tokens. Surprising: the date decides which key signs, so that all
// control planes agree without talking, and next year's key is made a month ahead, so that
// every cell has it when it is first used. Rotate replaces them all at once, for when one
// has leaked.
package tokenkeys

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

const (
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
	// Now is for what is written, by the clock of whoever writes. Calendar is that of the
	// cells, which take a key's tokens by it: which year it is.
	Now      func() time.Time
	Calendar func(context.Context) time.Time
}

// Public is what a cell must know of a key.
type Public struct {
	ID       string
	Key      ed25519.PublicKey
	NotAfter time.Time
}

// Signing gives the key that signs now, and its id.
func (k Keys) Signing(ctx context.Context) (ed25519.PrivateKey, string, error) {
	name := nameOf(k.Calendar(ctx).UTC().Year())
	private, err := store.Get(ctx, k.Store.ReadService, func(tx *store.Tx) (ed25519.PrivateKey, error) { return k.find(ctx, tx, name) })
	if errors.Is(err, store.ErrNotFound) {
		private, err = store.Get(ctx, k.Store.Service, func(tx *store.Tx) (ed25519.PrivateKey, error) { return k.findOrMake(ctx, tx, name) })
	}
	if err != nil {
		return nil, "", err
	}
	return private, idOf(private), nil
}

// Public lists the keys whose tokens cells should accept. Call it regularly: it also
// makes the next year's key in time.
func (k Keys) Public(ctx context.Context, tx *store.Tx) (out []Public, _ error) {
	for _, y := range years(k.Calendar(ctx).UTC()) {
		private, err := k.findOrMake(ctx, tx, nameOf(y))
		if err != nil {
			return nil, err
		}
		out = append(out, Public{ID: idOf(private), Key: public(private), NotAfter: endOf(y).Add(overlap)})
	}
	return out, nil
}

// Rotation is what Rotate did: ids of keys.
type Rotation struct {
	Old, New []string
}

// Rotate replaces every key, so that no older token is valid once cells know. Its
// outbox row tells them at once.
func (k Keys) Rotate(ctx context.Context, tx *store.Tx) (r Rotation, _ error) {
	names, err := tx.SettingNames(ctx, settingPrefix)
	if err != nil {
		return r, fmt.Errorf("list token keys: %w", err)
	}
	for _, y := range years(k.Calendar(ctx).UTC()) {
		if name := nameOf(y); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		// One that cannot be opened, because its master key is missing, is replaced too.
		if old, err := k.find(ctx, tx, name); err == nil {
			r.Old = append(r.Old, idOf(old))
		}
		private, sealed, err := k.draw(name)
		if err != nil {
			return r, err
		}
		if err := tx.PutSetting(ctx, name, sealed, k.Now()); err != nil {
			return r, fmt.Errorf("keep %s: %w", name, err)
		}
		r.New = append(r.New, idOf(private))
	}
	id, _ := seal.NewToken("out_") // A name nobody else has; it need not be secret.
	return r, tx.InsertOutbox(ctx, store.Outbox{ID: id[:30], Kind: store.OutboxTokenKeys, Subject: outboxSubject, CreatedAt: k.Now(), DueAt: k.Now()})
}

// Carried reports whether every proxy has the keys of the last Rotate.
func (k Keys) Carried(ctx context.Context, tx *store.Tx) (bool, error) {
	waits, err := tx.HasOutbox(ctx, "", store.OutboxTokenKeys, outboxSubject, endOf(k.Now().UTC().Year()+1))
	return err == nil && !waits, err
}

// outboxSubject is that of the row about all keys; it belongs to no tenant.
const outboxSubject = "token-keys"

// years are those whose keys count, this one first.
func years(now time.Time) []int {
	out := []int{now.Year()}
	if next := now.Add(ahead).Year(); next != now.Year() {
		out = append(out, next)
	}
	if last := now.Add(-overlap).Year(); last != now.Year() {
		out = append(out, last)
	}
	return out
}

func nameOf(year int) string { return settingPrefix + strconv.Itoa(year) }

func public(k ed25519.PrivateKey) ed25519.PublicKey {
	p, _ := k.Public().(ed25519.PublicKey) // It is nothing else.
	return p
}

func idOf(k ed25519.PrivateKey) string { return usertoken.KeyID(public(k)) }

func endOf(year int) time.Time { return time.Date(year+1, time.January, 1, 0, 0, 0, 0, time.UTC) }

// findOrMake reads a year's key, or makes it; of two that make it at a time, the first counts.
func (k Keys) findOrMake(ctx context.Context, tx *store.Tx, name string) (ed25519.PrivateKey, error) {
	private, err := k.find(ctx, tx, name)
	if !errors.Is(err, store.ErrNotFound) {
		return private, err
	}
	private, sealed, err := k.draw(name)
	if err != nil {
		return nil, err
	}
	err = tx.InsertSetting(ctx, name, sealed, k.Now())
	if errors.Is(err, store.ErrExists) {
		return k.find(ctx, tx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", name, err)
	}
	return private, nil
}

func (k Keys) find(ctx context.Context, tx *store.Tx, name string) (ed25519.PrivateKey, error) {
	text, err := tx.GetSetting(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	seed, err := k.Seal.Open(seal.TokenKey, text)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("open %s: %d bytes", name, len(seed))
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func (k Keys) draw(name string) (ed25519.PrivateKey, string, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, "", fmt.Errorf("make %s: %w", name, err)
	}
	sealed, err := k.Seal.Seal(seal.TokenKey, private.Seed())
	if err != nil {
		return nil, "", fmt.Errorf("make %s: %w", name, err)
	}
	return private, sealed, nil
}
