package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// desired is what a cell should have of one tenant, according to the records.
type desired struct {
	tenantID, cell string
	incarnation    string
	changes        []*cellv1.Change
	seen           []observed
}

// alongMax is how many unknown namespaces go along with a tenant's rows; more follow
// with their own.
const alongMax = 500

// read makes the desired state for rows of one tenant. Missing records mean nothing:
// what ended has a record that says so.
func (l *Loop) read(ctx context.Context, tx *store.Tx, rows []store.Outbox, together bool) (desired, error) {
	t, err := tx.FindTenant(ctx, rows[0].TenantID)
	if errors.Is(err, store.ErrNotFound) {
		return desired{}, nil
	}
	if err != nil {
		return desired{}, err
	}
	p := desired{tenantID: t.ID, cell: t.Cell}
	subjects := subjectsOf(rows)
	if len(subjects[store.OutboxTenant]) > 0 || t.Observed < t.Generation {
		record, err := l.tenant(ctx, tx, t)
		if err != nil {
			return desired{}, err
		}
		p.add(celladmin.TenantChange(record), observed{store.OutboxTenant, t.ID, t.ID, t.Generation, ""})
	}
	if err := p.readNamespaces(ctx, tx, subjects[store.OutboxNamespace], together); err != nil {
		return desired{}, err
	}
	if err := p.readKeys(ctx, tx, subjects[store.OutboxKey], len(subjects[store.OutboxAccess]) > 0); err != nil {
		return desired{}, err
	}
	for _, r := range rows {
		if r.Kind != store.OutboxUser {
			continue
		}
		user := r.Subject
		if user == t.ID { // Everybody's.
			user = ""
		}
		// Tokens have the cell's time, rows ours.
		p.changes = append(p.changes, celladmin.UserCutoffChange(t.ID, user, r.CreatedAt.Add(l.o.CellAhead(ctx, t.Cell))))
	}
	return p, nil
}

