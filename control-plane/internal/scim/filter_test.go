package scim

import (
	"strings"
	"testing"
)

func ada() Object {
	return Object{
		"userName": "Ada@Example.com", "externalId": "00uA", "active": true, "displayName": "Ada Lovelace", "id": "usr_1",
		"emails": []any{Object{"value": "ada@example.com", "type": "work", "primary": true}, Object{"value": "ada@home.test", "type": "home"}},
		"meta":   Object{"resourceType": "User", "created": "2026-11-23T10:00:00.000Z"}, urnEnterprise: Object{"department": "Engines"},
	}
}

func TestFilter_SaysWhatItSays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`userName eq "ada@example.COM"`: true, `USERNAME EQ "ada@example.com"`: true, `userName eq "bob"`: false, `userName ne "bob"`: true,
		`externalId eq "00uA"`: true, `externalId eq "00ua"`: false, `id eq "usr_1"`: true,
		`userName co "EXAMPLE"`: true, `userName sw "ada"`: true, `userName sw "example"`: false,
		`active eq true`: true, `active eq "True"`: true, `active eq False`: false, `active ne true`: false,
		`emails eq "ada@home.test"`: true, `emails.value eq "ada@home.test"`: true, `emails.type eq "other"`: false,
		`emails[type eq "work" and value co "@example.com"]`: true, `emails[type eq "home" and value co "@example.com"]`: false,
		`displayName pr`: true, `title pr`: false, `title eq null`: true, `title ne null`: false,
		`not (userName eq "bob")`: true, `not (active eq true) or displayName sw "ada"`: true,
		`userName eq "x" or userName eq "y" and active eq true`: false, `(userName eq "x" or active eq true) and id pr`: true,
		`meta.resourceType eq "User"`: true, `meta.created sw "2026"`: true,
		`urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ada@example.com"`: true,
		urnEnterprise + `:department eq "engines"`:                                 true,
		`displayName eq "Ada \"x\""`:                                               false,
	} {
		f, err := ParseFilter(User, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Match(ada(), nil); got != want || err != nil {
			t.Errorf("%s: %t %v, want %t", text, got, err, want)
		}
	}
}

func TestFilter_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "userName", "userName eq", `userName eq "x`, `userName eq x`, `userName gt "x"`, `password eq "x"`, `userName eq "x" and`, `(userName eq "x"`,
		`userName eq "x")`, `emails[type eq "work"`, `emails[nothing eq "x"]`, `userName[a eq "b"]`, `not userName eq "x"`, `userName eq 7`, `active co "t"`,
		`name eq "x"`, `userName eq {"a":1}`, `groups.value eq "x"`, `userName.x eq "y"`, `urn:x:userName eq "a"`, `active eq "maybe"`,
		`userName eq "` + strings.Repeat("x", FilterMax) + `"`, strings.Repeat("(", 10) + `id pr` + strings.Repeat(")", 10), strings.Repeat("not (", 10) + `id pr` + strings.Repeat(")", 10),
	} {
		if _, err := ParseFilter(User, text); err == nil {
			t.Errorf("%q is taken", text)
		} else if e, ok := As(err); !ok || e.Type != InvalidFilter {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{`members pr`, `members.value co "x"`, `members[value eq "x"]`, `members eq null`} {
		if _, err := ParseFilter(Group, text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestFilter_AsksForMembersOneByOne(t *testing.T) {
	t.Parallel()
	f, err := ParseFilter(Group, `id eq "grp_1" and members eq "usr_1"`)
	if err != nil {
		t.Fatal(err)
	}
	asked := ""
	ok, err := f.Match(Object{"id": "grp_1"}, func(a, v string) (bool, error) { asked = a + " " + v; return true, nil })
	if !ok || err != nil || asked != "members usr_1" {
		t.Errorf("%t %v, asked for %q", ok, err, asked)
	}
	if id, ok := f.Needs("members"); !ok || id != "usr_1" {
		t.Errorf("needs %q", id)
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(`userName eq "a" and not (emails[type eq "work"] or active eq true)`)
	f.Add(`urn:ietf:params:scim:schemas:core:2.0:User:name.familyName pr`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range []Kind{User, Group} {
			if got, err := ParseFilter(k, text); err == nil {
				if _, err := got.Match(ada(), func(string, string) (bool, error) { return true, nil }); err != nil {
					t.Error(err)
				}
			} else if e, ok := As(err); !ok || e.Type != InvalidFilter {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
