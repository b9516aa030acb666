package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// Target is the server that is measured: one that runs somewhere, or a child of
// this process.
type Target struct {
	URL *url.URL
	// admin serves the profiler; nil when there is none.
	admin *url.URL
	// pid is the child's; 0 for a server that is not ours.
	pid       int
	dir       string // Of a child's data.
	nodes     int    // Behind a proxy; 0 is a node alone.
	syncDelay time.Duration
	relaxed   bool
	// key is what a spawned server asks for; empty for an open one.
	key   string
	child *child
}

// Running is a server that somebody else started. admin may be nil.
func Running(server, admin *url.URL) *Target { return &Target{URL: server, admin: admin} }

// SpawnOptions describe a server to start.
type SpawnOptions struct {
	Binary string
	// Dir is its data directory; empty means a temporary one, removed by Close, in the
	// folder Under, of which empty is the system's for temporary files.
	Dir, Under string
	SyncDelay  time.Duration
	Relaxed    bool
	Profiler   bool
	// Nodes: Binary is corvo-cloud, and its command up runs so many nodes with a proxy
	// and a control plane in one process. 0 is a node alone, without anything in front.
	Nodes int
	// Echo: not a server of jobs, but ServeEcho in a process of its own.
	Echo bool
}

type child struct {
	cmd    *exec.Cmd
	errors *tail
	exited chan struct{} // Closed when the process is gone.
	remove string        // Directory to remove at the end.
}

// envName is the file in which a server says that it is ready.
const envName = "bench.env"

// startTimeout is generous: a start after a kill may replay a long log.
const startTimeout = 2 * time.Minute

// Spawn starts a server on a free port of the loopback interface and waits until
// it is ready. Close ends it.
func Spawn(ctx context.Context, o SpawnOptions) (*Target, error) {
	dir, remove := o.Dir, ""
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp(o.Under, "corvo-bench-"); err != nil {
			return nil, fmt.Errorf("make a data directory: %w", err)
		}
		remove = dir
	}
	envFile := filepath.Join(dir, envName)
	if err := os.Remove(envFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old %s: %w", envFile, err)
	}
	c := &child{errors: &tail{}, exited: make(chan struct{}), remove: remove}
	c.cmd = exec.Command(o.Binary, spawnArgs(o, dir, envFile)...)
	c.cmd.Stdout, c.cmd.Stderr = io.Discard, c.errors
	if err := c.start(); err != nil {
		c.cleanup()
		return nil, fmt.Errorf("start %s: %w", o.Binary, err)
	}
	t := &Target{pid: c.cmd.Process.Pid, dir: dir, nodes: o.Nodes, syncDelay: o.SyncDelay, relaxed: o.Relaxed, child: c}
	if err := t.awaitReady(ctx, envFile); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func spawnArgs(o SpawnOptions, dir, envFile string) []string {
	data := filepath.Join(dir, "data")
	args := []string{"server", "--bind", "127.0.0.1:0", "--data-dir", data, "--env-file", envFile, "--log-level", "warn"}
	if o.Echo {
		return []string{"bench", "--serve-echo", envFile}
	}
	if o.Nodes > 0 {
		args = []string{"up", "--nodes", strconv.Itoa(o.Nodes), "--listen", "127.0.0.1:0", "--data", data, "--env-file", envFile}
	}
	if o.SyncDelay > 0 {
		args = append(args, "--sync-delay", o.SyncDelay.String())
	}
	if o.Relaxed {
		args = append(args, "--relaxed")
	}
	if o.Profiler {
		args = append(args, "--pprof", "127.0.0.1:0")
	}
	return args
}

func (t *Target) awaitReady(ctx context.Context, envFile string) error {
	deadline := time.After(startTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		vars, err := readEnvFile(envFile)
		if err == nil {
			return t.adopt(vars)
		}
		select {
		case <-tick.C:
		case <-t.child.exited:
			return fmt.Errorf("the server ended before it was ready: %s", t.child.errors)
		case <-deadline:
			return fmt.Errorf("the server was not ready after %s: %s", startTimeout, t.child.errors)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func readEnvFile(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	vars := make(map[string]string)
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			vars[name] = strings.Trim(value, `'"`)
		}
	}
	return vars, nil
}

func (t *Target) adopt(vars map[string]string) error {
	var err error
	if t.URL, err = url.Parse(vars["CORVO_URL"]); err != nil || t.URL.Host == "" {
		return fmt.Errorf("the server wrote CORVO_URL=%q", vars["CORVO_URL"])
	}
	t.key = vars["CORVO_API_KEY"]
	if profiler := vars["CORVO_PPROF_URL"]; profiler != "" {
		if t.admin, err = url.Parse(profiler); err != nil {
			return fmt.Errorf("the server wrote CORVO_PPROF_URL=%q: %w", profiler, err)
		}
	}
	return nil
}

// stopTimeout is how long a child may take to leave in good order.
const stopTimeout = 10 * time.Second

// Close ends a child in good order and removes its temporary directory.
func (t *Target) Close() error {
	if t.child == nil {
		return nil
	}
	defer t.child.cleanup()
	_ = t.child.cmd.Process.Signal(syscall.SIGTERM) // Gone already: the wait below ends at once.
	select {
	case <-t.child.exited:
		return nil
	case <-time.After(stopTimeout):
		_ = t.child.cmd.Process.Kill() // Gone already is what is wanted.
		<-t.child.exited
		return fmt.Errorf("the server did not stop within %s and was killed", stopTimeout)
	}
}

// Kill ends a child as a power cut would, and keeps its data.
func (t *Target) Kill() {
	if t.child != nil {
		_ = t.child.cmd.Process.Kill() // Gone already is what is wanted.
		<-t.child.exited
	}
}

func (c *child) cleanup() {
	if c.remove != "" {
		_ = os.RemoveAll(c.remove) // A temporary directory; the system removes what is left.
	}
}

// tail keeps the last of what a child wrote to stderr.
type tail struct {
	mu  sync.Mutex // Guards buf: a child may write while it is read.
	buf bytes.Buffer
}

const tailBytesMax = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len()+len(p) > 2*tailBytesMax {
		keep := bytes.Clone(t.buf.Bytes()[max(0, t.buf.Len()-tailBytesMax):])
		t.buf.Reset()
		t.buf.Write(keep)
	}
	t.buf.Write(p[max(0, len(p)-tailBytesMax):])
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf.Bytes()[max(0, t.buf.Len()-tailBytesMax):]))
}

