package change

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Record is a record of a tenant and what is written of it. Insert records are written as
// they are; Update ones get the time of the change and, with it, a new version.
type Record struct {
	Target
	write      func(context.Context, *store.Tx, time.Time) error
	generation *int64
	kind       store.OutboxKind // Of the row that tells the cell; empty: it is not told.
	tell       []notice
}

// notice is an outbox row.
type notice struct {
	kind    store.OutboxKind
	subject string
	at      time.Time // Zero: now.
}

// InCell raises the record's generation and tells the cell.
func (r Record) InCell() Record {
	*r.generation++
	return r.told()
}

// told hands the record on, now and at each later time.
func (r Record) told(later ...time.Time) Record {
	for _, at := range append([]time.Time{{}}, later...) {
		r.tell = append(r.tell, notice{r.kind, r.ID, at})
	}
	return r
}

// CutOff makes the cell refuse the tokens made for users in the tenant so far.
func (r Record) CutOff(userIDs ...string) Record {
	for _, id := range userIDs {
		r.tell = append(r.tell, notice{kind: store.OutboxUser, subject: id})
	}
	return r
}

// Rights makes the cell learn what the tenant's keys may do now, and cuts off the tokens of
// the users whose rights have changed; those of everybody if none is named.
func (r Record) Rights(userIDs ...string) Record {
	r.tell = append(r.tell, notice{kind: store.OutboxAccess, subject: r.TenantID})
	if len(userIDs) == 0 {
		return r.CutOff(r.TenantID)
	}
	return r.CutOff(userIDs...)
}

// RightsOfMachines is Rights where no user's have changed.
func (r Record) RightsOfMachines() Record {
	r.tell = append(r.tell, notice{kind: store.OutboxAccess, subject: r.TenantID})
	return r
}

// As gives the record's name before the change.
func (r Record) As(name string) Record {
	r.Name = name
	return r
}

// AuditOnly is a change that writes no record of the tenant.
func AuditOnly(t Target) Record { return Record{Target: t} }

// record is one that a method of the store writes as it is.
func record[T any](t Target, write func(*store.Tx, context.Context, T) error, v T) Record {
	return Record{Target: t, write: func(ctx context.Context, tx *store.Tx, _ time.Time) error { return write(tx, ctx, v) }}
}

// updated is one that a method of the store writes with the time of the change.
func updated[T any](t Target, at *time.Time, write func(*store.Tx, context.Context, T) error, v T) Record {
	return Record{Target: t, write: func(ctx context.Context, tx *store.Tx, now time.Time) error {
		*at = now
		return write(tx, ctx, v)
	}}
}

// of says what kind of row tells the cell, and what InCell raises.
func (r Record) of(kind store.OutboxKind, generation *int64) Record {
	r.kind, r.generation = kind, generation
	return r
}

func tenant(t store.Tenant) Target       { return Target{"tenant", t.ID, t.Name, t.ID} }
func namespace(n store.Namespace) Target { return Target{"namespace", n.ID, n.Name, n.TenantID} }
func key(k store.Key) Target             { return Target{"key", k.ID, k.Name, k.TenantID} }

// InsertTenant tells the cell.
func InsertTenant(t store.Tenant) Record {
	return record(tenant(t), (*store.Tx).InsertTenant, t).of(store.OutboxTenant, nil).told()
}

// UpdateTenant tells the cell only if it is InCell.
func UpdateTenant(t *store.Tenant) Record {
	return updated(tenant(*t), &t.UpdatedAt, (*store.Tx).UpdateTenant, t).of(store.OutboxTenant, &t.Generation)
}

// InsertNamespace tells the cell.
func InsertNamespace(n store.Namespace) Record {
	return record(namespace(n), (*store.Tx).InsertNamespace, n).of(store.OutboxNamespace, nil).told()
}

// UpdateNamespace tells the cell only if it is InCell.
func UpdateNamespace(n *store.Namespace) Record {
	return updated(namespace(*n), &n.UpdatedAt, (*store.Tx).UpdateNamespace, n).of(store.OutboxNamespace, &n.Generation)
}

// InsertKey tells the cell, as UpdateKey does.
func InsertKey(k store.Key) Record {
	return record(key(k), (*store.Tx).InsertKey, k).of(store.OutboxKey, nil).told(secretEnds(k)...)
}

