package tenancy

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tokenkeys"
)

// Service is the use cases. All fields are needed.
type Service struct {
	kit.Kit
	Keys tokenkeys.Keys
	// CellNow is the time of a cell, which need not be Now: it judges what it is given by
	// its own.
	CellNow func(ctx context.Context, cell string) time.Time
	// ObserveWait is how long a call waits for its change to be usable.
	ObserveWait time.Duration
	Version     string
}

// ObserveWaitDefault is long enough for a healthy cell and short enough for a person.
const ObserveWaitDefault = 5 * time.Second

// awaited waits until seen reports true, the wait is over, or ctx ends. Not seen in time
// is no error: the answer then says pending.
func (s *Service) awaited(ctx context.Context, seen func(*store.Tx) (bool, error)) error {
	s.Wake()
	ctx, cancel := context.WithTimeout(ctx, s.ObserveWait)
	defer cancel()
	_, err := s.Await(ctx, access.From(ctx).TenantID, seen)
	return err
}

// cellNow is the time of the caller's cell.
func (s *Service) cellNow(ctx context.Context) (time.Time, error) {
	t, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.Tenant, error) { return findTenant(ctx, tx) })
	if err != nil {
		return time.Time{}, err
	}
	return s.CellNow(ctx, t.Cell), nil
}

// findTenant finds the caller's tenant.
func findTenant(ctx context.Context, tx *store.Tx) (store.Tenant, error) {
	t, err := tx.GetTenant(ctx, access.From(ctx).TenantID)
	return t, missing(err, "tenant")
}

// missing turns the store's word for what is not there into the one answer for it.
func missing(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fault.Missing(what)
	}
	return err
}

// gone reports whether err says that something is not there.
func gone(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Code == fault.NotFound
}

// syncOf is how far a change is on its way to the cell.
func syncOf(generation, observed int64, ended bool) cloudv1.Sync {
	switch {
	case observed >= generation:
		return cloudv1.Sync_SYNC_READY
	case ended:
		return cloudv1.Sync_SYNC_DELETING
	}
	return cloudv1.Sync_SYNC_PENDING
}

// stamp is a time on the wire; the zero time is none.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// ended reports whether at has passed; a zero at never does.
func ended(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }
