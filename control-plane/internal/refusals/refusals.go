// Package refusals owns what the audit log says about calls and sign-ins that were refused:
// the first of each caller, action and reason at once, and every ten minutes how many more
// there were.
//
// It must not know why something is refused. Surprising: noting one only counts it in
// memory, so that a refusal takes as long for a key that exists as for one that doesn't; Run
// writes. What was counted and not written yet is lost with the process.
package refusals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/sampled"
)

// Actions of the entries.
const (
	Access = "access.refuse"         // Somebody known may not do this.
	SignIn = "sign_in.refuse"        // Nobody was let in.
	Token  = "token_exchange.refuse" // A token was not exchanged.
)

const (
	// writeEvery is how soon the first one is in the log.
	writeEvery = 2 * time.Second
	// tenantMax is how many kinds of one tenant are counted at a time.
	tenantMax   = 1000
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

type kind struct{ action, tenant, tenantName, actor, target, value string }

// Log counts refusals and writes them. It is safe for concurrent use.
type Log struct {
	kit.Kit

	counts *sampled.Counter[kind, Refusal]
}

// New makes a Log.
func New(k kit.Kit) *Log {
	return &Log{Kit: k, counts: sampled.New[kind, Refusal](k.Now, tenantMax, nil)}
}

// Note counts a refusal.
func (l *Log) Note(r Refusal) {
	k := kind{r.Action, r.Target.TenantID, r.TenantName, r.Caller.ID(), r.Target.ID, r.Value}
	l.counts.Note(cmp.Or(r.Target.TenantID, r.TenantName), k, r)
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
	for _, c := range l.counts.Take() {
		if err := l.write(ctx, c.First, c.Times, c.Since); err != nil {
			problems = append(problems, err)
			l.counts.Back(c)
		}
	}
	return errors.Join(problems...)
}

func (l *Log) write(ctx context.Context, r Refusal, times int, since time.Time) error {
	err := l.Store.Service(ctx, func(tx *store.Tx) error {
		target := r.Target
		if r.TenantName != "" {
			t, err := tx.GetTenantByName(ctx, r.TenantName)
			if err != nil {
				return err
			}
			target = change.Target{Type: "tenant", ID: t.ID, Name: t.Name, TenantID: t.ID}
		}
		return change.Make(access.With(ctx, r.Caller), l.Kit, tx, r.Action, change.AuditOnly(target), Fields(r.Field, r.Value, times, since))
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("note a refusal: %w", err)
	}
	return nil
}

// Fields are what an entry says: what was missing, and how often if it was more than once.
func Fields(field, value string, times int, since time.Time) change.Fields {
	out := change.Fields{field: {After: value}}
	if times > 1 {
		out["times"], out["since"] = store.Change{After: times}, store.Change{After: since.UTC().Format(time.RFC3339)}
	}
	return out
}
