package state

import (
	"encoding/json"
	"slices"
	"testing"
)

func FuzzOverlay_TextsAndNamesAreThoseOfJSON(f *testing.F) {
	for _, s := range []string{"", "a", "<&>\u2028\u2029\x00\x1f\x7f\"\\/\b\f\n\r\t", "\xff\xc3", "ö€𝄞", `{"a":1}`} {
		f.Add(s, []byte(` { "a" : {"b":[1,"}"]} , "\u0062\n":null,"c":"\\\"" } `))
	}
	f.Add("", []byte(`{}`))
	f.Add("", []byte(`[{"a":1}]`))
	f.Add("", []byte(`null`))
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		want, err := json.Marshal(text)
		if got := appendText(nil, text); err != nil || string(got) != string(want) {
			t.Errorf("%q is written as %s, want %s", text, got, want)
		}
		names, object := memberNames(payload)
		if !json.Valid(payload) {
			return // Nobody proposes it; it only must not end the process.
		}
		var members map[string]json.RawMessage
		if isObject := json.Unmarshal(payload, &members) == nil && members != nil; object != isObject {
			t.Fatalf("%s is an object: %v, want %v", payload, object, isObject)
		}
		for _, ours := range []string{"failed_job_id", "error", "a", "b\n"} {
			if _, there := members[ours]; slices.Contains(names, ours) != there {
				t.Errorf("%s has the member %q: %v, want %v", payload, ours, !there, there)
			}
		}
	})
}
