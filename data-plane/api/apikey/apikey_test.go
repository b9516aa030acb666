package apikey

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

var kinds = []Kind{DataPlane, Management, Personal, SCIM, Temporary}

func mustGenerate(t testing.TB, kind Kind) Key {
	t.Helper()
	k, err := Generate(kind)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGenerate_MatchesThePublishedPatternAndParsesBack(t *testing.T) {
	t.Parallel()
	re := regexp.MustCompile("^" + Pattern + "$")
	seen := map[string]bool{}
	for _, kind := range kinds {
		for range 200 {
			k := mustGenerate(t, kind)
			if !re.MatchString(k.Reveal()) {
				t.Fatalf("%q does not match %s", k.Reveal(), Pattern)
			}
			back, err := Parse(k.Reveal())
			if err != nil {
				t.Fatal(err)
			}
			if back.ID() != k.ID() || back.Kind() != kind || back.Digest() != k.Digest() {
				t.Fatalf("parsed key differs: %v %v", back, k)
			}
			if len(k.ID()) != len("key_")+12 || seen[k.ID()] {
				t.Fatalf("bad or repeated id %q", k.ID())
			}
			seen[k.ID()] = true
		}
	}
}

func TestGenerate_UnknownKindIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := Generate("root"); !errors.Is(err, ErrKind) {
		t.Fatalf("got %v", err)
	}
}

func TestRenew_KeepsTheIDAndNothingElse(t *testing.T) {
	t.Parallel()
	old := mustGenerate(t, Management)
	k, err := Renew(Management, old.ID())
	if err != nil {
		t.Fatal(err)
	}
	if k.ID() != old.ID() || k.Kind() != Management || k.Digest() == old.Digest() {
		t.Fatalf("renewed %v into %v", old, k)
	}
	for _, id := range []string{"", "key_", old.ID()[4:], old.ID() + "0", "key_AbCdEf01234!"} {
		if _, err := Renew(Management, id); !errors.Is(err, ErrID) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if _, err := Renew("root", old.ID()); !errors.Is(err, ErrKind) {
		t.Errorf("unknown kind: %v", err)
	}
}

// Checksum and digest were computed by a second program. The provider forms keys by itself in other processes, so text and digest of one
// key are fixed here for ever.
func TestDigest_IsStable(t *testing.T) {
	t.Parallel()
	const head = "corvo_dp_" + "AbCdEf012345" + "0000000000000000000000000000000000000000001"
	sum := checksum(head)
	k, err := Parse(head + string(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	const wantSum, wantDigest = "2kQbMU", "003b43f228eacbca1d68b8ae8dca693b1c0bed11f6a67e5a2242d6632cc98a49"
	d := k.Digest()
	if string(sum[:]) != wantSum || hex.EncodeToString(d[:]) != wantDigest {
		t.Fatalf("checksum %s digest %x", sum, d)
	}
}

func TestParse_RefusesWithoutEchoingTheText(t *testing.T) {
	t.Parallel()
	good := mustGenerate(t, DataPlane).Reveal()
	swapped := []byte(good)
	for i := 25; i < 40; i++ {
		if swapped[i] != swapped[i+1] {
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			break
		}
	}
	cases := []struct {
		name, text string
		want       error
	}{
		{"empty", "", ErrFormat},
		{"other prefix", "sk_" + good, ErrFormat},
		{"cut off", good[:len(good)-1], ErrFormat},
		{"too long", good + "0", ErrFormat},
		{"space", good[:30] + " " + good[31:], ErrFormat},
		{"unicode", good[:30] + "é" + good[32:], ErrFormat},
		{"no kind", "corvo__" + good[9:], ErrKind},
		{"unknown kind", "corvo_xx_" + good[9:], ErrKind},
		{"upper kind", "corvo_DP_" + good[9:], ErrKind},
		{"other kind", "corvo_mg_" + good[9:], ErrChecksum},
		{"swapped", string(swapped), ErrChecksum},
	}
	for _, c := range cases {
		k, err := Parse(c.text)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if !k.IsZero() {
			t.Errorf("%s: a key came with the error", c.name)
		}
		if err != nil && strings.Contains(err.Error(), good[21:64]) {
			t.Errorf("%s: the error carries the secret", c.name)
		}
	}
}

func TestKey_NeverPrintsItsSecret(t *testing.T) {
	t.Parallel()
	k := mustGenerate(t, Management)
	secret := k.Reveal()[21:64]
	type outer struct {
		Public  Key
		private Key
		Ptr     *Key
	}
	o := outer{k, k, &k}
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		l := slog.New(h)
		l.Info("with", "key", k, "ptr", &k, "outer", o)
		l.With("key", k).Info("again")
	}
	doc, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := logged.String() + string(doc) + fmt.Sprint(k, &k, o, &o, []Key{k}, map[string]Key{"k": k})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T"} {
		out += fmt.Sprintf(verb, k) + fmt.Sprintf(verb, o) + fmt.Sprintf(verb, &o)
	}
	if strings.Contains(out, secret) || strings.Contains(out, hex.EncodeToString([]byte(secret))) {
		t.Fatal("the secret was printed")
	}
	if !strings.Contains(out, k.ID()[4:]) {
		t.Fatal("the id should be printed")
	}
}

func TestRedact_RemovesWholeAndDamagedKeys(t *testing.T) {
	t.Parallel()
	k := mustGenerate(t, Personal).Reveal()
	secret := k[len("corvo_pat_")+12:]
	for _, text := range []string{
		k, "a " + k + " b", "Bearer " + k + "\n" + k, "x" + k + "y", k[:len(k)-20],
		strings.ToUpper(k), "corvo_api_key=" + k, "https://h/?key=" + k + "&x=1",
	} {
		got := Redact(text)
		if strings.Contains(strings.ToLower(got), strings.ToLower(secret[:8])) {
			t.Errorf("secret left in %q", got)
		}
	}
	for _, text := range []string{"", "plain", "corvo_client_x", "corvo_enqueue"} {
		if Redact(text) != text {
			t.Errorf("%q was changed to %q", text, Redact(text))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, kind := range kinds {
		f.Add(mustGenerate(f, kind).Reveal())
	}
	f.Add("")
	f.Add("corvo_dp_")
	f.Add("corvo__dp_" + strings.Repeat("0", 61))
	re := regexp.MustCompile("^" + Pattern + "$")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := Parse(text)
		if err != nil {
			if !k.IsZero() || k.ID() != "" || k.Reveal() != "" {
				t.Fatal("a refused text made a key")
			}
			return
		}
		if !re.MatchString(text) || k.Reveal() != text {
			t.Fatalf("accepted %q", text)
		}
		if strings.Contains(Redact(text), text[len(text)-49:]) {
			t.Fatal("redaction left the secret")
		}
	})
}

func BenchmarkParseAndDigest(b *testing.B) {
	text := mustGenerate(b, DataPlane).Reveal()
	b.ReportAllocs()
	for b.Loop() {
		k, err := Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		if d := k.Digest(); d[0] == 0 && d[1] == 0 && d[2] == 0 && d[3] == 0 && d[4] == 0 {
			b.Fatal("unlikely")
		}
	}
}
