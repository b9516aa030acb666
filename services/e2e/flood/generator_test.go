package flood

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/sdks/go/stream"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

const (
	// specVariable makes the test binary a generator.
	specVariable = "CORVO_FLOOD_SPEC"
	// generatorNice is what the floods' process adds to its priority's number.
	generatorNice = 10
	floodConns    = 50
	floodFrame    = 64
	// overloadPause is how long a connection stays away after OVERLOADED.
	overloadPause = 5 * time.Millisecond
)

// spec is what a generator's process does.
type spec struct {
	Tenants []target
	Conns   int
}

type target struct{ URL, Key string }

// counts of a generator since it began.
type counts struct {
	Jobs    int64 // Enqueued and acknowledged, and settled and acknowledged.
	Frames  int64
	Refused int64 // OVERLOADED.
	Errors  int64
	Last    string // Error.
}

// floodMain is the generator's process: it prints its counts for every line of its input,
// and ends with it.
func floodMain(text string) int {
	var sp spec
	if err := json.Unmarshal([]byte(text), &sp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &generator{}
	var all sync.WaitGroup
	for _, t := range sp.Tenants {
		for range sp.Conns {
			all.Go(func() { g.connection(ctx, t) })
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := json.NewEncoder(os.Stdout).Encode(g.counts()); err != nil {
			break
		}
	}
	cancel()
	all.Wait()
	return 0
}

type generator struct {
	jobs, frames, refused, errors atomic.Int64
	last                          atomic.Pointer[string]
}

func (g *generator) counts() counts {
	c := counts{Jobs: g.jobs.Load(), Frames: g.frames.Load(), Refused: g.refused.Load(), Errors: g.errors.Load()}
	if s := g.last.Load(); s != nil {
		c.Last = *s
	}
	return c
}

// connection is one stream in a closed loop: a frame of enqueues, then one that settles
// what it holds and fetches as many.
func (g *generator) connection(ctx context.Context, t target) {
	client, err := corvo.New(corvo.WithURL(t.URL), corvo.WithAPIKey(t.Key), corvo.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		g.failed(err)
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		st := stream.Open(ctx, client.RPC(), stream.Options{Pipelined: true})
		err := g.drive(ctx, st)
		st.Cut(stream.ErrClosed)
		if ctx.Err() == nil && err != nil {
			g.failed(err)
			time.Sleep(10 * overloadPause)
		}
	}
}

func (g *generator) failed(err error) {
	g.errors.Add(1)
	text := err.Error()
	g.last.Store(&text)
}

func (g *generator) drive(ctx context.Context, st *stream.Stream) error {
	item := &corvov1.LifecycleEnqueueItem{Queue: "flood", PayloadJson: payload}
	noWait := int64(0)
	var held []*corvov1.AckBatchItem
	for ctx.Err() == nil {
		add := &stream.Request{}
		for range floodFrame {
			add.Enqueues = append(add.Enqueues, item)
		}
		if _, err := g.frame(ctx, st, add); err != nil {
			return err
		}
		r, err := g.frame(ctx, st, &stream.Request{Acks: held, FetchCount: floodFrame, Queues: []string{"flood"}, WorkerId: "flood", LeaseDuration: 60, WaitMs: &noWait})
		if err != nil {
			return err
		}
		held = held[:0:0]
		for _, j := range r.GetJobs() {
			held = append(held, &corvov1.AckBatchItem{JobId: j.GetJobId(), LeaseToken: j.GetLeaseToken()})
		}
	}
	return nil
}

// frame sends a frame until it is not refused for overload.
func (g *generator) frame(ctx context.Context, st *stream.Stream, req *stream.Request) (*stream.Response, error) {
	for {
		r, err := st.Do(ctx, req)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(r.GetError(), stream.TextOverloadedPrefix) {
			g.refused.Add(1)
			time.Sleep(overloadPause)
			continue
		}
		if r.GetError() != "" {
			return nil, fmt.Errorf("frame: %s", r.GetError())
		}
		g.frames.Add(1)
		g.jobs.Add(int64(len(req.Enqueues)) + int64(r.GetAcked()))
		return r, nil
	}
}

var payload = `{"d":"` + strings.Repeat("x", 92) + `"}`

// flood is a running generator.
type flood struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startFlood(t *testing.T, conns int, tenants ...target) *flood {
	t.Helper()
	text, err := json.Marshal(spec{Tenants: tenants, Conns: conns})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{t: t, cmd: exec.Command("nice", "-n", fmt.Sprint(generatorNice), self)}
	f.cmd.Env = append(os.Environ(), specVariable+"="+string(text))
	f.cmd.Stderr = os.Stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.out = json.NewDecoder(out)
	if err := f.cmd.Start(); err != nil {
		t.Fatalf("start the generator: %v", err)
	}
	t.Cleanup(f.stop)
	return f
}

func (f *flood) counts() counts {
	f.t.Helper()
	var c counts
	if _, err := io.WriteString(f.in, "\n"); err != nil {
		f.t.Fatalf("ask the generator: %v", err)
	}
	if err := f.out.Decode(&c); err != nil {
		f.t.Fatalf("read the generator's counts: %v", err)
	}
	return c
}

// stop ends the generator. It may be repeated.
func (f *flood) stop() {
	_ = f.in.Close() // It ends with its input.
	_ = f.cmd.Wait() // Stopped before, or killed: it does not matter which.
}
