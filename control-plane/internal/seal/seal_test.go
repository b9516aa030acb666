package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func newBox(t testing.TB, keys ...[]byte) *Box {
	t.Helper()
	if len(keys) == 0 {
		keys = [][]byte{NewKey()}
	}
	b, err := New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNew_RefusesKeysOfTheWrongLength(t *testing.T) {
	t.Parallel()
	for _, keys := range [][][]byte{nil, {make([]byte, 16)}, {make([]byte, 32), make([]byte, 33)}} {
		if _, err := New(keys...); err == nil {
			t.Errorf("New with %d keys: no error", len(keys))
		}
	}
}

func TestSeal_OpensForItsPurposeAlone(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text, err := b.Seal(Purpose{name: "sso"}, []byte("client secret"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "secret") {
		t.Errorf("%q shows the plain text", text)
	}
	plain, err := b.Open(Purpose{name: "sso"}, text)
	if err != nil || string(plain) != "client secret" {
		t.Fatalf("Open = %q, %v", plain, err)
	}
	if _, err := b.Open(Purpose{name: "mail"}, text); !errors.Is(err, ErrTampered) {
		t.Errorf("open for another purpose: %v, want ErrTampered", err)
	}
	if _, err := newBox(t).Open(Purpose{name: "sso"}, text); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("open with another master key: %v, want ErrUnknownKey", err)
	}
	again, err := b.Seal(Purpose{name: "sso"}, []byte("client secret"))
	if err != nil || again == text {
		t.Errorf("sealing twice gave the same text (%v): equal secrets must not show", err)
	}
}

func TestSeal_AnyChangedCharacterIsRefused(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	text, err := b.Seal(Purpose{name: "sso"}, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		for _, c := range []byte{'A', 'b', '0', '.', '\n', 0} {
			if text[i] == c {
				continue
			}
			changed := text[:i] + string(c) + text[i+1:]
			if _, err := b.Open(Purpose{name: "sso"}, changed); err == nil {
				t.Errorf("%q opened like %q", changed, text)
			}
		}
	}
	if _, err := b.Open(Purpose{name: "sso"}, text+"\n"); err == nil {
		t.Error("a text with a line break behind it opened")
	}
}

func TestSeal_KeysAreChangedByPuttingANewOneInFront(t *testing.T) {
	t.Parallel()
	older, newer := NewKey(), NewKey()
	before, during, after := newBox(t, older), newBox(t, newer, older), newBox(t, newer)
	text, err := before.Seal(Purpose{name: "p"}, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := during.Open(Purpose{name: "p"}, text); err != nil {
		t.Errorf("while both keys are given: %v", err)
	}
	if _, err := after.Open(Purpose{name: "p"}, text); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("when the old key is gone: %v, want ErrUnknownKey", err)
	}
	text, err = during.Seal(Purpose{name: "p"}, []byte("y"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := after.Open(Purpose{name: "p"}, text); err != nil || string(plain) != "y" {
		t.Errorf("sealed while both were given = %q, %v: want it sealed by the first key", plain, err)
	}
	if sum := before.MAC("p", []byte("d")); !during.CheckMAC("p", []byte("d"), sum) || after.CheckMAC("p", []byte("d"), sum) {
		t.Error("MACs do not follow the keys")
	}
	if token := before.PageToken("c", "f", "a"); token != "" {
		if got, err := during.ParsePageToken("c", "f", token); err != nil || got != "a" {
			t.Errorf("page token of the older key = %q, %v", got, err)
		}
	}
}

func TestMAC_DiffersByPurposeAndData(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	sum := b.MAC("a", []byte("data"))
	if len(sum) != 32 || !bytes.Equal(sum, b.MAC("a", []byte("data"))) || !b.CheckMAC("a", []byte("data"), sum) {
		t.Error("the same data has another MAC")
	}
	if b.CheckMAC("b", []byte("data"), sum) || b.CheckMAC("a", []byte("date"), sum) || b.CheckMAC("a", []byte("data"), sum[:8]) || b.CheckMAC("a", []byte("data"), nil) {
		t.Error("a MAC of something else, or half of one, is taken")
	}
}

func TestPageToken_IsBoundToCallerAndFilter(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	token := b.PageToken("tn_1 ListKeys", "revoked=true", "key_9")
	if after, err := b.ParsePageToken("tn_1 ListKeys", "revoked=true", token); err != nil || after != "key_9" {
		t.Fatalf("ParsePageToken = %q, %v", after, err)
	}
	for _, tc := range []struct{ caller, filter, token string }{
		{"tn_2 ListKeys", "revoked=true", token},
		{"tn_1 ListKeys", "revoked=false", token},
		{"tn_1 ListKeysrevoked=", "true", token}, // Same bytes, cut elsewhere.
		{"tn_1 ListKeys", "revoked=true", token + "A"},
		{"tn_1 ListKeys", "revoked=true", token[:len(token)-1]},
		{"tn_1 ListKeys", "revoked=true", token[:8] + "\n" + token[8:]},
		{"tn_1 ListKeys", "revoked=true", strings.Repeat("A", 3000)},
		{"tn_1 ListKeys", "revoked=true", encoding.EncodeToString([]byte("key_9"))},
	} {
		if after, err := b.ParsePageToken(tc.caller, tc.filter, tc.token); !errors.Is(err, ErrPageToken) {
			t.Errorf("%+v = %q, %v, want ErrPageToken", tc, after, err)
		}
	}
	if b.PageToken("c", "f", "") != "" {
		t.Error("a token for no next page")
	}
	if after, err := b.ParsePageToken("c", "f", ""); err != nil || after != "" {
		t.Errorf("the first page = %q, %v", after, err)
	}
}

func TestNewToken_IsRandomAndKeptAsADigest(t *testing.T) {
	t.Parallel()
	a, digest := NewToken("cl_")
	b, _ := NewToken("cl_")
	if a == b || !strings.HasPrefix(a, "cl_") || len(a) != len("cl_")+43 {
		t.Errorf("tokens %q and %q", a, b)
	}
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != 32 || digest != Digest(a) || digest == Digest(b) {
		t.Errorf("digest %q of %q", digest, a)
	}
}

func FuzzOpen(f *testing.F) {
	b := newBox(f, bytes.Repeat([]byte{7}, KeyBytes))
	good, err := b.Seal(Purpose{name: "p"}, []byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{good, "", "s1..", "s1.00000000.", "s1." + b.keys[0].id + ".AAAA"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plain, err := b.Open(Purpose{name: "p"}, text)
		// Every process of the fuzzer seals a seed of its own, all of them the same plain text.
		if err == nil && string(plain) != "x" {
			t.Fatalf("%q opened as %q, which nobody sealed", text, plain)
		}
	})
}

func FuzzParsePageToken(f *testing.F) {
	b := newBox(f, bytes.Repeat([]byte{7}, KeyBytes))
	for _, s := range []string{b.PageToken("c", "f", "after"), "", "AAAA", strings.Repeat("A", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		after, err := b.ParsePageToken("c", "f", token)
		if err == nil && b.PageToken("c", "f", after) != token {
			t.Fatalf("%q was taken for %q, which has another token", token, after)
		}
	})
}
