package quickstart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/tools/law"
)

// startLimit is generous: three nodes elect, on a busy machine.
const startLimit = 60 * time.Second

func TestQuickstart_PageDoesWhatItSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the whole service")
	}
	root, err := law.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	shell := blocks(string(page), "sh test=quickstart")
	if len(shell) < 3 {
		t.Fatalf("found %d shell blocks on the page", len(shell))
	}

	desk := newDesk(t, root)
	desk.startService()

	t.Run("curl and corvo", func(t *testing.T) {
		script := "set -euo pipefail\n" + strings.Join(shell, "\n")
		out := desk.bash(t, script)
		for _, want := range []string{`"status":"pending"`, `"lease_token":"`, `"state":"completed"`, `"said":"hello Ada"`, "Apply complete!", "No changes."} {
			if !strings.Contains(strings.ReplaceAll(out, `": `, `":`), want) {
				t.Errorf("no %s in the output:\n%s", want, out)
			}
		}
	})
	t.Run("api.md names every path", func(t *testing.T) {
		doc, err := os.ReadFile(filepath.Join(root, "docs/api.md"))
		if err != nil {
			t.Fatal(err)
		}
		var api struct{ Paths map[string]any }
		if err := json.Unmarshal([]byte(desk.bash(t, `. .run/env; curl -sS $CORVO_URL/openapi.json`)), &api); err != nil {
			t.Fatal(err)
		}
		if len(api.Paths) < 10 {
			t.Errorf("the OpenAPI document has only %d paths", len(api.Paths))
		}
		for path := range api.Paths {
			if !strings.Contains(string(doc), " "+path+"`") {
				t.Errorf("docs/api.md does not name %s", path)
			}
		}
	})
	t.Run("Go", func(t *testing.T) {
		desk.goProgram(t)
	})
}

func TestArchitecture_PageDoesWhatItSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the whole service")
	}
	root, shell := page(t, "architecture", 5)
	desk := newDesk(t, root)
	desk.startService()
	out := desk.bash(t, "set -euo pipefail\n"+strings.Join(shell, "\n"))
	for _, want := range []string{"owner", `"status":"pending"`, "FORBIDDEN", "UNAUTHORIZED", `"lag_ms"`, "event: enqueued"} {
		if !strings.Contains(strings.ReplaceAll(out, `": `, `":`), want) {
			t.Errorf("no %s in the output:\n%s", want, out)
		}
	}
}

func TestAccess_PageDoesWhatItSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the whole service")
	}
	root, shell := page(t, "access", 4)
	desk := newDesk(t, root)
	desk.startService()
	out := desk.bash(t, "set -euo pipefail\n. .run/env\nexport CORVO_ENDPOINT CORVO_TOKEN CORVO_URL\n"+strings.Join(shell, "\n"))
	for _, want := range []string{"job.enqueue", "On call", `"status":"pending"`, "FORBIDDEN", "sms", `"reason":"No: mailer has job.enqueue, but not`, "demo@corvo.localhost"} {
		if !strings.Contains(strings.ReplaceAll(out, `": `, `":`), want) {
			t.Errorf("no %s in the output:\n%s", want, out)
		}
	}
}

// The pages' hosts are replaced (onItsOwnHost); everything else is run unchanged.
func TestOperations_PageDoesWhatItSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cell of processes")
	}
	runProcesses(t, "operations", 10, "corvo_dp_", "job_", "n4", "new cell", "n6")
}

func TestSelfHosting_PageDoesWhatItSays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the whole service as processes")
	}
	runProcesses(t, "self-hosting", 4, "job_", "owner", "1 completed")
}

// runProcesses runs a page that starts processes of its own, and ends them.
func runProcesses(t *testing.T, name string, least int, wants ...string) {
	t.Helper()
	root, shell := page(t, name, least)
	desk := newDesk(t, root)
	script := "set -euo pipefail\nPATH=$PWD/.bin:$PATH\n" +
		"trap 'kill $(jobs -p); wait || true' EXIT\n" + strings.Join(shell, "\n")
	out := desk.bash(t, onItsOwnHost(script))
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in the output:\n%s", want, out)
		}
	}
}

// page reads the blocks of docs/NAME.md that are marked with its name.
func page(t *testing.T, name string, least int) (root string, shell []string) {
	t.Helper()
	root, err := law.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	shell = blocks(string(text), "sh test="+name)
	if len(shell) < least {
		t.Fatalf("found %d shell blocks on the page", len(shell))
	}
	return root, shell
}

