package plans

import (
	"context"
	"time"
)

// Pass is what the loop does, without its lease.
func (s *Service) Pass(ctx context.Context, now time.Time) error { return s.pass(ctx, now) }
