package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

const stopLimit = 3 * time.Second // How long Ctrl-C may take.

func TestUp_PrintedCommandsFinishAJob(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	var script []string
	for line := range strings.Lines(u.Stdout()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "curl ") || strings.HasPrefix(line, "JOB=") {
			script = append(script, line)
		}
	}
	if len(script) != 3 {
		t.Fatalf("found %d commands in:\n%s", len(script), u.Stdout())
	}
	out, err := exec.CommandContext(ctx, "sh", "-euc", strings.Join(script, "\necho\n")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var enqueued rig.Job
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&enqueued); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	job, err := u.Job(ctx, enqueued.JobID)
	if err != nil || job.State != "completed" {
		t.Fatalf("job is %q (%v) after:\n%s", job.State, err, out)
	}
	if !strings.Contains(u.Stdout(), "CORVO_URL="+u.URL+" CORVO_API_KEY="+u.Key+" corvo enqueue") {
		t.Errorf("no line for the command line in:\n%s", u.Stdout())
	}
}

// hello is a job's arguments.
type hello struct {
	Name string `json:"name"`
}

// Kind implements corvo.Args.
func (hello) Kind() string { return "hello" }

func newClient(t *testing.T, tenant rig.Tenant) *corvo.Client {
	t.Helper()
	client, err := corvo.New(corvo.WithURL(tenant.URL), corvo.WithAPIKey(tenant.Key))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestUp_GoWorkerFinishesAJob(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	client := newClient(t, u.Tenant)
	queued, err := client.Enqueue(ctx, hello{Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}

	handled := make(chan string, 1)
	w := corvo.NewWorker(client, corvo.Queue("hello", 2))
	corvo.Handle(w, func(_ context.Context, j *corvo.Job[hello]) (string, error) {
		handled <- j.Args.Name
		return "said hello", nil
	})
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	select {
	case name := <-handled:
		if name != "Ada" {
			t.Errorf("the worker got %q", name)
		}
	case <-ctx.Done():
		t.Fatal("the worker got no job")
	}
	stop() // The worker ends what it holds.
	if err := <-ended; err != nil {
		t.Errorf("worker: %v", err)
	}
	info, err := client.Job(ctx, queued.ID)
	if err != nil || info.State != "completed" {
		t.Fatalf("job is %+v, %v", info, err)
	}
}

func TestUp_RestartKeepsJobsAndKey(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := rig.StartUp(t, data)
	ctx := ctxFor(t, time.Minute)
	id, err := first.Enqueue(ctx, "mail", map[string]any{"n": 1})
	if err != nil {
		t.Fatal(err)
	}
	history := rig.NewHistory()
	load := rig.StartLoad(history, rig.LoadOptions{}, first.Tenant)
	waitForCounts(t, history, 50)
	asked := time.Now()
	first.Signal(syscall.SIGINT)
	if code := first.WaitExit(stopLimit); code != 0 {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	t.Logf("ended under load after %s", time.Since(asked).Round(time.Millisecond))
	load.Stop()

	second := rig.StartUp(t, data)
	if second.Key != first.Key {
		t.Error("the key has changed")
	}
	job, ok, err := second.Fetch(ctx, "mail", "w", 10*time.Second)
	if err != nil || !ok || job.JobID != id {
		t.Fatalf("fetched %+v %v %v, want %s", job, ok, err, id)
	}
	if err := second.Ack(ctx, job); err != nil {
		t.Fatal(err)
	}
	history.Audit(ctx, t, second.Tenant)
	info, err := os.Stat(filepath.Join(data, "credentials.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("credentials: %v %v", info, err)
	}
}

func TestUp_CtrlCEndsWorkersAndLongPollsInTime(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	client := newClient(t, u.Tenant)
	w := corvo.NewWorker(client, corvo.Queue("idle", 2))
	handled := make(chan struct{}, 1)
	corvo.HandleRaw(w, "idle", func(context.Context, *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
		handled <- struct{}{}
		return nil, nil
	})
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	defer func() { stop(); <-ended }()
	if _, err := client.EnqueueRaw(ctx, "idle", nil); err != nil {
		t.Fatal(err)
	}
	<-handled // Its stream is open now.
	polled := make(chan error, 1)
	go func() {
		_, _, err := u.Fetch(ctx, "empty", "w", 50*time.Second)
		polled <- err
	}()
	// The poll is parked once the queue is known to have a waiter; a moment is
	// enough, and too little would only make the test easier.
	time.Sleep(200 * time.Millisecond)

	u.Signal(syscall.SIGINT)
	if code := u.WaitExit(stopLimit); code != 0 {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
	<-polled
}

func TestUp_KilledWholeFiveTimesLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	history := rig.NewHistory()
	const kills = 5
	for kill := range kills {
		u := rig.StartUp(t, data)
		load := rig.StartLoad(history, rig.LoadOptions{}, u.Tenant)
		waitForCounts(t, history, 100)
		u.Kill()
		load.Stop()
		if kill == kills-1 {
			rig.TearLogEnd(t, filepath.Join(data, "node-1"))
		}
	}
	u := rig.StartUp(t, data)
	history.Audit(ctxFor(t, time.Minute), t, u.Tenant)
	enqueued, acked := history.Counts()
	t.Logf("%d enqueues and %d acks were acknowledged over %d kills", enqueued, acked, kills)
}

// waitForCounts waits until n more jobs were enqueued and acked.
func waitForCounts(t *testing.T, history *rig.History, n int) {
	t.Helper()
	enqueued, acked := history.Counts()
	eventually.NoError(t, 30*time.Second, "jobs go in and out", func() error {
		e, a := history.Counts()
		if e < enqueued+n || a < acked+n {
			return fmt.Errorf("%d of %d enqueues, %d acks", e-enqueued, n, a-acked)
		}
		return nil
	})
}

func TestUp_SaysWhatToDoWhenItCannotStart(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() }) // Nobody connects.
	other, foreign := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "VERSION"), "corvo-cloud up 99\n")
	write(t, filepath.Join(foreign, "thesis.txt"), "years of work\n")
	held, three := t.TempDir(), t.TempDir()
	rig.StartUp(t, held)
	rig.StartUp(t, three).Kill()
	lame := t.TempDir()
	rig.StartUp(t, lame).Kill()
	if err := os.RemoveAll(filepath.Join(lame, "node-2")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data, listen string
		exit         int
		says         string
	}{
		"port in use":                  {t.TempDir(), busy.Addr().String(), 5, "choose another port with --listen"},
		"no such address":              {t.TempDir(), "127.0.0.1:port", 1, "can't listen on --listen"},
		"directory in use":             {held, "127.0.0.1:0", 5, "in use by another process"},
		"directory of another version": {other, "127.0.0.1:0", 5, "layout 99"},
		"directory of somebody":        {foreign, "127.0.0.1:0", 5, "thesis.txt"},
		"directory without a node":     {lame, "127.0.0.1:0", 5, "node-2"},
		"directory of another shape":   {three, "127.0.0.1:0", 5, "made with nodes 3 shards 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := "3"
			if tc.data == three {
				nodes = "1"
			}
			p := rig.Start(t, "up", "up", "--data", tc.data, "--listen", tc.listen, "--nodes", nodes)
			if code := p.WaitExit(20 * time.Second); code != tc.exit || !strings.Contains(p.Stderr(), tc.says) {
				t.Errorf("exit %d, want %d and %q in:\n%s", code, tc.exit, tc.says, p.Stderr())
			}
		})
	}
}

