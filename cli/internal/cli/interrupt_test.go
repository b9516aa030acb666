//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// interrupted runs the program, because signals come to processes, and interrupts it once
// the server says that it is time.
func interrupted(t *testing.T, url string, now <-chan struct{}, args ...string) outcome {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a program")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("corvo", append(args, "--server", url)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, "the server wasn't asked", now)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	stuck := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // Shown by its exit code.
	defer stuck.Stop()
	_ = cmd.Wait() // Its exit code says it.
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// hang says that the call has come and leaves it without an answer.
func hang(now chan struct{}, r *http.Request) {
	close(now)
	_, _ = io.Copy(io.Discard, r.Body) // Only then the server sees that the client has gone.
	<-r.Context().Done()
}

func TestExport_InterruptedWritesWholeLinesAndSaysWhereToContinue(t *testing.T) {
	t.Parallel()
	now := make(chan struct{})
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") != "" {
			hang(now, r)
			return
		}
		var jobs []string
		for i := range 100 {
			jobs = append(jobs, fmt.Sprintf(`{"id":"job_%03d","payload":%q}`, i, strings.Repeat("x", 100)))
		}
		fmt.Fprintf(w, `{"jobs":[%s],"last_id":"job_099","has_more":true}`, strings.Join(jobs, ","))
	})
	got := interrupted(t, url, now, "export")
	if got.exit != ExitFail || strings.Count(got.stdout, "\n") != 100 || !strings.HasSuffix(got.stdout, "\"}\n") || !strings.Contains(got.stderr, "continue with --after job_099") {
		t.Errorf("exit %d, %d lines, %s", got.exit, strings.Count(got.stdout, "\n"), got.stderr)
	}
}

func TestBulk_InterruptedSaysThatTheServerContinues(t *testing.T) {
	t.Parallel()
	now := make(chan struct{})
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			hang(now, r)
			return
		}
		_, _ = w.Write([]byte(`{"bulk_operation_id":"bulk_1","status":"queued"}`))
	})
	got := interrupted(t, url, now, "bulk", "retry", "--queue", "q", "--yes")
	if got.exit != ExitFail || !strings.Contains(got.stderr, "the server continues; check its progress with: corvo api GET /api/v1/bulk/bulk_1") {
		t.Errorf("%+v", got)
	}
}

func TestCancel_InterruptedShowsWhatWasDoneAndStops(t *testing.T) {
	t.Parallel()
	now := make(chan struct{})
	url := answer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "job_2") {
			hang(now, r)
			return
		}
		_, _ = w.Write([]byte(`{"status":"cancelled"}`))
	})
	got := interrupted(t, url, now, "cancel", "job_1", "job_2", "job_3")
	if got.exit != ExitPartial || got.stdout != "job_1  cancelled\n" || !strings.Contains(got.stderr, "job_2: interrupted") || strings.Contains(got.stderr, "job_3") {
		t.Errorf("%+v", got)
	}
}

func TestEnqueueBatch_InterruptedBetweenLinesEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a program")
	}
	url := answer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"job_ids":["job_1"]}`)) })
	var stderr bytes.Buffer
	cmd := exec.Command("corvo", "enqueue-batch", "--queue", "q", "--payloads", "--chunk", "1", "--server", url)
	cmd.Stderr = &stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Write([]byte("1\n")); err != nil {
		t.Error(err)
	}
	if id, err := bufio.NewReader(out).ReadString('\n'); err != nil || id != "job_1\n" {
		t.Errorf("%q, %v", id, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	stuck := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // Shown by its exit code.
	defer stuck.Stop()
	_ = cmd.Wait() // Its exit code says it.
	if code := cmd.ProcessState.ExitCode(); code != ExitPartial || !strings.Contains(stderr.String(), "error: interrupted") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
