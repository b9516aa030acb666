package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// headsMax is more hourly heads than two years have.
const headsMax = 20_000

// Span is what an export has of a chain: entries From to To, none if To is less.
type Span struct{ From, To int64 }

// Begin is the lines of an export before its entries: which entries, the keys, the heads. All
// of them are from one snapshot, so that they agree.
func (k Keys) Begin(ctx context.Context, tenantID, tenant string, f store.AuditFilter) (lines []string, _ Span, _ error) {
	private, err := k.private(ctx)
	if err != nil {
		return nil, Span{}, err
	}
	x := auditlog.Export{TenantID: tenantID, Tenant: tenant, At: auditlog.Time{Time: k.Now()}, After: timeLine(f.After), Before: timeLine(f.Before)}
	var rest []any
	err = k.Store.ReadTenant(ctx, tenantID, func(tx *store.Tx) error {
		if rest, err = begin(ctx, tx, &x, f); err != nil {
			return err
		}
		return x.Sign(private)
	})
	for _, l := range append([]any{x}, rest...) {
		if err == nil {
			var line string
			line, err = auditlog.Line(l)
			lines = append(lines, line)
		}
	}
	return lines, Span{x.From, x.To}, err
}

// begin fills in the first line and gives those of the keys and heads.
func begin(ctx context.Context, tx *store.Tx, x *auditlog.Export, f store.AuditFilter) (lines []any, _ error) {
	c, err := tx.GetAuditChain(ctx, x.TenantID)
	if errors.Is(err, store.ErrNotFound) {
		c, err = store.AuditChain{TenantID: x.TenantID, FirstSeq: 1}, nil
	}
	if err != nil {
		return nil, err
	}
	x.FirstSeq, x.FirstAfter = c.FirstSeq, c.FirstAfter
	if err := bound(ctx, tx, x, c, f); err != nil {
		return nil, err
	}
	keys, err := Public(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		lines = append(lines, key)
	}
	heads, err := tx.AuditHeads(ctx, x.TenantID, x.From, x.To, headsMax)
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		lines = append(lines, HeadLine(h))
	}
	x.Heads = len(heads)
	return lines, nil
}

func timeLine(t time.Time) *auditlog.Time {
	if t.IsZero() {
		return nil
	}
	return &auditlog.Time{Time: t}
}

// bound says which part of a chain an export has.
func bound(ctx context.Context, tx *store.Tx, x *auditlog.Export, c store.AuditChain, f store.AuditFilter) (err error) {
	x.From, x.AfterHash, x.To, x.Hash = c.FirstSeq, c.FirstAfter, c.Seq, c.Hash
	if f.After.IsZero() && f.Before.IsZero() {
		return nil
	}
	from, to, err := tx.AuditSpan(ctx, c.TenantID, f)
	if err != nil {
		return err
	}
	if from == 0 { // None: what is behind the end.
		x.From, x.AfterHash = c.Seq+1, c.Hash
		return nil
	}
	first, err := entry(ctx, tx, c.TenantID, from)
	if err != nil {
		return err
	}
	last, err := entry(ctx, tx, c.TenantID, to)
	x.From, x.AfterHash, x.To, x.Hash = first.Seq, first.PrevHash, last.Seq, last.Hash
	return err
}

func entry(ctx context.Context, tx *store.Tx, tenantID string, seq int64) (store.AuditEvent, error) {
	found, err := tx.AuditFrom(ctx, tenantID, seq, 1)
	if err == nil && (len(found) == 0 || found[0].Seq != seq) {
		err = &BrokenError{TenantID: tenantID, Seq: seq, Why: "is missing"}
	}
	if err != nil {
		return store.AuditEvent{}, err
	}
	return found[0], nil
}

// ErrGone: entries of an export that is under way were deleted at the end of their retention.
var ErrGone = errors.New("entries were deleted at the end of their retention while they were exported")

// Entries reads up to limit entries of a span, and gives what is left of it.
func Entries(ctx context.Context, tx *store.Tx, tenantID string, s Span, limit int) (entries []store.AuditEvent, rest Span, err error) {
	if s.From > s.To {
		return nil, s, nil
	}
	entries, err = tx.AuditFrom(ctx, tenantID, s.From, min(limit, int(s.To-s.From+1)))
	if err == nil && (len(entries) == 0 || entries[0].Seq != s.From) {
		err = ErrGone
	}
	if err != nil {
		return nil, s, err
	}
	return entries, Span{entries[len(entries)-1].Seq + 1, s.To}, nil
}

// private is the key that signs now.
func (k Keys) private(ctx context.Context) (ed25519.PrivateKey, error) {
	year := int64(k.Now().UTC().Year())
	private, err := store.Get(ctx, k.Store.ReadService, func(tx *store.Tx) (ed25519.PrivateKey, error) { return k.open(ctx, tx, year) })
	if errors.Is(err, store.ErrNotFound) {
		return store.Get(ctx, k.Store.Service, func(tx *store.Tx) (ed25519.PrivateKey, error) { return k.signing(ctx, tx) })
	}
	return private, err
}
