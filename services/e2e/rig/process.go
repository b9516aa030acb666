package rig

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tailBytes is how much of a process's output a failed test shows.
const tailBytes = 4 << 10

// Process is a corvo-cloud that runs in the background. It is killed with the test
// that started it.
type Process struct {
	Name string

	t    testing.TB
	cmd  *exec.Cmd
	out  *output
	err  *output
	done chan struct{} // Closed when the process has ended.
}

// Start runs corvo-cloud with args.
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	return start(t, name, Machine{}, "", nil, args...)
}

// start is Start on a machine, with another program, if bin is not empty, and with more
// variables of the environment.
func start(t testing.TB, name string, m Machine, bin string, env []string, args ...string) *Process {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	bin = cmp.Or(bin, os.Getenv(binaryVariable))
	if bin == "" {
		t.Fatal("TestMain does not call rig.Main")
	}
	p := &Process{Name: name, t: t, out: &output{}, err: &output{}, done: make(chan struct{})}
	p.cmd = exec.Command(bin, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = dieWithParent()
	if err := m.start(p.cmd); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() { // Ends with the process, which cleanup ends.
		_ = p.cmd.Wait() // ProcessState has the outcome.
		close(p.done)
	}()
	t.Cleanup(p.cleanup)
	return p
}

func (p *Process) cleanup() {
	p.Kill()
	if p.t.Failed() {
		p.t.Logf("%s (pid %d, %s)\n--- stdout\n%s--- stderr\n%s", p.Name, p.PID(), p.cmd.ProcessState, p.out.tail(), p.err.tail())
	}
}

// PID is the process id, also after the end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill is SIGKILL; it returns when the process is gone. It may be repeated.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Signal sends sig; a process that has ended already does not mind.
func (p *Process) Signal(sig syscall.Signal) {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %s: %v", p.Name, err)
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// WaitExit waits for the end and returns the exit code; -1 is an end by a signal.
func (p *Process) WaitExit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("%s did not end within %s", p.Name, limit)
		return -1
	}
}

// Stdout is what the process has printed so far.
func (p *Process) Stdout() string { return p.out.String() }

// Stderr is what the process has logged so far.
func (p *Process) Stderr() string { return p.err.String() }

// WaitFile waits until the process has written a file, whole, and returns it.
func (p *Process) WaitFile(path string, limit time.Duration) string {
	p.t.Helper()
	var text []byte
	p.waitFor("write "+filepath.Base(path), limit, func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil
	})
	return string(text)
}

// WaitLog waits until the process has logged text to standard error.
func (p *Process) WaitLog(text string, limit time.Duration) {
	p.t.Helper()
	p.waitFor("say "+strconv.Quote(text), limit, func() bool { return strings.Contains(p.Stderr(), text) })
}

// waitFor polls until ok, the process ends, or limit has passed.
func (p *Process) waitFor(what string, limit time.Duration, ok func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if p.Exited() && !ok() {
			p.t.Fatalf("%s ended before it did %s", p.Name, what)
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s did not %s within %s", p.Name, what, limit)
		}
		time.Sleep(pollEvery) // Polling with a deadline.
	}
}

const pollEvery = 10 * time.Millisecond

// output collects what a process writes while a test reads it.
type output struct {
	mu  sync.Mutex // Guards buf.
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

// String is everything so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) tail() string {
	s := o.String()
	if len(s) > tailBytes {
		s = "...\n" + s[len(s)-tailBytes:]
	}
	return s
}

// Run runs corvo-cloud to its end and returns what it printed and its exit code.
func Run(t testing.TB, limit time.Duration, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	p := Start(t, args[0], args...)
	exit = p.WaitExit(limit)
	return p.Stdout(), p.Stderr(), exit
}
