package sso

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLookUp_ExactNameBeforePath(t *testing.T) {
	t.Parallel()
	claims := map[string]any{
		"groups":                       []any{"a"},
		"https://corvo.example/groups": []any{"b"},
		"realm_access":                 map[string]any{"roles": []any{"c"}, "a.b": map[string]any{"c": "d"}},
		"realm_access.admin":           "e",
		"text":                         "f",
	}
	for name, want := range map[string]any{
		"groups": []any{"a"}, "https://corvo.example/groups": []any{"b"}, "realm_access.roles": []any{"c"}, "realm_access.a.b.c": "d",
		"realm_access.admin": "e", "text.x": nil, "missing": nil, "": nil, ".": nil, "realm_access.": nil,
	} {
		if got, _ := lookUp(claims, name); !reflect.DeepEqual(got, want) {
			t.Errorf("lookUp(%q) = %v, want %v", name, got, want)
		}
	}
}

// Whatever a provider puts into its claims, what comes out is a list of texts and a name
// that a page can show.
func FuzzClaims(f *testing.F) {
	f.Add(`{"groups":["a","b"],"name":"Ada"}`, "groups")
	f.Add(`{"realm_access":{"roles":["a"]},"preferred_username":"\u202eevil"}`, "realm_access.roles")
	f.Add(`{"_claim_names":{"groups":"src1"},"groups":null}`, "groups")
	f.Fuzz(func(t *testing.T, text, claim string) {
		var claims map[string]any
		if json.Unmarshal([]byte(text), &claims) != nil {
			return
		}
		groups, err := groupsOf(claims, claim)
		if err != nil && len(groups) > 0 || len(groups) > groupsMax {
			t.Errorf("%d groups, %v", len(groups), err)
		}
		name := displayName(claims)
		if n := utf8.RuneCountInString(name); n > nameMax || strings.ContainsFunc(name, isControl) {
			t.Errorf("name %q has %d characters", name, n)
		}
	})
}
