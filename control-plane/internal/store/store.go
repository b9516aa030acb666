package store

import (
	"context"
	"errors"
	"time"
)

// Errors that callers decide by.
var (
	ErrNotFound = errors.New("no such record")
	ErrExists   = errors.New("the record exists")
	// ErrStale: somebody else changed the record since it was read.
	ErrStale = errors.New("the record has changed")
	// ErrReference: the record refers to one that is not there, or not this tenant's.
	ErrReference = errors.New("the record refers to one that doesn't exist")
)

// Store opens transactions. It is safe for concurrent use; f must use its Tx from one
// goroutine and not keep it. A transaction that lost a race is run again, so f must have
// no effect but on its Tx, and must read in it the records that it changes.
type Store interface {
	// Tenant writes in one tenant. Rows of others can be neither seen nor changed.
	Tenant(ctx context.Context, tenantID string, f func(Tx) error) error
	// ReadTenant reads in one tenant, from one snapshot.
	ReadTenant(ctx context.Context, tenantID string, f func(Tx) error) error
	// Service writes across tenants: sign-up, sign-in and the service's own loops.
	Service(ctx context.Context, f func(Tx) error) error
	// ReadService reads across tenants.
	ReadService(ctx context.Context, f func(Tx) error) error
	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	Close() error
}

// Page asks for up to Limit records after a key: the name or id of the last one seen.
// No limit means 1001, which is also the most.
type Page struct {
	After string
	Limit int
}

// Tx is one transaction. In one opened for a tenant, other tenants' records do not
// exist, and methods across tenants (by name, link or key id; for the loops) fail.
// Insert methods fail with ErrExists, Get methods with ErrNotFound, Update methods with
// ErrStale if Version is not the stored one; an Update raises Version in the record it
// was given.
type Tx interface {
	Tenants
	Namespaces
	Users
	Memberships
	Invitations
	Keys
	Sessions
	Signups
	Tokens
	Connections
	AuditLog
	Idempotency
	OutboxRows
	Leases
	Settings
	Rates
	Sealed
	Restores
}

// Tenants is the table of tenants. Deleted ones are not found.
type Tenants interface {
	InsertTenant(ctx context.Context, t Tenant) error
	GetTenant(ctx context.Context, id string) (Tenant, error)
	GetTenantByName(ctx context.Context, name string) (Tenant, error)
	// FindTenant finds deleted ones too.
	FindTenant(ctx context.Context, id string) (Tenant, error)
	UpdateTenant(ctx context.Context, t *Tenant) error
	// ObserveTenant records that the cell has applied a generation.
	ObserveTenant(ctx context.Context, id string, generation int64) error
	// ListTenants walks all tenants, deleted or not, by id, for the service's full scans.
	ListTenants(ctx context.Context, p Page) ([]Tenant, error)
	// UnobservedTenants are those, deleted or not, whose generation the cell has not
	// applied yet, by id.
	UnobservedTenants(ctx context.Context, p Page) ([]Tenant, error)
}

// Namespaces is the table of namespaces.
type Namespaces interface {
	InsertNamespace(ctx context.Context, n Namespace) error
	// GetNamespace finds deleted ones too; see DeletedAt.
	GetNamespace(ctx context.Context, tenantID, id string) (Namespace, error)
	// FindNamespace finds one of any tenant, for the service's own loops.
	FindNamespace(ctx context.Context, id string) (Namespace, error)
	GetNamespaceByName(ctx context.Context, tenantID, name string) (Namespace, error)
	// ListNamespaces lists live ones by name.
	ListNamespaces(ctx context.Context, tenantID string, p Page) ([]Namespace, error)
	CountNamespaces(ctx context.Context, tenantID string) (int, error)
	UpdateNamespace(ctx context.Context, n *Namespace) error
	ObserveNamespace(ctx context.Context, tenantID, id string, generation int64) error
	// UnobservedNamespaces are those of all tenants, deleted or not, whose generation
	// the cell has not applied yet, by id.
	UnobservedNamespaces(ctx context.Context, p Page) ([]Namespace, error)
	// UnobservedNamespacesOf are those of one tenant.
	UnobservedNamespacesOf(ctx context.Context, tenantID string, p Page) ([]Namespace, error)
}

// Users is the table of people.
type Users interface {
	InsertUser(ctx context.Context, u User) error
	GetUser(ctx context.Context, id string) (User, error)
	// GetUserByEmail finds users without a home tenant only.
	GetUserByEmail(ctx context.Context, email string) (User, error)
	UpdateUser(ctx context.Context, u User) error
}