// usage is what the server has consumed so far. Negative means unknown.
type usage struct {
	cpu       time.Duration
	rss, peak int64
	syncs     int64
}

// sample asks /proc about a child and the debug endpoint about a stranger.
func (t *Target) sample(ctx context.Context, o Options) usage {
	u := usage{cpu: -1, rss: -1, peak: -1, syncs: t.syncs(ctx, o)}
	if t.pid != 0 {
		u.cpu, u.rss, u.peak = procUsage(t.pid)
		return u
	}
	r, err := ask[wire.Runtime](ctx, t, o, "/debug/runtime")
	if err != nil {
		return u
	}
	u.cpu = time.Duration(r.CPUUserNS + r.CPUSysNS)
	if r.MaxRSSBytes > 0 {
		u.peak = r.MaxRSSBytes
	}
	return u
}

// clockTick is USER_HZ, which Linux fixes at 100 for user space.
const clockTick = 10 * time.Millisecond

func procUsage(pid int) (cpu time.Duration, rss, peak int64) {
	cpu, rss, peak = -1, -1, -1
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		cpu = parseStatCPU(stat)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return cpu, rss, peak
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			rss = kb << 10
		case "VmHWM":
			peak = kb << 10
		}
	}
	return cpu, rss, peak
}

// parseStatCPU reads utime and stime, fields 14 and 15. The command name, field
// 2, may hold spaces, so counting starts behind its closing parenthesis.
func parseStatCPU(stat []byte) time.Duration {
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 13 {
		return -1
	}
	user, uerr := strconv.ParseInt(string(fields[11]), 10, 64)
	system, serr := strconv.ParseInt(string(fields[12]), 10, 64)
	if uerr != nil || serr != nil {
		return -1
	}
	return time.Duration(user+system) * clockTick
}

// status asks the server about itself; an administrator's key is needed. It is nil of a
// server that does not answer.
func (t *Target) status(ctx context.Context, o Options) *wire.ClusterStatus {
	s, err := ask[wire.ClusterStatus](ctx, t, o, "/cluster/status")
	if err != nil {
		return nil
	}
	return &s
}

// syncs is how many syncs the log has made; negative where that is not known. Of several
// nodes it isn't: each time another one may answer.
func (t *Target) syncs(ctx context.Context, o Options) int64 {
	s := t.status(ctx, o)
	if s == nil || s.RaftNoSync || s.LogSyncs == 0 || len(s.Nodes) > 1 {
		return -1
	}
	return int64(s.LogSyncs)
}

// ask reads what the server answers to a GET.
func ask[T any](ctx context.Context, t *Target, o Options, path string) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := (&dialer{server: t.URL, apiKey: o.APIKey, namespace: o.Namespace}).client()
	if err != nil {
		return answer, err
	}
	defer client.Close()
	err = client.API(ctx, http.MethodGet, path, nil, &answer)
	return answer, err
}

// profileSeconds is the length of a CPU profile. It starts with the measured
// phase; what is left over when that ends shows an idle server.
const profileSeconds = 5

// startProfile begins a CPU profile of the server; the result waits for it and
// writes the file.
func (r *run) startProfile(ctx context.Context) func() error {
	if r.opts.ProfileFile == "" {
		return func() error { return nil }
	}
	if r.target.admin == nil {
		return func() error {
			return errors.New("no profile: the server's profiler is not known; spawn it, or give --pprof-url")
		}
	}
	done := make(chan error, 1)
	go func() { done <- r.profile(ctx) }() // Waited for by the returned function.
	return func() error { return <-done }
}

func (r *run) profile(ctx context.Context) error {
	address := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", strings.TrimRight(r.target.admin.String(), "/"), profileSeconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("take a profile: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("take a profile: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the profiler answered %s", resp.Status)
	}
	if err != nil {
		return fmt.Errorf("take a profile: %w", err)
	}
	if err := os.WriteFile(r.opts.ProfileFile, raw, 0o644); err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	return nil
}
