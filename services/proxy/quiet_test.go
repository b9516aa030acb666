package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

// askedNode answers in the same process, and counts.
type askedNode struct {
	cellv1connect.UnimplementedCellServiceHandler
	asked    atomic.Int64
	notReady atomic.Bool
}

func (n *askedNode) GetNodeStatus(context.Context, *connect.Request[cellv1.GetNodeStatusRequest]) (*connect.Response[cellv1.GetNodeStatusResponse], error) {
	n.asked.Add(1)
	ready := !n.notReady.Load()
	return connect.NewResponse(&cellv1.GetNodeStatusResponse{Ready: &ready}), nil
}

// RoundTrip implements http.RoundTripper.
func (n *askedNode) RoundTrip(r *http.Request) (*http.Response, error) {
	_, h := cellv1connect.NewCellServiceHandler(n)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// While nobody calls, good nodes are asked less often; the first call has them asked at once.
func TestNodes_AreAskedLessOftenWhileNobodyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &askedNode{}
		seed := &url.URL{Scheme: "http", Host: "node-1"}
		s := newNodes(n, &http.Client{Transport: n}, []*url.URL{seed}, slog.New(slog.DiscardHandler), time.Now)
		open := newCalls(func(string) int64 { return 1 })
		s.calling = open.any
		ctx, cancel := context.WithCancel(t.Context())
		s.reconcile(ctx, nil)
		defer s.pollers.Wait()
		defer cancel()
		asked := func(what string, during time.Duration, want int64) {
			t.Helper()
			before := n.asked.Load()
			time.Sleep(during)
			synctest.Wait()
			if got := n.asked.Load() - before; got != want {
				t.Errorf("%s: asked %d times in %s, want %d", what, got, during, want)
			}
		}
		comes := func() {
			if got := s.candidates(2, "ns"); len(got) != 1 {
				t.Errorf("%d candidates, want 1", len(got))
			}
		}

		time.Sleep(time.Millisecond) // From here on no question falls on a boundary.
		synctest.Wait()
		asked("it has just started", quietAfter, int64(quietAfter/pollEvery))
		asked("the change", quietPoll, 1)
		asked("nobody calls", 20*quietPoll, 20)

		comes()
		asked("the call that ends it", time.Millisecond, 1)
		for range 40 {
			time.Sleep(time.Second)
			comes()
		}
		asked("calls", 4*pollEvery, 4)

		time.Sleep(2 * quietAfter)
		n.notReady.Store(true)
		asked("a node of which it isn't known yet that it isn't good", quietPoll, 1)
		asked("a node that isn't good", 20*pollEvery, 20)

		n.notReady.Store(false)
		// What a stream carries is no call of its own, and goes where the stream began.
		stream := &call{}
		if ref := open.enter(stream, 0); ref != nil {
			t.Fatal(ref)
		}
		asked("a stream that stays open", 2*quietAfter, int64(2*quietAfter/pollEvery))
	})
}

func TestNodes_KnowThatACallIsUnderWay(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	if r.proxy.nodes.calling() {
		t.Error("a call is under way before any came")
	}
	s := open(t, r)
	if !r.proxy.nodes.calling() {
		t.Error("an open stream is no call under way")
	}
	if err := s.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	_ = ends(t, s, patience)
	eventually.True(t, patience, "the stream is gone", func() bool { return !r.proxy.nodes.calling() })
}
