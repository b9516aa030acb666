package store

import (
	"context"
	"time"
)

var auditSinks = table[AuditSink]{
	name:    "audit_sinks",
	columns: "tenant_id, id, name, format, target, secret, enabled, sent, sent_at, due_at, attempts, failing_since, last_error, created_at, updated_at, version",
	fields: func(v *AuditSink) []any {
		return []any{&v.TenantID, &v.ID, &v.Name, &v.Format, &v.Target, &v.Secret, asBool{&v.Enabled}, &v.Sent, asTime{&v.SentAt}, asTime{&v.DueAt},
			&v.Attempts, asTime{&v.FailingSince}, &v.LastError, asTime{&v.CreatedAt}, asTime{&v.UpdatedAt}, &v.Version}
	},
	key: "tenant_id, id", changes: "name, format, target, secret, enabled, due_at, attempts, failing_since, last_error, updated_at",
}

// InsertAuditSink adds a sink; ErrExists if its name is taken.
func (t *Tx) InsertAuditSink(ctx context.Context, v AuditSink) error {
	return auditSinks.insert(ctx, t.of(v.TenantID), v)
}

// GetAuditSink finds a sink.
func (t *Tx) GetAuditSink(ctx context.Context, tenantID, id string) (AuditSink, error) {
	return auditSinks.get(ctx, t.of(tenantID), "tenant_id = ? AND id = ?", tenantID, id)
}

// ListAuditSinks lists a tenant's sinks by name.
func (t *Tx) ListAuditSinks(ctx context.Context, tenantID string) ([]AuditSink, error) {
	return auditSinks.list(ctx, t.of(tenantID), pageMax, "tenant_id = ? ORDER BY name", tenantID)
}

// UpdateAuditSink writes what people set, at the version that was read.
func (t *Tx) UpdateAuditSink(ctx context.Context, v *AuditSink) error {
	return auditSinks.update(ctx, t.of(v.TenantID), v, &v.Version)
}

// DeleteAuditSink deletes a sink.
func (t *Tx) DeleteAuditSink(ctx context.Context, tenantID, id string) error {
	return t.of(tenantID).change(ctx, "delete audit sink", "DELETE FROM audit_sinks WHERE tenant_id = ? AND id = ?", tenantID, id)
}

// DueAuditSinks are those of all tenants that have entries to get and may be tried, the
// longest waiting first.
func (t *Tx) DueAuditSinks(ctx context.Context, now time.Time, limit int) ([]AuditSink, error) {
	return auditSinks.list(ctx, t.across(), limit, `enabled = 1 AND due_at <= ?
		AND sent < (SELECT seq FROM audit_chains WHERE audit_chains.tenant_id = audit_sinks.tenant_id) ORDER BY due_at, tenant_id, id`, now)
}

// NoteAuditSink records an attempt, unless another process has recorded one since v was
// read at from, or people have changed the sink.
func (t *Tx) NoteAuditSink(ctx context.Context, v AuditSink, from int64) error {
	return t.of(v.TenantID).change(ctx, "note audit sink", `UPDATE audit_sinks SET sent = ?, sent_at = ?, due_at = ?, attempts = ?, failing_since = ?, last_error = ?
		WHERE tenant_id = ? AND id = ? AND sent = ? AND version = ?`,
		v.Sent, v.SentAt, v.DueAt, v.Attempts, v.FailingSince, v.LastError, v.TenantID, v.ID, from, v.Version)
}
