// Package refusals owns what the audit log says about calls and sign-ins that were refused:
// the first of each caller, action and reason at once, and every ten minutes how many more
// there were.
//
// It must not know why something is refused. Surprising: noting one only counts it in
// memory, so that a refusal takes as long for a key that exists as for one that doesn't; Run
// writes. What was counted and not written yet is lost with the process.
package refusals

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Actions of the entries.
const (
	Access = "access.refuse"         // Somebody known may not do this.
	SignIn = "sign_in.refuse"        // Nobody was let in.
	Token  = "token_exchange.refuse" // A token was not exchanged.
)

const (
	// window is how long further refusals are only counted.
	window = 10 * time.Minute
	// writeEvery is how soon the first one is in the log.
	writeEvery = 2 * time.Second
	// keptMax bounds the memory; beyond it, new kinds of refusals are not noted.
	keptMax     = 10_000
	lastAttempt = 5 * time.Second
)

// Refusal is what was refused to whom.
type Refusal struct {
	Action string
	// Caller is who called. For a sign-in, only its network is known.
	Caller access.Caller
	Target change.Target
	// TenantName is given instead of the target's TenantID where only that is known; if there
	// is none of that name, nothing is written.
	TenantName string
	// Field and Value say what was missing: permission, key.write.
	Field, Value string
}

type kind struct{ action, tenant, actor, target, value string }

type counted struct {
	Refusal
	n         int
	firstAt   time.Time
	writtenAt time.Time // Zero: never.
}

// Log counts refusals and writes them. It is safe for concurrent use.
type Log struct {
	kit.Kit

	mu  sync.Mutex
	all map[kind]*counted // Guarded by mu.
}

// New makes a Log.
func New(k kit.Kit) *Log { return &Log{Kit: k, all: make(map[kind]*counted)} }

// Note counts a refusal.
func (l *Log) Note(r Refusal) {
	k := kind{r.Action, r.Target.TenantID + r.TenantName, r.Caller.ID(), r.Target.ID, r.Value}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.all[k]
	if c == nil {
		if len(l.all) >= keptMax {
			return
		}
		c = &counted{}
		l.all[k] = c
	}
	if c.n == 0 {
		c.Refusal, c.firstAt = r, l.Now()
	}
	c.n++
}

// Run writes until ctx ends, and then once more.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			l.report(ctx, l.Write(ctx))
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAttempt)
	defer cancel()
	l.report(last, l.Write(last))
}

func (l *Log) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		l.Log.WarnContext(ctx, "can't write refusals to the audit log; retrying", "error", err)
	}
}

// Write writes what is due: the first of each kind, and after the window how many followed.
func (l *Log) Write(ctx context.Context) error {
	var problems []error
	for k, c := range l.due() {
		if err := l.write(ctx, c); err != nil {
			problems = append(problems, err)
			continue
		}
		l.written(k, c.n)
	}
	return errors.Join(problems...)
}

// due are copies of what is to be written. A kind that was quiet for a window is forgotten.
func (l *Log) due() map[kind]counted {
	now := l.Now()
	out := make(map[kind]counted)
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, c := range l.all {
		switch over := now.Sub(c.writtenAt) >= window; {
		case c.n > 0 && over:
			out[k] = *c
		case over:
			delete(l.all, k)
		}
	}
	return out
}

func (l *Log) written(k kind, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.all[k]; c != nil {
		c.n, c.writtenAt = c.n-n, l.Now()
	}
}

func (l *Log) write(ctx context.Context, c counted) error {
	err := l.Store.Service(ctx, func(tx *store.Tx) error {
		target := c.Target
		if c.TenantName != "" {
			t, err := tx.GetTenantByName(ctx, c.TenantName)
			if err != nil {
				return err
			}
			target = change.Target{Type: "tenant", ID: t.ID, Name: t.Name, TenantID: t.ID}
		}
		fields := change.Fields{c.Field: {After: c.Value}}
		if c.n > 1 {
			fields["times"], fields["since"] = store.Change{After: c.n}, store.Change{After: c.firstAt.UTC().Format(time.RFC3339)}
		}
		return change.Make(access.With(ctx, c.Caller), l.Kit, tx, c.Action, change.AuditOnly(target), fields)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("note a refusal: %w", err)
	}
	return nil
}
