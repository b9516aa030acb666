package shape

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, ` {"a" : [1, -0.5e+3, "x\u00e9\ud83d\ude00\n", true]} `, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `"\ud800"`,
		`01`, `1.`, `1e`, `-`, `{"a"}`, `{,}`, `[1,]`, `"\x"`, "\"\x01\"", "\xff", strings.Repeat("[", 200), `{"a":{"b":{"c":[{}]}}}`, `tru`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Check(b)
		if err == nil {
			if !json.Valid(b) || !utf8.Valid(b) {
				t.Fatalf("accepted what is not JSON: %q", b)
			}
			walk(t, bytes.TrimSpace(b))
			return
		}
		for _, stricter := range []string{"duplicate member", "nested deeper", "UTF-8", "surrogate"} {
			if strings.Contains(err.Error(), stricter) {
				return
			}
		}
		if json.Valid(b) {
			t.Fatalf("refused JSON %q: %v", b, err)
		}
	})
}

// walk reads a checked value with our readers and compares with encoding/json.
func walk(t *testing.T, b []byte) {
	switch KindOf(b) {
	case '{':
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		n := 0
		Members(b, func(name string, v []byte) {
			n++
			if !bytes.Equal(want[name], v) {
				t.Fatalf("member %q is %q, want %q in %q", name, v, want[name], b)
			}
			walk(t, v)
		})
		if n != len(want) {
			t.Fatalf("%d members, want %d in %q", n, len(want), b)
		}
	case '[':
		var want []json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		n := 0
		Elements(b, func(v []byte) {
			if n >= len(want) || !bytes.Equal(want[n], v) {
				t.Fatalf("element %d is %q in %q", n, v, b)
			}
			n++
			walk(t, v)
		})
		if n != len(want) {
			t.Fatalf("%d elements, want %d", n, len(want))
		}
	case '"':
		var want string
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		if got := Unquote(b); got != want {
			t.Fatalf("unquote(%q) = %q, want %q", b, got, want)
		}
	}
}

func TestCheckJSON_ManyMembersAreStillCompared(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteByte('{')
	for i := range 100 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k` + strings.Repeat("x", i) + `":1`)
	}
	if err := Check([]byte(b.String() + `}`)); err != nil {
		t.Error(err)
	}
	for _, again := range []string{"k", "kxxx", "k" + strings.Repeat("x", 99)} {
		if err := Check([]byte(b.String() + `,"` + again + `":2}`)); err == nil {
			t.Errorf("a second %q was accepted", again)
		}
	}
}
