package statedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func always([]byte) bool { return true }

// begin is an export that nobody has to wait for.
func begin(t tb, g *Group) *Export {
	t.Helper()
	e, err := g.Export(context.Background(), keyOf(g, "label"), always)
	if err != nil {
		t.Fatalf("export: %v", err)
	}
	return e
}

// gate is a disk that counts the files of transfers and lets a test hold up their making.
type gate struct {
	vfs.FS
	mu     sync.Mutex
	made   int
	there  int
	most   int
	create func(name string) error // Called before each.
}

func (d *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if !strings.Contains(name, "export-") {
		return d.FS.Create(name, c)
	}
	d.mu.Lock()
	d.made++
	d.there++
	d.most = max(d.most, d.there)
	create := d.create
	d.mu.Unlock()
	if create != nil {
		if err := create(name); err != nil {
			return nil, err
		}
	}
	return d.FS.Create(name, c)
}

func (d *gate) Remove(name string) error {
	err := d.FS.Remove(name)
	if err == nil && strings.Contains(name, "export-") {
		d.mu.Lock()
		d.there--
		d.mu.Unlock()
	}
	return err
}

func (d *gate) files() (made, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made, d.most
}

// asked waits until so many readers wait for transfers of the store or have one.
func asked(t *testing.T, db *DB, readers int) {
	t.Helper()
	eventually.NoError(t, patience, "the readers", func() error {
		n := 0
		db.exports.mu.Lock()
		defer db.exports.mu.Unlock()
		for _, s := range db.exports.all {
			n += s.readers
		}
		if n != readers {
			return fmt.Errorf("%d, want %d", n, readers)
		}
		return nil
	})
}

// answer is what became of an Export.
type answer struct {
	x   *Export
	err error
}

func exporting(ctx context.Context, g *Group, usable func([]byte) bool) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		x, err := g.Export(ctx, keyOf(g, "label"), usable)
		out <- answer{x, err}
	}()
	return out
}

func got(t *testing.T, from <-chan answer) answer {
	t.Helper()
	select {
	case a := <-from:
		return a
	case <-time.After(patience):
		t.Fatal("the export neither came nor failed")
		return answer{}
	}
}

func finishExport(t *testing.T, x *Export, err error) {
	t.Helper()
	if err == nil {
		err = x.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// idle is a store without a transfer: no slot is taken, nothing is staged.
func idle(t *testing.T, db *DB) {
	t.Helper()
	asked(t, db, 0)
	eventually.True(t, patience, "no slot is taken", func() bool { return len(db.exports.slots) == 0 })
	if names := staged(t, db); len(names) != 0 {
		t.Fatalf("left in staging: %v", names)
	}
}

// However many groups have receivers that are behind, two transfers are under way: no
// file is made, and no picture taken, for the others. Each gets its turn.
func TestExport_TwoAreUnderWayAtATime(t *testing.T) {
	t.Parallel()
	disk := &gate{FS: vfs.NewMem()}
	db := openOn(t, disk)
	defer closeDB(t, db)
	const groups = 6
	for id := range uint32(groups) {
		fill(t, db.Group(id), many("x", 20))
	}
	first, second := begin(t, db.Group(0)), begin(t, db.Group(1))
	turns := make(chan answer, groups)
	for id := uint32(2); id < groups; id++ {
		go func() { turns <- <-exporting(context.Background(), db.Group(id), always) }()
	}
	asked(t, db, groups)
	if made, _ := disk.files(); made != exportsMax {
		t.Fatalf("%d files were made while two are read", made)
	}
	if n := db.Metrics().Snapshots.Count; n != 0 {
		t.Fatalf("%d pictures are held by transfers that wait", n)
	}
	finishExport(t, first, nil)
	finishExport(t, second, nil)
	for range groups - exportsMax {
		a := got(t, turns)
		if a.err != nil {
			t.Fatal(a.err)
		}
		_, err := io.Copy(io.Discard, a.x)
		finishExport(t, a.x, err)
	}
	if made, most := disk.files(); made != groups || most != exportsMax {
		t.Fatalf("%d files were made, %d at a time; want %d and %d", made, most, groups, exportsMax)
	}
	idle(t, db)
}

// Receivers of one group read one file, each from its beginning; the last one removes it.
func TestExport_ReceiversOfAGroupShareOne(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	disk := &gate{FS: vfs.NewMem(), create: func(string) error { <-goOn; return nil }}
	db := openOn(t, disk)
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, many("x", 300))
	fill(t, g, map[string]string{"label": "at 1"})
	a, b := exporting(context.Background(), g, always), exporting(context.Background(), g, always)
	asked(t, db, 2)
	close(goOn)
	one, two := got(t, a), got(t, b)
	if one.err != nil || two.err != nil {
		t.Fatal(one.err, two.err)
	}
	whole, err := io.ReadAll(one.x)
	finishExport(t, one.x, err)
	fill(t, g, map[string]string{"label": "at 2"})
	late := begin(t, g) // It takes what is there.
	for _, x := range []*Export{two.x, late} {
		again, err := io.ReadAll(x)
		if string(x.Label) != "at 1" || string(again) != string(whole) || int64(len(again)) != x.Size {
			t.Fatalf("%q with %d bytes, want %q with %d", x.Label, len(again), "at 1", len(whole))
		}
		finishExport(t, x, err)
	}
	if made, _ := disk.files(); made != 1 {
		t.Fatalf("%d files were made for one group", made)
	}
	idle(t, db)
	next := begin(t, g)
	if string(next.Label) != "at 2" {
		t.Fatalf("the next transfer is that of %q", next.Label)
	}
	finishExport(t, next, nil)
}

// One that is too old for a receiver is not shared, and takes nothing from those who read it.
func TestExport_OneThatIsTooOldIsNotShared(t *testing.T) {
	t.Parallel()
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, map[string]string{"label": "at 1"})
	old := begin(t, g)
	fill(t, g, map[string]string{"label": "at 2"})
	later := func(label []byte) bool { return string(label) == "at 2" }
	fresh := got(t, exporting(context.Background(), g, later))
	if fresh.err != nil || string(fresh.x.Label) != "at 2" {
		t.Fatalf("%+v", fresh)
	}
	shares := got(t, exporting(context.Background(), g, later)) // The newer of both.
	if shares.err != nil || len(db.exports.slots) != 2 {
		t.Fatalf("%v; %d slots are taken, want 2", shares.err, len(db.exports.slots))
	}
	finishExport(t, fresh.x, nil)
	finishExport(t, shares.x, nil)
	if b, err := io.ReadAll(old); err != nil || int64(len(b)) != old.Size {
		t.Fatalf("%d of %d bytes, %v", len(b), old.Size, err)
	}
	finishExport(t, old, nil)
	idle(t, db)
}

