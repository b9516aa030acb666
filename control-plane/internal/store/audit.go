package store

import (
	"context"
	"strings"
	"time"
)

var auditLog = table[AuditEvent]{
	name:    "audit",
	columns: "tenant_id, id, at, actor_type, actor_id, actor, action, target_type, target_id, target, request_id, peer, user_agent, changes, namespace_id, namespace, seq, prev_hash, hash",
	fields: func(v *AuditEvent) []any {
		return []any{&v.TenantID, &v.ID, asTime{&v.At}, &v.ActorType, &v.ActorID, &v.Actor, &v.Action, &v.TargetType, &v.TargetID, &v.Target,
			&v.RequestID, &v.Peer, &v.UserAgent, asJSON{&v.Changes}, &v.NamespaceID, &v.Namespace, &v.Seq, &v.PrevHash, &v.Hash}
	},
}

// InsertAudit adds to the audit log.
func (t *Tx) InsertAudit(ctx context.Context, v AuditEvent) error {
	return auditLog.insert(ctx, t.of(v.TenantID), v)
}

// HasAudit reports whether an entry is there.
func (t *Tx) HasAudit(ctx context.Context, tenantID, id string) (bool, error) {
	n, err := t.of(tenantID).count(ctx, "look for an audit entry", "SELECT 1 FROM audit WHERE tenant_id = ? AND id = ?", tenantID, id)
	return n > 0, err
}

// ListAudit lists newest first; Page.After is the id of the last one seen. Each branch of
// the statement reads one index in order, so that a page costs what it shows, however
// long the log is.
func (t *Tx) ListAudit(ctx context.Context, tenantID string, f AuditFilter, p Page) ([]AuditEvent, error) {
	branches, err := t.auditBranches(ctx, tenantID, f)
	if err != nil || len(branches) == 0 {
		return nil, err
	}
	rest, args := auditPage(branches, auditConditions(f, p), tenantID, p.limit())
	return query(ctx, t.of(tenantID), "list audit", auditLog.fields, rest("SELECT "+auditLog.columns+" FROM audit", " WHERE tenant_id = ?"), args...)
}

// condition is a part of a WHERE clause. by is how SQLite is told the index: without
// statistics it would rather walk the whole tenant by id.
type condition struct {
	by, text string
	args     []any
}

func (c condition) and(text string, args ...any) condition {
	return condition{c.by, c.text + " AND " + text, append(c.args, args...)}
}

// auditPage joins branches, each with the conditions that all have; text makes the
// statement of what each begins with.
func auditPage(branches []condition, all condition, tenantID string, limit int) (text func(rows, where string) string, args []any) {
	for _, b := range branches {
		args = append(append(append(append(args, tenantID), b.args...), all.args...), limit)
	}
	return func(rows, where string) string {
		var parts []string
		for _, b := range branches {
			parts = append(parts, "SELECT * FROM ("+rows+b.by+where+b.text+all.text+" ORDER BY id DESC LIMIT ?) AS branch")
		}
		return strings.Join(parts, " UNION ALL ") + " ORDER BY id DESC LIMIT ?"
	}, append(args, limit)
}

// auditBranches chooses the index that a listing goes by: the filter that leaves least.
func (t *Tx) auditBranches(ctx context.Context, tenantID string, f AuditFilter) ([]condition, error) {
	by := func(index string) condition { return condition{by: t.dialect.indexed(index)} }
	switch {
	case f.TargetID != "":
		return []condition{by("audit_by_target")}, nil
	case f.ActorID != "":
		return []condition{by("audit_by_actor")}, nil
	case f.Namespace != "":
		return []condition{by("audit_by_namespace").and("namespace_id = ?", f.Namespace), by("audit_by_namespace_name").and("namespace = ?", f.Namespace)}, nil
	case f.ActionPrefix != "":
		actions, err := t.auditActions(ctx, tenantID, f.ActionPrefix)
		var out []condition
		for _, a := range actions {
			out = append(out, by("audit_by_action").and("action = ?", a))
		}
		return out, err
	}
	return []condition{{}}, nil
}

// auditActions finds the actions with a prefix in a tenant's log, one look-up each.
func (t *Tx) auditActions(ctx context.Context, tenantID, prefix string) ([]string, error) {
	below := prefix + textEnd
	return query(ctx, t.of(tenantID), "list audit actions", single[string],
		`WITH RECURSIVE found (action) AS (
		   SELECT MIN(action) FROM audit WHERE tenant_id = ? AND action >= ? AND action < ?
		   UNION ALL
		   SELECT (SELECT MIN(action) FROM audit WHERE tenant_id = ? AND action > found.action AND action < ?) FROM found WHERE found.action IS NOT NULL)
		 SELECT action FROM found WHERE action IS NOT NULL LIMIT ?`, tenantID, prefix, below, tenantID, below, auditActionsMax)
}

const (
	// textEnd sorts behind everything that can follow a prefix.
	textEnd = "\U0010FFFF"
	// auditActionsMax is more than there are.
	auditActionsMax = 250
)

func auditConditions(f AuditFilter, p Page) (c condition) {
	byID := f.TargetID != "" || f.ActorID != ""
	for _, w := range []struct {
		text string
		arg  string
	}{{"id < ?", p.After}, {"id >= ?", f.FromID}, {"id < ?", f.BelowID}, {"actor_id = ?", f.ActorID}, {"target_id = ?", f.TargetID}} {
		if w.arg != "" {
			c = c.and(w.text, w.arg)
		}
	}
	if byID && f.Namespace != "" {
		c = c.and("(namespace_id = ? OR namespace = ?)", f.Namespace, f.Namespace)
	}
	if (byID || f.Namespace != "") && f.ActionPrefix != "" {
		c = c.and("action >= ? AND action < ?", f.ActionPrefix, f.ActionPrefix+textEnd)
	}
	if !f.After.IsZero() {
		c = c.and("at >= ?", f.After)
	}
	if !f.Before.IsZero() {
		c = c.and("at < ?", f.Before)
	}
	return c
}

// answers is the first answers to idempotent calls.
var answers = table[Answer]{
	name:    "idempotency",
	columns: "tenant_id, principal, method, request_id, body, answer, created_at",
	fields: func(v *Answer) []any {
		return []any{&v.TenantID, &v.Principal, &v.Method, &v.RequestID, &v.Body, &v.Answer, asTime{&v.CreatedAt}}
	},
}

// GetAnswer finds the first answer to a call.
func (t *Tx) GetAnswer(ctx context.Context, tenantID, principal, method, requestID string) (Answer, error) {
	return answers.get(ctx, t.of(tenantID), "tenant_id = ? AND principal = ? AND method = ? AND request_id = ?", tenantID, principal, method, requestID)
}

// InsertAnswer keeps the first answer to a call.
func (t *Tx) InsertAnswer(ctx context.Context, v Answer) error {
	return answers.insert(ctx, t.of(v.TenantID), v)
}

// DeleteAnswersBefore forgets old answers and counts them.
func (t *Tx) DeleteAnswersBefore(ctx context.Context, before time.Time) (int, error) {
	return t.across().exec(ctx, "delete old answers", "DELETE FROM idempotency WHERE created_at < ?", before)
}