func TestUp_SecondCtrlCEndsAtOnce(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	holdUp(t, u)
	u.Signal(syscall.SIGINT)
	deadline := time.Now().Add(stopLimit)
	for !u.Exited() && time.Now().Before(deadline) {
		u.Signal(syscall.SIGINT)
		time.Sleep(time.Millisecond) // Another key press.
	}
	if code := u.WaitExit(time.Second); code != -1 {
		t.Errorf("exit code %d: it ended in its own time, not by the signal", code)
	}
}

// holdUp makes a call whose body never comes, so that the service has something to wait for
// when it ends. It returns when the service waits for the body.
func holdUp(t *testing.T, u *rig.Up) {
	t.Helper()
	address, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // Broken by then.
	if _, err := fmt.Fprintf(conn, "POST %s/api/v1/enqueue HTTP/1.1\r\nHost: %s\r\nX-API-Key: %s\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
		address.Path, address.Host, u.Key); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the service says %q (%v) and wants no body", line, err)
	}
}

func TestUp_ServesAllThreeFormsOfAnAddress(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	base := strings.TrimSuffix(u.URL, "/t/demo")
	for name, request := range map[string]struct {
		url, host string
		status    int
	}{
		"path":         {base + "/t/demo/api/v1/queues", "", http.StatusOK},
		"host":         {base + "/api/v1/queues", "demo.localhost", http.StatusOK},
		"key alone":    {base + "/api/v1/queues", "", http.StatusOK},
		"other tenant": {base + "/t/acme/api/v1/queues", "", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(ctxFor(t, 10*time.Second), http.MethodGet, request.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = request.host
		req.Header.Set("Authorization", "Bearer "+u.Key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode != request.status {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, request.status)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Two of three nodes are enough to serve, and to repair the third.
func TestUp_ServesBesideADamagedNodeAndRepairsIt(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := rig.StartUp(t, data)
	ctx := ctxFor(t, 2*time.Minute)
	id, err := first.Enqueue(ctx, "mail", "hello")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(data, "node-2")
	if _, stderr, exit := rig.Run(t, time.Minute, "node", "repair", "--data", folder); exit != 5 {
		t.Errorf("repair while it runs: exit %d\n%s", exit, stderr)
	}
	first.Signal(syscall.SIGTERM)
	if exit := first.WaitExit(time.Minute); exit != 0 {
		t.Fatalf("stop: exit %d", exit)
	}
	if stdout, stderr, exit := rig.Run(t, time.Minute, "node", "repair", "--data", folder, "--discard-state"); exit != 0 {
		t.Fatalf("repair: exit %d\n%s\n%s", exit, stdout, stderr)
	}

	second := rig.StartUp(t, data)
	if job, err := second.Job(ctx, id); err != nil || job.State != "pending" {
		t.Errorf("the job is %q, %v", job.State, err)
	}
	if said := second.Stderr(); !strings.Contains(said, "node-2") || !strings.Contains(said, "cell repair") {
		t.Errorf("nothing says which node is missing, and what to do:\n%s", said)
	}
	cell := []string{"--nodes", second.NodeURLs, "--cell-secret-file", filepath.Join(data, "cell.secret")}
	for _, group := range []string{"1", "2", "3"} {
		args := append([]string{"cell", "repair", "--node", "node-2", "--group", group}, cell...)
		if stdout, stderr, exit := rig.Run(t, time.Minute, args...); exit != 0 {
			t.Fatalf("repair of group %s: exit %d\n%s\n%s", group, exit, stdout, stderr)
		}
	}
	eventually.True(t, time.Minute, "all nodes are well", func() bool {
		stdout, _, exit := rig.Run(t, time.Minute, append([]string{"cell", "status"}, cell...)...)
		return exit == 0 && !strings.Contains(stdout, "quarantine") && strings.Count(stdout, "ok") >= 3
	})
}
