// Package kit is what every use case of the control plane is built of: the store, a clock,
// ids, the box that seals, addresses, a log, and the way to wake the background loops.
//
// It must not know a use case. Surprising: it is passed by value, so that a test changes
// its own.
package kit

import (
	"context"
	"log/slog"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/urls"
)

// Kit is what a use case needs. All fields are set.
type Kit struct {
	Store store.Store
	IDs   *ids.Maker
	Now   func() time.Time
	Log   *slog.Logger
	Seal  *seal.Box
	URLs  urls.URLs
	// Wake tells the background loops, after a commit, that it left work for them; it does
	// not block.
	Wake func()
	// Await waits until seen reports true of a tenant's records, or ctx ends: false. It
	// does not poll: the loops report when they have recorded something.
	Await func(ctx context.Context, tenantID string, seen func(*store.Tx) (bool, error)) (bool, error)
	// CollectActs waits a moment until the audit logs have what was done so far to queues and
	// jobs, which the cells record.
	CollectActs func(ctx context.Context)
}

// Read reads something of the caller's tenant.
func Read[T any](ctx context.Context, k Kit, f func(*store.Tx) (T, error)) (v T, _ error) {
	err := k.Store.ReadTenant(ctx, access.From(ctx).TenantID, func(tx *store.Tx) (err error) {
		v, err = f(tx)
		return err
	})
	return v, err
}

// Write changes something of the caller's tenant, and wakes the background loops for what
// that left them.
func (k Kit) Write(ctx context.Context, f func(*store.Tx) error) error {
	err := k.Store.Tenant(ctx, access.From(ctx).TenantID, f)
	if err == nil {
		k.Wake()
	}
	return err
}
