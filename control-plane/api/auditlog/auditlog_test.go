package auditlog_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
)

func at(n int) auditlog.Time {
	return auditlog.Time{Time: time.Date(2026, 11, 23, 15, 0, n, 120_000_000, time.UTC)}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func signer(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func entry(seq int64, prev string) auditlog.Entry {
	return auditlog.Entry{
		Kind: auditlog.KindEntry, TenantID: "tn_1", Seq: seq, ID: fmt.Sprintf("aud_%d", seq), At: at(int(seq)), ActorType: "user", ActorID: "usr_1",
		Actor: "ada@acme.test", Action: "key.create", TargetType: "key", TargetID: "key_1", Target: "wörker <1>", RequestID: "req_1", Peer: "192.0.2.1",
		Changes: map[string]auditlog.Change{
			"roles": {Before: []string{}, After: []string{"worker"}}, "limit": {Before: json.Number("1.50"), After: 9007199254740993}, "on": {After: true},
		},
		PrevHash: prev,
	}
}

// exported is the lines of an export of n entries that begins at first, with a head of every
// third entry.
func exported(t testing.TB, first, n int64, private ed25519.PrivateKey) []string {
	t.Helper()
	var entries, signed []string
	prev, heads := "", 0
	if first > 1 {
		prev = strings.Repeat("ab", 32)
	}
	after := prev
	for seq := first; seq < first+n; seq++ {
		e := entry(seq, prev)
		e.Hash = must(auditlog.HashOf(e))(t)
		prev = e.Hash
		entries = append(entries, must(auditlog.Line(e))(t))
		if seq%3 == 0 {
			h := auditlog.Head{TenantID: "tn_1", Seq: seq, Hash: prev, FirstSeq: first, FirstAfter: after, At: at(int(seq))}
			if err := h.Sign(private); err != nil {
				t.Fatal(err)
			}
			signed = append(signed, must(auditlog.Line(h))(t))
			heads++
		}
	}
	x := auditlog.Export{TenantID: "tn_1", Tenant: "acme", From: first, To: first + n - 1, AfterHash: after, Hash: prev, FirstSeq: first, FirstAfter: after, Heads: heads, At: at(59)}
	if err := x.Sign(private); err != nil {
		t.Fatal(err)
	}
	public, _ := private.Public().(ed25519.PublicKey)
	return append([]string{must(auditlog.Line(x))(t), must(auditlog.Line(auditlog.NewKey(public, at(0).Time)))(t)}, append(signed, entries...)...)
}

func verify(t testing.TB, lines []string, trusted ...string) auditlog.Report {
	t.Helper()
	return must(auditlog.Verify(strings.NewReader(strings.Join(lines, "\n")+"\n"), trusted...))(t)
}

// The hash of every entry ever written depends on these bytes.
func TestHash_GoldenEntry(t *testing.T) {
	t.Parallel()
	e := entry(7, strings.Repeat("0f", 32))
	const want = "c3283835945077f41c900f7eef2ed727879e5cf90ecf2f6f58495e68b62f988d"
	if got := must(auditlog.HashOf(e))(t); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	text, err := auditlog.CanonicalText([]byte(must(auditlog.Line(e))(t)))
	const canonical = "corvo-audit-1\n" +
		`{s6:actions10:key.creates5:actors13:ada@acme.tests8:actor_ids5:usr_1s10:actor_types4:users2:ats23:2026-11-23T15:00:07.12Z` +
		`s7:changes{s5:limit{s5:aftern16:9007199254740993s6:beforen4:1.50}s2:on{s5:aftert}s5:roles{s5:after[s6:worker]s6:before[]}}` +
		`s2:ids5:aud_7s4:kinds5:entrys4:peers9:192.0.2.1s9:prev_hashs64:0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f` +
		`s10:request_ids5:req_1s3:seqn1:7s6:targets11:wörker <1>s9:target_ids5:key_1s11:target_types3:keys9:tenant_ids4:tn_1}`
	if err != nil || string(text) != canonical {
		t.Errorf("canonical text\n%s\nwant\n%s\n%v", text, canonical, err)
	}
	minimal := auditlog.Entry{TenantID: "tn_1", Seq: 1, ID: "aud_1", At: at(0), Action: "x"}
	const wantMinimal = "9a6370e038ead92acecac5e0ad3ee68efa398f68137d26715f6745f071df556d"
	if got := must(auditlog.HashOf(minimal))(t); got != wantMinimal {
		t.Errorf("hash %s, want %s", got, wantMinimal)
	}
}

func TestVerify_WhatWasExportedIsValid(t *testing.T) {
	t.Parallel()
	for _, first := range []int64{1, 400} {
		for _, n := range []int64{0, 1, 7} {
			r := verify(t, exported(t, first, n, signer(1)))
			if !r.Valid || r.Entries != n || r.From != first || r.Tenant != "acme" || len(r.KeyIDs) != 1 {
				t.Errorf("%d from %d: %+v", n, first, r)
			}
		}
	}
	// Another way to write the same JSON is the same.
	lines := exported(t, 1, 5, signer(1))
	for i, line := range lines {
		var v map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		spaced := new(bytes.Buffer)
		if err := json.Indent(spaced, must(json.Marshal(v))(t), "", " "); err != nil {
			t.Fatal(err)
		}
		lines[i] = strings.ReplaceAll(spaced.String(), "\n", " ")
	}
	if r := verify(t, lines); !r.Valid {
		t.Errorf("with spaces and another order: %+v", r.Problems)
	}
}

// Any change, removal, insertion or reordering is found, at its line.
func TestVerify_FindsEveryManipulation(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	good := exported(t, 1, 12, signer(1))
	entries := func() (at []int) {
		for i, l := range good {
			if strings.Contains(l, `"kind":"entry"`) {
				at = append(at, i)
			}
		}
		return at
	}()
	signed := append([]int{0}, entries...)
	for i, l := range good {
		if strings.Contains(l, `"kind":"head"`) {
			signed = append(signed, i)
		}
	}
	for round := range 1200 {
		lines := slices.Clone(good)
		i := signed[random.IntN(len(signed))]
		j := entries[random.IntN(len(entries))]
		what := ""
		switch round % 6 {
		case 0:
			what = fmt.Sprintf("line %d removed", i+1)
			lines = slices.Delete(lines, i, i+1)
		case 1:
			what = fmt.Sprintf("line %d repeated before %d", i+1, j+1)
			lines = slices.Insert(lines, j, lines[i])
		case 2:
			if i = entries[random.IntN(len(entries))]; i == j {
				continue
			}
			what = fmt.Sprintf("lines %d and %d swapped", i+1, j+1)
			lines[i], lines[j] = lines[j], lines[i]
		case 3:
			what = fmt.Sprintf("the end removed from line %d on", j+1)
			lines = lines[:j]
		case 4:
			b := []byte(lines[i])
			k := random.IntN(len(b))
			was := b[k]
			b[k] = byte(' ' + random.IntN(95))
			if b[k] == was || sameJSON(string(b), lines[i]) {
				continue
			}
			what = fmt.Sprintf("line %d, byte %d: %q for %q", i+1, k, b[k], was)
			lines[i] = string(b)
		case 5:
			// Somebody who knows the form writes an entry of their own, with a hash that fits.
			what = fmt.Sprintf("line %d forged", j+1)
			var e auditlog.Entry
			if err := json.Unmarshal([]byte(lines[j]), &e); err != nil {
				t.Fatal(err)
			}
			e.Actor = "somebody else"
			e.Hash = must(auditlog.HashOf(e))(t)
			lines[j] = must(auditlog.Line(e))(t)
		}
		if r := verify(t, lines); r.Valid || len(r.Problems) == 0 {
			t.Fatalf("%s: it counts as valid", what)
		}
	}
}

func sameJSON(a, b string) bool {
	one, errOne := auditlog.CanonicalText([]byte(a))
	other, errOther := auditlog.CanonicalText([]byte(b))
	return errOne == nil && errOther == nil && bytes.Equal(one, other)
}

func TestVerify_NamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := exported(t, 1, 5, signer(1)) // export, key, head of 3, 1, 2, 3, 4, 5
	forged := exported(t, 1, 5, signer(2))
	for _, tc := range []struct {
		what    string
		lines   []string
		trusted []string
		want    string
	}{
		{"nothing", nil, nil, "the file is empty"},
		{"no export", good[1:], nil, "line 1: the file doesn't begin with the line of an export"},
		{"changed", append(slices.Clone(good[:4]), append([]string{strings.Replace(good[4], "ada@", "eve@", 1)}, good[5:]...)...), nil, "line 5, entry 2, aud_2: its contents were changed"},
		{"removed", slices.Delete(slices.Clone(good), 4, 5), nil, "line 5, entry 3, aud_3: entry 2 is missing before it"},
		{"cut", good[:6], nil, "the file ends after line 6: entries 4 to 5 are missing"},
		{"a member twice", append(slices.Clone(good[:7]), strings.Replace(good[7], `{`, `{"actor":"eve",`, 1)), nil, `line 8: a name is there twice: "actor"`},
		{"one more", append(slices.Clone(good), good[7]), nil, "it comes after entry 5"},
		{"other key", forged, []string{auditlog.KeyID(signer(1).Public().(ed25519.PublicKey))}, "which isn't one that you trust"},
		{"key replaced", append(append(slices.Clone(good[:1]), forged[1]), good[2:]...), nil, "which the file doesn't have"},
		{"tenant", append(slices.Clone(good[:7]), strings.Replace(good[7], "tn_1", "tn_2", 1)), nil, `it belongs to tenant "tn_2"`},
	} {
		r := verify(t, tc.lines, tc.trusted...)
		var all []string
		for _, p := range r.Problems {
			all = append(all, p.String())
		}
		if r.Valid || !strings.Contains(strings.Join(all, "\n"), tc.want) {
			t.Errorf("%s: %q, want %q", tc.what, all, tc.want)
		}
	}
	if r := verify(t, good, auditlog.KeyID(signer(1).Public().(ed25519.PublicKey))); !r.Valid {
		t.Errorf("with the key that signed: %+v", r.Problems)
	}
}

// A file is what somebody hands in: reading it must not fail in any other way than with a
// verdict, and no text but the exported one is valid.
func FuzzVerify(f *testing.F) {
	good := strings.Join(exported(f, 1, 4, signer(1)), "\n")
	trusted := auditlog.KeyID(signer(1).Public().(ed25519.PublicKey))
	f.Add([]byte(good))
	f.Add([]byte(`{"kind":"export"`))
	f.Add([]byte(`[[[[`))
	f.Add([]byte(`{"kind":"entry","seq":1e3,"hash":null}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := auditlog.Verify(bytes.NewReader(file), trusted)
		if err != nil {
			t.Fatal(err)
		}
		if r.Valid && !strings.Contains(string(file), `tn_1`) {
			t.Errorf("%q is valid", file)
		}
	})
}

// Two texts with one canonical text are one value.
func FuzzCanonicalText(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",{"b":null}],"c":true}`))
	f.Add([]byte(`{"a":"\ud83d\ude00<>&","n":-1.5e10}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		one, err := auditlog.CanonicalText(text)
		if err != nil {
			return
		}
		var v any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q has a canonical text and is no JSON: %v", text, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		other, err := auditlog.CanonicalText(again)
		if err != nil || !bytes.Equal(one, other) {
			t.Errorf("%q and %q: %q, %q, %v", text, again, one, other, err)
		}
	})
}
