package store

import (
	"context"
	"time"
)

const (
	auditColumns  = "tenant_id, id, at, actor_type, actor_id, actor, action, target_type, target_id, target, request_id, peer, user_agent, changes, namespace_id, namespace"
	answerColumns = "tenant_id, principal, method, request_id, body, answer, created_at"
)

func scanAudit(s scanner) (v AuditEvent, err error) {
	return v, s.Scan(&v.TenantID, &v.ID, toTime{&v.At}, &v.ActorType, &v.ActorID, &v.Actor, &v.Action, &v.TargetType, &v.TargetID, &v.Target,
		&v.RequestID, &v.Peer, &v.UserAgent, asJSON{&v.Changes}, &v.NamespaceID, &v.Namespace)
}

func (t *tx) InsertAudit(ctx context.Context, v AuditEvent) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "audit", auditColumns, v.TenantID, v.ID, v.At, v.ActorType, v.ActorID, v.Actor, v.Action, v.TargetType, v.TargetID, v.Target,
		v.RequestID, v.Peer, v.UserAgent, asJSON{v.Changes}, v.NamespaceID, v.Namespace)
}

func (t *tx) ListAudit(ctx context.Context, tenantID string, f AuditFilter, p Page) ([]AuditEvent, error) {
	if !t.sees(tenantID) {
		return nil, nil
	}
	text, args := "SELECT "+auditColumns+" FROM audit WHERE tenant_id = ?", []any{tenantID}
	where := func(condition string, arg any) { text, args = text+" AND "+condition, append(args, arg) }
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
	return many(ctx, t, "list audit", scanAudit, text+" ORDER BY id DESC LIMIT ?", append(args, p.limit())...)
}

func (t *tx) GetAnswer(ctx context.Context, tenantID, principal, method, requestID string) (Answer, error) {
	if !t.sees(tenantID) {
		return Answer{}, ErrNotFound
	}
	scan := func(s scanner) (v Answer, err error) {
		return v, s.Scan(&v.TenantID, &v.Principal, &v.Method, &v.RequestID, &v.Body, &v.Answer, toTime{&v.CreatedAt})
	}
	return one(ctx, t, "get first answer", scan,
		"SELECT "+answerColumns+" FROM idempotency WHERE tenant_id = ? AND principal = ? AND method = ? AND request_id = ?", tenantID, principal, method, requestID)
}

func (t *tx) InsertAnswer(ctx context.Context, v Answer) error {
	if err := t.in(v.TenantID); err != nil {
		return err
	}
	return t.insert(ctx, "idempotency", answerColumns, v.TenantID, v.Principal, v.Method, v.RequestID, v.Body, v.Answer, v.CreatedAt)
}

func (t *tx) DeleteAnswersBefore(ctx context.Context, before time.Time) (int, error) {
	if err := t.service(); err != nil {
		return 0, err
	}
	return t.exec(ctx, "delete old answers", "DELETE FROM idempotency WHERE created_at < ?", before)
}
