package scim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

const patchOf = `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[%s]}`

func patched(t *testing.T, k Kind, before Object, operations string) (string, []MemberOp, error) {
	t.Helper()
	body, err := Decode(fmt.Appendf(nil, patchOf, operations))
	if err != nil {
		return "", nil, err
	}
	raw, _ := json.Marshal(before)
	after, ops, err := k.Patch(before, body)
	if now, _ := json.Marshal(before); string(now) != string(raw) {
		t.Errorf("%s changes the resource that it was given", operations)
	}
	out, _ := json.Marshal(after)
	return string(out), ops, err
}

func TestPatch_UsersAsEntraAndOktaWriteThem(t *testing.T) {
	t.Parallel()
	const work, both = `[{"type":"work","value":"a@x"}]`, `[{"primary":true,"type":"work","value":"a@x"},{"type":"home","value":"b@x"}]`
	for _, tc := range []struct{ name, before, operations, after string }{
		{"Okta deactivates", `{"userName":"a","active":true}`, `{"op":"replace","value":{"active":false}}`, `{"active":false,"userName":"a"}`},
		{"Entra deactivates", `{"userName":"a","active":true}`, `{"op":"Replace","path":"active","value":"False"}`, `{"active":false,"userName":"a"}`},
		{"Entra without path", `{"userName":"a"}`, `{"op":"Add","value":{"displayName":"A","name.givenName":"G","emails[type eq \"work\"].value":"a@x"}}`,
			`{"displayName":"A","emails":` + work + `,"name":{"givenName":"G"},"userName":"a"}`},
		{"Entra adds an email", `{"userName":"a"}`, `{"op":"Add","path":"emails[type eq \"work\"].value","value":"a@x"}`, `{"emails":` + work + `,"userName":"a"}`},
		{"Entra replaces an email", `{"userName":"a","emails":[{"type":"work","value":"old"},{"type":"home","value":"b"}]}`,
			`{"op":"Replace","path":"emails[type eq \"work\"].value","value":"a@x"}`, `{"emails":[{"type":"work","value":"a@x"},{"type":"home","value":"b"}],"userName":"a"}`},
		{"any case", `{"userName":"a"}`, `{"OP":"REPLACE","Path":"NAME.FAMILYNAME","VALUE":"L"}`, `{"name":{"familyName":"L"},"userName":"a"}`},
		{"an extension", `{"userName":"a"}`, `{"op":"Add","path":"` + urnEnterprise + `:department","value":"D"},{"op":"add","path":"` + urnEnterprise + `:manager","value":"m1"}`,
			`{"` + urnEnterprise + `":{"department":"D","manager":{"value":"m1"}},"userName":"a"}`},
		{"all of an extension", `{"userName":"a"}`, `{"op":"add","path":"` + urnEnterprise + `","value":{"division":"V"}}`, `{"` + urnEnterprise + `":{"division":"V"},"userName":"a"}`},
		{"an extension goes", `{"userName":"a","` + urnEnterprise + `":{"department":"D"}}`, `{"op":"remove","path":"` + urnEnterprise + `:department"}`, `{"userName":"a"}`},
		{"core by its URN", `{"userName":"a"}`, `{"op":"replace","path":"` + urnUser + `:userName","value":"b"}`, `{"userName":"b"}`},
		{"add merges", `{"userName":"a","name":{"givenName":"G"}}`, `{"op":"add","path":"name","value":{"familyName":"F"}}`, `{"name":{"familyName":"F","givenName":"G"},"userName":"a"}`},
		{"add once", `{"userName":"a","emails":` + work + `}`, `{"op":"add","path":"emails","value":[{"value":"a@x","type":"work"}]}`, `{"emails":` + work + `,"userName":"a"}`},
		{"a new primary", `{"userName":"a","emails":` + both + `}`, `{"op":"replace","path":"emails[type eq \"home\"].primary","value":true}`,
			`{"emails":[{"type":"work","value":"a@x"},{"primary":true,"type":"home","value":"b@x"}],"userName":"a"}`},
		{"remove by filter", `{"userName":"a","emails":` + both + `}`, `{"op":"remove","path":"emails[type eq \"home\"]"}`, `{"emails":[{"primary":true,"type":"work","value":"a@x"}],"userName":"a"}`},
		{"remove by value", `{"userName":"a","emails":` + both + `}`, `{"op":"remove","path":"emails","value":[{"value":"b@x"}]}`, `{"emails":[{"primary":true,"type":"work","value":"a@x"}],"userName":"a"}`},
		{"remove all", `{"userName":"a","emails":` + both + `}`, `{"op":"Remove","path":"emails"}`, `{"userName":"a"}`},
		{"remove what is not there", `{"userName":"a"}`, `{"op":"remove","path":"emails[type eq \"x\"].value"}`, `{"userName":"a"}`},
		{"whole resource", `{"userName":"a"}`, `{"op":"replace","value":{"schemas":["x"],"id":"usr_9","meta":{},"unheard":1,"title":"T"}}`, `{"title":"T","userName":"a"}`},
		{"null takes away", `{"userName":"a","title":"T","name":{"givenName":"G","familyName":"F"}}`, `{"op":"replace","value":{"title":null,"name":{"givenName":null}}}`,
			`{"name":{"familyName":"F"},"userName":"a"}`},
	} {
		var before Object
		if err := json.Unmarshal([]byte(tc.before), &before); err != nil {
			t.Fatal(err)
		}
		got, _, err := patched(t, User, before, tc.operations)
		if err != nil || got != tc.after {
			t.Errorf("%s:\n got %s %v\nwant %s", tc.name, got, err, tc.after)
		}
	}
}

