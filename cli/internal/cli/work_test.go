//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// runShell is a runner of a shell script that ends what it stops after a short grace.
func runShell(script string) *jobRunner {
	return &jobRunner{session: newSession(Process{Stdout: io.Discard}), path: "/bin/sh", args: []string{"-c", script}, grace: 200 * time.Millisecond, quit: context.Background()}
}

func someJob(payload string) *corvo.Job[json.RawMessage] {
	return &corvo.Job[json.RawMessage]{ID: "job_1", Queue: "q", Attempt: 1, MaxRetries: 3, Args: json.RawMessage(payload)}
}

// alive is a pipe that a script opens for writing: reading ends with the last process that
// has it open.
func alive(t *testing.T) (path string, opened, ended chan struct{}) {
	t.Helper()
	path, opened, ended = filepath.Join(t.TempDir(), "alive"), make(chan struct{}), make(chan struct{})
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		lines := bufio.NewReader(f)
		if _, err := lines.ReadString('\n'); err != nil {
			t.Error(err)
		}
		close(opened)
		_, _ = io.Copy(io.Discard, lines) // Ends when the last writer is gone.
		close(ended)
	}()
	return path, opened, ended
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal(what)
	}
}

// stubborn ignores SIGTERM, and so does its child.
func stubborn(fifo string) string {
	return `exec 9>` + fifo + `; trap "" TERM; sleep 120 & echo begun >&9; wait; sleep 120`
}

func TestWork_ACommandThatIgnoresSIGTERMIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	fifo, opened, ended := alive(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-opened; cancel() }()
	h := runShell(stubborn(fifo))
	if _, err := h.run(ctx, someJob("{}")); err == nil {
		t.Error("a command that was killed has succeeded")
	}
	within(t, "a child of the command lives on", ended)
}

func TestWork_AChildThatKeepsStdoutOpenDoesntFailTheJob(t *testing.T) {
	t.Parallel()
	fifo, opened, ended := alive(t)
	h := runShell(`exec 9>` + fifo + `; echo begun >&9; sleep 20 & echo '{"ok":true}'`)
	result, err := h.run(t.Context(), someJob("{}"))
	if err != nil || string(result) != `{"ok":true}` {
		t.Errorf("result %s, %v", result, err)
	}
	<-opened
	select {
	case <-ended:
		t.Error("what a command left in the background was ended")
	default:
	}
	if _, err := runShell(`sleep 1 & exit 3`).run(t.Context(), someJob("{}")); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("exit code 3: %v", err)
	}
}

func TestWork_OutputThatIsntUTF8IsNoResult(t *testing.T) {
	t.Parallel()
	result, err := runShell(`printf '"\351"'`).run(t.Context(), someJob("{}"))
	if err != nil || result != nil {
		t.Errorf("result %q, %v", result, err)
	}
}

// TestWork_ASecondCtrlCEndsCommandsAndGivesTheirJobsBack runs the program, because signals
// come to processes.
func TestWork_ASecondCtrlCEndsCommandsAndGivesTheirJobsBack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts programs")
	}
	f := serverFlags{bind: "127.0.0.1:0", dataDir: filepath.Join(t.TempDir(), "node"), nodeID: "node-1", raftShards: 1,
		shutdownTimeout: 5 * time.Second, maxPayloadSize: 4096}
	url, _, stop, err := startNode(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	job := strings.TrimSpace(run(t, url, "enqueue", "q", "{}").stdout)
	fifo, opened, ended := alive(t)
	cmd := exec.Command("corvo", "work", "q", "--server", url, "--", "sh", "-c", stubborn(fifo))
	talk, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, "the command didn't begin", opened)
	interrupt := func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	}
	interrupt()
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		if strings.Contains(lines.Text(), "press Ctrl-C again") {
			interrupt()
		}
	}
	err = cmd.Wait()
	within(t, "a child of the command lives on", ended)
	if code := cmd.ProcessState.ExitCode(); code != ExitFail {
		t.Errorf("exit code %d, %v", code, err)
	}
	if got := run(t, url, "inspect", job, "-o", "jsonl"); !strings.Contains(got.stdout, `"state":"pending"`) {
		t.Errorf("the job wasn't given back: %+v", got)
	}
}

func TestWork_AFailureIsToldWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	h := runShell(`printf 'a\033[2Jb' >&2; exit 1`)
	h.session.proc.Stdout = &stdout
	if _, err := h.handle(t.Context(), someJob("{}")); err == nil || !strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the server gets what the command said: %v", err)
	}
	if !strings.Contains(stdout.String(), "a\ufffd[2Jb") {
		t.Errorf("%q", stdout.String())
	}
}
