package cell

import (
	"fmt"
	"testing"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// fullView holds as many keys as a cell may.
const benchKeys = 100_000

func fullView() *View {
	set := &changeSet{index: 1}
	for i := range benchKeys {
		set.changes = append(set.changes, keyChange(testKey(i, 1)))
	}
	return (&View{}).with([]*changeSet{set})
}

func BenchmarkView_KeyByID(b *testing.B) {
	v, ids := fullView(), make([]string, 1024)
	for i := range ids {
		ids[i] = keyID(i * 97 % benchKeys)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		if _, ok := v.KeyByID(ids[i%len(ids)]); !ok {
			b.Fatal(ids[i%len(ids)])
		}
	}
}

// One key of 100,000 changes.
func BenchmarkView_ChangeOneKey(b *testing.B) {
	v := fullView()
	changes := make([]*cellv1.Change, 1024)
	for i := range changes {
		changes[i] = keyChange(testKey(i*97%benchKeys, 1))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		v = v.with([]*changeSet{{index: uint64(i + 2), changes: changes[i%len(changes):][:1]}})
	}
}

func BenchmarkView_State(b *testing.B) {
	v := fullView()
	b.ReportAllocs()
	for b.Loop() {
		if n := len(v.State().GetKeys()); n != benchKeys {
			b.Fatal(fmt.Sprint(n))
		}
	}
}