// Whoever gives up frees its place at once: while it waits, while its file is written,
// and while it reads, even if it never reads again. Nobody else loses anything.
func TestExport_AReceiverThatGivesUpFreesItsPlace(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	disk := &gate{FS: vfs.NewMem()}
	db := openOn(t, disk)
	defer closeDB(t, db)
	giveUp := make([]context.CancelFunc, 4)
	ctxs := make([]context.Context, 4)
	for i := range ctxs {
		ctxs[i], giveUp[i] = context.WithCancel(context.Background())
		defer giveUp[i]()
		fill(t, db.Group(uint32(i)), many("x", 50))
	}
	reads := got(t, exporting(ctxs[0], db.Group(0), always))
	if reads.err != nil {
		t.Fatal(reads.err)
	}
	disk.mu.Lock()
	disk.create = func(string) error { <-stuck; return nil }
	disk.mu.Unlock()
	writes := exporting(ctxs[1], db.Group(1), always)
	for made := 0; made < 2; made, _ = disk.files() {
		time.Sleep(time.Millisecond) // A poll: its writing has begun.
	}
	waits := exporting(ctxs[2], db.Group(2), always)
	asked(t, db, 3)

	giveUp[2]()
	if a := got(t, waits); !errors.Is(a.err, ErrExportEnded) {
		t.Fatalf("the one that waited: %v", a.err)
	}
	giveUp[1]()
	if a := got(t, writes); !errors.Is(a.err, ErrExportEnded) {
		t.Fatalf("the one that was written: %v", a.err)
	}
	giveUp[0]()
	asked(t, db, 0)
	disk.mu.Lock()
	disk.create = nil
	disk.mu.Unlock()
	close(stuck)
	idle(t, db)
	if _, err := reads.x.Read(make([]byte, 1)); !errors.Is(err, ErrExportEnded) {
		t.Fatalf("it is read after its end: %v", err)
	}
	finishExport(t, reads.x, nil)
	for i := range 3 {
		x := got(t, exporting(ctxs[3], db.Group(uint32(i)), always))
		finishExport(t, x.x, x.err)
	}
	idle(t, db)
}

// Two receivers of a group: one that gives up while the file is written takes nothing
// from the other.
func TestExport_OneOfTwoGivesUp(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	db := openOn(t, &gate{FS: vfs.NewMem(), create: func(string) error { <-goOn; return nil }})
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, many("x", 50))
	ctx, giveUp := context.WithCancel(context.Background())
	a := exporting(ctx, g, always)
	asked(t, db, 1)
	b := exporting(context.Background(), g, always)
	asked(t, db, 2)
	giveUp()
	if a := got(t, a); !errors.Is(a.err, context.Canceled) {
		t.Fatalf("the one that gave up: %v", a.err)
	}
	close(goOn)
	stays := got(t, b)
	if stays.err != nil {
		t.Fatal(stays.err)
	}
	if n, err := io.Copy(io.Discard, stays.x); err != nil || n != stays.x.Size {
		t.Fatalf("%d of %d bytes, %v", n, stays.x.Size, err)
	}
	finishExport(t, stays.x, nil)
	idle(t, db)
}