func TestPatch_MembersOfGroups(t *testing.T) {
	t.Parallel()
	for operations, want := range map[string][]MemberOp{
		`{"op":"Add","path":"members","value":[{"$ref":null,"value":"u1"},{"value":"u2"}]}`:                {{Add: []string{"u1", "u2"}}},
		`{"op":"add","value":{"members":[{"value":"u1","display":"x"}]}}`:                                  {{Add: []string{"u1"}}},
		`{"op":"Remove","path":"members[value eq \"u1\"]"}`:                                                {{Remove: []string{"u1"}}},
		`{"op":"remove","path":"members[value eq \"u1\" or value eq \"u2\"]"}`:                             {{Remove: []string{"u1", "u2"}}},
		`{"op":"Remove","path":"members","value":[{"value":"u1"}]}`:                                        {{Remove: []string{"u1"}}},
		`{"op":"replace","path":"members","value":[{"value":"u3"}]}`:                                       {{Replace: true, Add: []string{"u3"}}},
		`{"op":"replace","value":{"id":"g","displayName":"New","members":[]}}`:                             {{Replace: true}},
		`{"op":"remove","path":"members"}`:                                                                 {{Replace: true}},
		`{"op":"replace","value":{"id":"g","displayName":"New"}}`:                                          nil,
		`{"op":"remove","path":"members[value eq \"u1\"]"},{"op":"add","path":"members","value":"u2"}`:     {{Remove: []string{"u1"}}, {Add: []string{"u2"}}},
		`{"op":"remove","path":"members[value eq \"u1\"].value"},{"op":"add","path":"members","value":[]}`: {{Remove: []string{"u1"}}, {}},
	} {
		_, ops, err := patched(t, Group, Object{"displayName": "G"}, operations)
		if err != nil || !reflect.DeepEqual(ops, want) {
			t.Errorf("%s: %+v %v, want %+v", operations, ops, err, want)
		}
	}
}

func TestPatch_RefusesWithTheWordForIt(t *testing.T) {
	t.Parallel()
	before := Object{"userName": "a", "emails": []any{Object{"type": "work", "value": "x"}}}
	for operations, want := range map[string]string{
		``:                                       InvalidSyntax,
		`{"op":"move","path":"x"}`:               InvalidSyntax,
		`7`:                                      InvalidSyntax,
		`{"op":"remove"}`:                        NoTarget,
		`{"op":"add","value":"x"}`:               InvalidValue,
		`{"op":"add","path":"x"}`:                InvalidValue,
		`{"op":"add","path":"x","value":1}`:      InvalidPath,
		`{"op":"add","path":"name.x","value":1}`: InvalidPath,
		`{"op":"add","path":"emails[","value":1}`:                              InvalidPath,
		`{"op":"add","path":"title[a eq 1]","value":1}`:                        InvalidPath,
		`{"op":"add","path":"emails[x eq \"1\"].value","value":"y"}`:           InvalidFilter,
		`{"op":"replace","path":"id","value":"x"}`:                             Mutability,
		`{"op":"replace","path":"meta.created","value":"x"}`:                   Mutability,
		`{"op":"add","path":"groups","value":[{"value":"g"}]}`:                 Mutability,
		`{"op":"remove","path":"userName"}`:                                    InvalidValue,
		`{"op":"replace","path":"userName","value":""}`:                        InvalidValue,
		`{"op":"replace","path":"active","value":"perhaps"}`:                   InvalidValue,
		`{"op":"replace","path":"title","value":["x"]}`:                        InvalidValue,
		`{"op":"replace","path":"title","value":"a\u0000b"}`:                   InvalidValue,
		`{"op":"replace","path":"emails[type eq \"home\"].value","value":"y"}`: NoTarget,
		`{"op":"add","path":"emails[type co \"h\"].value","value":"y"}`:        NoTarget,
	} {
		_, _, err := patched(t, User, before, operations)
		if e, ok := As(err); !ok || e.Type != want {
			t.Errorf("%s: %v, want %s", operations, err, want)
		}
	}
	if _, _, err := User.Patch(before, Object{"Operations": []any{}}); err == nil {
		t.Error("a PATCH without its schema is taken")
	}
}

func TestDecode_RefusesWhatTwoReadersCouldReadDifferently(t *testing.T) {
	t.Parallel()
	deep := ""
	for range 40 {
		deep += `{"a":`
	}
	for _, text := range []string{`{"a":1,"a":2}`, `{"active":true,"ACTIVE":false}`, `{"a":{"b":1,"B":2}}`, `[]`, `7`, ``, `{"a":1}{}`, `{"a":"` + "\xff" + `"}`, deep} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(`{"op":"Add","path":"emails[type eq \"work\"].value","value":"a@x"}`)
	f.Add(`{"op":"replace","value":{"active":"False","name.givenName":"G","members":[{"value":"u"}]}}`)
	f.Add(`{"op":"remove","path":"members[value eq \"u1\"]"},{"op":"remove","path":"` + urnEnterprise + `:manager"}`)
	f.Fuzz(func(t *testing.T, operations string) {
		for _, k := range []Kind{User, Group} {
			before := ada()
			if k == Group {
				before = Object{"displayName": "G"}
			}
			after, _, err := patched(t, k, before, operations)
			if err != nil {
				if _, ok := As(err); !ok {
					t.Errorf("%s: %v", operations, err)
				}
				continue
			}
			// What a PATCH makes can be read again.
			o, err := Decode([]byte(after))
			if err == nil {
				_, err = k.Read(o)
			}
			if err != nil {
				t.Errorf("%s makes %s: %v", operations, after, err)
			}
		}
	})
}
