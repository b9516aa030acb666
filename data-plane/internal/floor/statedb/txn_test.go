package statedb

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

func openOn(t tb, fs vfs.FS) *DB {
	t.Helper()
	db, err := Open("state", Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return db
}

func closeDB(t tb, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func keyOf(g *Group, name string) []byte {
	p := g.Prefix()
	return append(p[:], name...)
}

// contents is the group's span by name.
func contents(t tb, g *Group) map[string]string {
	t.Helper()
	out := map[string]string{}
	from, to := g.span()
	err := g.Scan(from, to, func(k, v []byte) (bool, error) {
		out[string(k[4:])] = string(v)
		return true, nil
	})
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	return out
}

func show(m map[string]string) string {
	var lines []string
	for k, v := range m {
		lines = append(lines, fmt.Sprintf("%s=%s", k, v))
	}
	sort.Strings(lines)
	return strings.Join(lines, " ")
}

func fill(t tb, g *Group, values map[string]string) {
	t.Helper()
	txn := g.NewTxn()
	for k, v := range values {
		txn.Set(keyOf(g, k), []byte(v))
	}
	finish(t, txn)
}

func finish(t tb, txn *Txn) {
	t.Helper()
	if _, err := txn.EndEntry(0, 1); err != nil {
		t.Fatalf("end entry: %v", err)
	}
	if err := txn.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// change is one step of an entry.
type change struct {
	op       string
	key, end string
	value    string
}

func (c change) do(g *Group, txn *Txn, m map[string]string) {
	switch c.op {
	case "set":
		txn.Set(keyOf(g, c.key), []byte(c.value))
		m[c.key] = c.value
	case "new": // Only for keys that are nowhere.
		if _, ok := m[c.key]; ok {
			return
		}
		txn.SetNew(keyOf(g, c.key), []byte(c.value))
		m[c.key] = c.value
	case "delete":
		txn.Delete(keyOf(g, c.key))
		delete(m, c.key)
	case "cut":
		txn.DeleteRange(keyOf(g, c.key), keyOf(g, c.end))
		for k := range m {
			if k >= c.key && k < c.end {
				delete(m, k)
			}
		}
	}
}

var names = []string{"a", "b", "ba", "c", "d", "e"}

func drawEntries(t *rapid.T) [][]change {
	var out [][]change
	for range rapid.IntRange(1, 8).Draw(t, "entries") {
		var e []change
		for range rapid.IntRange(0, 8).Draw(t, "changes") {
			c := change{
				op:  rapid.SampledFrom([]string{"set", "set", "new", "delete", "cut"}).Draw(t, "op"),
				key: rapid.SampledFrom(names).Draw(t, "key"), value: rapid.SampledFrom([]string{"", "1", "22"}).Draw(t, "value"),
			}
			c.end = rapid.SampledFrom(append(names, "z")).Draw(t, "end")
			if c.op == "cut" && c.end <= c.key {
				c.key, c.end = c.end, c.key+"\x00"
			}
			e = append(e, c)
		}
		out = append(out, e)
	}
	return out
}

// Reads see the transaction's own earlier writes, of this entry and of earlier
// ones, over what was committed; what is committed is what was read (R19).
func TestTxn_IsAMapOverTheStore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		db := openOn(t, vfs.NewMem())
		defer closeDB(t, db)
		g, m := db.Group(2), map[string]string{}
		txn := g.NewTxn()
		for i, e := range drawEntries(t) {
			for _, c := range e {
				c.do(g, txn, m)
				agree(t, g, txn, m, c)
			}
			if _, err := txn.EndEntry(0, uint64(i+1)); err != nil {
				t.Fatalf("end entry: %v", err)
			}
			agree(t, g, txn, m, change{op: "end of entry"})
			if rapid.Bool().Draw(t, "commit") {
				if err := txn.Commit(); err != nil {
					t.Fatalf("commit: %v", err)
				}
				if got := contents(t, g); show(got) != show(m) {
					t.Fatalf("store has %s, want %s", show(got), show(m))
				}
				txn = g.NewTxn()
			}
		}
		if err := txn.Commit(); err != nil {
			t.Fatalf("commit: %v", err)
		}
		if got := contents(t, g); show(got) != show(m) {
			t.Fatalf("store has %s, want %s", show(got), show(m))
		}
	})
}

