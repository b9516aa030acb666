package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/masterkey"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/control-plane/internal/tokenkeys"
)

// Maintenance is what a command needs that works on the database of control planes while
// they run.
type Maintenance struct {
	// Database, MasterKeys and AllowSuperuser are those of Config.
	Database       string
	MasterKeys     [][]byte
	AllowSuperuser bool
	Logger         *slog.Logger
	// By is who runs the command, for the operators' log.
	By string
}

func (m Maintenance) open(ctx context.Context) (store.Store, *seal.Box, error) {
	box, err := seal.New(m.MasterKeys...)
	if err != nil {
		return nil, nil, err
	}
	s, err := m.database(ctx)
	return s, box, err
}

func (m Maintenance) database(ctx context.Context) (store.Store, error) {
	return store.Open(ctx, m.Database, store.Options{Log: m.Logger, AllowSuperuser: m.AllowSuperuser, Beside: true})
}

// TokenKeyRotation is what RotateTokenKeys did. Carried: every proxy refuses tokens of before.
type TokenKeyRotation struct {
	Old     []string `json:"old_key_ids"`
	New     []string `json:"new_key_ids"`
	Carried bool     `json:"carried"`
}

// RotateTokenKeys replaces the keys that sign browsers' tokens, and waits up to patience for
// a running control plane to carry that to the cells. If none does, the next one will.
func RotateTokenKeys(ctx context.Context, m Maintenance, patience time.Duration) (r TokenKeyRotation, err error) {
	s, box, err := m.open(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	keys := tokenkeys.Keys{Store: s, Seal: box, Now: time.Now, Calendar: func(context.Context) time.Time { return time.Now() }}
	done, err := store.Get(ctx, s.Service, func(tx *store.Tx) (tokenkeys.Rotation, error) { return keys.Rotate(ctx, tx) })
	if err != nil {
		return r, fmt.Errorf("rotate token keys: %w", err)
	}
	r.Old, r.New = append([]string{}, done.Old...), append([]string{}, done.New...)
	r.Carried = carried(ctx, s, "", patience, func(tx *store.Tx) (bool, error) { return keys.Carried(ctx, tx) })
	return r, nil // The rotation stands, carried or not.
}

// carried waits until a running control plane has told the cells of a change to records of
// a tenant, or of none.
func carried(ctx context.Context, s store.Store, tenantID string, patience time.Duration, seen func(*store.Tx) (bool, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	loop := reconcile.New(s, nil, nil, reconcile.Options{})
	watching.Go(func() { loop.Watch(ctx) })
	is, err := loop.Await(ctx, tenantID, seen)
	return err == nil && is
}

// ErrNoTenant: there is no tenant of this name.
var ErrNoTenant = errors.New("there is no such tenant")

// TenantDeletion is what DeleteTenant did. Carried: the tenant's cell has ended it.
type TenantDeletion struct {
	Tenant   string `json:"tenant"`
	TenantID string `json:"tenant_id"`
	Carried  bool   `json:"carried"`
}

// DeleteTenant deletes a tenant, and waits up to patience for a running control plane to tell
// its cell. If none does, the next one will.
func DeleteTenant(ctx context.Context, m Maintenance, tenant string, patience time.Duration) (TenantDeletion, error) {
	t, carried, err := m.changeTenant(ctx, tenant, patience, tenancy.DeleteTenant)
	r := TenantDeletion{Tenant: tenant, TenantID: t.ID, Carried: carried}
	if err != nil {
		return r, fmt.Errorf("delete %s: %w", tenant, err)
	}
	return r, nil // It is deleted, carried or not.
}

// changeTenant changes a living tenant, and waits until its cell has been told.
func (m Maintenance) changeTenant(ctx context.Context, name string, patience time.Duration,
	do func(context.Context, kit.Kit, *store.Tx, *store.Tenant) error) (t store.Tenant, told bool, err error) {
	s, err := m.database(ctx)
	if err != nil {
		return t, false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.Service(ctx, func(tx *store.Tx) (err error) {
		if t, err = tx.GetTenantByName(ctx, name); err != nil {
			return err
		}
		// No request: the audit log says that the system did it.
		ctx := access.With(ctx, access.Caller{TenantID: t.ID, Tenant: t.Name})
		return do(ctx, onHost(), tx, &t)
	})
	if errors.Is(err, store.ErrNotFound) {
		return t, false, fmt.Errorf("%w: %q", ErrNoTenant, name)
	}
	if err != nil {
		return t, false, err
	}
	return t, carried(ctx, s, t.ID, patience, func(tx *store.Tx) (bool, error) {
		now, err := tx.FindTenant(ctx, t.ID)
		return now.Observed >= t.Generation, err
	}), nil
}

// ResealReport is what Reseal did and what is left.
type ResealReport = masterkey.Report

// MasterKeyInUseError refuses Reseal: a running control plane seals with another key.
type MasterKeyInUseError = masterkey.InUseError

// Reseal seals everything in the database under the first master key. progress is told
// how many rows each transaction changed.
func Reseal(ctx context.Context, m Maintenance, progress func(rows int)) (r ResealReport, err error) {
	s, box, err := m.open(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return masterkey.Change{Store: s, Seal: box, Now: time.Now, Done: progress}.Run(ctx)
}

// beat tells now and then which master key this process seals with.
func (s *Server) beat(ctx context.Context) {
	tick := time.NewTicker(masterkey.ReportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := masterkey.ReportKey(ctx, s.kit.Store, s.kit.Seal, s.kit.Now()); err != nil && ctx.Err() == nil {
			s.kit.Log.WarnContext(ctx, "can't renew this control plane's lease", "error", err)
		}
	}
}
