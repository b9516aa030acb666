package sso

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	nameDefault   = "Single sign-on"
	claimDefault  = "groups"
	nameMax       = 100
	issuerMax     = 512
	clientIDMax   = 512
	secretMax     = 2048
	scopesMax     = 20
	scopeMax      = 128
	claimMax      = 200
	mappingsMax   = 500
	groupMax      = 512
	controlReason = "can't contain control characters"
)

// validate lists everything that is wrong, and fills in defaults.
func (s *Service) validate(c *store.Connection, secret string) error {
	c.GroupsClaim = cmp.Or(c.GroupsClaim, claimDefault)
	var fields []fault.Field
	check := func(name, problem string) {
		if problem != "" {
			fields = append(fields, fault.Field{Name: name, Problem: problem})
		}
	}
	check("name", textProblem(c.Name, nameMax))
	if isSAML(*c) {
		s.checkSAML(*c, check)
	} else {
		check("issuer", s.issuerProblem(c.Issuer))
		check("client_id", textProblem(c.ClientID, clientIDMax))
		if secret != "" {
			check("client_secret", textProblem(secret, secretMax))
		}
		check("scopes", scopesProblem(c.Scopes))
	}
	check("groups_claim", textProblem(c.GroupsClaim, claimMax))
	check("group_mappings", mappingsProblem(c.GroupMappings))
	return fault.InvalidFields(fields)
}

func textProblem(text string, most int) string {
	switch {
	case text == "":
		return "is required"
	case utf8.RuneCountInString(text) > most:
		return fmt.Sprintf("can't have more than %d characters", most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, isControl):
		return controlReason
	}
	return ""
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

func (s *Service) issuerProblem(issuer string) string {
	if p := textProblem(issuer, issuerMax); p != "" {
		return p
	}
	if strings.ContainsAny(issuer, "{}") {
		return "contains a placeholder such as {tenantid}; use the issuer of your own directory"
	}
	u, err := url.Parse(issuer)
	if err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "must be the issuer URL exactly as the provider writes it, such as https://idp.example.com/realms/staff, without a query or fragment"
	}
	if err := s.Egress.CheckURL(u); err != nil {
		return err.Error()
	}
	return ""
}

// checkIssuer asks an issuer for its discovery document.
func (s *Service) checkIssuer(ctx context.Context, issuer string) error {
	if p := s.issuerProblem(issuer); p != "" {
		return fault.InvalidField("issuer", "%s", p)
	}
	if _, err := s.providers.discover(ctx, issuer); err != nil {
		return fault.InvalidField("issuer", "%s", problemOf(err).text)
	}
	return nil
}

func scopesProblem(scopes []string) string {
	if len(scopes) > scopesMax {
		return fmt.Sprintf("can't have more than %d", scopesMax)
	}
	for i, sc := range scopes {
		// RFC 6749, 3.3.
		if sc == "" || len(sc) > scopeMax || strings.ContainsFunc(sc, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return fmt.Sprintf("%q isn't a valid scope", sc)
		}
		if slices.Contains(scopes[:i], sc) {
			return fmt.Sprintf("%q is listed twice", sc)
		}
	}
	return ""
}

func mappingsProblem(all []store.GroupMapping) string {
	if len(all) > mappingsMax {
		return fmt.Sprintf("can't have more than %d", mappingsMax)
	}
	seen := map[string]bool{}
	for i, m := range all {
		if p := textProblem(m.Group, groupMax); p != "" {
			return fmt.Sprintf("group %d: %s", i+1, p)
		}
		if seen[m.Group] {
			return fmt.Sprintf("group %q is listed twice; remove one", m.Group)
		}
		seen[m.Group] = true
		if m.Role == "" {
			return fmt.Sprintf("group %q: choose a role", m.Group)
		}
	}
	return ""
}

// resolveRoles turns the names of roles into ids. An empty default role means that people
// without a mapped group can't sign in.
func resolveRoles(ctx context.Context, tx *store.Tx, c *store.Connection) error {
	find := func(field, nameOrID string) (string, error) {
		r, err := rights.FindRole(ctx, tx, c.TenantID, field, nameOrID)
		return r.ID, err
	}
	var err error
	if c.DefaultRole != "" {
		if c.DefaultRole, err = find("default_role", c.DefaultRole); err != nil {
			return err
		}
	}
	for i := range c.GroupMappings {
		id, err := find(fmt.Sprintf("group_mappings[%d].role", i), string(c.GroupMappings[i].Role))
		if err != nil {
			return err
		}
		c.GroupMappings[i].Role = store.RoleID(id)
	}
	return nil
}

// roleText is how a role is shown: a fixed one by its name, a tenant's own by its id.
func roleText(id string) string {
	if _, fixed := permission.FixedRole(strings.TrimPrefix(id, rights.FixedID(""))); fixed {
		return strings.TrimPrefix(id, rights.FixedID(""))
	}
	return id
}

func fromMappings(all []*cloudv1.GroupMapping) []store.GroupMapping {
	out := make([]store.GroupMapping, len(all))
	for i, m := range all {
		out[i] = store.GroupMapping{Group: m.GetGroup(), Role: store.RoleID(m.GetRole())}
	}
	return out
}

func (s *Service) sealed(secret string) (string, error) {
	if secret == "" {
		return "", nil
	}
	text, err := s.Seal.Seal(seal.ClientSecret, []byte(secret))
	if err != nil {
		return "", fmt.Errorf("seal a client secret: %w", err)
	}
	return text, nil
}
