package transport

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// 200 ms each way makes 400 ms for a heartbeat and its answer, which a lease of 250 ms does
// not survive: the cell says so, and what to do, and does not fill the log with it.
func TestDistance_ANodeTooFarAwayIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	d := newDistances(500*time.Millisecond, log)
	now := time.Unix(0, 0)
	for range 2 * tripsMin {
		d.note("near", 100*time.Millisecond, now)
	}
	if out.Len() > 0 {
		t.Errorf("a near node: %s", &out)
	}
	for i := range 130 {
		d.note("far", 400*time.Millisecond, now.Add(time.Duration(i)*time.Second))
	}
	text := out.String()
	if n := strings.Count(text, "peer=far"); n != 3 || !strings.Contains(text, "round_trip=400ms") || !strings.Contains(text, "allowed=125ms") || !strings.Contains(text, "needed=2s") || !strings.Contains(text, "--heartbeat") {
		t.Errorf("told %d times: %s", n, text)
	}
	longer := newDistances(2*time.Second, log)
	out.Reset()
	for range 2 * tripsMin {
		longer.note("far", 400*time.Millisecond, now)
	}
	if out.Len() > 0 {
		t.Errorf("with a longer heartbeat: %s", &out)
	}
}

// One slow answer is a busy processor, not a distance; and only recent trips count.
func TestDistance_IsTheLeastOfSeveralTripsOfLate(t *testing.T) {
	t.Parallel()
	d := newDistances(500*time.Millisecond, quiet())
	now := time.Unix(0, 0)
	for i := range tripsMin - 1 {
		d.note("n2", 400*time.Millisecond, now.Add(time.Duration(i)))
	}
	if far, ok := d.farthest(now); ok {
		t.Errorf("known after too few trips: %v", far)
	}
	d.note("n2", 450*time.Millisecond, now)
	far, ok := d.farthest(now)
	if want := "a round trip to n2 takes 400ms, and a heartbeat of 500ms allows 125ms; start all nodes with --heartbeat 2s"; !ok || far.String() != want {
		t.Errorf("far is %v %q, want %q", ok, far, want)
	}
	d.note("n2", 20*time.Millisecond, now)
	if far, ok := d.farthest(now); ok {
		t.Errorf("far after a fast answer: %v", far)
	}
	for i := range 3 {
		d.note("n2", 300*time.Millisecond, now.Add(time.Duration(i)*tripWindow))
		d.note("n2", 300*time.Millisecond, now.Add(time.Duration(i)*tripWindow))
	}
	now = now.Add(2 * tripWindow)
	if far, ok := d.farthest(now); !ok || far.RoundTrip != 300*time.Millisecond {
		t.Errorf("the network got slower: %v %v", far, ok)
	}
	if far, ok := d.farthest(now.Add(2 * tripWindow)); ok {
		t.Errorf("known without a trip of late: %v", far)
	}
}

// A relay or a proxy beside the node opens every connection at once, so only what the
// other node answers tells how far it is.
func TestDistance_IsSeenThroughARelayThatConnectsAtOnce(t *testing.T) {
	t.Parallel()
	const oneWay = 100 * time.Millisecond
	n := newNetwork()
	a := n.listen(t, Options{NodeID: "n1", Heartbeat: 200 * time.Millisecond})
	b := n.listen(t, Options{NodeID: "n2"})
	answer(t, a.Group(1))
	answer(t, b.Group(1))
	n.addrs["n2"] = relay(t, b.Addr().String(), oneWay)
	for range tripsMin {
		if err := vote(a.Group(1), "n2"); err != nil {
			t.Fatal(err)
		}
		if err := a.Ask("n2", 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	far, ok := a.TooFar()
	if !ok || far.Node != "n2" || far.RoundTrip < 2*oneWay {
		t.Errorf("far is %v %+v, want n2 at %v or more", ok, far, 2*oneWay)
	}
}

// relay passes connections on to addr, late by oneWay in both directions.
func relay(t *testing.T, addr string, oneWay time.Duration) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t.Cleanup(func() {
		stop()
		_ = ln.Close() // Only to end Accept.
		work.Wait()
	})
	work.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := dialTCP(ctx, addr)
			if err != nil {
				_ = in.Close() // The caller sees it.
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
			work.Go(func() { passLate(in, out, oneWay) })
			work.Go(func() { passLate(out, in, oneWay) })
		}
	})
	return ln.Addr().String()
}

// passLate ends, and ends both connections, when from does.
func passLate(from, to net.Conn, late time.Duration) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			time.Sleep(late) // The distance, not a wait for something.
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
