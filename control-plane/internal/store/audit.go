package store

import (
	"context"
	"time"
)

var auditLog = table[AuditEvent]{
	name:    "audit",
	columns: "tenant_id, id, at, actor_type, actor_id, actor, action, target_type, target_id, target, request_id, peer, user_agent, changes, namespace_id, namespace",
	fields: func(v *AuditEvent) []any {
		return []any{&v.TenantID, &v.ID, asTime{&v.At}, &v.ActorType, &v.ActorID, &v.Actor, &v.Action, &v.TargetType, &v.TargetID, &v.Target,
			&v.RequestID, &v.Peer, &v.UserAgent, asJSON{&v.Changes}, &v.NamespaceID, &v.Namespace}
	},
}

// InsertAudit adds to the audit log, which is append only.
func (t *Tx) InsertAudit(ctx context.Context, v AuditEvent) error {
	return auditLog.insert(ctx, t.of(v.TenantID), v)
}

// ListAudit lists newest first; Page.After is the id of the last one seen.
func (t *Tx) ListAudit(ctx context.Context, tenantID string, f AuditFilter, p Page) ([]AuditEvent, error) {
	which, args := "", []any{tenantID}
	where := func(condition string, arg any) { which, args = which+" AND "+condition, append(args, arg) }
	if p.After != "" {
		where("id < ?", p.After)
	}
	if f.ActorID != "" {
		where("actor_id = ?", f.ActorID)
	}
	if f.TargetID != "" {
		where("target_id = ?", f.TargetID)
	}
	if f.Namespace != "" {
		where("(namespace_id = ? OR namespace = ?)", f.Namespace)
		args = append(args, f.Namespace)
	}
	if f.ActionPrefix != "" {
		where("substr(action, 1, length(CAST(? AS TEXT))) = ?", f.ActionPrefix)
		args = append(args, f.ActionPrefix)
	}
	if !f.After.IsZero() {
		where("at >= ?", f.After)
	}
	if !f.Before.IsZero() {
		where("at < ?", f.Before)
	}
	// Ids are made in the order of time.
	return auditLog.list(ctx, t.of(tenantID), p.limit(), "tenant_id = ?"+which+" ORDER BY id DESC", args...)
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
