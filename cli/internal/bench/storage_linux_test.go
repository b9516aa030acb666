package bench

import (
	"os"
	"strings"
	"testing"
)

func TestFileSystem_SaysWhatIsMemory(t *testing.T) {
	t.Parallel()
	for magic, want := range map[uint32]bool{tmpfsMagic: true, ramfsMagic: true, 0xef53: false, 1: false} {
		if name, memory := fileSystem(magic); memory != want || name == "" {
			t.Errorf("%x: %s, memory %v", magic, name, memory)
		}
	}
}

// A suite on a disk of memory would compare us with a sync that costs nothing.
func TestSuite_RefusesAFolderInMemoryThatNobodyNamed(t *testing.T) {
	const shm = "/dev/shm"
	if _, memory := storageOf(shm); !memory {
		t.Skip("no tmpfs at " + shm)
	}
	t.Setenv("TMPDIR", shm)
	if _, err := (&Suite{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is memory (tmpfs)") {
		t.Error(err)
	}
	if m := (&Suite{Dir: shm}).machine(); m.FileSystem != "tmpfs (memory: no sync was measured)" {
		t.Errorf("%+v", m)
	}
}

func TestReport_NotesThatAServerOfOursIsOnAFolderInMemory(t *testing.T) {
	t.Parallel()
	const shm = "/dev/shm"
	if _, memory := storageOf(shm); !memory {
		t.Skip("no tmpfs at " + shm)
	}
	for dir, want := range map[string]bool{shm: true, "": false} {
		target := ours(serve(t, faults{}))
		target.dir = dir
		r, err := Run(t.Context(), small(Enqueue, Stream), target)
		if err != nil || strings.Contains(strings.Join(r.Notes, " "), "is memory (tmpfs)") != want {
			t.Errorf("%q: %v %+v", dir, err, r.Notes)
		}
	}
}

// Every server of a suite, and the limits, are measured in the folder that was given.
func TestSpawn_PutsATemporaryFolderWhereItIsTold(t *testing.T) {
	t.Parallel()
	under := t.TempDir()
	_, err := Spawn(t.Context(), SpawnOptions{Binary: "/nonexistent", Under: under})
	if err == nil {
		t.Fatal("it started")
	}
	if _, err := Spawn(t.Context(), SpawnOptions{Binary: "/nonexistent", Under: under + "/missing"}); err == nil || !strings.Contains(err.Error(), under) {
		t.Error(err)
	}
	if left, err := os.ReadDir(under); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
