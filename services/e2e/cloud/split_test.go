package cloud_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/pgtest"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
	"github.com/corvo-cloud/corvo/services/mailbox"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// split is the service as separate processes: a control plane on PostgreSQL, three
// nodes, two proxies that forward the console.
type split struct {
	*rig.Cell
	control *rig.CellControl
	mail    *mailbox.Mailbox
}

func startSplit(t *testing.T) *split {
	t.Helper()
	s := &split{mail: startMailbox(t)}
	listen := rig.Addresses(t, 1)[0]
	s.Cell = rig.StartCell(t, rig.CellOptions{Proxies: 2, ProxyArgs: []string{"--control", "http://" + listen}})
	s.control = s.StartControl(rig.ControlOptions{
		Database: pgtest.Start(t), Listen: listen, PublicURL: s.Proxies[0].URL, SMTP: s.mail.Addr(),
	})
	return s
}

func startMailbox(t *testing.T) *mailbox.Mailbox {
	t.Helper()
	box, err := mailbox.New(mailbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- box.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("mailbox: %v", err)
		}
	})
	return box
}

// signUp goes through the second proxy, whose key must reach both.
func (s *split) signUp(ctx context.Context, t *testing.T, name string) rig.SignedUp {
	t.Helper()
	api := rig.NewAPI(s.Proxies[1].URL, "")
	if err := api.Call(ctx, "SignupService/Start", map[string]any{"email": name + "@example.com", "tenant": name}, nil); err != nil {
		t.Fatal(err)
	}
	token, err := s.linkToken(ctx, name+"@example.com")
	if err != nil {
		t.Fatal(err)
	}
	var done rig.SignedUp
	if err := api.Call(ctx, "SignupService/Confirm", map[string]any{"token": token}, &done); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestSplit_KeyOfASignUpWorksAtEveryProxyAtOnce(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	ctx := ctxFor(t, time.Minute)
	done := s.signUp(ctx, t, "globex")
	for _, p := range s.Proxies {
		if err := lifecycle(ctx, rig.NewTenant(p.URL+"/t/globex", done.APIKey)); err != nil {
			t.Errorf("through %s: %v", p.URL, err)
		}
	}
}

// No job depends on the control plane: without it, jobs flow, and keep
// flowing through a restart of every proxy and node.
func TestSplit_DeadControlPlaneDisturbsNoJob(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	ctx := ctxFor(t, 2*time.Minute)
	done := s.signUp(ctx, t, "globex")
	tenant := func(i int) rig.Tenant { return rig.NewTenant(s.Proxies[i].URL+"/t/globex", done.APIKey) }

	s.control.Kill()
	for range 50 {
		if err := lifecycle(ctx, tenant(0)); err != nil {
			t.Fatalf("with the control plane dead: %v", err)
		}
	}
	for i, p := range s.Proxies {
		p.Kill()
		p.Start()
		s.WaitServing(i, 30*time.Second)
		if err := lifecycle(ctx, tenant(i)); err != nil {
			t.Fatalf("after proxy %d came back: %v", i, err)
		}
	}
	for _, n := range s.Nodes {
		n.Signal(syscall.SIGTERM)
		n.WaitExit(30 * time.Second)
		n.Start()
		n.WaitReady(30 * time.Second)
	}
	history := rig.NewHistory()
	load := rig.StartLoad(history, rig.LoadOptions{}, tenant(0), tenant(1))
	waitAcked(t, history, 100)
	load.Stop()
	history.Audit(ctx, t, tenant(0))
}

func waitAcked(t *testing.T, history *rig.History, least int) {
	t.Helper()
	eventually.True(t, 30*time.Second, fmt.Sprintf("%d acks", least), func() bool { _, acked := history.Counts(); return acked >= least })
}

// Every process is restarted, one after the other, while an SDK's producers and worker
// go on behind a TCP balancer. The SDK's own retries, the documented ones, hide all of it.
func TestSplit_RollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	ctx := ctxFor(t, 3*time.Minute)
	done := s.signUp(ctx, t, "globex")
	balancer := rig.StartBalancer(t, hostOf(s.Proxies[0].URL), hostOf(s.Proxies[1].URL))
	client, err := corvo.New(corvo.WithURL("http://"+balancer.Address+"/t/globex"), corvo.WithAPIKey(done.APIKey))
	if err != nil {
		t.Fatal(err)
	}
	load := startSDKLoad(ctx, t, client)

	for i, p := range s.Proxies {
		restart(t, p.Process, p.Start)
		s.WaitServing(i, 30*time.Second)
	}
	for _, n := range s.Nodes {
		restart(t, n.Process, n.Start)
		n.WaitReady(30 * time.Second)
	}
	restart(t, s.control.Process, s.control.Start)
	s.control.WaitReady(30 * time.Second)
	load.finish(t)
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// restart is what a supervisor does at a deploy: SIGTERM, wait, start.
func restart(t *testing.T, p *rig.Process, start func()) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.WaitExit(40 * time.Second); code != 0 {
		t.Errorf("%s ended with %d:\n%s", p.Name, code, p.Stderr())
	}
	start()
}

// sdkLoad is producers and one worker of the SDK.
type sdkLoad struct {
	stopProducing, stopWorking context.CancelFunc
	producing, working         sync.WaitGroup

	mu sync.Mutex // Guards the rest.
	// enqueued jobs, and how many times each ran.
	enqueued []string
	ran      map[string]int
	failed   []error
}

func startSDKLoad(ctx context.Context, t *testing.T, client *corvo.Client) *sdkLoad {
	t.Helper()
	l := &sdkLoad{ran: map[string]int{}}
	produce, stopProducing := context.WithCancel(ctx)
	work, stopWorking := context.WithCancel(ctx)
	l.stopProducing, l.stopWorking = stopProducing, stopWorking
	t.Cleanup(func() { stopProducing(); stopWorking(); l.producing.Wait(); l.working.Wait() })
	for range 4 {
		l.producing.Go(func() {
			for produce.Err() == nil {
				// Calls in progress are not cancelled: each one gets its answer.
				job, err := client.EnqueueRaw(ctx, "load", json.RawMessage(`{}`))
				l.mu.Lock()
				if err != nil {
					l.failed = append(l.failed, err)
				} else {
					l.enqueued = append(l.enqueued, job.ID)
				}
				l.mu.Unlock()
				time.Sleep(5 * time.Millisecond) // The load's pace.
			}
		})
	}
	w := corvo.NewWorker(client, corvo.Queue("load", 8))
	corvo.HandleRaw(w, "load", func(_ context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
		l.mu.Lock()
		l.ran[j.ID]++
		l.mu.Unlock()
		return json.RawMessage(`{}`), nil
	})
	l.working.Go(func() {
		if err := w.Run(work); err != nil {
			l.mu.Lock()
			l.failed = append(l.failed, err)
			l.mu.Unlock()
		}
	})
	return l
}

// finish stops producing, waits for the worker to have run every job, and fails for
// every call that failed.
func (l *sdkLoad) finish(t *testing.T) {
	t.Helper()
	l.stopProducing()
	l.producing.Wait()
	eventually.NoError(t, time.Minute, "every job runs", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		left := 0
		for _, id := range l.enqueued {
			if l.ran[id] == 0 {
				left++
			}
		}
		if left > 0 || len(l.enqueued) == 0 {
			return fmt.Errorf("%d of %d are left", left, len(l.enqueued))
		}
		return nil
	})
	l.stopWorking()
	l.working.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.failed {
		t.Errorf("a call failed: %v", err)
	}
	t.Logf("%d jobs, every process restarted once", len(l.enqueued))
}
