// Package codes owns one-time codes that people keep on paper and type: drawing them, what is
// stored of them, and counting wrong ones.
//
// It must not know what a code is good for. Surprising: a person's wrong codes of all kinds
// count together, so that nobody has more guesses because there are more doors.
package codes

import (
	"context"
	"crypto/rand"
	"math/big"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// WrongMax wrong codes in a row refuse all codes for LockLife: some 500 guesses a day
	// among a million, and that of somebody who has the mailbox.
	WrongMax = 5
	LockLife = 15 * time.Minute

	count = 10
	// letters to the 16th are 79 bits: a fast hash is enough to store them.
	letters = "abcdefghjkmnpqrstuvwxyz23456789"
	length  = 16
	group   = 4
)

// New draws codes that each work once, and the digests to store. They are of a kind, and
// of somebody: the same text is worth nothing elsewhere.
func New(kind, of string) (codes, digests []string) {
	for range count {
		code := newCode()
		codes, digests = append(codes, code), append(digests, Digest(kind, of, code))
	}
	return codes, digests
}

func newCode() string {
	var b strings.Builder
	for i := range length {
		if i > 0 && i%group == 0 {
			b.WriteByte('-')
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			panic(err) // Not possible: the system's randomness never fails.
		}
		b.WriteByte(letters[n.Int64()])
	}
	return b.String()
}

// Digest is of a code as anybody types it.
func Digest(kind, of, code string) string {
	plain := strings.NewReplacer("-", "", " ", "").Replace(strings.ToLower(strings.TrimSpace(code)))
	return seal.Digest(kind + " " + of + " " + plain)
}

// Guess is a code that a person typed.
type Guess struct {
	UserID string
	// Field is the request's, for a refusal; Otherwise what works while codes don't.
	Field, Otherwise string
}

// Check checks a code, and counts wrong ones. While there were too many, right ones are
// refused too. A person's codes of all kinds count together.
func (g Guess) Check(ctx context.Context, tx *store.Tx, now time.Time, check func() (bool, error)) error {
	w, err := tx.LockWrongCodes(ctx, g.UserID)
	if err != nil {
		return err
	}
	if now.Before(w.LockedUntil) {
		return g.locked(w.LockedUntil.Sub(now))
	}
	good, err := check()
	if err != nil {
		return err
	}
	if good {
		return tx.PutWrongCodes(ctx, store.WrongCodes{UserID: g.UserID})
	}
	w.Count, w.LockedUntil = w.Count+1, time.Time{}
	refusal := error(&fault.Error{
		Code: fault.Invalid, Reason: "WRONG_CODE", Message: "this code isn't valid",
		Fields: []fault.Field{{Name: g.Field, Problem: "this code is wrong, or was used already; enter the newest one"}},
	})
	if w.Count >= WrongMax {
		w.Count, w.LockedUntil = 0, now.Add(LockLife)
		refusal = g.locked(LockLife)
	}
	if err := tx.PutWrongCodes(ctx, w); err != nil {
		return err
	}
	return store.CommitDespite(refusal)
}

func (g Guess) locked(wait time.Duration) error {
	f := fault.New(fault.Exhausted, "FACTOR_LOCKED", "%d wrong codes in a row: no code works for %d minutes%s", WrongMax, int((wait+time.Minute-1)/time.Minute), g.Otherwise)
	f.RetryAfter = wait
	return f
}