// Memberships is who belongs where.
type Memberships interface {
	InsertMembership(ctx context.Context, m Membership) error
	GetMembership(ctx context.Context, tenantID, userID string) (Membership, error)
	UpdateMembership(ctx context.Context, m *Membership) error
	DeleteMembership(ctx context.Context, tenantID, userID string) error
	// ListMembers lists by user id.
	ListMembers(ctx context.Context, tenantID string, p Page) ([]Member, error)
	// CountOwners counts and locks, so that two transactions that each remove an owner
	// do not both see the other's.
	CountOwners(ctx context.Context, tenantID string) (int, error)

	// PutRemoval records the removal of a user from a tenant. IsRemoved reports whether
	// the user, or one of that address (unless it is empty), was removed. DeleteRemovals
	// deletes these records.
	PutRemoval(ctx context.Context, r Removal) error
	IsRemoved(ctx context.Context, tenantID, userID, email string) (bool, error)
	DeleteRemovals(ctx context.Context, tenantID, userID, email string) error
	// ListAccess is every live tenant of a user, by tenant name.
	ListAccess(ctx context.Context, userID string) ([]Access, error)
}

// Invitations is who was asked in.
type Invitations interface {
	// PutInvitation replaces an older one for the same address.
	PutInvitation(ctx context.Context, i Invitation) error
	GetInvitation(ctx context.Context, tenantID, id string) (Invitation, error)
	GetInvitationByDigest(ctx context.Context, digest string) (Invitation, error)
	ListInvitations(ctx context.Context, tenantID string, p Page) ([]Invitation, error)
	DeleteInvitation(ctx context.Context, tenantID, id string) error
}

// Keys is the table of API keys.
type Keys interface {
	InsertKey(ctx context.Context, k Key) error
	GetKey(ctx context.Context, tenantID, id string) (Key, error)
	// FindKey finds a key of any tenant: who calls?
	FindKey(ctx context.Context, id string) (Key, error)
	// ListKeys lists by id; revoked ones only if asked.
	ListKeys(ctx context.Context, tenantID string, revoked bool, p Page) ([]Key, error)
	CountKeys(ctx context.Context, tenantID string) (int, error)
	UpdateKey(ctx context.Context, k *Key) error
	ObserveKey(ctx context.Context, tenantID, id string, generation int64) error
	UnobservedKeys(ctx context.Context, p Page) ([]Key, error)
	// KeysOfUser lists the live keys that a user made, directly or through keys of
	// theirs.
	KeysOfUser(ctx context.Context, tenantID, userID string, p Page) ([]Key, error)
}

// Sessions is the signed-in browsers.
type Sessions interface {
	InsertSession(ctx context.Context, s Session) error
	GetSession(ctx context.Context, digest string) (Session, error)
	TouchSession(ctx context.Context, digest string, seen time.Time) error
	DeleteSession(ctx context.Context, digest string) error
	// DeleteSessionsOfUser ends all of a user's, or those of one tenant's provider, and
	// counts them.
	DeleteSessionsOfUser(ctx context.Context, userID, ssoTenantID string) (int, error)
	DeleteSessionsBefore(ctx context.Context, expired time.Time) (int, error)
}

// Signups is sign-ups on their way.
type Signups interface {
	InsertSignup(ctx context.Context, s Signup) error
	GetSignup(ctx context.Context, id string) (Signup, error)
	GetSignupByDigest(ctx context.Context, digest string) (Signup, error)
	UpdateSignup(ctx context.Context, s Signup) error
	// VoidSignups invalidates the unconfirmed links for an address and name that one
	// client asked for; links of other clients stay valid.
	VoidSignups(ctx context.Context, email, tenantName, peer string, now time.Time) error
	DeleteSignupsBefore(ctx context.Context, expired time.Time) (int, error)
}

// Tokens is secrets that work once.
type Tokens interface {
	InsertToken(ctx context.Context, t Token) error
	// GetToken reads a token without using it.
	GetToken(ctx context.Context, digest, purpose string) (Token, error)
	// UseToken marks a token used and returns it as it was before: the caller decides by
	// UsedAt and ExpiresAt. Of two concurrent calls, one sees it unused.
	UseToken(ctx context.Context, digest, purpose string, now time.Time) (Token, error)
	DeleteTokensBefore(ctx context.Context, expired time.Time) (int, error)
}

// Connections is the identity providers and their users.
type Connections interface {
	InsertConnection(ctx context.Context, c Connection) error
	GetConnection(ctx context.Context, tenantID, id string) (Connection, error)
	// ListConnections lists by id.
	ListConnections(ctx context.Context, tenantID string) ([]Connection, error)
	UpdateConnection(ctx context.Context, c *Connection) error
	// DeleteConnection deletes its identities too.
	DeleteConnection(ctx context.Context, tenantID, id string) error
	InsertIdentity(ctx context.Context, i Identity) error
	GetIdentity(ctx context.Context, tenantID, connectionID, issuer, subject string) (Identity, error)
}

