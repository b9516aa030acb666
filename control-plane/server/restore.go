package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// RestoreReport is what was done after a database was restored from an older copy.
type RestoreReport struct {
	DryRun      bool           `json:"dry_run"`
	Incarnation string         `json:"incarnation"`
	Ended       map[string]int `json:"ended"`
	Items       []RestoreItem  `json:"items"`
}

// RestoreItem is one thing that the cell knew otherwise than the database.
type RestoreItem struct {
	Action   string `json:"action"` // adopted, updated or revoked
	Kind     string `json:"kind"`   // tenant, namespace or key
	TenantID string `json:"tenant_id"`
	ID       string `json:"id"`
	Name     string `json:"name"`
	Why      string `json:"why"`
}

// errDryRun takes back what a dry run wrote.
var errDryRun = errors.New("dry run")

// AfterRestore makes a database that was restored from an older copy the one that its
// cells go by: a new incarnation, no sign-in of before, and what only the cells know
// adopted, or revoked where nobody would own it. Nothing else may run on the database. A dry
// run writes nothing, and may run beside a control plane.
func AfterRestore(ctx context.Context, c Config, dryRun bool) (_ RestoreReport, err error) {
	s, err := openRestored(ctx, c, dryRun)
	if err != nil {
		return RestoreReport{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	wait := s.followClocks(ctx)
	defer wait()
	defer cancel()
	fresh, _ := seal.NewToken("inc_")
	r := &restore{s: s, now: s.kit.Now(), known: make([]celladmin.Control, len(s.cells)), report: RestoreReport{DryRun: dryRun, Incarnation: fresh[:20], Items: []RestoreItem{}}}
	known := r.known
	states := make([]*cellv1.State, len(s.cells))
	for i, cell := range s.cells {
		if known[i], err = cell.Control(ctx); err == nil {
			states[i], err = cell.State(ctx)
		}
		if err != nil {
			return r.report, fmt.Errorf("ask cell %s what it knows: %w", c.Cells[i].Name, err)
		}
		r.generation = max(r.generation, known[i].Generation)
	}
	err = s.kit.Store.Service(ctx, func(tx *store.Tx) error {
		r.report.Items = r.report.Items[:0]
		if err := r.write(ctx, tx, states); err != nil {
			return err
		}
		if dryRun {
			return errDryRun
		}
		return nil
	})
	if dryRun && errors.Is(err, errDryRun) {
		return r.report, nil
	}
	for i, cell := range s.cells {
		if err != nil {
			break
		}
		w := celladmin.Writer{Source: "control/incarnation", Generation: r.generation, Incarnation: r.report.Incarnation, Replaces: known[i].Incarnation}
		if _, err = cell.ApplyFor(ctx, w); err != nil {
			err = fmt.Errorf("tell cell %s its new incarnation (run this again): %w", c.Cells[i].Name, err)
		}
	}
	return r.report, err
}

func openRestored(ctx context.Context, c Config, dryRun bool) (*Server, error) {
	if !dryRun {
		return New(ctx, c)
	}
	s, err := look(ctx, c)
	if errors.Is(err, store.ErrSchema) {
		return nil, fmt.Errorf("a dry run changes no schema; without --dry-run it is brought up to date first: %w", err)
	}
	return s, err
}

// restore is one AfterRestore under way.
type restore struct {
	s          *Server
	now        time.Time
	generation uint64
	known      []celladmin.Control // By cell.
	report     RestoreReport
}

func (r *restore) write(ctx context.Context, tx *store.Tx, states []*cellv1.State) (err error) {
	drawn, err := reconcile.Generation(ctx, tx)
	if err != nil {
		return err
	}
	r.generation = max(r.generation, drawn) + 1
	if err := reconcile.SetGeneration(ctx, tx, r.generation, r.now); err != nil {
		return err
	}
	if err := tx.PutSetting(ctx, reconcile.IncarnationSetting, r.report.Incarnation, r.now); err != nil {
		return err
	}
	if r.report.Ended, err = tx.EndSignIns(ctx); err != nil {
		return err
	}
	rotated, err := r.s.keys.Rotate(ctx, tx)
	if err != nil {
		return err
	}
	r.report.Ended["token_signing_keys"] = len(rotated.Old)
	for i, state := range states {
		if err := r.adopt(ctx, tx, r.s.config.Cells[i].Name, state); err != nil {
			return err
		}
		// Else the copy has seen every deletion that the cell has forgotten.
		if drawn < r.known[i].Forgotten {
			if err := r.endForgotten(ctx, tx, r.s.config.Cells[i].Name, state); err != nil {
				return err
			}
		}
	}
	return r.audit(ctx, tx)
}

// audit tells every living tenant that its sign-ins ended, and the tenant of each item
// what became of it.
func (r *restore) audit(ctx context.Context, tx *store.Tx) error {
	for t, err := range tx.AllTenants(ctx) {
		if err == nil && t.DeletedAt.IsZero() {
			err = change.Make(ctx, r.s.kit, tx, "tenant.restore", change.AuditOnly(change.Target{Type: "tenant", ID: t.ID, Name: t.Name, TenantID: t.ID}),
				change.Fields{"sessions": {After: "ended"}, "invitations": {After: "ended"}})
		}
		if err != nil {
			return err
		}
	}
	for _, i := range r.report.Items {
		err := change.Make(ctx, r.s.kit, tx, i.Kind+".restore", change.AuditOnly(change.Target{Type: i.Kind, ID: i.ID, Name: i.Name, TenantID: i.TenantID}),
			change.Fields{"restore": {After: i.Action}, "reason": {After: i.Why}})
		if err != nil {
			return err
		}
	}
	return nil
}

const whyForgotten = "the cell deleted it long ago"

// endForgotten ends what the copy has as living and its cell went by once, but knows
// nothing of: it was deleted since, and the record of that has ended, too. The cell would
// take it for new.
func (r *restore) endForgotten(ctx context.Context, tx *store.Tx, cell string, state *cellv1.State) error {
	known := make(map[string]bool)
	for _, t := range state.GetTenants() {
		known[t.GetId()] = true
	}
	for _, n := range state.GetNamespaces() {
		known[n.GetId()] = true
	}
	for _, k := range state.GetKeys() {
		known[k.GetId()] = true
	}
	for t, err := range tx.AllTenants(ctx) {
		switch {
		case err != nil:
			return err
		case t.Cell != cell || !t.DeletedAt.IsZero():
			continue
		case t.Observed == 0 || known[t.ID]:
			err = r.endForgottenOf(ctx, tx, t.ID, known)
		default:
			t.DeletedAt, t.UpdatedAt = r.now, r.now
			t.Generation++
			r.note("updated", "tenant", t.ID, t.ID, t.Name, whyForgotten)
			err = tx.UpdateTenant(ctx, &t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *restore) endForgottenOf(ctx context.Context, tx *store.Tx, tenant string, known map[string]bool) error {
	for n, err := range tx.AllNamespaces(ctx, tenant) {
		if err == nil && n.Observed > 0 && !known[n.ID] {
			n.DeletedAt, n.UpdatedAt = r.now, r.now
			n.Generation++
			r.note("updated", "namespace", n.TenantID, n.ID, n.Name, whyForgotten)
			err = tx.UpdateNamespace(ctx, &n)
		}
		if err != nil {
			return err
		}
	}
	for k, err := range tx.AllKeys(ctx, tenant, false) {
		if err == nil && k.Observed > 0 && !known[k.ID] {
			k.RevokedAt, k.UpdatedAt = r.now, r.now
			k.Generation++
			r.note("revoked", "key", k.TenantID, k.ID, k.Name, whyForgotten)
			err = tx.UpdateKey(ctx, &k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *restore) note(action, kind, tenant, id, name, why string) {
	r.report.Items = append(r.report.Items, RestoreItem{action, kind, tenant, id, name, why})
}

func (r *restore) adopt(ctx context.Context, tx *store.Tx, cell string, state *cellv1.State) error {
	unowned := make(map[string]bool) // Tenants that nobody is a member of.
	gone := make(map[string]bool)    // Ended, and not in the database: nothing of theirs is of use.
	for _, t := range inOrderOfEnd(state.GetTenants()) {
		added, known, err := r.tenant(ctx, tx, cell, t)
		if err != nil {
			return fmt.Errorf("tenant %s: %w", t.GetId(), err)
		}
		unowned[t.GetId()], gone[t.GetId()] = added, !known
	}
	namespaces := slices.DeleteFunc(inOrderOfEnd(state.GetNamespaces()), func(n *cellv1.Namespace) bool { return gone[n.GetTenantId()] })
	for _, n := range namespaces {
		if err := r.freeName(ctx, tx, n); err != nil {
			return fmt.Errorf("namespace %s: %w", n.GetId(), err)
		}
	}
	for _, n := range namespaces {
		if err := r.namespace(ctx, tx, n); err != nil {
			return fmt.Errorf("namespace %s: %w", n.GetId(), err)
		}
	}
	for _, k := range state.GetKeys() {
		if gone[k.GetTenantId()] {
			continue
		}
		if err := r.key(ctx, tx, k, unowned[k.GetTenantId()]); err != nil {
			return fmt.Errorf("key %s: %w", k.GetId(), err)
		}
	}
	return nil
}

// inOrderOfEnd puts what ended first: its names are free for the others.
func inOrderOfEnd[T interface{ GetDeleted() bool }](list []T) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int {
		switch {
		case a.GetDeleted() == b.GetDeleted():
			return 0
		case a.GetDeleted():
			return -1
		}
		return 1
	})
	return list
}

// otherName is for what has a name in the cell that something else has in the copy.
func otherName(name, id string) string {
	return cut(name, otherNameMax) + "-" + strings.ToLower(id[max(len(id)-6, 0):])
}

// otherNameMax leaves room for the end within the shortest limit on names.
const otherNameMax = 30

func cut(name string, most int) string { return name[:min(len(name), most)] } // Names are ASCII.

// tenant adopts one that only the cell knows, so that its name and its jobs stay its own.
func (r *restore) tenant(ctx context.Context, tx *store.Tx, cell string, t *cellv1.Tenant) (added, known bool, err error) {
	is, err := tx.FindTenant(ctx, t.GetId())
	switch {
	case errors.Is(err, store.ErrNotFound) && t.GetDeleted():
		return false, false, nil
	case errors.Is(err, store.ErrNotFound):
		name, why := t.GetName(), "only the cell had it; it has no members"
		if other, err := tx.GetTenantByName(ctx, name); err == nil {
			name, why = otherName(name, t.GetId()), why+"; its name "+name+" belongs to tenant "+other.ID
		} else if !errors.Is(err, store.ErrNotFound) {
			return false, false, err
		}
		r.note("adopted", "tenant", t.GetId(), t.GetId(), name, why)
		return true, true, tx.InsertTenant(ctx, store.Tenant{
			ID: t.GetId(), Name: name, DisplayName: t.GetName(), Plan: plans.First, Cell: cell,
			CreatedAt: r.now, UpdatedAt: r.now, Version: 1, Generation: 1,
		})
	case err != nil || !t.GetDeleted() || !is.DeletedAt.IsZero():
		return false, true, err
	}
	is.DeletedAt, is.UpdatedAt = r.now, r.now
	is.Generation++
	r.note("updated", "tenant", is.ID, is.ID, is.Name, "it was deleted after the copy was made")
	return false, true, tx.UpdateTenant(ctx, &is)
}

// freeName takes a namespace's name of the copy away if the cell knows another, before any
// is given: two may have exchanged theirs.
func (r *restore) freeName(ctx context.Context, tx *store.Tx, n *cellv1.Namespace) error {
	if n.GetDeleted() {
		return nil
	}
	is, err := tx.FindNamespace(ctx, n.GetId())
	if errors.Is(err, store.ErrNotFound) || err == nil && (!is.DeletedAt.IsZero() || is.Name == n.GetName()) {
		return nil
	}
	if err != nil {
		return err
	}
	is.Name = otherName("x", n.GetId())
	return tx.UpdateNamespace(ctx, &is)
}

// freeNamespaceName is the cell's name of a namespace, or another if the copy has given it
// to one that the cell does not know.
func freeNamespaceName(ctx context.Context, tx *store.Tx, n *cellv1.Namespace) (name, why string, _ error) {
	other, err := tx.GetNamespaceByName(ctx, n.GetTenantId(), n.GetName())
	if errors.Is(err, store.ErrNotFound) || err == nil && other.ID == n.GetId() {
		return n.GetName(), "", nil
	}
	return otherName(n.GetName(), n.GetId()), "; its name " + n.GetName() + " belongs to namespace " + other.ID, err
}

func (r *restore) namespace(ctx context.Context, tx *store.Tx, n *cellv1.Namespace) error {
	is, err := tx.FindNamespace(ctx, n.GetId())
	switch {
	case errors.Is(err, store.ErrNotFound) && n.GetDeleted():
		return nil
	case errors.Is(err, store.ErrNotFound):
		name, taken, err := freeNamespaceName(ctx, tx, n)
		if err != nil {
			return err
		}
		r.note("adopted", "namespace", n.GetTenantId(), n.GetId(), name, "only the cell had it"+taken)
		return tx.InsertNamespace(ctx, store.Namespace{
			TenantID: n.GetTenantId(), ID: n.GetId(), Name: name, Retention: retentionIn(n), CreatedAt: r.now, UpdatedAt: r.now, Version: 1, Generation: 1,
		})
	case err != nil || !is.DeletedAt.IsZero() || !n.GetDeleted() && n.GetName() == is.Name && retentionIn(n) == is.Retention:
		return err
	}
	why := "it was deleted after the copy was made"
	switch {
	case n.GetDeleted():
		is.DeletedAt = r.now
	case n.GetName() == is.Name:
		// By an older setting more would be deleted than the owner wants.
		is.Retention, why = retentionIn(n), "its retention was changed after the copy was made"
	default:
		is.Retention = retentionIn(n)
		name, taken, err := freeNamespaceName(ctx, tx, n)
		if err != nil {
			return err
		}
		is.Name, why = name, "it was renamed after the copy was made"+taken
	}
	is.UpdatedAt = r.now
	is.Generation++
	r.note("updated", "namespace", is.TenantID, is.ID, is.Name, why)
	return tx.UpdateNamespace(ctx, &is)
}

// retentionIn is what a cell has been told of a namespace's retention.
func retentionIn(n *cellv1.Namespace) store.Retention {
	const second = int64(time.Second)
	r := n.GetRetention()
	return store.Retention{
		Completed: r.GetCompletedNs() / second, Dead: r.GetDeadNs() / second, Cancelled: r.GetCancelledNs() / second, FinishedMax: r.GetFinishedMax(),
		Events: r.GetEventsNs() / second, EventsBytes: r.GetEventsBytes(), Usage: r.GetUsageNs() / second,
	}
}

// key takes over what the cell knows of a key: it is newer than the copy. One whose
// owner is unknown is revoked.
func (r *restore) key(ctx context.Context, tx *store.Tx, k *cellv1.Key, unowned bool) error {
	is, err := tx.FindKey(ctx, k.GetId())
	if errors.Is(err, store.ErrNotFound) {
		if k.GetRevoked() {
			return nil
		}
		return r.unknownKey(ctx, tx, k, unowned)
	}
	if err != nil || !is.RevokedAt.IsZero() {
		return err
	}
	why := ""
	if k.GetRevoked() {
		is.RevokedAt, why = r.now, "it was revoked after the copy was made"
	} else if versions := versionsOf(k, is.CreatedAt); !sameVersions(versions, is.Versions) {
		is.Versions, why = versions, "its secret was rotated after the copy was made"
	}
	if why == "" {
		return nil
	}
	is.UpdatedAt = r.now
	is.Generation++
	r.note("updated", "key", is.TenantID, is.ID, is.Name, why)
	return tx.UpdateKey(ctx, &is)
}

func (r *restore) unknownKey(ctx context.Context, tx *store.Tx, k *cellv1.Key, unowned bool) error {
	row := store.Key{
		TenantID: k.GetTenantId(), ID: k.GetId(), Name: k.GetName(), Kind: cloudv1.KeyKind_KEY_KIND_JOBS, OwnerID: k.GetPrincipalId(), CIDRs: k.GetCidrs(),
		Versions: versionsOf(k, r.now), CreatedBy: "restore", CreatedAt: r.now, UpdatedAt: r.now, Version: 1, Generation: 1,
	}
	if at := k.GetNotAfterNs(); at != 0 {
		row.ExpiresAt = time.Unix(0, at).UTC()
	}
	if unowned {
		row.RevokedAt = r.now
		r.note("revoked", "key", row.TenantID, row.ID, row.Name, "its owner isn't known")
	} else {
		r.note("adopted", "key", row.TenantID, row.ID, row.Name, "only the cell had it; it keeps working, but who created it isn't known")
	}
	if err := r.adoptOwner(ctx, tx, &row, k); err != nil {
		return err
	}
	return tx.InsertKey(ctx, row)
}

// adoptOwner keeps the owner of a key if it is known. Else it makes a service account that may
// do what the cell says of the key, by roles of its own, and nothing more.
func (r *restore) adoptOwner(ctx context.Context, tx *store.Tx, row *store.Key, k *cellv1.Key) error {
	_, err := principals.NewNamer(tx, row.TenantID).Principal(ctx, row.OwnerID)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	maker, short := r.s.kit.IDs, strings.TrimPrefix(row.ID, "key_")
	a := store.ServiceAccount{
		TenantID: row.TenantID, ID: maker.New(ids.ServiceAccount, r.now), Name: "Restored key " + short, CreatedBy: "restore", CreatedAt: r.now, UpdatedAt: r.now, Version: 1,
	}
	row.OwnerID = a.ID
	if err := tx.InsertServiceAccount(ctx, a); err != nil || !row.RevokedAt.IsZero() {
		return err
	}
	for i, g := range celladmin.GrantsFrom(k) {
		own := store.Role{
			TenantID: row.TenantID, ID: maker.New(ids.Role, r.now), Name: fmt.Sprintf("Restored key %s (%d)", short, i+1), Permissions: g.Permissions.Names(),
			CreatedAt: r.now, UpdatedAt: r.now, Version: 1,
		}
		if err := tx.InsertRole(ctx, own); err != nil {
			return err
		}
		for _, place := range g.Places() {
			b := store.Binding{
				TenantID: row.TenantID, ID: maker.New(ids.Binding, r.now), PrincipalID: a.ID, RoleID: own.ID, NamespaceID: place.Namespace, Queues: place.Queues,
				CreatedBy: "restore", CreatedAt: r.now,
			}
			if err := tx.InsertBinding(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func versionsOf(k *cellv1.Key, made time.Time) (out []store.KeyVersion) {
	for i, d := range k.GetDigests() {
		v := store.KeyVersion{Digest: d, CreatedAt: made}
		if ends := k.GetDigestEndsNs(); i < len(ends) && ends[i] != 0 {
			v.ExpiresAt = time.Unix(0, ends[i]).UTC()
		}
		out = append(out, v)
	}
	return out
}

func sameVersions(a, b []store.KeyVersion) bool {
	return slices.EqualFunc(a, b, func(x, y store.KeyVersion) bool {
		return bytes.Equal(x.Digest, y.Digest) && x.ExpiresAt.Equal(y.ExpiresAt)
	})
}
