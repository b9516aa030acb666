package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
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
	w := newWork(options{jobs: 3, callers: 1}) // And a first one.
	for _, n := range []int64{0, 1, 1, 9} {
		w.note(payload(n, 100))
	}
	r := result{Jobs: 4, Callers: 1, SyncDelayMS: 1, Syncs: 3, SyncMS: 0.4}
	w.account(&r)
	if r.Valid || r.Lost != 2 || r.Duplicated != 1 || r.Unexpected != 1 || len(r.Problems) != 5 {
		t.Errorf("%+v", r)
	}
}

// slowStart is a queue in memory whose callers take long to connect, and a millisecond a job.
type slowStart struct {
	jobs    chan []byte
	connect time.Duration
	served  *int // How many of them were opened.
}

func (s slowStart) system() system {
	return system{name: "slow", goes: true, version: func() (string, error) { return "1", nil },
		open: func(context.Context, launcher, options) (queue, error) {
			*s.served++
			s.jobs = make(chan []byte, 100_000)
			return s, nil
		}}
}

func (s slowStart) close() {}

func (s slowStart) producer(context.Context) (func(context.Context, []byte) error, error) {
	connected := false
	return func(_ context.Context, body []byte) error {
		if !connected {
			time.Sleep(s.connect)
			connected = true
		}
		time.Sleep(time.Millisecond)
		s.jobs <- body
		return nil
	}, nil
}

func (s slowStart) work(_ context.Context, handlers int, handled func([]byte) bool) error {
	time.Sleep(s.connect)
	var all sync.WaitGroup
	for range handlers {
		all.Go(func() {
			for {
				select {
				case body := <-s.jobs:
					time.Sleep(time.Millisecond)
					handled(body)
				default:
					return
				}
			}
		})
	}
	all.Wait()
	return nil
}

// What our own set-up takes is not in our figures, so that of peers is not in theirs.
func TestRun_ConnectingIsNotMeasured(t *testing.T) {
	for _, workload := range []string{enqueue, lifecycle} {
		var served int
		s := slowStart{connect: time.Second, served: &served}
		r, err := repeat(t.Context(), s.system(), options{workload: workload, callers: 4, jobs: 40, payloadBytes: 100})
		if err != nil || !r.Valid || r.Jobs != 40 || r.Seconds <= 0 || r.Seconds >= s.connect.Seconds() {
			t.Errorf("%s: %v %+v", workload, err, r)
		}
	}
}

func TestRun_ThatIsTooShortIsRepeatedWithMoreJobs(t *testing.T) {
	var served int
	s := slowStart{served: &served}
	const atLeast = 200 * time.Millisecond
	r, err := repeat(t.Context(), s.system(), options{workload: enqueue, callers: 2, jobs: 4, payloadBytes: 100, atLeast: atLeast})
	if err != nil || !r.Valid || r.Seconds < atLeast.Seconds() || r.Jobs <= 4 || served < 2 {
		t.Errorf("%v %+v after %d servers", err, r, served)
	}
}

func TestMoreJobs_IsBounded(t *testing.T) {
	for seconds, want := range map[float64]int{1: 625, 4.9: 128, 0.000001: 100 * growMax} {
		if got := moreJobs(100, seconds, 5*time.Second); got != want {
			t.Errorf("100 jobs in %g s: %d, want %d", seconds, got, want)
		}
	}
}

// A server that no longer answers must not keep a run that was told to end.
func TestAsynqRaw_EndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	body := payload(0, 100)
	q := &asynqRaw{&asynqQueue{redis: asynq.RedisClientOpt{Addr: silent.Addr().String()}}, append([]byte("id"), body...), "id"}
	ctx, cancel := context.WithCancel(t.Context())
	add, err := q.producer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- add(ctx, body) }() // Waited for below.
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a job that nobody took was added")
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for an answer")
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
