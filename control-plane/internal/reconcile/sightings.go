package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

const (
	// sightingsLease and a cell's name are the lease on asking it.
	sightingsLease = "sightings/"
	// sightingsPerWrite bounds a transaction: others wait for the writer of SQLite.
	sightingsPerWrite = 200
)

// sighter asks a cell which keys are in use and who was refused. Its cursors are in memory: whoever has none is told
// everything that the nodes know, which changes nothing that is known already.
type sighter struct {
	*Loop
	name    string
	cell    Cell
	cursors map[string]string // By node.
}

func newSighter(l *Loop, name string, cell Cell) *sighter {
	return &sighter{Loop: l, name: name, cell: cell}
}

// take writes what the cell knows. One loop at a time does; two do no harm.
func (s *sighter) take(ctx context.Context) error {
	mine, err := s.mine(ctx, sightingsLease+s.name, 3*s.o.Sightings)
	if err != nil || !mine {
		return err
	}
	if err := s.takeAll(ctx); err != nil {
		return fmt.Errorf("ask cell %s what its proxies and nodes saw: %w", s.name, err)
	}
	return nil
}

func (s *sighter) takeAll(ctx context.Context) error {
	for more := true; more; {
		nodes, err := s.cell.Sightings(ctx, s.cursors)
		if err != nil {
			return err
		}
		// A node that is silent is asked from where it was.
		next := make(map[string]string, len(nodes))
		for id, at := range s.cursors {
			next[id] = at
		}
		more = false
		for _, n := range nodes {
			if err := errors.Join(inParts(ctx, s, n.GetUses(), writeUse), inParts(ctx, s, n.GetRefusals(), writeRefusal)); err != nil {
				return err
			}
			next[n.GetNodeId()] = n.GetCursor()
			more = more || n.GetMore()
		}
		s.cursors = next
	}
	return nil
}

// inParts writes sightings, some in a transaction.
func inParts[T any](ctx context.Context, s *sighter, all []T, write func(context.Context, *store.Tx, T) error) error {
	for part := range slices.Chunk(all, sightingsPerWrite) {
		err := s.store.Service(ctx, func(tx *store.Tx) error {
			for _, one := range part {
				if err := write(ctx, tx, one); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeUse(ctx context.Context, tx *store.Tx, u *cellv1.KeyUse) error {
	return tx.TouchKey(ctx, u.GetTenantId(), u.GetKeyId(), u.GetDigest(), time.Unix(0, u.GetAtNs()).UTC())
}

// writeRefusal writes a refusal into the log of its tenant. Its id is derived from the
// sighting's, so that what is told again, or by another node, is the same row. Of a tenant,
// namespace, key or person that is gone nothing is written.
func writeRefusal(ctx context.Context, tx *store.Tx, r *cellv1.Refusal) error {
	row, err := refusalRow(ctx, tx, r)
	if err == nil {
		err = audit.Append(ctx, tx, row)
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

func refusalRow(ctx context.Context, tx *store.Tx, r *cellv1.Refusal) (row store.AuditEvent, err error) {
	t, err := tx.GetTenant(ctx, r.GetTenantId())
	if err != nil {
		return row, err
	}
	at := time.Unix(0, r.GetSinceNs()).UTC()
	row = store.AuditEvent{
		TenantID: t.ID, At: at, ID: ids.Derived(ids.Audit, at, "refusal", r.GetId()), Peer: r.GetPeer(),
		Action: refusals.Access, TargetType: "tenant", TargetID: t.ID, Target: t.Name,
		Changes: refusals.Fields("reason", r.GetReason(), int(r.GetTimes()), at),
	}
	if p := r.GetPermission(); p != "" {
		row.Changes = refusals.Fields("permission", p, int(r.GetTimes()), at)
	}
	if err := namePlace(ctx, tx, &row, r); err != nil {
		return row, err
	}
	return row, nameRefused(ctx, tx, &row, r)
}

// namePlace says where something was refused, if it was in a namespace.
func namePlace(ctx context.Context, tx *store.Tx, row *store.AuditEvent, r *cellv1.Refusal) error {
	if r.GetNamespaceId() == "" {
		return nil
	}
	ns, err := tx.GetNamespace(ctx, row.TenantID, r.GetNamespaceId())
	if err != nil {
		return err
	}
	row.NamespaceID, row.Namespace = ns.ID, ns.Name
	row.TargetType, row.TargetID, row.Target = "namespace", ns.ID, ns.Name
	if r.GetQueue() != "" {
		name := apikey.Redact(r.GetQueue())
		row.TargetType, row.TargetID, row.Target = "queue", name, name
	}
	return nil
}

// nameRefused says who was refused. Whoever showed a key that isn't good is nobody known.
func nameRefused(ctx context.Context, tx *store.Tx, row *store.AuditEvent, r *cellv1.Refusal) error {
	if principal := r.GetPrincipal(); principal != "" {
		if err := isThere(ctx, tx, row.TenantID, principal); err != nil {
			return err
		}
		return nameActor(ctx, tx, row, principal)
	}
	row.Action, row.ActorType, row.Actor = refusals.SignIn, "public", r.GetPeer()
	if r.GetKeyId() == "" {
		return nil
	}
	k, err := tx.GetKey(ctx, row.TenantID, r.GetKeyId())
	row.TargetType, row.TargetID, row.Target = "key", k.ID, apikey.Redact(k.Name)
	return err
}

// isThere is store.ErrNotFound for a key or user that the tenant doesn't have.
func isThere(ctx context.Context, tx *store.Tx, tenantID, principal string) (err error) {
	if user, isUser := strings.CutPrefix(principal, identity.UserPrefix); isUser {
		_, err = tx.GetUser(ctx, user)
		return err
	}
	_, err = tx.GetKey(ctx, tenantID, principal)
	return err
}
