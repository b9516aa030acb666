package corvo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// KeySource gives API keys that end, such as those of an exchanged token. It is asked for the
// first key, for the next one when a fourth of the last one's life is left, and for another one
// when the server refused the last one; never twice at the same time.
type KeySource interface {
	// Key gives a key and when it ends; a zero time: it doesn't end by itself. An error that is
	// ErrUnauthorized says that there will be no key any more, which ends a worker; after any
	// other it is asked again.
	Key(ctx context.Context) (key string, ends time.Time, err error)
}

// WithKeySource gives the API key by a source instead of WithAPIKey. A worker goes on over its
// keys: it moves to another stream before a key ends, and keeps the jobs that it has.
func WithKeySource(s KeySource) Option { return func(c *config) { c.keys = s } }

const (
	// keyRetry is how soon a source that failed is asked again while the last key works.
	keyRetry = 5 * time.Second
	// keyTimeout bounds one question.
	keyTimeout = 30 * time.Second
)

// keyring is the key in use.
type keyring struct {
	source KeySource // Nil: the key is the only one.
	warn   func(error)

	asking chan struct{} // Holds one token: who has it asks.

	mu    sync.Mutex // Guards what follows.
	key   string
	ends  time.Time // Zero: it does not.
	renew time.Time // When to ask for the next one; zero: never.
}

func newKeyring(key string, source KeySource, warn func(error)) *keyring {
	k := &keyring{source: source, warn: warn, key: key, asking: make(chan struct{}, 1)}
	if source != nil {
		k.key = ""
	}
	return k
}

// get is the key for a request.
func (k *keyring) get(ctx context.Context) (string, error) {
	if key, due := k.now(); !due {
		return key, nil
	}
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	key, due := k.now() // Another request may have asked.
	if !due {
		return key, nil
	}
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	next, ends, err := k.source.Key(ctx)
	if err == nil && (next == "" || strings.ContainsAny(next, "\r\n\x00")) {
		err = errors.New("the source gave no key, or one with a line break")
	}
	if err == nil {
		k.set(next, ends, time.Now())
		return next, nil
	}
	if key != "" && k.postpone(time.Now()) {
		k.warn(err)
		return key, nil
	}
	return "", noKey(err)
}

// now is the key in use, and whether it is time for another.
func (k *keyring) now() (key string, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.key, k.source != nil && (k.key == "" || !k.renew.IsZero() && !time.Now().Before(k.renew))
}

func (k *keyring) set(key string, ends, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.key, k.ends, k.renew = key, ends, time.Time{}
	if !ends.IsZero() {
		k.renew = now.Add(ends.Sub(now) * 3 / 4)
	}
}

// postpone keeps a key that works for a little longer.
func (k *keyring) postpone(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !now.Before(k.ends) {
		return false
	}
	if k.renew = now.Add(keyRetry); k.renew.After(k.ends) {
		k.renew = k.ends
	}
	return true
}

// refused forgets a key that the server does not take.
func (k *keyring) refused() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.source != nil {
		k.key = ""
	}
}

// over is closed when it is time for another key; nil: never.
func (k *keyring) over() <-chan time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.renew.IsZero() {
		return nil
	}
	return time.After(time.Until(k.renew))
}

// noKey is why a request could not be sent.
func noKey(err error) *Error {
	e := &Error{Code: CodeUnavailable, Message: fmt.Sprintf("no API key: %v", err), Retryable: true, cause: err, unsent: true}
	if errors.Is(err, ErrUnauthorized) {
		e.Code, e.Retryable = CodeUnauthorized, false
	}
	return e
}
