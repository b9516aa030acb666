package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// HeadEvery is how old a chain's last head is when a new one is signed, if it has grown.
	HeadEvery = time.Hour
	// RetentionDefault is how long entries are kept.
	RetentionDefault = 400 * 24 * time.Hour

	// chainsBatch chains are done at a time.
	chainsBatch = 100
	// expireBatch entries are deleted in a transaction.
	expireBatch = 1000
)

// SignHeads signs a head of every chain that has grown since its last one, an hour ago or
// more. What is broken gets none; the error names it, and the others are done all the same.
func (k Keys) SignHeads(ctx context.Context) error {
	var problems []error
	failed := make(map[string]bool)
	for {
		due, err := store.Get(ctx, k.Store.ReadService, func(tx *store.Tx) ([]store.AuditChain, error) {
			return tx.UnsignedAuditChains(ctx, k.Now().Add(-HeadEvery), chainsBatch+len(failed))
		})
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		done := 0
		for _, c := range due {
			if failed[c.TenantID] {
				continue
			}
			if err := k.signHead(ctx, c.TenantID); err != nil {
				failed[c.TenantID] = true
				problems = append(problems, err)
			} else {
				done++
			}
		}
		if done < chainsBatch {
			return errors.Join(problems...)
		}
	}
}

func (k Keys) signHead(ctx context.Context, tenantID string) error {
	c, err := check(ctx, k.Store, tenantID)
	if err == nil {
		err = k.Store.Tenant(ctx, tenantID, func(tx *store.Tx) error { return k.insertHead(ctx, tx, c) })
	}
	if err != nil {
		return fmt.Errorf("sign a head of the audit log of tenant %s: %w", tenantID, err)
	}
	return nil
}

// insertHead writes a head that says c.Seq and c.Hash. Another process may have been
// quicker.
func (k Keys) insertHead(ctx context.Context, tx *store.Tx, c store.AuditChain) error {
	private, err := k.signing(ctx, tx)
	if err != nil {
		return err
	}
	h := auditlog.Head{
		TenantID: c.TenantID, Seq: c.Seq, Hash: c.Hash, FirstSeq: c.FirstSeq, FirstAfter: c.FirstAfter, At: auditlog.Time{Time: k.Now()},
	}
	if err := h.Sign(private); err != nil {
		return err
	}
	err = tx.InsertAuditHead(ctx, store.AuditHead{
		TenantID: h.TenantID, Seq: h.Seq, FirstSeq: h.FirstSeq, Hash: h.Hash, FirstAfter: h.FirstAfter, At: h.At.Time, KeyID: h.KeyID, Signature: h.Signature,
	})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// HeadLine is a head as it is exported.
func HeadLine(h store.AuditHead) auditlog.Head {
	return auditlog.Head{
		Kind: auditlog.KindHead, TenantID: h.TenantID, Seq: h.Seq, Hash: h.Hash, FirstSeq: h.FirstSeq, FirstAfter: h.FirstAfter,
		At: auditlog.Time{Time: h.At}, KeyID: h.KeyID, Signature: h.Signature,
	}
}

// Expire deletes entries that are older than the retention, oldest in the chain first, and
// signs where each chain begins then. An entry that is younger keeps those behind it.
// How long entries are kept is the tenant's to say, else it is retention.
func (k Keys) Expire(ctx context.Context, retention time.Duration) (deleted int, err error) {
	now := k.Now()
	for {
		aged, err := store.Get(ctx, k.Store.ReadService, func(tx *store.Tx) ([]store.AuditChain, error) {
			return tx.AgedAuditChains(ctx, now, retention, chainsBatch)
		})
		n := 0
		for _, c := range aged {
			if err == nil {
				var some int
				some, err = k.expire(ctx, c.TenantID, now, retention)
				n += some
			}
		}
		deleted += n
		if err != nil || n == 0 {
			return deleted, err
		}
	}
}

func (k Keys) expire(ctx context.Context, tenantID string, now time.Time, retention time.Duration) (n int, err error) {
	err = k.Store.Tenant(ctx, tenantID, func(tx *store.Tx) error {
		n = 0
		p, err := tx.GetSignInPolicy(ctx, tenantID)
		if err != nil {
			return err
		}
		before := now.Add(-cmp.Or(p.AuditRetention, retention))
		c, err := tx.GetAuditChain(ctx, tenantID)
		if err != nil {
			return err
		}
		entries, err := tx.AuditFrom(ctx, tenantID, c.FirstSeq, expireBatch+1)
		if err != nil {
			return err
		}
		c.OldestAt = time.Time{}
		for _, e := range entries {
			// Only what a head covers goes, so that the head can say where it ended.
			if n == expireBatch || !e.At.Before(before) || e.Seq > c.HeadSeq {
				c.OldestAt = e.At
				break
			}
			c.FirstSeq, c.FirstAfter = e.Seq+1, e.Hash
			n++
		}
		if n == 0 {
			return nil
		}
		return k.beginAt(ctx, tx, c)
	})
	if err != nil {
		return 0, fmt.Errorf("delete old entries of the audit log of tenant %s: %w", tenantID, err)
	}
	return n, nil
}

// beginAt deletes what is before c.FirstSeq and signs that.
func (k Keys) beginAt(ctx context.Context, tx *store.Tx, c store.AuditChain) error {
	heads, err := tx.AuditHeads(ctx, c.TenantID, c.HeadSeq, c.HeadSeq, 1)
	if err == nil && len(heads) == 0 {
		err = &BrokenError{TenantID: c.TenantID, Seq: c.HeadSeq, Why: "has lost its signed head"}
	}
	if err != nil {
		return err
	}
	if err := tx.DeleteAuditBefore(ctx, c); err != nil {
		return err
	}
	c.Seq, c.Hash = heads[0].Seq, heads[0].Hash
	return k.insertHead(ctx, tx, c)
}