// A file that cannot be written is an error for all who wait for it, and for nobody else.
func TestExport_ThatCannotBeWrittenKeepsNoPlace(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk refuses")
	goOn := make(chan struct{})
	disk := &gate{FS: vfs.NewMem(), create: func(string) error { <-goOn; return broken }}
	db := openOn(t, disk)
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, many("x", 50))
	a, b := exporting(context.Background(), g, always), exporting(context.Background(), g, always)
	asked(t, db, 2)
	close(goOn)
	for _, a := range []answer{got(t, a), got(t, b)} {
		if !errors.Is(a.err, broken) {
			t.Fatalf("the export says %v", a.err)
		}
	}
	idle(t, db)
	disk.mu.Lock()
	disk.create = nil
	disk.mu.Unlock()
	finishExport(t, begin(t, g), nil)
}

// A store that closes waits neither for a slot nor for a file to be written out; what is
// being read can be read on.
func TestClose_EndsTransfersThatWaitOrAreWritten(t *testing.T) {
	t.Parallel()
	disk := &gate{FS: vfs.NewMem()}
	db := openOn(t, disk)
	for id := range uint32(4) {
		fill(t, db.Group(id), many("x", 50))
	}
	reads := begin(t, db.Group(0))
	disk.mu.Lock()
	disk.create = func(string) error { <-db.exports.ctx.Done(); return nil } // As long as a large state takes.
	disk.mu.Unlock()
	var others []<-chan answer
	for id := uint32(1); id < 4; id++ {
		others = append(others, exporting(context.Background(), db.Group(id), always))
	}
	asked(t, db, 4)
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the store does not close")
	}
	for _, a := range others {
		if a := got(t, a); !errors.Is(a.err, ErrExportEnded) {
			t.Fatalf("a transfer of a closed store: %v", a.err)
		}
	}
	if b, err := io.ReadAll(reads); err != nil || int64(len(b)) != reads.Size {
		t.Fatalf("%d of %d bytes, %v", len(b), reads.Size, err)
	}
	finishExport(t, reads, nil)
	if _, err := db.Group(0).Export(context.Background(), keyOf(db.Group(0), "label"), always); !errors.Is(err, ErrExportEnded) {
		t.Fatalf("an export of a closed store: %v", err)
	}
	idle(t, db)
}

// A replica that gets another state sends the old one no more: what is being written is
// given up instead of waited for, and what is ready is not shared.
func TestInstall_GivesUpWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	disk := &gate{FS: vfs.NewMem()}
	db := openOn(t, disk)
	defer closeDB(t, db)
	g := db.Group(2)
	fill(t, g, map[string]string{"label": "old"})
	old := begin(t, g)
	incoming, err := receive(t, g, export(t, g), 100)
	if err != nil {
		t.Fatal(err)
	}
	begun, cancelled := make(chan struct{}), make(chan struct{})
	disk.mu.Lock()
	disk.create = func(string) error { close(begun); <-cancelled; return nil }
	disk.mu.Unlock()
	writes := exporting(context.Background(), g, func([]byte) bool { return false })
	eventually.Returns(t, patience, "a transfer of its own", func() { <-begun })
	db.exports.mu.Lock()
	s := db.exports.all[len(db.exports.all)-1]
	cancel := s.cancel
	s.cancel = sync.OnceFunc(func() { cancel(); close(cancelled) })
	db.exports.mu.Unlock()
	if err := incoming.Install(context.Background()); err != nil {
		t.Fatal(err)
	}
	if a := got(t, writes); !errors.Is(a.err, ErrExportEnded) {
		t.Fatalf("what was being written: %v", a.err)
	}
	disk.mu.Lock()
	disk.create = nil
	disk.mu.Unlock()
	fill(t, g, map[string]string{"label": "new"})
	next := begin(t, g)
	if string(next.Label) != "new" {
		t.Fatalf("the state of before the install is shared: %q", next.Label)
	}
	finishExport(t, next, nil)
	finishExport(t, old, nil)
	idle(t, db)
}

// Receivers come and go at random moments: never more than two files, no slot lost.
func TestExport_ReceiversComeAndGo(t *testing.T) {
	t.Parallel()
	disk := &gate{FS: vfs.NewMem()}
	db := openOn(t, disk)
	defer closeDB(t, db)
	for id := range uint32(3) {
		fill(t, db.Group(id), many("x", 200))
	}
	var all sync.WaitGroup
	failed := make(chan error, 64)
	for i := range 64 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%3 == 0 {
				time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel) // Any moment will do.
			}
			x, err := db.Group(uint32(i%3)).Export(ctx, keyOf(db.Group(uint32(i%3)), "label"), func([]byte) bool { return i%2 == 0 })
			if err == nil {
				_, err = io.Copy(io.Discard, x)
				err = errors.Join(err, x.Close())
			}
			if err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("receiver %d: %w", i, err)
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if _, most := disk.files(); most > exportsMax {
		t.Errorf("%d files at a time", most)
	}
	idle(t, db)
}
