// Package change owns how a change is written into a tenant's audit log: the caller comes
// from the context, the row goes into the transaction of the change itself, so that
// neither exists without the other.
//
// It must not know use cases. Surprising: values that look like API keys are cut
// down to their public part here, whatever the caller thought they were.
package change

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// Target is what was changed.
type Target struct {
	Type string // namespace, key, member, …
	ID   string
	Name string // At this time, for people.
	// TenantID is whose log it goes to; empty: the caller's tenant.
	TenantID string
}

// Changes maps a field to what it was and became. Secrets never stand in it.
type Changes map[string]store.Change

// Record writes that the caller of ctx did action (for example namespace.create) to
// target.
func Record(ctx context.Context, tx store.Tx, maker *ids.Maker, now time.Time, action string, target Target, changes Changes) error {
	c := access.From(ctx)
	e := store.AuditEvent{
		TenantID: target.TenantID, ID: maker.New(ids.Audit, now), At: now,
		ActorType: actorType(c), ActorID: c.ID(), Actor: apikey.Redact(c.Name),
		Action: action, TargetType: target.Type, TargetID: target.ID, Target: apikey.Redact(target.Name),
		RequestID: c.RequestID, Peer: c.Peer, UserAgent: apikey.Redact(c.UserAgent),
		Changes: redacted(changes),
	}
	if e.TenantID == "" {
		e.TenantID = c.TenantID
	}
	if e.TenantID == "" {
		return fmt.Errorf("record %s: no tenant", action)
	}
	if err := tx.InsertAudit(ctx, e); err != nil {
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

func redacted(changes Changes) map[string]store.Change {
	out := make(map[string]store.Change, len(changes))
	for field, c := range changes {
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