// AuditLog is append only.
type AuditLog interface {
	InsertAudit(ctx context.Context, e AuditEvent) error
	// ListAudit lists newest first; Page.After is the id of the last one seen.
	ListAudit(ctx context.Context, tenantID string, f AuditFilter, p Page) ([]AuditEvent, error)
}

// Idempotency is first answers.
type Idempotency interface {
	GetAnswer(ctx context.Context, tenantID, principal, method, requestID string) (Answer, error)
	InsertAnswer(ctx context.Context, a Answer) error
	DeleteAnswersBefore(ctx context.Context, before time.Time) (int, error)
}

// OutboxRows is what has to happen outside.
type OutboxRows interface {
	InsertOutbox(ctx context.Context, o Outbox) error
	// ClaimOutbox takes up to limit due rows, of all tenants, in the order they were
	// made; no other holder gets them before till. A claim counts as an attempt. No
	// kinds means all.
	ClaimOutbox(ctx context.Context, holder string, now, till time.Time, limit int, kinds ...OutboxKind) ([]Outbox, error)
	// HasOutbox reports whether a row about a subject is waiting and due by then.
	HasOutbox(ctx context.Context, tenantID string, kind OutboxKind, subject string, due time.Time) (bool, error)
	// FinishOutbox removes a row that is done, as it was claimed: ErrStale if another
	// holder has claimed it since.
	FinishOutbox(ctx context.Context, o Outbox) error
	// DeferOutbox puts back a row, as it was claimed, and records why it failed.
	DeferOutbox(ctx context.Context, o Outbox, due time.Time, problem string) error
	// CountOutbox counts the rows of all tenants that are due before a time, failures
	// included, and returns since when the oldest has been due.
	CountOutbox(ctx context.Context, before time.Time) (int, time.Time, error)
	// OldestOutbox is since when the oldest row of some kinds has been due, parked or not;
	// zero: none is.
	OldestOutbox(ctx context.Context, now time.Time, kinds ...OutboxKind) (time.Time, error)
	// CountParked counts rows that failed and are not retried before a time.
	CountParked(ctx context.Context, before time.Time) (int, error)
}

// Leases are rights that one process holds at a time.
type Leases interface {
	// TakeLease takes or renews a lease; false if another holder has it.
	TakeLease(ctx context.Context, name, holder string, now, till time.Time) (Lease, bool, error)
	ReleaseLease(ctx context.Context, name, holder string) error
	// HeldLeases lists held leases whose names begin with prefix.
	HeldLeases(ctx context.Context, prefix string, now time.Time) ([]Lease, error)
}

// Settings is keys and numbers of the service itself.
type Settings interface {
	GetSetting(ctx context.Context, name string) (string, error)
	// InsertSetting fails with ErrExists if the setting exists.
	InsertSetting(ctx context.Context, name, value string, now time.Time) error
	// PutSetting overwrites.
	PutSetting(ctx context.Context, name, value string, now time.Time) error
	// SettingNames lists those that begin with a text.
	SettingNames(ctx context.Context, prefix string) ([]string, error)
	// RaiseSetting adds one to a number, 0 at first, and returns it.
	RaiseSetting(ctx context.Context, name string, now time.Time) (int64, error)
}

// Sealed is the columns that hold texts of package seal, alone or inside of other text.
type Sealed interface {
	// SealedRows lists up to limit rows of a table in which a column contains a text, and
	// locks them until the transaction ends.
	SealedRows(ctx context.Context, table string, columns []string, containing string, limit int) ([]SealedRow, error)
	// UpdateSealed writes the columns of a row that SealedRows gave in this transaction.
	UpdateSealed(ctx context.Context, table string, columns []string, row SealedRow) error
	// Containing counts the rows that contain a text, in every text column of every table
	// that there is: "table.column". Columns without one are left out.
	Containing(ctx context.Context, text string) (map[string]int, error)
}

// Restores is for a database that was restored from a backup.
type Restores interface {
	// EndSignIns removes sessions, one-time tokens, invitations, sign-ups and unsent
	// letters of all tenants, and counts them by name.
	EndSignIns(ctx context.Context) (map[string]int, error)
}

// Rates counts calls.
type Rates interface {
	// CountRate adds one to a bucket's window and returns the sum.
	CountRate(ctx context.Context, bucket string, window time.Time) (int, error)
	DeleteRatesBefore(ctx context.Context, window time.Time) (int, error)
}
