package statedb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// export reads a whole transfer of the group as it is now.
func export(t tb, g *Group) []byte {
	t.Helper()
	e := begin(t, g)
	b, err := io.ReadAll(e)
	if err != nil {
		t.Fatalf("read export: %v", err)
	}
	if int64(len(b)) != e.Size {
		t.Fatalf("export gave %d bytes, said %d", len(b), e.Size)
	}
	if err := e.Close(); err != nil {
		t.Fatalf("close export: %v", err)
	}
	return b
}

// receive writes a transfer in pieces and finishes it.
func receive(t tb, g *Group, b []byte, piece int) (*Import, error) {
	t.Helper()
	m, err := g.Import()
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	for len(b) > 0 {
		n := min(piece, len(b))
		if k, err := m.Write(b[:n]); err != nil || k != n {
			t.Fatalf("write import: %d of %d, %v", k, n, err)
		}
		b = b[n:]
	}
	return m, m.Finish()
}

func staged(t tb, db *DB) []string {
	t.Helper()
	names, err := db.fs.List(stagingDir(db.fs, db.dir))
	if err != nil {
		t.Fatalf("list staging: %v", err)
	}
	return names
}

func many(prefix string, n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("%s%04d", prefix, i)] = fmt.Sprintf("value %d of %s", i*7919, prefix)
	}
	return out
}

func TestInstall_SwapsTheWholeSpanAndNothingElse(t *testing.T) {
	t.Parallel()
	from, to := openOn(t, vfs.NewMem()), openOn(t, vfs.NewMem())
	defer closeDB(t, from)
	defer closeDB(t, to)
	fill(t, from.Group(2), many("new", 300))
	for _, id := range []uint32{1, 2, 3} {
		fill(t, to.Group(id), many("old", 100))
	}
	fill(t, to.Group(2), map[string]string{"\x00": "first", "\xff\xff\xff\xff": "last"})
	if err := to.Group(2).MarkCovered([]byte("note")); err != nil {
		t.Fatal(err)
	}
	for _, piece := range []int{1, 31, 32, 33, 4096, 1 << 20} {
		m, err := receive(t, to.Group(2), export(t, from.Group(2)), piece)
		if err != nil {
			t.Fatalf("pieces of %d: %v", piece, err)
		}
		if err := m.Install(context.Background()); err != nil {
			t.Fatalf("install: %v", err)
		}
		if got, want := show(contents(t, to.Group(2))), show(many("new", 300)); got != want {
			t.Fatalf("pieces of %d: group 2 has %s", piece, got)
		}
		for _, id := range []uint32{1, 3} {
			if got, want := show(contents(t, to.Group(id))), show(many("old", 100)); got != want {
				t.Fatalf("group %d has %s", id, got)
			}
		}
		if note, err := to.Group(2).Covered(); err != nil || string(note) != "note" {
			t.Fatalf("note %q, %v", note, err)
		}
		if names := append(staged(t, from), staged(t, to)...); len(names) != 0 {
			t.Fatalf("left in staging: %v", names)
		}
		fill(t, to.Group(2), map[string]string{"later": "1"}) // The next round replaces it.
	}
}

func TestExport_IsTheViewNotWhatCameLater(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, map[string]string{"a": "1"})
	e := begin(t, g)
	fill(t, g, map[string]string{"a": "2", "b": "2"})
	b, err := io.ReadAll(e)
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	m, err := receive(t, g, b, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Install(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := show(contents(t, g)); got != "a=1" {
		t.Fatalf("group has %s", got)
	}
}

// A transfer of a group without a key empties the other side too.
func TestInstall_OfAnEmptyGroupEmptiesIt(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	empty := export(t, db.Group(2))
	fill(t, db.Group(2), many("old", 50))
	m, err := receive(t, db.Group(2), empty, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Install(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, db.Group(2)); len(got) != 0 {
		t.Fatalf("group has %s", show(got))
	}
}

// Another group's state is refused, however whole it arrived.
func TestInstall_OfAnotherGroupIsRefused(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	fill(t, db.Group(2), many("two", 20))
	fill(t, db.Group(3), many("three", 20))
	foreign := export(t, db.Group(3))
	fill(t, db.Group(3), map[string]string{"three0000": "changed since"})
	want2, want3 := show(contents(t, db.Group(2))), show(contents(t, db.Group(3)))
	m, err := receive(t, db.Group(2), foreign, 100)
	if err == nil {
		err = m.Install(context.Background())
	}
	if err == nil {
		t.Error("it was installed")
	}
	if got := show(contents(t, db.Group(2))); got != want2 {
		t.Errorf("group 2 has %s", got)
	}
	if got := show(contents(t, db.Group(3))); got != want3 {
		t.Errorf("group 3 has %s", got)
	}
}

// A transfer with any byte changed, cut anywhere, or with something behind it is
// refused; nothing of it stays.
func TestFinish_DamagedTransferIsRefused(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, many("new", 40))
	whole := export(t, g)
	fill(t, g, map[string]string{"now": "1"})
	want := show(contents(t, g))
	refused := func(what string, b []byte) {
		if _, err := receive(t, g, b, 4096); !errors.Is(err, ErrCorruptTransfer) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		refused(fmt.Sprintf("byte %d of %d changed", i, len(whole)), b)
	}
	for n := 0; n < len(whole); n += 1 + n/20 {
		refused(fmt.Sprintf("cut to %d of %d", n, len(whole)), whole[:n])
	}
	refused("the last byte missing", whole[:len(whole)-1])
	refused("a byte more", append(bytes.Clone(whole), 0))
	refused("twice", append(bytes.Clone(whole), whole...))
	if got := show(contents(t, g)); got != want {
		t.Fatalf("group has %s", got)
	}
	if names := staged(t, db); len(names) != 0 {
		t.Fatalf("left in staging: %v", names)
	}
}

func TestAbort_LeavesNothing(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, many("new", 10))
	whole := export(t, g)
	m, err := g.Import()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(whole[:50]); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Abort(), m.Abort()); err != nil {
		t.Fatal(err)
	}
	finished, err := receive(t, g, whole, 1000)
	if err := errors.Join(err, finished.Abort()); err != nil {
		t.Fatal(err)
	}
	if names := staged(t, db); len(names) != 0 {
		t.Fatalf("left in staging: %v", names)
	}
}

