package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Append writes an entry at the end of its tenant's chain; store.ErrExists if its id is
// there.
func Append(ctx context.Context, tx *store.Tx, e store.AuditEvent) error {
	is, err := tx.HasAudit(ctx, e.TenantID, e.ID)
	if err == nil && is {
		err = store.ErrExists
	}
	if err != nil {
		return fmt.Errorf("audit entry %s: %w", e.ID, err)
	}
	return link(ctx, tx, clean(e), (*store.Tx).InsertAudit)
}

// link gives an entry its place, and writes it.
func link(ctx context.Context, tx *store.Tx, e store.AuditEvent, write func(*store.Tx, context.Context, store.AuditEvent) error) (err error) {
	if e.Seq, e.PrevHash, err = tx.RaiseAuditChain(ctx, e.TenantID, e.At); err != nil {
		return err
	}
	if e.Hash, err = auditlog.HashOf(Line(e)); err != nil {
		return err
	}
	if err := write(tx, ctx, e); err != nil {
		return err
	}
	return tx.EndAuditChain(ctx, e.TenantID, e.Seq, e.Hash)
}

// clean makes the texts of an entry those that the database keeps.
func clean(e store.AuditEvent) store.AuditEvent {
	for _, s := range []*string{&e.ActorType, &e.ActorID, &e.Actor, &e.Action, &e.TargetType, &e.TargetID, &e.Target, &e.RequestID, &e.Peer, &e.UserAgent, &e.NamespaceID, &e.Namespace} {
		*s = store.Clean(*s)
	}
	return e
}

// Line is an entry as it is exported and hashed.
func Line(e store.AuditEvent) auditlog.Entry {
	l := auditlog.Entry{
		Kind: auditlog.KindEntry, TenantID: e.TenantID, Seq: e.Seq, ID: e.ID, At: auditlog.Time{Time: e.At},
		ActorType: e.ActorType, ActorID: e.ActorID, Actor: e.Actor, Action: e.Action,
		TargetType: e.TargetType, TargetID: e.TargetID, Target: e.Target, NamespaceID: e.NamespaceID, Namespace: e.Namespace,
		RequestID: e.RequestID, Peer: e.Peer, UserAgent: e.UserAgent, PrevHash: e.PrevHash, Hash: e.Hash,
	}
	if len(e.Changes) > 0 {
		l.Changes = make(map[string]auditlog.Change, len(e.Changes))
	}
	for field, c := range e.Changes {
		l.Changes[field] = auditlog.Change(c)
	}
	return l
}

// chainBatch entries go into a transaction.
const chainBatch = 500

// Chain puts every entry that is in no chain into that of its tenant, and counts them. It
// can be interrupted anywhere and run again, and beside others.
func Chain(ctx context.Context, s store.Store) (chained int, err error) {
	for {
		n := 0
		err := s.Service(ctx, func(tx *store.Tx) error {
			entries, err := tx.UnchainedAudit(ctx, chainBatch)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if err := link(ctx, tx, e, (*store.Tx).ChainAudit); err != nil {
					return err
				}
			}
			n = len(entries)
			return nil
		})
		chained += n
		if err != nil {
			return chained, fmt.Errorf("chain the audit log: %w", err)
		}
		if n < chainBatch {
			return chained, nil
		}
	}
}

// BrokenError says that an entry in the database is not what was written.
type BrokenError struct {
	TenantID, ID string
	Seq          int64
	Why          string
}

// Error implements error.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("the audit log of tenant %s was changed in the database: entry %d %s", e.TenantID, e.Seq, e.Why)
}

// readBatch entries are read at a time.
const readBatch = 500

// check hashes the entries after a head again, up to the end of the chain as it is now.
func check(ctx context.Context, s store.Store, tenantID string) (c store.AuditChain, err error) {
	err = s.ReadTenant(ctx, tenantID, func(tx *store.Tx) error {
		if c, err = tx.GetAuditChain(ctx, tenantID); err != nil {
			return err
		}
		seq, hash, err := lastHead(ctx, tx, c)
		for err == nil && seq < c.Seq {
			seq, hash, err = checkPage(ctx, tx, c, seq, hash)
		}
		if err == nil && hash != c.Hash {
			err = &BrokenError{TenantID: tenantID, Seq: seq, Why: "isn't the last one that was written"}
		}
		return err
	})
	return c, err
}

// lastHead is up to where the chain was checked before.
func lastHead(ctx context.Context, tx *store.Tx, c store.AuditChain) (seq int64, hash string, err error) {
	if c.HeadSeq < c.FirstSeq {
		return c.FirstSeq - 1, c.FirstAfter, nil
	}
	heads, err := tx.AuditHeads(ctx, c.TenantID, c.HeadSeq, c.HeadSeq, 1)
	if err == nil && len(heads) == 0 {
		err = &BrokenError{TenantID: c.TenantID, Seq: c.HeadSeq, Why: "has lost its signed head"}
	}
	if err != nil {
		return 0, "", err
	}
	return heads[0].Seq, heads[0].Hash, nil
}

func checkPage(ctx context.Context, tx *store.Tx, c store.AuditChain, seq int64, hash string) (int64, string, error) {
	entries, err := tx.AuditFrom(ctx, c.TenantID, seq+1, readBatch)
	if err != nil {
		return 0, "", err
	}
	if len(entries) == 0 {
		return 0, "", &BrokenError{TenantID: c.TenantID, Seq: seq + 1, Why: "is missing"}
	}
	for _, e := range entries {
		want, err := auditlog.HashOf(Line(e))
		broken := &BrokenError{TenantID: c.TenantID, ID: e.ID, Seq: seq + 1}
		switch {
		case err != nil:
			return 0, "", err
		case e.Seq != seq+1:
			broken.Why = "is missing"
			return 0, "", broken
		case want != e.Hash:
			broken.Why = "doesn't match its hash"
			return 0, "", broken
		case e.PrevHash != hash:
			broken.Why = "doesn't follow the entry before"
			return 0, "", broken
		}
		seq, hash = e.Seq, e.Hash
	}
	return seq, hash, nil
}

// IsBroken reports whether an error is a *BrokenError.
func IsBroken(err error) bool {
	var broken *BrokenError
	return errors.As(err, &broken)
}
