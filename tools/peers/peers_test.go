package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary stand in for the program where that runs itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		if err := command(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newTestLauncher(t *testing.T, delay time.Duration) launcher {
	t.Helper()
	l, err := newLauncher(t.TempDir(), delay)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDelay_EverySyncOfAGoProgramTakesThatLongAndIsCounted(t *testing.T) {
	const delay = 5 * time.Millisecond
	l := newTestLauncher(t, delay)
	if took, err := l.probeDelay(); err != nil || took < delay {
		t.Fatalf("a sync takes %s (%v)", took, err)
	}
	if n, err := l.syncs(); err != nil || n.count != probeSyncs {
		t.Errorf("%d syncs were counted (%v), want %d", n.count, err, probeSyncs)
	}
}

func TestDelay_EverySyncOfACProgramTakesThatLongAndIsCounted(t *testing.T) {
	const delay, files = 5 * time.Millisecond, 20
	l := newTestLauncher(t, delay)
	args := []string{"sync", "--data"}
	for i := range files {
		path := filepath.Join(l.dir, fmt.Sprint(i))
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	cmd, err := l.forC(args...)
	if err != nil {
		t.Skip(err)
	}
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := time.Since(began)
	n, err := l.syncs()
	if err != nil || n.count != files || n.took < files*delay || n.took > took || took < files*delay {
		t.Errorf("%d syncs were counted, %s of %s (%v); want %d of at least %s each", n.count, n.took, took, err, files, delay)
	}
}

func TestDelay_AProgramThatIsNotThereIsNamed(t *testing.T) {
	cmd, err := newTestLauncher(t, time.Millisecond).forGo("no-such-program")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no-such-program") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPayload_HasItsSizeAndItsNumber(t *testing.T) {
	for _, size := range []int{payloadBytesMin, 100, 10_000} {
		b := payload(1234, size)
		n, err := number(b)
		if len(b) != size || err != nil || n != 1234 {
			t.Errorf("%d bytes of %d, number %d, %v", len(b), size, n, err)
		}
	}
	if _, err := number([]byte("{}")); err == nil {
		t.Error("a number was read where none is")
	}
}

func TestAccount_NamesWhatAQueueDidWrong(t *testing.T) {
	w := newWork(options{jobs: 4, callers: 1})
	for _, n := range []int64{0, 1, 1, 9} {
		w.note(payload(n, 100))
	}
	r := result{Jobs: 4, Callers: 1, SyncDelayMS: 1, Syncs: 3, SyncMS: 0.4}
	w.account(&r)
	if r.Valid || r.Lost != 2 || r.Duplicated != 1 || r.Unexpected != 1 || len(r.Problems) != 5 {
		t.Errorf("%+v", r)
	}
}

// TestRun_EveryPeerKeepsItsJobs needs the peers: `make peers`.
func TestRun_EveryPeerKeepsItsJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five servers")
	}
	for _, s := range systems() {
		t.Run(s.name, func(t *testing.T) {
			if _, err := s.version(); err != nil {
				t.Skip(err)
			}
			for _, o := range []options{{workload: enqueue, syncDelay: time.Millisecond}, {workload: lifecycle, syncDelay: time.Millisecond}, {workload: enqueue}} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				o.peer, o.callers, o.jobs, o.payloadBytes = s.name, 3, 50, 100
				r, err := run(ctx, o)
				if err != nil || !r.Valid {
					t.Fatalf("%+v: %v %+v", o, err, r)
				}
			}
		})
	}
}
