package disk

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// openers are the ways to a file that can be written.
func openers(t *testing.T, fs vfs.FS) map[string]vfs.File {
	t.Helper()
	files := map[string]vfs.File{}
	var errs []error
	add := func(name string, f vfs.File, err error) {
		files[name] = f
		errs = append(errs, err)
	}
	f, err := fs.Create("created", vfs.WriteCategoryUnspecified)
	add("Create", f, err)
	f, err = fs.OpenReadWrite("opened", vfs.WriteCategoryUnspecified)
	add("OpenReadWrite", f, err)
	old, err := fs.Create("old", vfs.WriteCategoryUnspecified)
	errs = append(errs, err, old.Close())
	f, err = fs.ReuseForWrite("old", "new", vfs.WriteCategoryUnspecified)
	add("ReuseForWrite", f, err)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDelayedSync_DelaysEverySync(t *testing.T) {
	t.Parallel()
	const d = 20 * time.Millisecond
	fs := DelayedSync(vfs.NewMem(), d)
	files := openers(t, fs)
	dir, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	files["OpenDir"] = dir
	for name, f := range files {
		for call, sync := range map[string]func() error{"Sync": f.Sync, "SyncData": f.SyncData} {
			start := time.Now()
			if err := sync(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < d {
				t.Errorf("%s of a file from %s took %v, want %v", call, name, took, d)
			}
		}
		start := time.Now()
		full, err := f.SyncTo(1)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); full && took < d {
			t.Errorf("SyncTo of a file from %s took %v, full sync %v", name, took, full)
		}
	}
}

func TestCounting_CountsWhatPebbleSyncs(t *testing.T) {
	t.Parallel()
	fs := Counting(vfs.NewMem())
	db, err := pebble.Open("db", &pebble.Options{FS: fs, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    *pebble.WriteOptions
		want int64
	}{{pebble.Sync, 10}, {pebble.NoSync, 0}} {
		before := fs.FileSyncs()
		for i := range 10 {
			if err := db.Set(fmt.Append(nil, i), nil, c.o); err != nil {
				t.Fatal(err)
			}
		}
		if n := fs.FileSyncs() - before; n != c.want {
			t.Errorf("10 writes with sync %v made %d syncs, want %d", c.o.Sync, n, c.want)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(f string, a ...any) {
	panic(fmt.Sprintf(f, a...))
}

// volume is a file system of 8000 MiB, in units of 8 MiB, with a chosen amount used.
type volume struct {
	vfs.FS
	mu   sync.Mutex // Guards what follows.
	used uint64
	err  error
}

func (v *volume) set(used uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used, v.err = used, err
}

func (v *volume) GetDiskUsage(string) (vfs.DiskUsage, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return vfs.DiskUsage{TotalBytes: 1000 << 23, AvailBytes: (1000 - v.used) << 23}, v.err
}

func TestSpace_LevelsRiseAtOnceAndFallBelowTheEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &volume{FS: vfs.NewMem()}
		var mu sync.Mutex
		var got []string
		s, err := NewSpace(v, "", SpaceOptions{Logger: quiet(), OnChange: func(l SpaceLevel, used float64) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%v at %.1f", l, used))
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, c := range []struct {
			used uint64
			want SpaceLevel
		}{
			{899, SpaceOK}, {900, SpaceTight}, {881, SpaceTight}, {879, SpaceOK},
			{970, SpaceExhaust}, {951, SpaceExhaust}, {949, SpaceTight}, {969, SpaceTight}, {100, SpaceOK},
		} {
			v.set(c.used, nil)
			time.Sleep(spaceInterval)
			synctest.Wait()
			if l := s.Level(); l != c.want {
				t.Errorf("level with %d of 1000 used = %v, want %v", c.used, l, c.want)
			}
		}
		want := []string{"tight at 90.0", "ok at 87.9", "exhausted at 97.0", "tight at 94.9", "ok at 10.0"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("changes %q, want %q", got, want)
		}
		// Not knowing keeps the level.
		v.set(950, nil)
		time.Sleep(spaceInterval)
		synctest.Wait()
		v.set(0, errors.New("no answer"))
		time.Sleep(spaceInterval)
		synctest.Wait()
		if s.Level() != SpaceTight {
			t.Errorf("level without an answer = %v, want the last", s.Level())
		}
	})
}

// ample is a volume with so many bytes free, which counts the questions.
type ample struct {
	vfs.FS
	free, asked atomic.Int64
}

func (a *ample) GetDiskUsage(string) (vfs.DiskUsage, error) {
	a.asked.Add(1)
	return vfs.DiskUsage{TotalBytes: 1 << 40, AvailBytes: uint64(a.free.Load())}, nil
}

func TestSpace_AsksLessOftenWhileVeryMuchIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &ample{FS: vfs.NewMem()}
		v.free.Store(ampleBytes)
		s, err := NewSpace(v, "", SpaceOptions{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		asked := func(during time.Duration) int64 {
			before := v.asked.Load()
			time.Sleep(during)
			synctest.Wait()
			return v.asked.Load() - before
		}
		time.Sleep(time.Millisecond)
		if got := asked(10 * amplePart * spaceInterval); got != 10 || !s.Ample() {
			t.Errorf("asked %d times, want 10; ample %v", got, s.Ample())
		}
		v.free.Store(ampleBytes - 1)
		if got := asked(amplePart * spaceInterval); got != 1 {
			t.Errorf("asked %d times before it knows that less is free, want 1", got)
		}
		if got := asked(10 * spaceInterval); got != 10 || s.Ample() {
			t.Errorf("asked %d times, want 10; ample %v", got, s.Ample())
		}
	})
}

// Whatever the percentage, enough is free from 16 GiB on. At that edge, too, one page is not a
// change of level.
func TestSpace_EnoughBytesHaveAnEdgeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &ample{FS: vfs.NewMem()}
		v.free.Store(roomyBytes - 1)
		s, err := NewSpace(v, "", SpaceOptions{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, c := range []struct {
			free int64
			want SpaceLevel
		}{
			{roomyBytes - 1, SpaceExhaust}, {roomyBytes + 1, SpaceExhaust}, {roomyBytes + 33<<20, SpaceOK},
			{roomyBytes + 1, SpaceOK}, {roomyBytes - 1, SpaceExhaust},
		} {
			v.free.Store(c.free)
			time.Sleep(spaceInterval)
			synctest.Wait()
			if l := s.Level(); l != c.want {
				t.Errorf("level with 16 GiB and %d bytes free of 1 TiB = %v, want %v", c.free-roomyBytes, l, c.want)
			}
		}
	})
}

func TestSpace_KnowsTheLevelBeforeItReturns(t *testing.T) {
	t.Parallel()
	v := &volume{FS: vfs.NewMem(), used: 980}
	var told SpaceLevel
	s, err := NewSpace(v, "", SpaceOptions{Logger: quiet(), OnChange: func(l SpaceLevel, _ float64) { told = l }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if told != SpaceExhaust || s.Level() != SpaceExhaust {
		t.Errorf("told %v, level %v, want %v", told, s.Level(), SpaceExhaust)
	}
	v.set(0, errors.New("no answer"))
	if _, err := NewSpace(v, "", SpaceOptions{}); err == nil {
		t.Error("a volume that cannot be measured was accepted")
	}
}

func TestSpace_MeasuresTheRealVolume(t *testing.T) {
	t.Parallel()
	s, err := NewSpace(vfs.Default, t.TempDir(), SpaceOptions{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// On a small disk 10 % is less than one flush of both stores.
func TestSpace_TooFewBytesAreTooFewWhateverThePercentage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		now   SpaceLevel
		avail uint64
		want  SpaceLevel
	}{
		{SpaceOK, 128 << 20, SpaceOK}, {SpaceOK, 128<<20 - 1, SpaceTight}, {SpaceTight, 159 << 20, SpaceTight}, {SpaceTight, 160 << 20, SpaceOK},
		{SpaceOK, 64<<20 - 1, SpaceExhaust}, {SpaceExhaust, 95 << 20, SpaceExhaust}, {SpaceExhaust, 96 << 20, SpaceTight}, {SpaceOK, 0, SpaceExhaust},
	} {
		if got := nextLevel(c.now, 50, c.avail); got != c.want {
			t.Errorf("%v with %d MiB free: %v, want %v", c.now, c.avail>>20, got, c.want)
		}
	}
}