// UpdateKey always tells the cell.
func UpdateKey(k *store.Key) Record {
	k.Generation++
	return updated(key(*k), &k.UpdatedAt, (*store.Tx).UpdateKey, k).of(store.OutboxKey, nil).told(secretEnds(*k)...)
}

// secretEnds is when the first of a key's secrets ends, if one does: the cell is told
// digests, not when each of them ends.
func secretEnds(k store.Key) []time.Time {
	for _, v := range k.Versions {
		if !v.ExpiresAt.IsZero() {
			return []time.Time{v.ExpiresAt}
		}
	}
	return nil
}

func member(tenantID string, u store.User) Target { return Target{"member", u.ID, u.Email, tenantID} }

// InsertMember makes a member of a user, with roles.
func InsertMember(m store.Membership, u store.User, roles ...store.Binding) Record {
	return record(member(m.TenantID, u), (*store.Tx).InsertMembership, m).with(roles, nil)
}

// with writes bindings after the record, and takes others away.
func (r Record) with(given, taken []store.Binding) Record {
	write := r.write
	r.write = func(ctx context.Context, tx *store.Tx, now time.Time) error {
		if err := write(ctx, tx, now); err != nil {
			return err
		}
		for _, b := range taken {
			if err := tx.DeleteBinding(ctx, b.TenantID, b.ID); err != nil {
				return err
			}
		}
		for _, b := range given {
			if err := tx.InsertBinding(ctx, b); err != nil {
				return err
			}
		}
		return nil
	}
	return r
}

// AcceptInvitation makes a user a member and deletes the invitation; store.ErrNotFound
// if that is gone, store.ErrExists if the user is a member already: the invitation is used up
// then, and UsedUpInvitation enters it.
func AcceptInvitation(i store.Invitation, m store.Membership, u store.User, roles ...store.Binding) Record {
	r := InsertMember(m, u, roles...)
	insert := r.write
	r.write = func(ctx context.Context, tx *store.Tx, now time.Time) error {
		if err := tx.DeleteInvitation(ctx, i.TenantID, i.ID); err != nil {
			return err
		}
		return insert(ctx, tx, now)
	}
	return r
}

// UpdateMember gives and takes roles, and cuts off the tokens that carry the old ones.
func UpdateMember(m *store.Membership, u store.User, given, taken []store.Binding) Record {
	return record(member(m.TenantID, u), (*store.Tx).UpdateMembership, m).with(given, taken).Rights(u.ID)
}

// DeleteMember takes the member's roles and places in groups, and cuts off their tokens.
func DeleteMember(m store.Membership, u store.User) Record {
	return Record{
		Target: member(m.TenantID, u),
		write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
			return tx.DeleteMembership(ctx, m.TenantID, m.UserID)
		},
	}.Rights(u.ID)
}

func invitation(i store.Invitation) Target {
	return Target{"invitation", i.ID, i.Email, i.TenantID}
}

// PutInvitation replaces an older one for the same address.
func PutInvitation(i store.Invitation) Record {
	return record(invitation(i), (*store.Tx).PutInvitation, i)
}

// DeleteInvitation invalidates its link.
func DeleteInvitation(i store.Invitation) Record {
	return Record{
		Target: invitation(i),
		write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
			return tx.DeleteInvitation(ctx, i.TenantID, i.ID)
		},
	}
}

// UsedUpInvitation enters that AcceptInvitation deleted one of a member.
func UsedUpInvitation(i store.Invitation) Record { return AuditOnly(invitation(i)) }

func connection(c store.Connection) Target { return Target{"sso_connection", c.ID, c.Name, c.TenantID} }

// InsertConnection is not told to the cell, like all of connections.
func InsertConnection(c store.Connection) Record {
	return record(connection(c), (*store.Tx).InsertConnection, c)
}

// UpdateConnection writes what people set.
func UpdateConnection(c *store.Connection) Record {
	return updated(connection(*c), &c.UpdatedAt, (*store.Tx).UpdateConnection, c)
}

// DeleteConnection deletes its identities too.
func DeleteConnection(c store.Connection) Record {
	return Record{
		Target: connection(c),
		write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
			return tx.DeleteConnection(ctx, c.TenantID, c.ID)
		},
	}
}

func sink(v store.AuditSink) Target { return Target{"audit_sink", v.ID, v.Name, v.TenantID} }

