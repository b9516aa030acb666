package store

import (
	"context"
	"time"
)

var (
	auditChains = table[AuditChain]{
		name: "audit_chains", columns: "tenant_id, seq, hash, first_seq, first_after, oldest_at, head_seq, head_at",
		fields: func(v *AuditChain) []any {
			return []any{&v.TenantID, &v.Seq, &v.Hash, &v.FirstSeq, &v.FirstAfter, asTime{&v.OldestAt}, &v.HeadSeq, asTime{&v.HeadAt}}
		},
	}
	auditHeads = table[AuditHead]{
		name: "audit_heads", columns: "tenant_id, seq, first_seq, hash, first_after, at, key_id, signature",
		fields: func(v *AuditHead) []any {
			return []any{&v.TenantID, &v.Seq, &v.FirstSeq, &v.Hash, &v.FirstAfter, asTime{&v.At}, &v.KeyID, &v.Signature}
		},
	}
	auditKeys = table[AuditKey]{
		name: "audit_keys", columns: "year, id, public_key, sealed, created_at",
		fields: func(v *AuditKey) []any {
			return []any{&v.Year, &v.ID, &v.PublicKey, &v.Sealed, asTime{&v.CreatedAt}}
		},
	}
)

// RaiseAuditChain draws the next number of a tenant's chain, for an entry of that time, and
// gives the hash of the entry before. Nobody else draws one until the transaction ends.
func (t *Tx) RaiseAuditChain(ctx context.Context, tenantID string, at time.Time) (seq int64, prev string, err error) {
	c, err := first(ctx, t.of(tenantID), "raise audit chain", func(v *AuditChain) []any { return []any{&v.Seq, &v.Hash} },
		`INSERT INTO audit_chains (tenant_id, seq, hash, oldest_at) VALUES (?, 1, '', ?)
		 ON CONFLICT (tenant_id) DO UPDATE SET seq = audit_chains.seq + 1,
		   oldest_at = CASE WHEN audit_chains.oldest_at = 0 THEN excluded.oldest_at ELSE audit_chains.oldest_at END
		   WHERE audit_chains.tenant_id = ?
		 RETURNING seq, hash`, tenantID, at, tenantID)
	return c.Seq, c.Hash, err
}

// EndAuditChain keeps the hash of the entry whose number was drawn.
func (t *Tx) EndAuditChain(ctx context.Context, tenantID string, seq int64, hash string) error {
	return t.of(tenantID).change(ctx, "end audit chain", "UPDATE audit_chains SET hash = ? WHERE tenant_id = ? AND seq = ?", hash, tenantID, seq)
}

// ChainAudit puts an entry of before there were chains into its place.
func (t *Tx) ChainAudit(ctx context.Context, v AuditEvent) error {
	return t.of(v.TenantID).change(ctx, "chain audit", "UPDATE audit SET seq = ?, prev_hash = ?, hash = ? WHERE tenant_id = ? AND id = ? AND seq = 0",
		v.Seq, v.PrevHash, v.Hash, v.TenantID, v.ID)
}

// UnchainedAudit lists entries of all tenants that are in no chain, each tenant's in order.
func (t *Tx) UnchainedAudit(ctx context.Context, limit int) ([]AuditEvent, error) {
	return auditLog.list(ctx, t.across(), limit, "seq = 0 ORDER BY tenant_id, id")
}

// GetAuditChain finds a tenant's chain.
func (t *Tx) GetAuditChain(ctx context.Context, tenantID string) (AuditChain, error) {
	return auditChains.get(ctx, t.of(tenantID), "tenant_id = ?", tenantID)
}

// UnsignedAuditChains are those with entries behind their last head, which is older than a
// time; the longest waiting first.
func (t *Tx) UnsignedAuditChains(ctx context.Context, before time.Time, limit int) ([]AuditChain, error) {
	return auditChains.list(ctx, t.across(), limit, "head_seq < seq AND head_at <= ? ORDER BY head_at, tenant_id", before)
}

