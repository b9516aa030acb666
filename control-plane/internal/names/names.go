// Package names owns which names tenants and namespaces may have. It must not know which
// are taken. Surprising: a tenant's name is a host name, so words that the service needs
// as hosts or paths are nobody's.
package names

import (
	"fmt"
	"regexp"
	"slices"
)

// Form is what a name looks like.
const Form = `[a-z][a-z0-9-]{1,38}[a-z0-9]`

const (
	lenMin = 3
	lenMax = 40
)

// reserved are hosts and paths of the service, and words that mislead.
func reserved() []string {
	return []string{
		"account", "admin", "api", "app", "assets", "auth", "billing", "console", "corvo", "corvo-cloud", "dashboard", "device", "docs", "email", "healthz", "help", "invite",
		"localhost", "login", "logout", "mail", "metrics", "ns1", "ns2", "operator", "operators", "postmaster", "readyz", "root", "security", "settings", "signin",
		"signup", "smtp", "sso", "static", "status", "support", "system", "tenants", "terraform", "webhook", "webhooks", "www",
	}
}

// expressions are made per call: names are checked rarely.
func wellFormed(name string) bool { return regexp.MustCompile(`^` + Form + `$`).MatchString(name) }

// Tenant tells what is wrong with a tenant's name, for people; empty: nothing.
func Tenant(name string) string {
	if p := Namespace(name); p != "" {
		return p
	}
	if slices.Contains(reserved(), name) {
		return fmt.Sprintf("%q is reserved; choose another name", name)
	}
	return ""
}

// Namespace tells what is wrong with a namespace's name, for people; empty: nothing.
func Namespace(name string) string {
	switch {
	case name == "":
		return "enter a name"
	case len(name) < lenMin || len(name) > lenMax:
		return fmt.Sprintf("must have %d to %d characters", lenMin, lenMax)
	case !wellFormed(name):
		return "can only have lowercase letters, digits and hyphens, must start with a letter and can't end with a hyphen"
	}
	return ""
}
