package raftlog

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestRelaxed_RefusesToOpenAfterTheMachineWentDown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after Options
		clean         bool // Closed before the machine goes down.
		refused       bool
	}{
		"machine went down":             {Options{Relaxed: true, bootID: "1"}, Options{Relaxed: true, bootID: "2"}, false, true},
		"then opened with syncs":        {Options{Relaxed: true, bootID: "1"}, Options{bootID: "2"}, false, true},
		"loss accepted":                 {Options{Relaxed: true, bootID: "1"}, Options{bootID: "2", AcceptLoss: true}, false, false},
		"only the process went down":    {Options{Relaxed: true, bootID: "1"}, Options{Relaxed: true, bootID: "1"}, false, false},
		"closed first":                  {Options{Relaxed: true, bootID: "1"}, Options{Relaxed: true, bootID: "2"}, true, false},
		"closed first, then with syncs": {Options{Relaxed: true, bootID: "1"}, Options{bootID: "2"}, true, false},
		"synced all along":              {Options{bootID: "1"}, Options{bootID: "2"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewCrashableMem()
			s := open(t, fs, c.before)
			store(t, s.Group(1), entries(1, 10, 1))
			if c.clean {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			c.after.FS = crashed
			again, err := Open("log", c.after)
			if errors.Is(err, ErrRelaxedCrash) != c.refused || (err != nil && !c.refused) {
				t.Fatalf("open: %v, want a refusal: %v", err, c.refused)
			}
			if c.refused {
				// The refusal itself clears nothing.
				if _, err := Open("log", c.after); !errors.Is(err, ErrRelaxedCrash) {
					t.Errorf("second open: %v", err)
				}
				return
			}
			// Accepted or harmless: the mark is this run's now.
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			open(t, crashed, Options{bootID: "3"})
		})
	}
}

func TestRelaxed_UnknownBootIsNotTheSameBoot(t *testing.T) {
	t.Parallel()
	s := &Store{}
	if s.sameBoot([]byte("boot ")) {
		t.Error("two unknown boots count as one")
	}
}
