package disk

import (
	"errors"
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

func TestBallast_GivesAFullDiskRoomOnce(t *testing.T) {
	t.Parallel()
	full := false
	inner := fullFS{vfs.NewMem(), &full}
	const size = ballastChunkBytes + 17
	told := 0
	fs, err := WithBallast(inner, "ballast", size, func() { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if info, err := inner.Stat("ballast"); err != nil || info.Size() != size {
		t.Fatalf("ballast: %v, %v", info, err)
	}
	f, err := fs.Create("wal", vfs.WriteCategoryUnspecified)
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
	// The next start lays it down again.
	full = false
	if _, err := WithBallast(inner, "ballast", size, func() {}); err != nil {
		t.Fatal(err)
	}
	full = true
	if _, err := WithBallast(inner, "ballast", 2*size, func() {}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("ballast that does not fit: %v, want ENOSPC", err)
	}
}
