package year

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const (
	queue     = "year"
	retention = time.Minute // The shortest there is.
	// batch is how many jobs a call has.
	batch   = 500
	callers = 4
	// samples of a run; the second half of them is judged.
	samples = 40
	// growthMax is how much larger the worst of the last quarter may be than that of the
	// quarter before. Both have seen every compaction several times.
	growthMax = 1.25
)

// TestYear_NothingGrowsOnceWhatHasEndedIsDeleted runs CORVO_YEAR_JOBS jobs, ten million by
// default.
func TestYear_NothingGrowsOnceWhatHasEndedIsDeleted(t *testing.T) {
	if os.Getenv("CORVO_TEST_LONG") == "" {
		t.Skip("CORVO_TEST_LONG is not set: ten million jobs take a quarter of an hour")
	}
	jobs := int64(10_000_000)
	if text := os.Getenv("CORVO_YEAR_JOBS"); text != "" {
		var err error
		if jobs, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	c := rig.StartCell(t, rig.CellOptions{Nodes: 1})
	y := &year{t: t, cell: c, tenant: c.Tenant(0), jobs: jobs}
	y.keepForAMinute()
	y.run()
	y.judge()
}

type year struct {
	t      *testing.T
	cell   *rig.Cell
	tenant rig.Tenant
	jobs   int64

	claimed, done atomic.Int64
	taken         []sample
}

// sample is what a node takes at a moment.
type sample struct {
	jobs                      int64 // Done so far.
	disk, memory, files, kept int64 // Bytes, bytes, open files, jobs.
	state, log, lists         int64 // Bytes of disk, by what they are for.
	start                     time.Duration
}

func (y *year) keepForAMinute() {
	y.t.Helper()
	in := map[string]any{"retention": map[string]any{"completed_ms": retention.Milliseconds()}}
	if _, err := y.tenant.Call(y.t.Context(), http.MethodPut, "/api/v1/queues/"+queue, in, nil); err != nil {
		y.t.Fatal(err)
	}
}

// run does the jobs in pieces and takes a sample after each. The node is restarted at half
// and at the end.
func (y *year) run() {
	y.t.Helper()
	for i := range samples {
		began := time.Now()
		y.do(y.jobs * int64(i+1) / samples)
		s := y.sample()
		if n := i + 1; n == samples/2 || n == 3*samples/4 || n == samples {
			s.start = y.restart()
		}
		y.taken = append(y.taken, s)
		y.t.Logf("%9d jobs, %6.0f/s: disk %5d MB (state %d, log %d, lists %d), memory %4d MB, %3d files, %8d jobs kept, start %s",
			s.jobs, float64(y.jobs)/samples/time.Since(began).Seconds(), s.disk>>20, s.state>>20, s.log>>20, s.lists>>20, s.memory>>20, s.files, s.kept, s.start.Round(time.Millisecond))
	}
}

// do enqueues, fetches and completes jobs until so many are done.
func (y *year) do(until int64) {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), 30*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	failed := make(chan error, callers)
	for i := range callers {
		all.Go(func() {
			for y.claimed.Add(batch) <= until {
				if err := y.lives(ctx, i); err != nil {
					failed <- err
					return
				}
				y.done.Add(batch)
			}
			y.claimed.Add(-batch)
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		y.t.Fatal(err)
	default:
	}
}

type job struct {
	JobID      string `json:"job_id"`
	LeaseToken string `json:"lease_token"`
}

// lives is the life of a batch of jobs. A call that is refused for load is sent again.
func (y *year) lives(ctx context.Context, caller int) error {
	jobs := make([]map[string]any, batch)
	for i := range jobs {
		jobs[i] = map[string]any{"queue": queue, "payload": map[string]any{"number": i, "to": "someone@example.com", "subject": "A year of jobs"}}
	}
	if err := y.call(ctx, "/api/v1/enqueue/batch", map[string]any{"jobs": jobs}, nil); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	for left := batch; left > 0; {
		var got struct {
			Jobs []job `json:"jobs"`
		}
		in := map[string]any{"queues": []string{queue}, "worker_id": "worker-" + strconv.Itoa(caller), "count": left, "wait": "10s"}
		if err := y.call(ctx, "/api/v1/fetch/batch", in, &got); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if len(got.Jobs) == 0 {
			continue
		}
		if err := y.call(ctx, "/api/v1/ack/batch", map[string]any{"acks": got.Jobs}, nil); err != nil {
			return fmt.Errorf("ack: %w", err)
		}
		left -= len(got.Jobs)
	}
	return nil
}

func (y *year) call(ctx context.Context, path string, in, out any) error {
	for {
		status, err := y.tenant.Call(ctx, http.MethodPost, path, in, out)
		if status != http.StatusTooManyRequests {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (y *year) sample() sample {
	y.t.Helper()
	node := y.cell.Nodes[0]
	_, resident := node.Usage(y.t)
	s := sample{jobs: y.done.Load(), memory: resident, files: openFiles(y.t, node.PID())}
	s.state, s.log, s.lists = size(y.t, filepath.Join(node.Dir, "state")), size(y.t, filepath.Join(node.Dir, "raftlog")), size(y.t, filepath.Join(node.Dir, "readmodel"))
	s.disk = size(y.t, node.Dir)
	var q struct {
		Completed int64 `json:"completed"`
	}
	if _, err := y.tenant.Call(y.t.Context(), http.MethodGet, "/api/v1/queues/"+queue, nil, &q); err != nil {
		y.t.Fatal(err)
	}
	s.kept = q.Completed
	return s
}

// restart kills the node and returns how long it takes until it is ready again.
func (y *year) restart() time.Duration {
	y.t.Helper()
	node := y.cell.Nodes[0]
	node.Kill()
	began := time.Now()
	node.Start()
	node.WaitReady(time.Minute)
	took := time.Since(began)
	y.cell.WaitServing(0, time.Minute)
	return took
}

// judge compares the last quarter with the one before.
func (y *year) judge() {
	y.t.Helper()
	half := y.taken[len(y.taken)/2:]
	before, after := half[:len(half)/2], half[len(half)/2:]
	for _, what := range []struct {
		name string
		of   func(s sample) int64
		// least is what is too little to be compared.
		least int64
	}{
		{"disk", func(s sample) int64 { return s.disk }, 64 << 20},
		{"disk of the lists", func(s sample) int64 { return s.lists }, 64 << 20},
		{"memory", func(s sample) int64 { return s.memory }, 64 << 20},
		{"open files", func(s sample) int64 { return s.files }, 50},
		{"jobs kept", func(s sample) int64 { return s.kept }, batch},
		{"start", func(s sample) int64 { return int64(s.start) }, int64(time.Second)},
	} {
		was, is := worst(before, what.of), worst(after, what.of)
		y.t.Logf("%-18s %12d, then %12d: × %.2f", what.name, was, is, float64(is)/float64(max(was, 1)))
		if is > what.least && float64(is) > growthMax*float64(was) {
			y.t.Errorf("%s grew from %d to %d over the last quarter", what.name, was, is)
		}
	}
}

func worst(all []sample, of func(sample) int64) (w int64) {
	for _, s := range all {
		w = max(w, of(s))
	}
	return w
}

// size is what the files of a folder take. Files may go while it looks.
func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func openFiles(t *testing.T, pid int) int64 {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(list))
}
