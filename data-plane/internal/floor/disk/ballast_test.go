package disk

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fullFS has no room for new bytes as long as its ballast is there.
type fullFS struct {
	vfs.FS
	full *bool
}

func (f fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return fullFile{file, f}, err
}

type fullFile struct {
	vfs.File
	fs fullFS
}

func (f fullFile) Write(p []byte) (int, error) {
	if *f.fs.full {
		if _, err := f.fs.Stat("ballast"); err == nil {
			return 0, syscall.ENOSPC
		}
	}
	return f.File.Write(p)
}

func (f fullFile) Preallocate(_, length int64) error {
	_, err := f.Write(make([]byte, 0, length))
	return err
}

func TestBallast_GivesAFullDiskRoomOnce(t *testing.T) {
	t.Parallel()
	full := false
	inner := fullFS{vfs.NewMem(), &full}
	const size = ballastChunkBytes + 17
	told := 0
	b, err := NewBallast(inner, "ballast", size, quiet(), func() { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if info, err := inner.Stat("ballast"); err != nil || info.Size() != size {
		t.Fatalf("ballast: %v, %v", info, err)
	}
	f, err := b.Create("wal", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("fits")); err != nil || told != 0 {
		t.Fatalf("write with room: %v, told %d times", err, told)
	}
	full = true
	if _, err := f.Write([]byte("does not fit")); err != nil || told != 1 {
		t.Errorf("write on the full disk: %v, told %d times, want once", err, told)
	}
	if _, err := inner.Stat("ballast"); err == nil {
		t.Error("the ballast is still there")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	full = false
	if err := b.Lay(); err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Stat("ballast"); err != nil {
		t.Error("the ballast was not laid down again")
	}
}

func TestBallast_ADiskWithoutRoomForItIsUsedAllTheSame(t *testing.T) {
	t.Parallel()
	full := true
	inner := fullFS{vfs.NewMem(), &full}
	b, err := NewBallast(inner, "ballast", 1<<20, quiet(), func() { t.Error("given back though it was never there") })
	if err != nil {
		t.Fatal(err)
	}
	f, err := b.Create("wal", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("fits: the file system only refuses beside a ballast")); err != nil {
		t.Error(err)
	}
}
