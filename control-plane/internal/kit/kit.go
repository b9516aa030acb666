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
}
