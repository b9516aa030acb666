package store

import (
	"encoding/json"
	"reflect"
	"slices"
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
	// ConnectionID is set if the groups of an identity provider decide the roles.
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
	// ConnectionID is set if its directory removed them: it may bring them back.
	ConnectionID string
}

// Invitation asks somebody in.
type Invitation struct {
	TenantID, ID, Email  string
	Roles                []string // Ids.
	Digest               string   // Hex SHA-256 of the link's token.
	InvitedBy            string   // For people.
	InvitedByID          string   // The user, also of one by a key: whoever made it.
	CreatedAt, ExpiresAt time.Time
}

// Key is an API key without its secrets. It may do what its owner may, narrowed by what it
// says itself.
type Key struct {
	TenantID, ID, Name string
	Kind               cloudv1.KeyKind
	// OwnerID is a service account or a user.
	OwnerID string
	// Permissions by name, namespaces by id, patterns of queues, networks: none of a list is
	// no limit.
	Permissions, NamespaceIDs, Queues, CIDRs []string
	// Grants is the digest of what the cell was told that the key may do.
	Grants string
	// LastUsedAt is known to within some minutes.
	LastUsedAt time.Time
	// Versions are the accepted secrets, oldest first, two at most.
	Versions             []KeyVersion
	ExpiresAt, RevokedAt time.Time
	// EndSetAt is when ExpiresAt was changed; zero: it is as the key was made.
	EndSetAt                      time.Time
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

// Trust lets tokens of an outside issuer be exchanged for keys of a service account.
type Trust struct {
	TenantID, ID, Name string
	AccountID          string
	Provider           int64 // As in the API.
	Issuer, Audience   string
	JWKS               string // Empty: read from the issuer.
	Conditions         []TrustCondition
	// As of Key.
	Permissions, NamespaceIDs, Queues, CIDRs []string
	KeyLife                                  time.Duration
	AllowReuse                               bool
	CreatedBy                                string
	CreatedAt, UpdatedAt, LastUsedAt         time.Time
	Version                                  int64
}

// TrustCondition is what one claim must be: one of the values, where a * at the end stands
// for anything.
type TrustCondition struct {
	Claim  string   `json:"claim"`
	Values []string `json:"values"`
}

// Session is that of a signed-in browser or program.
type Session struct {
	// TenantID is set for a session that a tenant's provider or invitation opened: good
	// there only.
	TenantID        string
	Digest          string // Hex SHA-256 of the token.
	ID, UserID      string
	Peer, UserAgent string
	CreatedAt       time.Time
	SeenAt          time.Time
	ExpiresAt       time.Time
	Kind            SessionKind
	Client          string // As a program called itself.
	// Pending is set while the second factor is missing: what the sign-in was for.
	Pending  string
	ProvedAt time.Time // When the second factor was shown last.
}

// SessionKind is who holds a session's token.
type SessionKind string

// Kinds of sessions.
const (
	SessionBrowser SessionKind = "browser" // In a cookie.
	SessionCLI     SessionKind = "cli"     // In a file or keyring.
)

// DeviceLogin is a program that waits for a person to approve its code.
type DeviceLogin struct {
	Digest                  string // Hex SHA-256 of the device code.
	UserCode                string
	Client, Peer, UserAgent string
	CreatedAt, ExpiresAt    time.Time
	PolledAt                time.Time
	Interval                time.Duration // Between two polls.
	State                   DeviceState
	// UserID is who decided, SessionID in which session.
	UserID, SessionID string
}

// DeviceState is how far a device login is.
type DeviceState string

// States of a device login.
const (
	DevicePending  DeviceState = "pending"
	DeviceApproved DeviceState = "approved"
	DeviceDenied   DeviceState = "denied"
	DeviceUsed     DeviceState = "used" // Its session was handed out.
)

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
	Staged      string
	Scopes      []string
	GroupsClaim string
	// DefaultRole is the id of the role of a user in no mapped group; empty: no access.
	DefaultRole   string
	GroupMappings []GroupMapping
	Enabled       bool
	LastTest      string // JSON of the service's own.
	// Settings rises with every change that needs a new trial sign-in; Tested is the
	// value that passed one.
	Settings, Tested     int64
	CreatedAt, UpdatedAt time.Time
	Version              int64
	// Type is ConnectionOIDC or ConnectionSAML; empty is the former. Of a SAML connection,
	// Issuer is the provider's entity id.
	Type string
	SAML SAML
	// SharedRedirect is of a connection from before each tenant had a redirect URI of its own,
	// until a trial sign-in has come back by that. It says nothing of a SAML connection.
	SharedRedirect bool
	// SAMLKey is the connection's own private key, sealed; with the next one after it, if
	// there is one.
	SAMLKey string
}

// Types of connections.
const (
	ConnectionOIDC = "oidc"
	ConnectionSAML = "saml"
)

// SAML is the settings of a SAML connection.
type SAML struct {
	SSO            string   `json:"sso,omitempty"`
	Certificates   []string `json:"certificates,omitempty"` // PEM; the provider's.
	MetadataURL    string   `json:"metadata_url,omitempty"`
	SignRequests   bool     `json:"sign_requests,omitempty"`
	WantEncrypted  bool     `json:"want_encrypted,omitempty"`
	IdPInitiated   bool     `json:"idp_initiated,omitempty"`
	EmailAttribute string   `json:"email_attribute,omitempty"`
	NameAttribute  string   `json:"name_attribute,omitempty"`
	// Certificate is the connection's own, in PEM; NextCertificate the one that will take its
	// place. A staged change has no say in them.
	Certificate     string `json:"certificate,omitempty"`
	NextCertificate string `json:"next_certificate,omitempty"`
}