func agree(t tb, g *Group, txn *Txn, m map[string]string, after change) {
	t.Helper()
	for _, k := range names {
		want, ok := m[k]
		v, err := txn.Get(keyOf(g, k))
		if ok != (err == nil) || !ok && !errors.Is(err, ErrNotFound) || string(v) != want {
			t.Fatalf("after %+v: %s is %q, %v, want %q, %v", after, k, v, err, want, ok)
		}
		if has, err := txn.Has(keyOf(g, k)); err != nil || has != ok {
			t.Fatalf("after %+v: has %s %v, %v, want %v", after, k, has, err, ok)
		}
	}
}

// The digest and the bytes depend on the entries alone, not on how they were
// gathered into transactions (R21).
func TestEndEntry_DigestDoesNotDependOnGrouping(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		run := func(commitAfter func(i int) bool) (uint64, string) {
			db := openOn(t, vfs.NewMem())
			defer closeDB(t, db)
			g, m, digest := db.Group(2), map[string]string{}, uint64(0)
			txn := g.NewTxn()
			for i, e := range entries {
				for _, c := range e {
					c.do(g, txn, m)
				}
				var err error
				if digest, err = txn.EndEntry(digest, uint64(i+1)); err != nil {
					t.Fatalf("end entry: %v", err)
				}
				if commitAfter(i) {
					if err := txn.Commit(); err != nil {
						t.Fatalf("commit: %v", err)
					}
					txn = g.NewTxn()
				}
			}
			if err := txn.Commit(); err != nil {
				t.Fatalf("commit: %v", err)
			}
			return digest, show(contents(t, g))
		}
		d1, s1 := run(func(int) bool { return true })
		d2, s2 := run(func(int) bool { return false })
		every := rapid.IntRange(2, 4).Draw(t, "every")
		d3, s3 := run(func(i int) bool { return i%every == 0 })
		if d1 != d2 || d1 != d3 || s1 != s2 || s1 != s3 {
			t.Fatalf("one by one %x %s; at once %x %s; mixed %x %s", d1, s1, d2, s2, d3, s3)
		}
	})
}

// Whatever differs in an entry gives another digest.
func TestEndEntry_DigestCoversEverything(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	seen := map[uint64]string{}
	for name, f := range map[string]struct {
		digest, index uint64
		change        func(txn *Txn)
	}{
		"nothing":         {1, 1, func(*Txn) {}},
		"another index":   {1, 2, func(*Txn) {}},
		"another history": {2, 1, func(*Txn) {}},
		"a=1":             {1, 1, func(txn *Txn) { txn.Set(keyOf(g, "a"), []byte("1")) }},
		"a=2":             {1, 1, func(txn *Txn) { txn.Set(keyOf(g, "a"), []byte("2")) }},
		"a=":              {1, 1, func(txn *Txn) { txn.Set(keyOf(g, "a"), nil) }},
		"b=1":             {1, 1, func(txn *Txn) { txn.Set(keyOf(g, "b"), []byte("1")) }},
		"a1=":             {1, 1, func(txn *Txn) { txn.Set(keyOf(g, "a1"), nil) }},
		"a deleted":       {1, 1, func(txn *Txn) { txn.Delete(keyOf(g, "a")) }},
		"a to b deleted":  {1, 1, func(txn *Txn) { txn.DeleteRange(keyOf(g, "a"), keyOf(g, "b")) }},
		"a to c deleted":  {1, 1, func(txn *Txn) { txn.DeleteRange(keyOf(g, "a"), keyOf(g, "c")) }},
	} {
		txn := g.NewTxn()
		f.change(txn)
		d, err := txn.EndEntry(f.digest, f.index)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%q and %q have the same digest", name, other)
		}
		seen[d] = name
		if err := txn.Discard(); err != nil {
			t.Fatal(err)
		}
	}
}

