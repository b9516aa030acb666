package mail

import (
	"context"
	"slices"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// readersMax members of a tenant get an email about its billing.
const readersMax = 10

// BillingReaders are who gets emails about a tenant's invoices and limits: owners, members
// with the billing role, and whom the tenant named. Each address is there once.
func BillingReaders(ctx context.Context, tx *store.Tx, tenantID string) (out []string, _ error) {
	members, err := tx.ReachableHolders(ctx, tenantID, readersMax, store.RoleOwner, store.RoleBilling)
	if err != nil {
		return nil, err
	}
	contacts, err := tx.GetBillingContacts(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		out = append(out, m.Email)
	}
	for _, email := range contacts.Emails {
		if !slices.Contains(out, email) {
			out = append(out, email)
		}
	}
	return out, nil
}