// AgedAuditChains are those whose oldest entry is older than its tenant keeps entries, which is
// retention unless it says otherwise.
func (t *Tx) AgedAuditChains(ctx context.Context, now time.Time, retention time.Duration, limit int) ([]AuditChain, error) {
	return auditChains.list(ctx, t.across(), limit,
		`oldest_at > 0 AND oldest_at < CAST(? AS BIGINT) - COALESCE((SELECT NULLIF(p.audit_retention_ns, 0) FROM sign_in_policies p WHERE p.tenant_id = audit_chains.tenant_id), CAST(? AS BIGINT))
		 ORDER BY oldest_at, tenant_id`, now, retention)
}

// AuditFrom lists a tenant's entries from a number on, in the order of the chain.
func (t *Tx) AuditFrom(ctx context.Context, tenantID string, seq int64, limit int) ([]AuditEvent, error) {
	return auditLog.list(ctx, t.of(tenantID), limit, "tenant_id = ? AND seq > 0 AND seq >= ? ORDER BY seq", tenantID, seq)
}

// AuditSpan is the lowest and the highest number among the entries of a filter's times; 0
// for none.
func (t *Tx) AuditSpan(ctx context.Context, tenantID string, f AuditFilter) (from, to int64, err error) {
	c := auditConditions(AuditFilter{After: f.After, Before: f.Before, FromID: f.FromID, BelowID: f.BelowID}, Page{})
	v, err := first(ctx, t.of(tenantID), "span of audit", func(v *[2]int64) []any { return []any{&v[0], &v[1]} },
		"SELECT COALESCE(MIN(seq), 0), COALESCE(MAX(seq), 0) FROM audit WHERE tenant_id = ?"+c.text+" AND seq > 0", append([]any{tenantID}, c.args...)...)
	return v[0], v[1], err
}

// InsertAuditHead adds a head, and notes in the chain how far it came.
func (t *Tx) InsertAuditHead(ctx context.Context, v AuditHead) error {
	if err := auditHeads.insert(ctx, t.of(v.TenantID), v); err != nil {
		return err
	}
	return t.of(v.TenantID).change(ctx, "note audit head", "UPDATE audit_chains SET head_seq = ?, head_at = ? WHERE tenant_id = ? AND head_seq <= ?",
		v.Seq, v.At, v.TenantID, v.Seq)
}

// AuditHeads lists a tenant's heads of a span of its chain, in order.
func (t *Tx) AuditHeads(ctx context.Context, tenantID string, from, to int64, limit int) ([]AuditHead, error) {
	return auditHeads.list(ctx, t.of(tenantID), limit, "tenant_id = ? AND seq >= ? AND seq <= ? ORDER BY seq, first_seq", tenantID, from, to)
}

// DeleteAuditBefore deletes a tenant's entries before c.FirstSeq, and the heads that are
// about them, and notes where the chain begins now.
func (t *Tx) DeleteAuditBefore(ctx context.Context, c AuditChain) error {
	if _, err := t.of(c.TenantID).exec(ctx, "delete old audit", "DELETE FROM audit WHERE tenant_id = ? AND seq > 0 AND seq < ?", c.TenantID, c.FirstSeq); err != nil {
		return err
	}
	if _, err := t.of(c.TenantID).exec(ctx, "delete old audit heads", "DELETE FROM audit_heads WHERE tenant_id = ? AND seq < ?", c.TenantID, c.FirstSeq); err != nil {
		return err
	}
	return t.of(c.TenantID).change(ctx, "note where audit begins",
		"UPDATE audit_chains SET first_seq = ?, first_after = ?, oldest_at = ? WHERE tenant_id = ?", c.FirstSeq, c.FirstAfter, c.OldestAt, c.TenantID)
}

// GetAuditKey finds the key of a year.
func (t *Tx) GetAuditKey(ctx context.Context, year int64) (AuditKey, error) {
	return auditKeys.get(ctx, t.common(), "year = ?", year)
}

// InsertAuditKey fails with ErrExists if the year has one.
func (t *Tx) InsertAuditKey(ctx context.Context, v AuditKey) error {
	return auditKeys.insert(ctx, t.common(), v)
}

// ListAuditKeys lists them by year.
func (t *Tx) ListAuditKeys(ctx context.Context) ([]AuditKey, error) {
	return auditKeys.list(ctx, t.common(), pageMax, "year > 0 ORDER BY year")
}