// InsertAuditSink is not told to the cell, like all of audit sinks.
func InsertAuditSink(v store.AuditSink) Record {
	return record(sink(v), (*store.Tx).InsertAuditSink, v)
}

// UpdateAuditSink writes what people set.
func UpdateAuditSink(v *store.AuditSink) Record {
	return updated(sink(*v), &v.UpdatedAt, (*store.Tx).UpdateAuditSink, v)
}

// DeleteAuditSink deletes its position too.
func DeleteAuditSink(v store.AuditSink) Record {
	return Record{
		Target: sink(v),
		write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
			return tx.DeleteAuditSink(ctx, v.TenantID, v.ID)
		},
	}
}

func domain(v store.Domain) Target { return Target{"domain", v.ID, v.Name, v.TenantID} }

// InsertDomain is not told to the cell, like all of domains.
func InsertDomain(v store.Domain) Record { return record(domain(v), (*store.Tx).InsertDomain, v) }

// UpdateDomain writes what people set, and whether it is verified.
func UpdateDomain(v *store.Domain) Record {
	return updated(domain(*v), &v.UpdatedAt, (*store.Tx).UpdateDomain, v)
}

// DeleteDomain releases a domain.
func DeleteDomain(v store.Domain) Record {
	return Record{
		Target: domain(v),
		write: func(ctx context.Context, tx *store.Tx, _ time.Time) error {
			return tx.DeleteDomain(ctx, v.TenantID, v.ID)
		},
	}
}

func policy(tenantID string) Target {
	return Target{"sign_in_policy", tenantID, "Sign-in policy", tenantID}
}

// PutSignInPolicy writes how people sign in, which the cell learns as what everybody's keys
// may do, and what its audit log has of reads.
func PutSignInPolicy(v *store.SignInPolicy) Record {
	r := updated(policy(v.TenantID), &v.UpdatedAt, (*store.Tx).UpdateSignInPolicy, v)
	if v.Version == 0 {
		r.write = func(ctx context.Context, tx *store.Tx, now time.Time) error {
			v.CreatedAt, v.UpdatedAt, v.Version = now, now, 1
			return tx.InsertSignInPolicy(ctx, *v)
		}
	}
	r.tell = append(r.tell, notice{kind: store.OutboxTenant, subject: v.TenantID})
	return r.Rights()
}

// BreakGlassCodes replaces a tenant's, by their digests.
func BreakGlassCodes(tenantID string, digests []string) Record {
	return Record{Target: Target{"break_glass_codes", tenantID, "Break-glass codes", tenantID}, write: func(ctx context.Context, tx *store.Tx, now time.Time) error {
		return tx.PutBreakGlassCodes(ctx, tenantID, digests, now)
	}}
}

// EnterByBreakGlass lets a session in.
func EnterByBreakGlass(v store.BreakGlassEntry, email string) Record {
	return record(Target{"session", v.SessionID, email, v.TenantID}, (*store.Tx).PutBreakGlassEntry, v)
}

// BillingContacts writes who gets a tenant's emails about billing.
func BillingContacts(c *store.BillingContacts, name string) Record {
	t := Target{"tenant", c.TenantID, name, c.TenantID}
	return Record{Target: t, write: func(ctx context.Context, tx *store.Tx, now time.Time) error {
		c.UpdatedAt = now
		if c.Version > 0 {
			return tx.UpdateBillingContacts(ctx, c)
		}
		c.CreatedAt, c.Version = now, 1
		return tx.InsertBillingContacts(ctx, *c)
	}}
}

// PutSpendLimit writes what a tenant wants to spend, for the loop that compares.
func PutSpendLimit(v *store.SpendLimit) Record {
	r := Record{Target: Target{"spend_limit", v.TenantID, "Spend limit", v.TenantID}}
	r.write = func(ctx context.Context, tx *store.Tx, now time.Time) error {
		if v.UpdatedAt = now; v.Version > 0 {
			if err := tx.UpdateSpendLimit(ctx, v); err != nil {
				return err
			}
			return tx.TouchUsageOf(ctx, v.TenantID, now)
		}
		v.CreatedAt, v.Version = now, 1
		if err := tx.InsertSpendLimit(ctx, *v); err != nil {
			return err
		}
		return tx.TouchUsageOf(ctx, v.TenantID, now)
	}
	return r
}
