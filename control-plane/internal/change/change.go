// Package change owns what belongs to a change of a tenant's record: the row itself, the
// entry in the tenant's audit log that says who did it, and the outbox rows by which its
// cell learns of it. One call writes them, in one transaction, so that none of them exists
// without the others:
//
//	err = change.Make(ctx, s.Kit, tx, "namespace.create", change.InsertNamespace(n), change.Fields{"name": {After: n.Name}})
//
// The first three arguments are where, the others what: the action's name, the record and
// what is written of it (see records.go), and the fields for the audit log. Errors are
// those of the store. A change that the cell must learn is InCell; users that lose a
// tenant are CutOff; a change without a record of the tenant is Only a target.
//
// It must not know use cases: whether a change may be made, and which. Surprising: no other
// room writes these records; a test reads the source for it.
package change

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// Target is what the audit log says was changed.
type Target struct {
	Type string // namespace, key, member, …
	ID   string
	Name string // At this time, for people.
	// TenantID is the tenant whose log it goes to.
	TenantID string
}

// Fields maps a field to its values before and after. It never has secrets, and what looks
// like an API key is cut to its public part.
type Fields map[string]store.Change

// Make records that the caller of ctx did action (for example namespace.create), and writes
// r.
func Make(ctx context.Context, k kit.Kit, tx *store.Tx, action string, r Record, fields Fields) error {
	now := k.Now()
	if r.write != nil {
		if err := r.write(ctx, tx, now); err != nil {
			return err
		}
	}
	for _, t := range r.tell {
		if t.at.IsZero() {
			t.at = now
		}
		o := store.Outbox{TenantID: r.TenantID, ID: k.IDs.New(ids.Outbox, now), Kind: t.kind, Subject: t.subject, CreatedAt: now, DueAt: t.at}
		if err := tx.InsertOutbox(ctx, o); err != nil {
			return fmt.Errorf("hand %s on: %w", t.subject, err)
		}
	}
	return enter(ctx, k, tx, now, action, r.Target, fields)
}

// enter writes the entry of the audit log.
func enter(ctx context.Context, k kit.Kit, tx *store.Tx, now time.Time, action string, t Target, fields Fields) error {
	if t.TenantID == "" {
		return fmt.Errorf("record %s: no tenant", action)
	}
	c := access.From(ctx)
	err := audit.Append(ctx, tx, store.AuditEvent{
		TenantID: t.TenantID, ID: k.IDs.New(ids.Audit, now), At: now,
		ActorType: actorType(c), ActorID: c.ID(), Actor: apikey.Redact(c.Name),
		Action: action, TargetType: t.Type, TargetID: t.ID, Target: apikey.Redact(t.Name),
		RequestID: c.RequestID, Peer: c.Peer, UserAgent: apikey.Redact(c.UserAgent),
		Changes: redacted(fields),
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	return nil
}

// actorType tells a call without credential from the service's own loops, which make
// no request.
func actorType(c access.Caller) string {
	if c.ID() == "" && c.RequestID == "" {
		return "system"
	}
	return c.Type()
}

func redacted(fields Fields) map[string]store.Change {
	out := make(map[string]store.Change, len(fields))
	for field, c := range fields {
		out[field] = store.Change{Before: redact(c.Before), After: redact(c.After)}
	}
	return out
}

func redact(v any) any {
	switch v := v.(type) {
	case string:
		return apikey.Redact(v)
	case []string:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = apikey.Redact(s)
		}
		return out
	}
	return v
}