// Equal reports whether two settings are the same.
func (s SAML) Equal(o SAML) bool {
	same := slices.Equal(s.Certificates, o.Certificates)
	s.Certificates, o.Certificates = nil, nil
	return same && reflect.DeepEqual(s, o)
}

// GroupMapping gives a group of the provider a role.
type GroupMapping struct {
	Group string `json:"group"`
	Role  RoleID `json:"role"`
}

// RoleID is the id of a role. In JSON that was written before roles had ids, it is a number.
type RoleID string

// UnmarshalJSON reads both forms.
func (r *RoleID) UnmarshalJSON(b []byte) error {
	var n int
	if json.Unmarshal(b, &n) == nil {
		*r = ""
		if old := []RoleID{"", "role_owner", "role_admin", "role_billing", "role_developer", "role_auditor", "role_viewer"}; n > 0 && n < len(old) {
			*r = old[n]
		}
		return nil
	}
	return json.Unmarshal(b, (*string)(r))
}

// Role is a tenant's own.
type Role struct {
	TenantID, ID, Name, Description string
	Permissions                     []string // Names.
	CreatedAt, UpdatedAt            time.Time
	Version                         int64
}

// ServiceAccount is a machine that can have roles and keys.
type ServiceAccount struct {
	TenantID, ID, Name, Description string
	Disabled                        bool
	CreatedBy                       string
	CreatedAt, UpdatedAt            time.Time
	Version                         int64
}

// Group is members who have roles together.
type Group struct {
	TenantID, ID, Name, Description string
	// ExternalID is the directory's id of it; ConnectionID whose directory keeps it, empty
	// if people do.
	ExternalID, ConnectionID string
	CreatedAt, UpdatedAt     time.Time
	Version                  int64
}

// GroupMember is a member in a group.
type GroupMember struct {
	TenantID, GroupID, UserID string
	CreatedAt                 time.Time
}

// Binding gives a role to a principal at a place.
type Binding struct {
	TenantID, ID string
	// PrincipalID is a user, service account or group.
	PrincipalID, RoleID string
	// NamespaceID is empty for the whole tenant, Queues for all queues.
	NamespaceID, Queues string
	// Source is the connection whose groups gave it; empty: people did.
	Source    string
	CreatedBy string
	CreatedAt time.Time
}

// Identity is a provider's user.
type Identity struct {
	TenantID, ConnectionID, Issuer, Subject, UserID string
	CreatedAt                                       time.Time
	// VouchedEmail is the address that the provider vouched for at the last sign-in; empty for
	// none. The user's own may be one that they chose.
	VouchedEmail string
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
	// The entry's place in its tenant's chain; Seq is 0 for one of before there were chains.
	Seq            int64
	PrevHash, Hash string
}

// AuditChain is the end of a tenant's chain, and where it begins now.
type AuditChain struct {
	TenantID string
	Seq      int64
	Hash     string
	// FirstSeq is of the oldest entry that is kept, FirstAfter the hash of the one before it.
	FirstSeq   int64
	FirstAfter string
	OldestAt   time.Time // Zero: no entry is kept.
	// HeadSeq is how far the last signed head came.
	HeadSeq int64
	HeadAt  time.Time
}

// AuditHead is a signed head of a chain.
type AuditHead struct {
	TenantID         string
	Seq, FirstSeq    int64
	Hash, FirstAfter string
	At               time.Time
	KeyID, Signature string
}

// AuditSink is where a tenant's log is sent.
type AuditSink struct {
	TenantID, ID, Name string
	Format             int64  // cloudv1.AuditFormat.
	Target             string // JSON of the service's own.
	Secret             string // Sealed.
	Enabled            bool
	// Sent is the number of the last entry that arrived.
	Sent         int64
	SentAt       time.Time
	DueAt        time.Time
	Attempts     int64 // Since one succeeded.
	FailingSince time.Time
	LastError    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Version      int64
}

// Domain is a name in DNS that a tenant claims.
type Domain struct {
	TenantID, ID, Name string
	// Token is the random part of the TXT record. Everybody can read it there.
	Token        string
	ConnectionID string    // Empty: any enabled one of the tenant.
	VerifiedAt   time.Time // Zero: not verified.
	// MissingSince is when the record of a verified domain was first not there.
	MissingSince time.Time
	CheckedAt    time.Time
	Problem      string // For people.
	DueAt        time.Time
	Attempts     int64 // Since DNS answered.
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Version      int64
}

// AuditKey is a key that signs heads.
type AuditKey struct {
	Year      int64
	ID        string
	PublicKey string // In base64.
	Sealed    string
	CreatedAt time.Time
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
	// FromID and BelowID bound the ids; those of a time begin with it.
	FromID, BelowID string
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
	// OutboxAccess: what the principals of the tenant may do has changed; its keys are to be
	// computed again. Its subject is the tenant.
	OutboxAccess OutboxKind = "cell.access"
	OutboxMail   OutboxKind = "mail"
)

// Lease is a right that one process holds for a while. Token only grows.
type Lease struct {
	Name, Holder string
	Token        int64
	ExpiresAt    time.Time
}
