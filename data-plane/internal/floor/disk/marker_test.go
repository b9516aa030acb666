package disk

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashes takes what a loss of power leaves right after each step with a marker.
type crashes struct {
	vfs.FS
	mem  *vfs.MemFS
	rng  *rand.Rand
	left []*vfs.MemFS
}

func (c *crashes) after(name string) {
	if strings.HasPrefix(c.PathBase(name), markerPrefix) {
		c.left = append(c.left, c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: c.rng}))
	}
}

func (c *crashes) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	defer c.after(name)
	return c.FS.Create(name, category)
}

func (c *crashes) Remove(name string) error {
	defer c.after(name)
	return c.FS.Remove(name)
}

// lost is how many of many losses of power, each while a store is opened, leave one that can't
// be opened, or that is empty.
func lost(t *testing.T, order func(vfs.FS) vfs.FS) (lost, of int) {
	t.Helper()
	for seed := range uint64(20) {
		mem := vfs.NewCrashableMem()
		db, err := pebble.Open("store", &pebble.Options{FS: order(mem), Logger: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Set([]byte("k"), []byte("v"), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		c := &crashes{FS: mem, mem: mem, rng: rand.New(rand.NewPCG(seed, 0))}
		if db, err = pebble.Open("store", &pebble.Options{FS: order(c), Logger: silent{}}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, left := range c.left {
			of++
			if !has(left) {
				lost++
			}
		}
	}
	return lost, of
}

func has(fs vfs.FS) bool {
	db, err := pebble.Open("store", &pebble.Options{FS: fs, Logger: silent{}, ErrorIfNotExists: true})
	if err != nil {
		return false
	}
	_, closer, err := db.Get([]byte("k"))
	if err == nil {
		err = closer.Close()
	}
	return db.Close() == nil && err == nil
}

func TestOrderedMarkers_AStoreSurvivesALossOfPowerAtEveryStep(t *testing.T) {
	t.Parallel()
	if n, of := lost(t, OrderedMarkers); n > 0 || of == 0 {
		t.Errorf("%d of %d stores were lost", n, of)
	}
	// The control: on a disk that doesn't keep the order, Pebble alone loses some.
	if n, of := lost(t, func(fs vfs.FS) vfs.FS { return fs }); n == 0 {
		t.Errorf("no store of %d was lost without it", of)
	}
}
