package tenancy

import (
	"context"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// KeysReady waits until every proxy has the newest generation of the keys; false if ctx
// ends before.
func (s *Service) KeysReady(ctx context.Context, tenantID string, keyIDs ...string) bool {
	s.Wake()
	ready, err := s.Await(ctx, tenantID, func(tx *store.Tx) (bool, error) {
		for _, id := range keyIDs {
			k, err := tx.GetKey(ctx, tenantID, id)
			if err != nil || k.Observed < k.Generation {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		s.Log.WarnContext(ctx, "wait for keys", "tenant", tenantID, "error", err)
	}
	return ready
}
