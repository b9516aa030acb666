package store

import (
	"context"
	"time"
)

var (
	factors = table[Factor]{
		name: "factors", columns: "id, user_id, kind, name, secret, credential, step, created_at, confirmed_at, used_at",
		fields: func(v *Factor) []any {
			return []any{&v.ID, &v.UserID, &v.Kind, &v.Name, &v.Secret, &v.Credential, &v.Step, asTime{&v.CreatedAt}, asTime{&v.ConfirmedAt}, asTime{&v.UsedAt}}
		},
	}
	wrongCodes = table[WrongCodes]{
		name: "wrong_codes", columns: "user_id, count, locked_until",
		fields: func(v *WrongCodes) []any { return []any{&v.UserID, &v.Count, asTime{&v.LockedUntil}} },
	}
)

// Factor is a second factor of a person.
type Factor struct {
	ID, UserID string
	Kind       FactorKind
	Name       string
	Secret     string // Of an app; sealed.
	Credential string // Of a passkey; JSON, nothing secret.
	Step       int64  // The last one of an app that was used.
	CreatedAt  time.Time
	// ConfirmedAt is zero for one that was set up halfway; it does not count.
	ConfirmedAt time.Time
	UsedAt      time.Time
}

// FactorKind is what a factor is.
type FactorKind string

// Kinds of factors.
const (
	FactorPasskey FactorKind = "passkey"
	FactorTOTP    FactorKind = "totp"
)

// WrongCodes is how often in a row a person gave a wrong code.
type WrongCodes struct {
	UserID      string
	Count       int
	LockedUntil time.Time
}

// InsertFactor adds one.
func (t *Tx) InsertFactor(ctx context.Context, v Factor) error {
	return factors.insert(ctx, t.common(), v)
}

// ListFactors lists a person's factors that count, oldest first.
func (t *Tx) ListFactors(ctx context.Context, userID string) ([]Factor, error) {
	return factors.list(ctx, t.common(), pageMax, "user_id = ? AND confirmed_at <> 0 ORDER BY id", userID)
}

// HasFactor reports whether a person has a factor that counts.
func (t *Tx) HasFactor(ctx context.Context, userID string) (bool, error) {
	n, err := t.common().count(ctx, "look for a factor", "SELECT 1 FROM factors WHERE user_id = ? AND confirmed_at <> 0 LIMIT 1", userID)
	return n > 0, err
}

// GetFactor finds one of a person's, also one that does not count yet.
func (t *Tx) GetFactor(ctx context.Context, userID, id string) (Factor, error) {
	return factors.get(ctx, t.common(), "user_id = ? AND id = ?", userID, id)
}

// ConfirmFactor makes a factor count, with the step of the code that confirmed it.
func (t *Tx) ConfirmFactor(ctx context.Context, v Factor) error {
	return t.common().change(ctx, "confirm factor", "UPDATE factors SET name = ?, step = ?, confirmed_at = ? WHERE user_id = ? AND id = ? AND confirmed_at = 0",
		v.Name, v.Step, v.ConfirmedAt, v.UserID, v.ID)
}

// RenameFactor gives one another name.
func (t *Tx) RenameFactor(ctx context.Context, v Factor) error {
	return t.common().change(ctx, "rename factor", "UPDATE factors SET name = ? WHERE user_id = ? AND id = ?", v.Name, v.UserID, v.ID)
}

// UseStep uses a step of an app, once: ErrNotFound if it or a later one was used.
func (t *Tx) UseStep(ctx context.Context, id string, step int64, now time.Time) error {
	return t.common().change(ctx, "use step", "UPDATE factors SET step = ?, used_at = ? WHERE id = ? AND step < ?", step, now, id, step)
}

// UsePasskey keeps what the use of a passkey changed.
func (t *Tx) UsePasskey(ctx context.Context, v Factor) error {
	return t.common().change(ctx, "use passkey", "UPDATE factors SET credential = ?, used_at = ? WHERE id = ?", v.Credential, v.UsedAt, v.ID)
}

// DeleteFactor removes one.
func (t *Tx) DeleteFactor(ctx context.Context, userID, id string) error {
	return t.common().change(ctx, "delete factor", "DELETE FROM factors WHERE user_id = ? AND id = ?", userID, id)
}

// DeleteHalfFactors removes a person's factors that were set up halfway.
func (t *Tx) DeleteHalfFactors(ctx context.Context, userID string) error {
	_, err := t.common().exec(ctx, "delete factors set up halfway", "DELETE FROM factors WHERE user_id = ? AND confirmed_at = 0", userID)
	return err
}

// PutRecoveryCodes replaces a person's recovery codes, by their digests; none deletes them.
func (t *Tx) PutRecoveryCodes(ctx context.Context, userID string, digests []string, now time.Time) error {
	if _, err := t.common().exec(ctx, "delete recovery codes", "DELETE FROM recovery_codes WHERE user_id = ?", userID); err != nil {
		return err
	}
	for _, d := range digests {
		if err := t.common().insert(ctx, "recovery_codes", "user_id, digest, created_at", userID, d, now); err != nil {
			return err
		}
	}
	return nil
}

// CountRecoveryCodes counts those that are left.
func (t *Tx) CountRecoveryCodes(ctx context.Context, userID string) (int, error) {
	return t.common().count(ctx, "count recovery codes", "SELECT COUNT(*) FROM recovery_codes WHERE user_id = ? AND used_at = 0", userID)
}

// UseRecoveryCode uses one, once: ErrNotFound if there is none such, or no more.
func (t *Tx) UseRecoveryCode(ctx context.Context, userID, digest string, now time.Time) error {
	return t.common().change(ctx, "use recovery code", "UPDATE recovery_codes SET used_at = ? WHERE user_id = ? AND digest = ? AND used_at = 0", now, userID, digest)
}

// LockWrongCodes reads a person's wrong codes. Of two concurrent calls the second waits
// for the first.
func (t *Tx) LockWrongCodes(ctx context.Context, userID string) (WrongCodes, error) {
	_, err := t.common().exec(ctx, "begin to count wrong codes", "INSERT INTO wrong_codes (user_id, count) VALUES (?, 0) ON CONFLICT DO NOTHING", userID)
	if err != nil {
		return WrongCodes{}, err
	}
	return wrongCodes.get(ctx, t.common(), "user_id = ?"+t.dialect.lockRows, userID)
}

// PutWrongCodes keeps them.
func (t *Tx) PutWrongCodes(ctx context.Context, v WrongCodes) error {
	return t.common().change(ctx, "count wrong codes", "UPDATE wrong_codes SET count = ?, locked_until = ? WHERE user_id = ?", v.Count, v.LockedUntil, v.UserID)
}
