package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	sightingsLease = "sightings"
	// usesPerWrite bounds a transaction: others wait for the writer of SQLite.
	usesPerWrite = 200
)

// sighter asks cells which keys are in use. Its cursors are in memory: whoever has none is told
// everything that the nodes know, which changes nothing that is known already.
type sighter struct {
	*Loop
	cursors map[string]map[string]string // By cell and node.
}

func newSighter(l *Loop) *sighter { return &sighter{l, make(map[string]map[string]string)} }

// take writes what the cells know. One loop at a time does; two do no harm.
func (s *sighter) take(ctx context.Context) error {
	mine, err := s.mine(ctx, sightingsLease, 3*s.o.Sightings)
	if err != nil || !mine {
		return err
	}
	var failed []error
	for name, cell := range s.cells {
		if err := s.takeOf(ctx, name, cell); err != nil {
			failed = append(failed, fmt.Errorf("ask cell %s which keys are in use: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

func (s *sighter) takeOf(ctx context.Context, name string, cell Cell) error {
	for more := true; more; {
		nodes, err := cell.Sightings(ctx, s.cursors[name])
		if err != nil {
			return err
		}
		// A node that is silent is asked from where it was.
		next := make(map[string]string, len(nodes))
		for id, at := range s.cursors[name] {
			next[id] = at
		}
		more = false
		for _, n := range nodes {
			if err := s.writeUses(ctx, n.GetUses()); err != nil {
				return err
			}
			next[n.GetNodeId()] = n.GetCursor()
			more = more || n.GetMore()
		}
		s.cursors[name] = next
	}
	return nil
}

func (s *sighter) writeUses(ctx context.Context, uses []*cellv1.KeyUse) error {
	for len(uses) > 0 {
		part := uses[:min(len(uses), usesPerWrite)]
		err := s.store.Service(ctx, func(tx *store.Tx) error {
			for _, u := range part {
				if err := tx.TouchKey(ctx, u.GetTenantId(), u.GetKeyId(), u.GetDigest(), time.Unix(0, u.GetAtNs()).UTC()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		uses = uses[len(part):]
	}
	return nil
}
