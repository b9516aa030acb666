package server

import (
	"context"
	"errors"

	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// setHold holds back jobs of a tenant, which its cell learns now and at the end.
func setHold(ctx context.Context, k kit.Kit, tx *store.Tx, h store.Hold) error {
	was, err := tx.GetHold(ctx, h.TenantID, h.Limit)
	if err == nil && was.Dispatch == h.Dispatch && was.Enqueue == h.Enqueue && was.Value == h.Value && was.Until.Equal(h.Until) {
		return nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	h.CreatedAt = k.Now()
	return errors.Join(tx.PutHold(ctx, h), tellCell(ctx, k, tx, h.TenantID))
}

func clearHold(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID, limit string) error {
	_, err := tx.GetHold(ctx, tenantID, limit)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(tx.DeleteHold(ctx, tenantID, limit), tellCell(ctx, k, tx, tenantID))
}

func tellCell(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID string) error {
	now := k.Now()
	return tx.InsertOutbox(ctx, store.Outbox{TenantID: tenantID, ID: k.IDs.New(ids.Outbox, now), Kind: store.OutboxTenant, Subject: tenantID, CreatedAt: now, DueAt: now})
}