// What came and went within one entry is not written at all: ready rows of jobs
// that were granted at once cost nothing.
func TestSetNew_DeletedInTheSameEntryLeavesNoTrace(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	txn := g.NewTxn()
	txn.SetNew(keyOf(g, "a"), []byte("1"))
	txn.Delete(keyOf(g, "a"))
	if _, err := txn.EndEntry(0, 1); err != nil {
		t.Fatal(err)
	}
	if n := txn.batch.Count(); n != 0 {
		t.Fatalf("%d rows were written", n)
	}
	// In the next entry it is a deletion like any other.
	txn.SetNew(keyOf(g, "b"), []byte("1"))
	if _, err := txn.EndEntry(0, 2); err != nil {
		t.Fatal(err)
	}
	txn.Delete(keyOf(g, "b"))
	if _, err := txn.EndEntry(0, 3); err != nil {
		t.Fatal(err)
	}
	if n := txn.batch.Count(); n != 2 {
		t.Fatalf("%d rows were written, want 2", n)
	}
	if err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, g); len(got) != 0 {
		t.Fatalf("store has %v", got)
	}
}

// A spent transaction's memory serves the next one: nothing of it may be seen.
func TestNewTxn_KnowsNothingOfTheLastOne(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	for i := range 20 {
		g := db.Group(uint32(2 + i%3))
		txn := g.NewTxn()
		for _, k := range names {
			if has, err := txn.Has(keyOf(g, k)); has || err != nil {
				t.Fatalf("round %d: %s is there, %v", i, k, err)
			}
		}
		txn.Set(keyOf(g, "a"), []byte("1"))
		txn.DeleteRange(keyOf(g, "b"), keyOf(g, "d"))
		if i%2 == 0 {
			if _, err := txn.EndEntry(0, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := txn.Discard(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommit_OfAnUnfinishedEntryIsABug(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	for name, f := range map[string]func(txn *Txn){
		"a write": func(txn *Txn) { txn.Set(keyOf(g, "a"), nil) },
		"a cut":   func(txn *Txn) { txn.DeleteRange(keyOf(g, "a"), keyOf(g, "b")) },
	} {
		txn := g.NewTxn()
		f(txn)
		mustPanic(t, name, func() { _ = txn.Commit() })
		if err := txn.Discard(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeys_OfAnotherGroupAreABug(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g, other := db.Group(2), keyOf(db.Group(3), "a")
	txn := g.NewTxn()
	defer func() {
		if err := txn.Discard(); err != nil {
			t.Error(err)
		}
	}()
	view := g.View()
	defer func() {
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	}()
	none := func([]byte, []byte) (bool, error) { return true, nil }
	for name, f := range map[string]func(){
		"txn get":         func() { _, _ = txn.Get(other) },
		"txn set":         func() { txn.Set(other, nil) },
		"txn set new":     func() { txn.SetNew(other, nil) },
		"txn delete":      func() { txn.Delete(other) },
		"txn cut from":    func() { txn.DeleteRange(other, keyOf(g, "a")) },
		"txn cut to":      func() { txn.DeleteRange(keyOf(g, "a"), other) },
		"applied record":  func() { _ = txn.SetApplied(other, nil) },
		"short key":       func() { txn.Set([]byte{0, 0, 0}, nil) },
		"group get":       func() { _, _ = g.Get(other) },
		"group scan":      func() { _ = g.Scan(other, other, none) },
		"view get":        func() { _, _ = view.Get(other) },
		"view scan":       func() { _ = view.Scan(other, other, none) },
		"group get empty": func() { _, _ = g.Get(nil) },
	} {
		mustPanic(t, name, f)
	}
}

func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}

func TestView_IsAPictureOfOneMoment(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, map[string]string{"a": "1"})
	v := g.View()
	fill(t, g, map[string]string{"a": "2", "b": "2"})
	if got, err := v.Get(keyOf(g, "a")); err != nil || !bytes.Equal(got, []byte("1")) {
		t.Fatalf("a is %q, %v", got, err)
	}
	if _, err := v.Get(keyOf(g, "b")); !errors.Is(err, ErrNotFound) {
		t.Fatalf("b: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
}

// A key that the entry deleted and then calls new was there before: deleting it
// once more must not be forgotten.
func TestTxn_DeletedAndNewAndDeletedInOneEntryIsDeleted(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, map[string]string{"b": "1"})
	txn := g.NewTxn()
	txn.Delete(keyOf(g, "b"))
	txn.SetNew(keyOf(g, "b"), []byte("2"))
	txn.Delete(keyOf(g, "b"))
	finish(t, txn)
	if got := contents(t, g); len(got) != 0 {
		t.Fatalf("store has %s", show(got))
	}
}
