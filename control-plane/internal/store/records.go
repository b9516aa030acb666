package store

import (
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// Tenant is a customer.
type Tenant struct {
	ID, Name, DisplayName, Plan string
	// Cell is the placement.
	Cell                 string
	CreatedAt, UpdatedAt time.Time
	DeletedAt            time.Time
	// Version rises with every write; etags are made from it.
	Version int64
	// Generation rises with every change that the cell must learn; Observed is the
	// one that every proxy of the cell has applied.
	Generation, Observed int64
}

// Namespace is isolation inside a tenant.
type Namespace struct {
	TenantID, ID, Name            string
	Labels                        map[string]string
	DeleteProtection              bool
	Region                        string
	Retention                     Retention
	CreatedAt, UpdatedAt          time.Time
	DeletedAt                     time.Time
	Version, Generation, Observed int64
}

// Retention is how long, in seconds, and how much of what has ended a namespace keeps. What
// is 0 was not set.
type Retention struct {
	Completed   int64 `json:"completed_seconds,omitempty"`
	Dead        int64 `json:"dead_seconds,omitempty"`
	Cancelled   int64 `json:"cancelled_seconds,omitempty"`
	FinishedMax int64 `json:"finished_max,omitempty"`
	Events      int64 `json:"events_seconds,omitempty"`
	EventsBytes int64 `json:"events_bytes_max,omitempty"`
	Usage       int64 `json:"usage_seconds,omitempty"`
}

// User is a person.
type User struct {
	ID, Email, Name string
	// HomeTenant is set for a user that a tenant's identity provider made: the address
	// proves nothing elsewhere.
	HomeTenant        string
	CreatedAt, SeenAt time.Time
}

// Membership is a user's place in a tenant.
type Membership struct {
	TenantID, UserID string
	Role             cloudv1.TenantRole
	// ConnectionID is set if the groups of an identity provider decide the role.
	ConnectionID string
	CreatedAt    time.Time
	Version      int64
}

// Member is a membership with its user, and Access one with its tenant.
type (
	Member struct {
		Membership
		User User
	}
	Access struct {
		Membership
		Tenant Tenant
	}
)

// Removal records that a user was removed from a tenant: signing in through the
// tenant's provider does not bring them back.
type Removal struct {
	TenantID, UserID, Email string
	RemovedBy               string // For people.
	RemovedAt               time.Time
}

// Invitation asks somebody in.
type Invitation struct {
	TenantID, ID, Email  string
	Role                 cloudv1.TenantRole
	Digest               string // Hex SHA-256 of the link's token.
	InvitedBy            string // For people.
	CreatedAt, ExpiresAt time.Time
}

// Key is an API key without its secrets.
type Key struct {
	TenantID, ID, Name string
	Kind               cloudv1.KeyKind
	NamespaceIDs       []string
	Roles              []cloudv1.NamespaceRole
	TenantRole         cloudv1.TenantRole
	// Versions are the accepted secrets, oldest first, two at most.
	Versions                      []KeyVersion
	ExpiresAt, RevokedAt          time.Time
	CreatedBy                     string
	CreatedAt, UpdatedAt          time.Time
	Version, Generation, Observed int64
}

// KeyVersion is one secret of a key.
type KeyVersion struct {
	Digest    []byte    `json:"digest"` // SHA-256 of the whole key, as apikey.Digest makes it.
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Session is that of a signed-in browser.
type Session struct {
	// TenantID is set for a session that a tenant's provider or invitation opened: good
	// there only.
	TenantID        string
	Digest          string // Hex SHA-256 of the cookie.
	ID, UserID      string
	Peer, UserAgent string
	CreatedAt       time.Time
	SeenAt          time.Time
	ExpiresAt       time.Time
}

// Signup is a sign-up on its way.
type Signup struct {
	ID, Email, TenantName string
	Digest, CodeDigest    string // Hex SHA-256 of the link's token and of id + code.
	Attempts              int    // Wrong codes so far.
	Peer                  string
	Browser               string // Hex SHA-256 of the cookie of the browser that began.
	CreatedAt, ExpiresAt  time.Time
	ConfirmedAt           time.Time
	TenantID              string // After confirmation.
}

// Token is a secret that works once.
type Token struct {
	Digest    string
	Purpose   string // login, oidc
	Subject   string
	Data      string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time
}

// Connection is a tenant's identity provider.
type Connection struct {
	TenantID, ID, Name, Issuer, ClientID string
	ClientSecret                         string // Sealed.
	// Staged is a change that is not in force yet; JSON of the service's own, with a sealed
	// secret.
	Staged        string
	Scopes        []string
	GroupsClaim   string
	DefaultRole   cloudv1.TenantRole
	GroupMappings []GroupMapping
	Enabled       bool
	LastTest      string // JSON of the service's own.
	// Settings rises with every change that needs a new trial sign-in; Tested is the
	// value that passed one.
	Settings, Tested     int64
	CreatedAt, UpdatedAt time.Time
	Version              int64
}

// GroupMapping gives a group of the provider a role.
type GroupMapping struct {
	Group string             `json:"group"`
	Role  cloudv1.TenantRole `json:"role"`
}

// Identity is a provider's user.
type Identity struct {
	TenantID, ConnectionID, Issuer, Subject, UserID string
	CreatedAt                                       time.Time
}

// AuditEvent is who changed what.
type AuditEvent struct {
	TenantID, ID                 string
	At                           time.Time
	ActorType, ActorID, Actor    string
	Action                       string
	TargetType, TargetID, Target string
	RequestID, Peer, UserAgent   string
	Changes                      map[string]Change
	// Where, for what was done to queues and jobs.
	NamespaceID, Namespace string
}

// Change is a field before and after; secrets never stand in it.
type Change struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// AuditFilter narrows a listing; zero fields do not.
type AuditFilter struct {
	ActorID, ActionPrefix, TargetID string
	Namespace                       string // Name or id.
	After, Before                   time.Time
}

// Answer is the first answer to an idempotent call.
type Answer struct {
	TenantID, Principal, Method, RequestID string
	Body                                   string // Hex SHA-256 of the request.
	Answer                                 string
	CreatedAt                              time.Time
}

// Outbox is something to be done outside the database.
type Outbox struct {
	TenantID, ID string
	Kind         OutboxKind
	Subject      string
	Payload      string
	CreatedAt    time.Time
	DueAt        time.Time
	Attempts     int
	LastError    string
	ClaimedBy    string
	ClaimedTill  time.Time
}

// OutboxKind says what has to happen.
type OutboxKind string

// Kinds of outbox rows.
const (
	OutboxTenant    OutboxKind = "cell.tenant"
	OutboxNamespace OutboxKind = "cell.namespace"
	OutboxKey       OutboxKind = "cell.key"
	// OutboxUser: the user lost the tenant; tokens made before now must end.
	OutboxUser OutboxKind = "cell.user"
	// OutboxTokenKeys: the keys that sign browsers' tokens were replaced; it is no tenant's.
	OutboxTokenKeys OutboxKind = "cell.token-keys"
	OutboxMail      OutboxKind = "mail"
)

// Lease is a right that one process holds for a while. Token only grows.
type Lease struct {
	Name, Holder string
	Token        int64
	ExpiresAt    time.Time
}
