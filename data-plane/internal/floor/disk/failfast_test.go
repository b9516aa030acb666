package disk

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestFailFast_TellsWhatFailsOnALogAndNothingElse(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk refuses")
	failing := errorfs.OpKind(-1)
	var told []error
	fs := FailFast(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == failing {
			return broken
		}
		return nil
	})), func(err error) { told = append(told, err) })
	do := map[errorfs.OpKind]func(name string, f vfs.File) error{
		errorfs.OpCreate: func(name string, _ vfs.File) error {
			_, err := fs.Create("new"+name, vfs.WriteCategoryUnspecified)
			return err
		},
		errorfs.OpReuseForWrite: func(name string, _ vfs.File) error {
			_, err := fs.ReuseForWrite(name, "other"+name, vfs.WriteCategoryUnspecified)
			return err
		},
		errorfs.OpFileWrite:    func(_ string, f vfs.File) error { _, err := f.Write([]byte("x")); return err },
		errorfs.OpFileSync:     func(_ string, f vfs.File) error { return f.Sync() },
		errorfs.OpFileSyncData: func(_ string, f vfs.File) error { return f.SyncData() },
		errorfs.OpFileSyncTo:   func(_ string, f vfs.File) error { _, err := f.SyncTo(1); return err },
	}
	for _, name := range []string{"000001.log", "000001.sst"} {
		isLog := strings.HasSuffix(name, ".log")
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		for kind, act := range do {
			failing, told = kind, nil
			if err := act(name, f); !errors.Is(err, broken) {
				t.Errorf("%s, operation %v: %v, want %v", name, kind, err, broken)
			}
			if isLog && (len(told) != 1 || !errors.Is(told[0], broken) || !strings.Contains(told[0].Error(), ".log")) || !isLog && len(told) > 0 {
				t.Errorf("%s, operation %v: told %v", name, kind, told)
			}
			failing = -1
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
