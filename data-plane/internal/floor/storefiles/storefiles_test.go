package storefiles

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const dir = "store"

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// filled is the disk of a closed store with tables, a manifest and a write-ahead log that has
// something in it, and how many files that is.
func filled(t *testing.T) (disk *vfs.MemFS, files int) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	db, err := pebble.Open(dir, &pebble.Options{FS: mem, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if err := errors.Join(db.Set([]byte(key), []byte("value"), pebble.Sync), db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Set([]byte("d"), []byte("value"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	disk = mem.CrashClone(vfs.CrashCloneCfg{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, err = CheckOpen(disk, dir, Pace{}, func(d *Damage) { t.Errorf("whole: %v", d) })
	if err != nil || files < 5 {
		t.Fatalf("%d files, %v", files, err)
	}
	return disk, files
}

// failing is a disk on which some kinds of operations on files with that part in their names fail.
func failing(disk vfs.FS, part string, fails error, kinds ...errorfs.OpKind) vfs.FS {
	return errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		for _, kind := range kinds {
			if op.Kind == kind && strings.Contains(disk.PathBase(op.Path), part) {
				return fails
			}
		}
		return nil
	}))
}

func TestCheckOpen_AFileThatCannotBeReadIsDamagedAndTheOthersAreReadToo(t *testing.T) {
	t.Parallel()
	disk, files := filled(t)
	for _, part := range []string{"MANIFEST", ".log", ".sst"} {
		for what, kinds := range map[string][]errorfs.OpKind{"read": {errorfs.OpFileRead, errorfs.OpFileReadAt}, "open": {errorfs.OpOpen}} {
			damaged := map[string]bool{}
			n, err := CheckOpen(failing(disk, part, syscall.EIO, kinds...), dir, Pace{}, func(d *Damage) {
				if damaged[d.Path] = true; !strings.Contains(d.Path, part) || !errors.Is(d, syscall.EIO) {
					t.Errorf("%s of %s: found %v", what, part, d)
				}
			})
			if err != nil || n != files || len(damaged) == 0 {
				t.Errorf("%s of %s: %d of %d files, %d of them damaged, %v", what, part, n, files, len(damaged), err)
			}
		}
	}
}

// That the process can open no more files says nothing of any.
func TestCheckOpen_EndsWithoutDescriptors(t *testing.T) {
	t.Parallel()
	disk, _ := filled(t)
	for _, part := range []string{"MANIFEST", ".log", ".sst"} {
		_, err := CheckOpen(failing(disk, part, syscall.EMFILE, errorfs.OpOpen), dir, Pace{}, func(d *Damage) { t.Errorf("found %v", d) })
		if !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: %v, want EMFILE", part, err)
		}
	}
}

func TestCheckOpen_EndsWhenItsPaceDoes(t *testing.T) {
	t.Parallel()
	disk, _ := filled(t)
	ended := errors.New("ended")
	for after := range 8 {
		waits := 0
		_, err := CheckOpen(disk, dir, Pace{Wait: func(int) error {
			if waits++; waits > after {
				return ended
			}
			return nil
		}}, func(d *Damage) { t.Errorf("found %v", d) })
		if !errors.Is(err, ended) || waits != after+1 {
			t.Errorf("after %d waits: %v, %d waits", after, err, waits)
		}
	}
}

// A log that can't be read can't be cut either: nobody knows how far it goes.
func TestCheckClosed_AFileThatCannotBeReadIsDamaged(t *testing.T) {
	t.Parallel()
	disk, _ := filled(t)
	for _, part := range []string{"MANIFEST", ".log", "OPTIONS"} {
		var damage *Damage
		err := CheckClosed(failing(disk, part, syscall.EIO, errorfs.OpFileRead), dir, true)
		if !errors.As(err, &damage) || !strings.Contains(damage.Path, part) || !errors.Is(err, syscall.EIO) || damage.Cuttable() {
			t.Errorf("%s: %v", part, err)
		}
	}
}
