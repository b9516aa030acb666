package mail

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Put writes an email into the outbox, in the transaction of what caused it. tenantID is
// empty before there is one; subject is the id of the record that the email is about.
func Put(ctx context.Context, k kit.Kit, tx *store.Tx, tenantID, subject string, m Message) error {
	row, err := newRow(k.Seal, m)
	if err != nil {
		return fmt.Errorf("queue email about %s: %w", subject, err)
	}
	now := k.Now()
	row.TenantID, row.ID, row.Subject = tenantID, k.IDs.New(ids.Outbox, now), subject
	row.CreatedAt, row.DueAt = now, now
	if err := tx.InsertOutbox(ctx, row); err != nil {
		return fmt.Errorf("queue email about %s: %w", subject, err)
	}
	return nil
}

func newRow(box *seal.Box, m Message) (store.Outbox, error) {
	plain, err := json.Marshal(m)
	if err != nil {
		return store.Outbox{}, err
	}
	sealed, err := box.Seal(seal.Email, plain)
	return store.Outbox{Kind: store.OutboxMail, Payload: sealed}, err
}

// Take reads the email of an outbox row.
func Take(box *seal.Box, row store.Outbox) (Message, error) {
	plain, err := box.Open(seal.Email, row.Payload)
	if err != nil {
		return Message{}, fmt.Errorf("take email %s: %w", row.ID, err)
	}
	var m Message
	if err := json.Unmarshal(plain, &m); err != nil {
		return Message{}, fmt.Errorf("take email %s: %w", row.ID, err)
	}
	return m, nil
}
