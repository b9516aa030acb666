package disk

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestWriteFile_SurvivesAPowerLoss(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	for _, text := range []string{"first", "second"} {
		if err := WriteFile(fs, "key", []byte(text)); err != nil {
			t.Fatal(err)
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{}) // Nothing that was not synced.
		f, err := crashed.Open("key")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || string(got) != text {
			t.Errorf("read %q, %v; want %q", got, err, text)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteFile_OnlyItsOwnerReadsIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := WriteFile(vfs.Default, path, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != privateMode {
		t.Errorf("mode %o, want %o", info.Mode().Perm(), privateMode)
	}
}
