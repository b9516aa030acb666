package fulldisk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// diskBytes is the size of each small disk.
const diskBytes = 1 << 30

// volume is a file system of its own.
type volume struct{ dir string }

// newVolume mounts a file with ext4, or memory where that isn't possible; ok is false
// without the right to mount.
func newVolume(t *testing.T) (v volume, ok bool) {
	t.Helper()
	v.dir = filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	image := v.dir + ".img"
	size := fmt.Sprint(diskBytes)
	how := "ext4 on a loop device"
	err := try([]string{"truncate", "-s", size, image}, []string{"mkfs.ext4", "-q", "-m", "0", image}, []string{"mount", "-o", "loop", image, v.dir})
	if err != nil {
		t.Logf("no loop device: %v", err)
		how = "tmpfs"
		err = try([]string{"mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", v.dir})
	}
	if err != nil {
		t.Logf("no right to mount: %v", err)
		return v, false
	}
	t.Logf("%s: %s of %d MiB", v.dir, how, diskBytes>>20)
	t.Cleanup(func() {
		eventually.NoError(t, waits, "the disk is unmounted", func() error { return try([]string{"umount", v.dir}) })
	})
	return v, true
}

func try(commands ...[]string) error {
	for _, c := range commands {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", c, err, out)
		}
	}
	return nil
}

// fill makes the disk so full; percent 100 is until nothing more can be written.
func (v volume) fill(t *testing.T, percent float64) {
	t.Helper()
	f, err := os.OpenFile(v.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 256<<10)
	for v.used(t) < percent {
		if _, err := f.Write(chunk); err != nil {
			if percent >= 100 {
				return
			}
			t.Fatal(err)
		}
	}
}

// free removes what fill has written.
func (v volume) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(v.filler()); err != nil {
		t.Fatal(err)
	}
}

func (v volume) filler() string { return filepath.Join(v.dir, "filler") }

func (v volume) used(t *testing.T) float64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(v.dir, &s); err != nil {
		t.Fatal(err)
	}
	return 100 * (1 - float64(s.Bavail)/float64(s.Blocks))
}
