package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// volumeBytes is the size of a Volume.
const volumeBytes = 1 << 30

// Volume is a small file system of its own, which a test can fill.
type Volume struct{ Dir string }

// NewVolume mounts a file with ext4, or memory where that isn't possible; ok is false
// without the right to mount.
func NewVolume(t testing.TB) (v Volume, ok bool) {
	t.Helper()
	v.Dir = filepath.Join(t.TempDir(), "disk")
	check(t, os.Mkdir(v.Dir, 0o700))
	image := v.Dir + ".img"
	size := strconv.Itoa(volumeBytes)
	how := "ext4 on a loop device"
	err := try([]string{"truncate", "-s", size, image}, []string{"mkfs.ext4", "-q", "-m", "0", image}, []string{"mount", "-o", "loop", image, v.Dir})
	if err != nil {
		t.Logf("no loop device: %v", err)
		how = "tmpfs"
		err = try([]string{"mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", v.Dir})
	}
	if err != nil {
		t.Logf("no right to mount: %v", err)
		return v, false
	}
	t.Logf("%s: %s of %d MiB", v.Dir, how, volumeBytes>>20)
	t.Cleanup(func() {
		eventually.NoError(t, startLimit, "the disk is unmounted", func() error { return try([]string{"umount", v.Dir}) })
	})
	return v, true
}

// Fill makes the volume so full; percent 100 is until nothing more can be written.
func (v Volume) Fill(t testing.TB, percent float64) {
	t.Helper()
	f := must(os.OpenFile(v.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)
	defer f.Close()
	info := must(f.Stat())(t)
	for end := info.Size(); v.Used(t) < percent; end += fillBytes {
		// Room that is reserved is room that is gone, and costs the machine's disk nothing.
		err := unix.Fallocate(int(f.Fd()), 0, end, fillBytes)
		if errors.Is(err, unix.ENOSPC) && percent >= 100 {
			fillRest(f)
			return
		}
		check(t, err)
	}
}

// fillRest writes what is left, less than one reservation.
func fillRest(f *os.File) {
	for _, size := range []int{4 << 10, 1} {
		for _, err := f.Write(make([]byte, size)); err == nil; _, err = f.Write(make([]byte, size)) {
		}
	}
}

const fillBytes = 256 << 10

// Free removes what Fill has taken.
func (v Volume) Free(t testing.TB) {
	t.Helper()
	check(t, os.Remove(v.filler()))
}

func (v Volume) filler() string { return filepath.Join(v.Dir, "filler") }

// Used is how many percent of the volume are in use.
func (v Volume) Used(t testing.TB) float64 {
	t.Helper()
	var s syscall.Statfs_t
	check(t, syscall.Statfs(v.Dir, &s))
	return 100 * (1 - float64(s.Bavail)/float64(s.Blocks))
}

// try runs commands one after the other, to the first that fails.
func try(commands ...[]string) error {
	for _, c := range commands {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", c, err, out)
		}
	}
	return nil
}
