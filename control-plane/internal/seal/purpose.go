package seal

import "slices"

// Purpose is what a secret is sealed for, and where it is in the control plane's
// database, for resealing with another master key. Only those of Purposes exist.
type Purpose struct {
	name    string
	table   string
	columns []string
}

// What is sealed in the database. A column may hold more than the sealed text: JSON, say.
var (
	Email        = Purpose{"mail", "outbox", []string{"payload"}}
	TokenKey     = Purpose{"user-token-key", "settings", []string{"value"}}
	SignIn       = Purpose{"sso.flow", "one_time_tokens", []string{"data"}}
	AuditKey     = Purpose{"audit-key", "audit_keys", []string{"sealed"}}
	TotpSecret   = Purpose{"factor.totp", "factors", []string{"secret"}}
	AuditSink    = Purpose{"audit-sink", "audit_sinks", []string{"secret"}}
	ClientSecret = Purpose{"sso.client_secret", "sso_connections", []string{"client_secret", "staged"}}
	SAMLKey      = Purpose{"sso.saml_key", "sso_connections", []string{"saml_key"}}
)

// Purposes lists all of them.
func Purposes() []Purpose {
	return []Purpose{Email, TokenKey, SignIn, AuditKey, TotpSecret, AuditSink, ClientSecret, SAMLKey}
}

// String is the purpose's name.
func (p Purpose) String() string { return p.name }

// Place is the table that holds what was sealed, and its columns.
func (p Purpose) Place() (table string, columns []string) { return p.table, slices.Clone(p.columns) }
