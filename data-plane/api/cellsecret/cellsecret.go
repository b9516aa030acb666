// Package cellsecret owns the secrets that the processes of a cell share: one that
// this process signs with, and up to one more that it accepts from others, so that
// a secret can be replaced while everything runs.
//
// It must not know what is signed.
//
// Surprising: which of the two is newer does not matter here. A rotation changes the
// order in between: first every process accepts the new secret, then every process
// signs with it, and only then is the old one removed.
package cellsecret

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// LengthMin is the shortest secret, in bytes.
	LengthMin = 16
	// Max is how many secrets a process has at a time.
	Max = 2

	idBytes = 4
)

// Secrets of this process, the one that it signs with first. They may be replaced at
// any time; it is safe for concurrent use.
type Secrets struct{ now atomic.Pointer[Set] }

// Set is the secrets as they were at one moment. It does not change.
type Set struct {
	raw  [][]byte
	ids  []string
	used []atomic.Pointer[Use] // In the order of raw.
}

// Use is the last time that another process proved itself with a secret.
type Use struct {
	At time.Time
	By string
}

// Status describes one secret without revealing it.
type Status struct {
	// ID is derived from the secret: the same in every process.
	ID string
	// Signs: this process signs with it. Otherwise it only accepts it.
	Signs bool
	// LastUse by another process, of a secret that this one only accepts.
	LastUse Use
}

// New makes the Secrets of a process. The first one signs.
func New(secrets ...[]byte) (*Secrets, error) {
	s := &Secrets{}
	if _, err := s.Replace(secrets...); err != nil {
		return nil, err
	}
	return s, nil
}

// Must is New for secrets that cannot be wrong, such as those of tests.
func Must(secrets ...[]byte) *Secrets {
	s, err := New(secrets...)
	if err != nil {
		panic("cellsecret: " + err.Error())
	}
	return s
}

// Replace makes these the secrets from now on, and reports whether they differ.
func (s *Secrets) Replace(secrets ...[]byte) (changed bool, err error) {
	next, err := newSet(secrets)
	if err != nil {
		return false, err
	}
	old := s.now.Load()
	if old != nil && strings.Join(old.ids, " ") == strings.Join(next.ids, " ") {
		return false, nil
	}
	s.now.Store(next)
	return old != nil, nil
}

func newSet(secrets [][]byte) (*Set, error) {
	if len(secrets) == 0 || len(secrets) > Max {
		return nil, fmt.Errorf("%d cell secrets, want one or two", len(secrets))
	}
	set := &Set{used: make([]atomic.Pointer[Use], len(secrets))}
	for _, raw := range secrets {
		if len(raw) < LengthMin {
			return nil, fmt.Errorf("cell secret has %d bytes, want at least %d", len(raw), LengthMin)
		}
		id, err := idOf(raw)
		if err != nil {
			return nil, err
		}
		if len(set.ids) > 0 && set.ids[0] == id {
			return nil, errors.New("the two cell secrets are the same")
		}
		set.raw, set.ids = append(set.raw, raw), append(set.ids, id)
	}
	return set, nil
}

// idOf names a secret. It is derived like every other use of the secret, so that it
// reveals nothing about them.
func idOf(secret []byte) (string, error) {
	b, err := hkdf.Key(sha256.New, secret, nil, "corvo.cell.secret-id.v1", idBytes)
	if err != nil {
		return "", fmt.Errorf("derive the cell secret's id: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// Now is the secrets as they are.
func (s *Secrets) Now() *Set { return s.now.Load() }

// Status of the secrets, the one that signs first.
func (s *Secrets) Status() []Status {
	set := s.Now()
	out := make([]Status, len(set.raw))
	for i, id := range set.ids {
		out[i] = Status{ID: id, Signs: i == 0}
		if use := set.used[i].Load(); use != nil {
			out[i].LastUse = *use
		}
	}
	return out
}

// Raw returns the secrets; the first one signs. Do not change them.
func (s *Set) Raw() [][]byte { return s.raw }

// IDs returns the names of the secrets, in the order of Raw.
func (s *Set) IDs() []string { return s.ids }

// NoteUse records that by proved itself with the i-th secret. It costs nothing for the
// first one, which everybody uses.
func (s *Set) NoteUse(i int, by string, at time.Time) {
	if i == 0 {
		return
	}
	if last := s.used[i].Load(); last != nil && last.By == by && at.Sub(last.At) < time.Second && at.Sub(last.At) >= 0 {
		return
	}
	s.used[i].Store(&Use{At: at, By: by})
}

// Derived is what is made from each secret, made again when they change.
type Derived[T any] struct {
	from *Secrets
	make func(secret []byte) (T, error)
	now  atomic.Pointer[derived[T]]
}

type derived[T any] struct {
	set    *Set
	values []T
}

// Derive makes the values of the present secrets and of those that replace them. An
// error of a later one cannot be: what can be made of one secret can be of all.
func Derive[T any](from *Secrets, f func(secret []byte) (T, error)) (*Derived[T], error) {
	d := &Derived[T]{from: from, make: f}
	_, err := d.renew(from.Now())
	return d, err
}

// From returns the secrets that the values are made of.
func (d *Derived[T]) From() *Secrets { return d.from }

// Values are those of the present secrets, the one that signs first.
func (d *Derived[T]) Values() (*Set, []T) {
	set, now := d.from.Now(), d.now.Load()
	if now.set != set {
		next, err := d.renew(set)
		if err != nil {
			panic("cellsecret: " + err.Error())
		}
		now = next
	}
	return now.set, now.values
}

func (d *Derived[T]) renew(set *Set) (*derived[T], error) {
	next := &derived[T]{set: set}
	for _, raw := range set.raw {
		v, err := d.make(raw)
		if err != nil {
			return nil, err
		}
		next.values = append(next.values, v)
	}
	d.now.Store(next)
	return next, nil
}