// onItsOwnHost moves the script's addresses to a loopback host that no other page and hardly
// any other process has: its ports are free, also while a process of the page is down.
// A free port of 127.0.0.1 may be taken between the look and the listening.
func onItsOwnHost(script string) string {
	host := fmt.Sprintf("127.%d.%d.%d:", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	return strings.ReplaceAll(script, "127.0.0.1:", host)
}

// The program on the page is one that is compiled with the product.
func TestQuickstart_ProgramIsTheExample(t *testing.T) {
	t.Parallel()
	root, err := law.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/quickstart.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "sdks/go/examples/hello/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(example), "\npackage main")
	if program := blocks(string(page), "go"); !ok || len(program) != 1 || "package main"+code != program[0]+"\n" {
		t.Error("the program of docs/quickstart.md differs from sdks/go/examples/hello/main.go")
	}
}

// blocks returns the fenced blocks whose info string is exactly info.
func blocks(page, info string) []string {
	var out []string
	for rest := page; ; {
		_, after, ok := strings.Cut(rest, "\n```"+info+"\n")
		if !ok {
			return out
		}
		body, next, ok := strings.Cut(after, "\n```")
		if !ok {
			return out
		}
		out = append(out, body)
		rest = next
	}
}

// A desk is the folder a newcomer works in: .bin with the binaries, .run with
// the service's data and its environment file.
type desk struct {
	t    *testing.T
	root string
	dir  string
	env  string
}

func newDesk(t *testing.T, root string) *desk {
	t.Helper()
	d := &desk{t: t, root: root, dir: t.TempDir()}
	d.env = filepath.Join(d.dir, ".run", "env")
	bin := filepath.Join(root, ".bin", "docs")
	if err := errors.Join(os.MkdirAll(filepath.Dir(d.env), 0o755), os.MkdirAll(bin, 0o755), os.Symlink(bin, filepath.Join(d.dir, ".bin"))); err != nil {
		t.Fatal(err)
	}
	built.Do(func() {
		d.build("cli", "./cmd/corvo", "corvo")
		d.build("services", "./cmd/corvo-cloud", "corvo-cloud")
		d.build("terraform-provider", ".", "terraform-provider-corvo")
	})
	return d
}

// built is done once the programs that all pages use are built. They are kept: go build
// skips what is up to date.
var built sync.Once

func (d *desk) build(module, pkg, name string) {
	d.t.Helper()
	d.goTool(filepath.Join(d.root, module), "build", "-o", filepath.Join(d.dir, ".bin", name), pkg)
}

func (d *desk) goTool(dir string, args ...string) {
	d.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// startService runs `corvo-cloud up` until the test ends and returns when it has
// written the environment file.
func (d *desk) startService() {
	d.t.Helper()
	cmd := exec.Command(filepath.Join(d.dir, ".bin/corvo-cloud"), "up", "--heartbeat", "2s", // Pages are not about elections on a busy machine.
		"--listen", "127.0.0.1:0", "--data", filepath.Join(d.dir, ".run/data"), "--env-file", d.env)
	p := start(d.t, cmd)
	d.t.Cleanup(func() { p.interrupt(d.t) })
	deadline := time.Now().Add(startLimit)
	for {
		_, err := os.Stat(d.env)
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) {
			d.t.Fatal(err)
		}
		if p.exited() || time.Now().After(deadline) {
			d.t.Fatalf("the service did not get ready:\n%s", p.out.String())
		}
		time.Sleep(20 * time.Millisecond) // Polling with a deadline.
	}
}

func (d *desk) bash(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = d.dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// goProgram runs the program and waits for it to handle the job that it enqueued
// itself.
func (d *desk) goProgram(t *testing.T) {
	t.Helper()
	d.build(".", "./sdks/go/examples/hello", "hello")
	bin := filepath.Join(d.dir, ".bin/hello")
	p := start(t, exec.Command("bash", "-c", "set -a; . "+d.env+"; set +a; exec "+bin))
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(p.out.String(), "hello Ada") {
		if p.exited() || time.Now().After(deadline) {
			t.Fatalf("the program did not say hello:\n%s", p.out.String())
		}
		time.Sleep(20 * time.Millisecond) // Polling with a deadline.
	}
	if err := p.interrupt(t); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, p.out.String())
	}
}

// A process runs in the background with its output kept.
type process struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // Closed when the process has ended; err is set before.
	err  error
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, out: &output{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// interrupt is Ctrl-C; a process that does not end is killed and reported.
func (p *process) interrupt(t *testing.T) error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(30 * time.Second):
		if err := p.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-p.done
		return errors.New("did not end within 30 s of an interrupt")
	}
}

// output collects what a process writes while a test reads it.
type output struct {
	mu  sync.Mutex // Guards buf.
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
