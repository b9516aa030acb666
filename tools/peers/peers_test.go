package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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

func TestDelay_EverySyncOfAProgramTakesThatMuchLongerAndIsCounted(t *testing.T) {
	l := launcher{dir: t.TempDir(), delay: 20 * time.Millisecond}
	if _, slow, err := l.checkDelay(); err != nil || slow < l.delay {
		t.Fatalf("a sync takes %s with a delay of %s: %v", slow, l.delay, err)
	}
	if n, err := l.syncs(); err != nil || n != probeSyncs {
		t.Errorf("%d syncs were counted (%v), want %d", n, err, probeSyncs)
	}
}

func TestDelay_OneThatIsNotThereIsAnError(t *testing.T) {
	l := launcher{dir: t.TempDir(), delay: time.Millisecond}
	if err := l.compare(100*time.Microsecond, 120*time.Microsecond); err == nil {
		t.Error("a sync without a delay passed")
	}
	if err := l.compare(100*time.Microsecond, 5*time.Millisecond); err == nil {
		t.Error("a sync with five times the delay passed")
	}
	if err := l.compare(100*time.Microsecond, 1200*time.Microsecond); err != nil {
		t.Error(err)
	}
}

func TestDelay_AProgramThatIsNotThereIsNamed(t *testing.T) {
	l := launcher{dir: t.TempDir(), delay: time.Millisecond}
	argv, err := l.wrap(nil, []string{"no-such-program"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
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
	r := result{Jobs: 4, Callers: 1, SyncDelayMS: 1, Syncs: 3}
	w.account(&r)
	if r.Valid || r.Lost != 2 || r.Duplicated != 1 || r.Unexpected != 1 || len(r.Problems) != 4 {
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
			for _, workload := range []string{enqueue, lifecycle} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, err := run(ctx, options{peer: s.name, workload: workload, callers: 3, jobs: 50, payloadBytes: 100, syncDelay: time.Millisecond})
				if err != nil || !r.Valid {
					t.Fatalf("%s: %v %+v", workload, err, r)
				}
			}
		})
	}
}