// readKeys adds the keys asked for, and those that may do something else than the cell was
// told, if rights have changed.
func (p *desired) readKeys(ctx context.Context, tx *store.Tx, asked []string, rightsChanged bool) error {
	reader := policy.NewReader(tx, p.tenantID)
	for _, id := range asked {
		k, err := tx.GetKey(ctx, p.tenantID, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			err = p.readKey(ctx, reader, k, true)
		}
		if err != nil {
			return err
		}
	}
	if !rightsChanged {
		return nil
	}
	for k, err := range tx.AllKeys(ctx, p.tenantID, false) {
		if err == nil && !slices.Contains(asked, k.ID) {
			err = p.readKey(ctx, reader, k, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readKey adds a key if it is asked for, or if its rights are not those that the cell was
// told.
func (p *desired) readKey(ctx context.Context, reader *policy.Reader, k store.Key, asked bool) error {
	may, err := reader.OfKey(ctx, k)
	if err != nil {
		return err
	}
	record := Key(k, may.Grants)
	digest := grantsDigest(record)
	if asked || digest != k.Grants {
		p.add(celladmin.KeyChange(record), observed{store.OutboxKey, k.TenantID, k.ID, k.Generation, digest})
	}
	return nil
}

func (p *desired) add(c *cellv1.Change, o observed) {
	p.changes, p.seen = append(p.changes, c), append(p.seen, o)
}

// subjectsOf is each subject once, by kind.
func subjectsOf(rows []store.Outbox) map[store.OutboxKind][]string {
	out := make(map[store.OutboxKind][]string)
	for _, r := range rows {
		if !slices.Contains(out[r.Kind], r.Subject) {
			out[r.Kind] = append(out[r.Kind], r.Subject)
		}
	}
	return out
}

// readNamespaces adds those asked for, and those that the cell does not have in their
// current form: keys may depend on them, and they may have exchanged names.
func (p *desired) readNamespaces(ctx context.Context, tx *store.Tx, asked []string, together bool) error {
	var list []store.Namespace
	if together {
		unknown, err := tx.UnobservedNamespacesOf(ctx, p.tenantID, store.Page{Limit: alongMax})
		if err != nil {
			return err
		}
		list = unknown
	}
	for _, id := range asked {
		if slices.ContainsFunc(list, func(n store.Namespace) bool { return n.ID == id }) {
			continue
		}
		n, err := tx.GetNamespace(ctx, p.tenantID, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		list = append(list, n)
	}
	p.changes = append(p.changes, freeNames(list)...)
	for _, n := range list {
		p.add(celladmin.NamespaceChange(namespace(n)), observed{store.OutboxNamespace, n.TenantID, n.ID, n.Generation, ""})
	}
	return nil
}

// freeNames are changes that go first: ended namespaces give up their names, and if
// several are live, each takes a temporary one, so that they can exchange names. All
// are in one entry, so the temporary names are never seen.
func freeNames(list []store.Namespace) (out []*cellv1.Change) {
	var renamed []store.Namespace
	for _, n := range list {
		switch {
		case !n.DeletedAt.IsZero() && n.Observed > 0:
			out = append(out, celladmin.NamespaceChange(namespace(n)))
		case n.DeletedAt.IsZero() && n.Observed > 0:
			renamed = append(renamed, n)
		}
	}
	if len(renamed) < 2 {
		return out
	}
	for _, n := range renamed {
		passing := namespace(n)
		passing.Name = passingName(n.ID)
		out = append(out, celladmin.NamespaceChange(passing))
	}
	return out
}

func (l *Loop) tenant(ctx context.Context, tx *store.Tx, t store.Tenant) (*cellv1.Tenant, error) {
	p, err := tx.GetSignInPolicy(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	limits, err := l.o.Limits(ctx, tx, t)
	return &cellv1.Tenant{Id: t.ID, Name: t.Name, Deleted: !t.DeletedAt.IsZero(), Limits: limits, AuditPayloadReads: p.AuditPayloadReads}, err
}

// namespace leaves the shard open: the cell has placed it, or will. An ended one has
// its id as its name here, which the cell would refuse.
func namespace(n store.Namespace) *cellv1.Namespace {
	out := &cellv1.Namespace{Id: n.ID, TenantId: n.TenantID, Name: n.Name, Deleted: !n.DeletedAt.IsZero()}
	if n.Name == n.ID {
		out.Name = passingName(n.ID)
	}
	if n.Retention != (store.Retention{}) && !out.Deleted {
		out.Retention = retentionOf(n.Retention)
	}
	return out
}

func retentionOf(r store.Retention) *cellv1.Retention {
	const second = int64(time.Second)
	return &cellv1.Retention{
		CompletedNs: r.Completed * second, DeadNs: r.Dead * second, CancelledNs: r.Cancelled * second, FinishedMax: r.FinishedMax,
		EventsNs: r.Events * second, EventsBytes: r.EventsBytes, UsageNs: r.Usage * second,
	}
}

// passingName is a temporary name that no user can have chosen.
func passingName(id string) string { return "x-" + strings.ToLower(strings.TrimPrefix(id, "ns_")) }

// longAgo ends a key that has no role for jobs. It is not revoked, because it may get
// such a role.
const longAgo = 1

// keyNameBytesMax is how much of a key's name a cell accepts. The cell uses it only
// in logs.
const keyNameBytesMax = 128

// Key is a cell's record of a key that may do some things. It has the end of a rotated secret,
// which the cell then ends by itself. A record that exceeds the cell's limits is cut, because if
// the cell refused it, the key would stay as it was there and could not even be revoked: rights
// that do not fit are left out, never widened.
func Key(k store.Key, grants permission.Grants) *cellv1.Key {
	out := &cellv1.Key{
		Id: k.ID, TenantId: k.TenantID, Name: cutText(k.Name, keyNameBytesMax), PrincipalId: k.OwnerID, Revoked: !k.RevokedAt.IsZero(),
	}
	if !k.ExpiresAt.IsZero() {
		out.NotAfterNs = max(k.ExpiresAt.UnixNano(), longAgo)
	}
	if out.Revoked {
		return out
	}
	fit, _ := celladmin.Fit(grants) // What doesn't is refused where keys and bindings are made.
	out.Grants, out.Cidrs = celladmin.GrantsOf(fit), k.CIDRs
	if len(k.NamespaceIDs) > 0 {
		out.DefaultNamespaceId = k.NamespaceIDs[0]
	}
	for _, v := range k.Versions {
		out.Digests = append(out.Digests, v.Digest)
		end := int64(0)
		if !v.ExpiresAt.IsZero() {
			end = max(v.ExpiresAt.UnixNano(), longAgo)
		}
		out.DigestEndsNs = append(out.DigestEndsNs, end)
	}
	if !slices.ContainsFunc(out.DigestEndsNs, func(at int64) bool { return at != 0 }) {
		out.DigestEndsNs = nil
	}
	return out
}

// cutText is the beginning of a text, in whole characters.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// grantsDigest tells whether a key may do something else than the cell was told.
func grantsDigest(k *cellv1.Key) string {
	h := sha256.New()
	for _, g := range k.GetGrants() {
		for _, part := range slices.Concat([]string{string(g.GetPermissions()), "in"}, g.GetNamespaceIds(), []string{"for"}, g.GetQueues()) {
			fmt.Fprintf(h, "%d:%s", len(part), part) // A hash never fails.
		}
		h.Write([]byte(";"))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// String describes o for logs.
func (o observed) String() string { return fmt.Sprintf("%s %s at %d", o.kind, o.id, o.generation) }