func TestOpen_ClearsWhatAnInterruptedTransferLeft(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	db := openOn(t, fs)
	g := db.Group(2)
	fill(t, g, many("new", 10))
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	m, err := g.Import()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := m.file.Close(); err != nil { // The process ends here.
		t.Fatal(err)
	}
	if len(staged(t, db)) == 0 {
		t.Fatal("nothing was staged")
	}
	closeDB(t, db)
	db = openOn(t, fs)
	defer closeDB(t, db)
	if names := staged(t, db); len(names) != 0 {
		t.Fatalf("left in staging: %v", names)
	}
	if got, want := show(contents(t, db.Group(2))), show(many("new", 10)); got != want {
		t.Fatalf("group has %s", got)
	}
}

// Power is cut at every file operation of an install: the group then has the old
// state or the new one, whole; the neighbour is as it was (D5).
func TestInstall_PowerCutLeavesOldOrNew(t *testing.T) {
	t.Parallel()
	source := openOn(t, vfs.NewMem())
	fill(t, source.Group(2), many("new", 200))
	transfer := export(t, source.Group(2))
	closeDB(t, source)

	mem := vfs.NewCrashableMem()
	clones := &cutter{FS: mem, mem: mem}
	db := openOn(t, clones)
	fill(t, db.Group(2), many("old", 100))
	fill(t, db.Group(3), many("other", 100))
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	clones.on = true
	m, err := receive(t, db.Group(2), transfer, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Install(context.Background()); err != nil {
		t.Fatal(err)
	}
	clones.on = false
	after := mem.CrashClone(vfs.CrashCloneCfg{})
	closeDB(t, db)

	before, installed, other := show(many("old", 100)), show(many("new", 200)), show(many("other", 100))
	seen := map[string]int{}
	check := func(i int, fs vfs.FS) string {
		db := openOn(t, fs)
		defer closeDB(t, db)
		got := show(contents(t, db.Group(2)))
		switch got {
		case before:
			seen["old"]++
		case installed:
			seen["new"]++
		default:
			t.Fatalf("cut %d: group has %s", i, got)
		}
		if o := show(contents(t, db.Group(3))); o != other {
			t.Fatalf("cut %d: the neighbour has %s", i, o)
		}
		if names := staged(t, db); len(names) != 0 {
			t.Fatalf("cut %d: left in staging: %v", i, names)
		}
		return got
	}
	for i, fs := range clones.taken {
		check(i, fs)
	}
	if check(len(clones.taken), after) != installed {
		t.Fatal("an install that returned is lost by a power cut")
	}
	if seen["old"] < 2 || seen["new"] < 1 {
		t.Fatalf("cuts saw %v", seen)
	}
	t.Logf("%d cuts: %v", len(clones.taken)+1, seen)
}

// The note lets the log go, so it takes every commit before it to the disk.
func TestMarkCovered_WhatWasCommittedBeforeSurvivesAPowerLoss(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	db := openOn(t, mem)
	fill(t, db.Group(2), many("flushed", 50))
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	fill(t, db.Group(2), many("not", 50))
	if err := db.Group(2).MarkCovered([]byte("note")); err != nil {
		t.Fatal(err)
	}
	want, left := show(contents(t, db.Group(2))), mem.CrashClone(vfs.CrashCloneCfg{})
	closeDB(t, db)
	db = openOn(t, left)
	defer closeDB(t, db)
	if got := show(contents(t, db.Group(2))); got != want {
		t.Fatalf("after the power loss %s, before %s", got, want)
	}
	if note, err := db.Group(2).Covered(); err != nil || string(note) != "note" {
		t.Fatalf("the note is %q, %v", note, err)
	}
}
