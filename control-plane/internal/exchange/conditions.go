package exchange

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	conditionsMax = 20
	valuesMax     = 20
	claimMax      = 100
	valueMax      = 512
)

// Issuers that everybody in the world can have a token of.
const (
	githubIssuer = "https://token.actions.githubusercontent.com"
	gitlabIssuer = "https://gitlab.com"
)

// unmet is the first condition that a token's claims don't meet, in words of the trust alone;
// empty if they meet all.
func unmet(conditions []store.TrustCondition, claims map[string]any) string {
	for _, c := range conditions {
		text, ok := textOf(claims[c.Claim])
		if !ok {
			return fmt.Sprintf("the token has no claim %s that is a text, number or boolean", c.Claim)
		}
		if !slices.ContainsFunc(c.Values, func(v string) bool { return fits(v, text) }) {
			return fmt.Sprintf("the claim %s doesn't match %s", c.Claim, strings.Join(c.Values, " or "))
		}
	}
	return ""
}

// fits reports whether a value is the pattern, or begins with it if it ends with a *.
func fits(pattern, value string) bool {
	if before, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(value, before)
	}
	return pattern == value
}

// textOf is a claim as a condition writes it. Lists and objects are none: which of a list's
// members counts is not ours to say.
func textOf(claim any) (string, bool) {
	switch c := claim.(type) {
	case string:
		return c, true
	case bool:
		return strconv.FormatBool(c), true
	case json.Number:
		return c.String(), true
	}
	return "", false
}

// checkConditions lists what is wrong with conditions by themselves.
func checkConditions(all []store.TrustCondition) (wrong []fault.Field) {
	add := func(field, format string, args ...any) {
		wrong = append(wrong, fault.Field{Name: field, Problem: fmt.Sprintf(format, args...)})
	}
	if len(all) > conditionsMax {
		add("conditions", "can't have more than %d", conditionsMax)
	}
	for i, c := range all[:min(len(all), conditionsMax)] {
		at := fmt.Sprintf("conditions[%d]", i)
		switch {
		case plainProblem(c.Claim, claimMax) != "":
			add(at+".claim", "%s", plainProblem(c.Claim, claimMax))
		case slices.Contains([]string{"iss", "aud", "exp", "nbf", "iat", "jti"}, c.Claim):
			add(at+".claim", "%s is checked for every token; leave it out", c.Claim)
		case slices.ContainsFunc(all[:i], func(o store.TrustCondition) bool { return o.Claim == c.Claim }):
			add(at+".claim", "%s has a condition already; put the values into one", c.Claim)
		}
		if len(c.Values) == 0 || len(c.Values) > valuesMax {
			add(at+".values", "must have 1 to %d", valuesMax)
		}
		for j, v := range c.Values[:min(len(c.Values), valuesMax)] {
			in := fmt.Sprintf("%s.values[%d]", at, j)
			switch {
			case plainProblem(v, valueMax) != "":
				add(in, "%s", plainProblem(v, valueMax))
			case v == "*":
				add(in, "would match anything; leave the condition out")
			case strings.Contains(strings.TrimSuffix(v, "*"), "*"):
				add(in, "%q has a * that isn't at the end; only the end can be left open", v)
			}
		}
	}
	return wrong
}

// pinned says why tokens of others than one owner would pass; empty if they would not. That
// one condition holds for all of its values is what counts: they are alternatives.
func pinned(provider cloudv1.TrustProvider, issuer string, all []store.TrustCondition) string {
	switch host := hostOf(issuer); {
	case host == hostOf(githubIssuer) && provider != cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB:
		return "this is GitHub's issuer; choose the provider GitHub"
	case host == hostOf(gitlabIssuer) && provider != cloudv1.TrustProvider_TRUST_PROVIDER_GITLAB:
		return "this is GitLab's issuer; choose the provider GitLab"
	}
	names, why := pins(provider)
	for _, c := range all {
		if p := names[c.Claim]; p != nil && len(c.Values) > 0 && !slices.ContainsFunc(c.Values, func(v string) bool { return !p(v) }) {
			return ""
		}
	}
	return why
}

// pin reports whether a value names an owner as a whole.
type pin func(value string) bool

func exactly(value string) bool { return !strings.HasSuffix(value, "*") }

// under is a value whose part after the prefix names an owner and the slash or colon that ends
// its name: acme* would let in acme-evil.
func under(prefix, end string) pin {
	return func(value string) bool {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(value, "*"), prefix)
		owner, rest, ended := strings.Cut(rest, end)
		return ok && ended && owner != "" && (rest != "" || strings.HasSuffix(value, "*"))
	}
}

// pins are the claims that can name an owner, and what to say if none does. GitHub's
// job_workflow_ref is none: other repositories can call a public workflow.
func pins(provider cloudv1.TrustProvider) (map[string]pin, string) {
	switch provider {
	case cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB:
		return map[string]pin{
			"repository": under("", "/"), "repository_id": exactly, "repository_owner": exactly, "repository_owner_id": exactly, "sub": under("repo:", "/"),
		}, "any repository on GitHub would pass; add a condition on repository (acme/web, or acme/* for all of an owner), repository_owner_id, repository_owner, repository_id, or sub (repo:acme/web:*)"
	case cloudv1.TrustProvider_TRUST_PROVIDER_GITLAB:
		return map[string]pin{
			"project_path": under("", "/"), "project_id": exactly, "namespace_path": exactly, "namespace_id": exactly, "sub": under("project_path:", "/"),
		}, "any project of this GitLab would pass; add a condition on project_path (acme/web, or acme/* for all of a group), namespace_id, namespace_path, project_id, or sub (project_path:acme/web:*)"
	case cloudv1.TrustProvider_TRUST_PROVIDER_KUBERNETES:
		return map[string]pin{"sub": under("system:serviceaccount:", ":")},
			"any service account of the cluster would pass; add a condition on sub: system:serviceaccount:NAMESPACE:NAME, or system:serviceaccount:NAMESPACE:* for all of a namespace"
	}
	return map[string]pin{"sub": func(value string) bool {
			before := strings.TrimSuffix(value, "*")
			return exactly(value) || strings.Count(before, ":")+strings.Count(before, "/") >= 2 && strings.ContainsAny(before[len(before)-1:], ":/")
		}},
		"anybody with a token of this issuer could pass; add a condition on sub, exact, or open after a colon or slash that ends the owner's name (organization:acme:*)"
}

func hostOf(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
