package disk

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestYielding_OnlyTablesYield(t *testing.T) {
	t.Parallel()
	fs := Yielding(vfs.NewMem())
	for name, want := range map[string]bool{"000001.sst": true, "000002.log": false, "MANIFEST-000003": false} {
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, yields := f.(yieldFile); yields != want {
			t.Errorf("%s yields: %t, want %t", name, yields, want)
		}
		if n, err := f.Write([]byte("block")); n != 5 || err != nil {
			t.Errorf("%s: wrote %d bytes: %v", name, n, err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != 5 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
