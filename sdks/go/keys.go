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
// when the server refused the last one; never twice at the same time. While the last key works
// nobody waits for the next one.
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

	mu      sync.Mutex // Guards what follows.
	key     string
	ends    time.Time     // Zero: it does not.
	renew   time.Time     // When to ask for the next one; zero: never.
	changed chan struct{} // Closed and replaced when one of the above is.
	// dropQuestion ends the question of the last refresh; nil before the first.
	dropQuestion context.CancelFunc
}

func newKeyring(key string, source KeySource, warn func(error)) *keyring {
	k := &keyring{source: source, warn: warn, key: key, asking: make(chan struct{}, 1), changed: make(chan struct{})}
	if source != nil {
		k.key = ""
	}
	return k
}

// get is the key for a request. It waits for the source only if the last key is over.
func (k *keyring) get(ctx context.Context) (string, error) {
	key, due := k.now()
	if !due {
		return key, nil
	}
	if key != "" {
		k.refresh()
		return key, nil
	}
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if key, _ := k.now(); key != "" {
		return key, nil // Another request has asked.
	}
	return k.ask(ctx)
}

// refresh asks for the next key while the last one works. Nobody waits for the answer.
func (k *keyring) refresh() {
	select {
	case k.asking <- struct{}{}:
	default:
		return // Somebody asks.
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.mu.Lock()
	k.dropQuestion = cancel
	k.mu.Unlock()
	go func() {
		defer func() { <-k.asking }()
		defer cancel()
		if _, due := k.now(); !due {
			return
		}
		if _, err := k.ask(ctx); err != nil {
			return // The key has ended meanwhile, and the next request asks again.
		}
	}()
}

// close ends a question that nobody waits for.
func (k *keyring) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dropQuestion != nil {
		k.dropQuestion()
	}
}

// ask has the token of asking.
func (k *keyring) ask(ctx context.Context) (string, error) {
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
	if key, _ := k.now(); key != "" && k.postpone(time.Now()) {
		k.warn(err)
		return key, nil
	}
	return "", noKey(err)
}

// now is the key in use, empty if there is none or it has ended, and whether it is time for
// another.
func (k *keyring) now() (key string, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.source == nil {
		return k.key, false
	}
	now := time.Now()
	if k.key == "" || k.endedBy(now) {
		return "", true
	}
	return k.key, !k.renew.IsZero() && !now.Before(k.renew)
}

// endedBy is called with mu held.
func (k *keyring) endedBy(now time.Time) bool { return !k.ends.IsZero() && !now.Before(k.ends) }

// change tells outlive to look again. Called with mu held.
func (k *keyring) change() {
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *keyring) set(key string, ends, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.key, k.ends, k.renew = key, ends, time.Time{}
	if !ends.IsZero() {
		k.renew = now.Add(ends.Sub(now) * 3 / 4)
	}
	k.change()
}

// postpone keeps a key that works for a little longer.
func (k *keyring) postpone(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.endedBy(now) {
		return false
	}
	if k.renew = now.Add(keyRetry); !k.ends.IsZero() && k.renew.After(k.ends) {
		k.renew = k.ends
	}
	k.change()
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

// outlive waits until key is no longer the one in use, and asks for the next one when it is
// time; false: stop was closed first.
func (k *keyring) outlive(key string, stop <-chan struct{}) bool {
	for {
		changed := k.changes() // First, so that no change is missed.
		now, due := k.now()
		if k.source != nil && now != key {
			return true
		}
		if due {
			k.refresh()
		}
		select {
		case <-k.nextLook(due):
		case <-changed:
		case <-stop:
			return false
		}
	}
}

func (k *keyring) changes() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// nextLook is when outlive is to look again: at the end of the key if it was asked for the
// next one already. Nil: never.
func (k *keyring) nextLook(asked bool) <-chan time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.renew
	if asked {
		at = k.ends
	}
	if at.IsZero() {
		return nil
	}
	return time.After(time.Until(at))
}

// noKey is why a request could not be sent.
func noKey(err error) *Error {
	e := &Error{Code: CodeUnavailable, Message: fmt.Sprintf("no API key: %v", err), Retryable: true, cause: err, unsent: true}
	if errors.Is(err, ErrUnauthorized) {
		e.Code, e.Retryable = CodeUnauthorized, false
	}
	return e
}
