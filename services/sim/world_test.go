package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/corvo-cloud/corvo/data-plane/node"
)

// What happens to the cell is not drawn from what the next faults are drawn from.
func TestPlan_IsThatOfItsSeed(t *testing.T) {
	t.Parallel()
	names := func(seed uint64) (out []planned) {
		for _, p := range plan(seed, 25) {
			p.fault = fault{kind: p.fault.kind}
			out = append(out, p)
		}
		return out
	}
	if len(names(7)) != 25 || !reflect.DeepEqual(names(7), names(7)) {
		t.Error("one seed has two plans")
	}
	if reflect.DeepEqual(names(7), names(8)) {
		t.Error("two seeds have one plan")
	}
}

// Several disks crash, and each has a source of its own: how much there was to lose changes nothing else.
func TestFaults_DrawNoMoreWhereMoreIsLost(t *testing.T) {
	t.Parallel()
	next := func(blocks int) uint64 {
		w, rng := newWorld(t, 7, 3, t.TempDir()), rand.New(rand.NewPCG(7, 0))
		for _, h := range w.all() {
			h.now = &process{host: h}
			h.now.mount = h.disk.mount(h.now)
			file, err := h.disk.mem.Create(dataDir+"/x", vfs.WriteCategoryUnspecified)
			if err == nil {
				_, err = file.Write(make([]byte, blocks<<12))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		(&storm{w: w}).blackout(rng)
		return rng.Uint64()
	}
	if next(10) != next(11) {
		t.Error("the draws that follow are others where one block more was lost")
	}
}

// machine is a host whose process has a disk and nothing else.
func machine(t *testing.T) (*world, *host, *process) {
	w := newWorld(t, 1, 1, t.TempDir())
	h := w.all()[0]
	p := &process{host: h, dir: "/run"}
	p.mount = h.disk.mount(p)
	p.alive.Store(true)
	h.now = p
	return w, h, p
}

var logSync = errorfs.Op{Kind: errorfs.OpFileSyncData, Path: "/run/raftlog/000001.log"}

func TestDisk_FaultsThatOverlapEndByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, h, p := machine(t)
		first, second := stall(), stall()
		p.meet(first)
		p.meet(second)
		done := false
		go func() { _ = p.mount.before(logSync); done = true }()
		for _, f := range []*diskFault{second, first} {
			if synctest.Wait(); done {
				t.Error("a sync ended while a disk was stalled")
			}
			h.mend(f)
		}
		if synctest.Wait(); !done {
			t.Error("a sync does not end although no disk is stalled")
		}
		fails, full := &diskFault{fail: inputOutput}, &diskFault{full: true}
		p.meet(fails)
		p.meet(full)
		h.mend(full)
		if err := p.mount.before(logSync); err == nil || p.mount.full() {
			t.Errorf("the end of one fault ended another: %v, full: %v", err, p.mount.full())
		}
		p.alive.Store(false)
	})
}

func TestDisk_AFaultOfTheNextProcessEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	_, h, _ := machine(t)
	one, other := &diskFault{}, &diskFault{}
	h.meetNext(one)
	h.meetNext(other)
	if h.mend(one); !slices.Equal(h.next, []*diskFault{other}) {
		t.Errorf("the next process meets %v, want the other fault alone", h.next)
	}
}

func TestDisk_ANodeThatGoesOnAfterAFailedSyncIsNoticed(t *testing.T) {
	t.Parallel()
	for _, goesOn := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, h, p := machine(t)
			f := &diskFault{fail: inputOutput}
			p.meet(f)
			_ = p.mount.before(logSync)
			h.mend(f)
			p.alive.Store(goesOn)
			time.Sleep(failLimit + time.Second)
			if found := strings.Join(w.told(), "\n"); strings.Contains(found, "(R6)") != goesOn {
				t.Errorf("it goes on: %v, found %q", goesOn, found)
			}
		})
	}
}

func TestDisk_ANodeThatGoesOnAfterAStallIsNoticed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lasts time.Duration
		ends  bool
		found bool
	}{{stallLimit - time.Second, false, false}, {stallLimit + time.Second, false, true}, {stallLimit + time.Second, true, false}} {
		synctest.Test(t, func(t *testing.T) {
			w, h, p := machine(t)
			p.node.Store(new(node.Node))
			f := stall()
			p.meet(f)
			go func() { _ = p.mount.before(logSync) }()
			time.Sleep(tt.lasts)
			if tt.ends {
				p.mount.die()
			}
			h.mend(f)
			synctest.Wait()
			if found := strings.Join(w.told(), "\n"); strings.Contains(found, "(R4)") != tt.found {
				t.Errorf("a stall of %s, ended by its process: %v: found %q", tt.lasts, tt.ends, found)
			}
		})
	}
}

func TestNetwork_BothEndsOfAConnectionAreLostTogether(t *testing.T) {
	t.Parallel()
	w, _, _ := machine(t)
	w.net.listen("b:1")
	for range 10 {
		if _, ok := w.net.connect("a", "b", "b:1"); !ok {
			t.Fatal("not connected")
		}
	}
	asked := 0
	lost := w.net.reset("a", func() bool { asked++; return asked%2 == 0 })
	if lost != 5 || asked != 10 || len(w.net.all()) != 10 {
		t.Errorf("%d of %d connections were lost, %d ends are left", lost, asked, len(w.net.all()))
	}
}

func TestLoad_NobodyIsLostWhereNobodyWorks(t *testing.T) {
	t.Parallel()
	l := &load{}
	_, lost := l.lose(3)
	_, there := l.crewHost(3)
	if lost || there {
		t.Error("somebody works there")
	}
}
