package tenancy

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// KeysReady waits until every proxy goes by the newest generation of the keys; false if
// that did not happen before ctx ended.
func (s *Service) KeysReady(ctx context.Context, tenantID string, keyIDs ...string) bool {
	s.Wake()
	tick := time.NewTicker(observePoll)
	defer tick.Stop()
	for {
		ready := true
		err := s.Store.ReadTenant(ctx, tenantID, func(tx store.Tx) error {
			ready = true
			for _, id := range keyIDs {
				k, err := tx.GetKey(ctx, tenantID, id)
				if err != nil {
					return err
				}
				ready = ready && k.Observed >= k.Generation
			}
			return nil
		})
		if err == nil && ready {
			return true
		}
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "wait for keys", "tenant", tenantID, "error", err)
			return false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}
