package transport

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// answer plays the raft loop of g: it grants every vote and takes every append
// until the test ends.
func answer(t testing.TB, g *Group) {
	t.Helper()
	answerWith(t, g, func(rpc raft.RPC) {
		n, err := io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(&raft.InstallSnapshotResponse{Success: err == nil && n == rpc.Command.(*raft.InstallSnapshotRequest).Size}, err)
	})
}

// answerWith is answer with another way to take snapshots, each on a goroutine
// of its own.
func answerWith(t testing.TB, g *Group, snapshot func(raft.RPC)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case rpc := <-g.Consumer():
				switch rpc.Command.(type) {
				case *raft.RequestVoteRequest:
					rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
				case *raft.RequestPreVoteRequest:
					rpc.Respond(&raft.RequestPreVoteResponse{Granted: true}, nil)
				case *raft.AppendEntriesRequest:
					rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
				case *raft.TimeoutNowRequest:
					rpc.Respond(&raft.TimeoutNowResponse{}, nil)
				case *raft.InstallSnapshotRequest:
					go snapshot(rpc)
				}
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { close(done) })
}

func vote(from *Group, to string) error {
	var resp raft.RequestVoteResponse
	err := from.RequestVote(raft.ServerID(to), raft.ServerAddress(to), &raft.RequestVoteRequest{Term: 3}, &resp)
	if err == nil && !resp.Granted {
		err = errors.New("vote not granted")
	}
	return err
}

func TestGroup_CarriesEveryRequest(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	a := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
	b := n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	answer(t, b)
	if a.LocalAddr() != "n1" {
		t.Errorf("local address %q, want the node id", a.LocalAddr())
	}
	if got := a.DecodePeer(a.EncodePeer("n2", "n2")); got != "n2" {
		t.Errorf("peer came back as %q", got)
	}
	if err := vote(a, "n2"); err != nil {
		t.Error(err)
	}
	var pre raft.RequestPreVoteResponse
	if err := a.RequestPreVote("n2", "n2", &raft.RequestPreVoteRequest{}, &pre); err != nil || !pre.Granted {
		t.Errorf("pre-vote: %v, granted %v", err, pre.Granted)
	}
	if err := a.TimeoutNow("n2", "n2", &raft.TimeoutNowRequest{}, new(raft.TimeoutNowResponse)); err != nil {
		t.Error(err)
	}
	p, err := a.AppendEntriesPipeline("n2", "n2")
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 3}, new(raft.AppendEntriesResponse))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Error(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	size := int64(3 << 20)
	var snap raft.InstallSnapshotResponse
	if err := a.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{Size: size}, &snap, io.LimitReader(zeroes{}, size)); err != nil || !snap.Success {
		t.Errorf("snapshot: %v, success %v", err, snap.Success)
	}
	if m := a.mux.Metrics(); m.SnapshotsSent != 1 || m.SnapshotBytesSent != uint64(size) {
		t.Errorf("metrics = %+v", m)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestGroups_ShareTheListenerAndNothingElse(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	a, b := n.listen(t, Options{NodeID: "n1"}), n.listen(t, Options{NodeID: "n2"})
	for id := uint32(1); id <= 3; id++ {
		g := b.Group(id)
		go func() {
			select {
			case rpc := <-g.Consumer():
				rpc.Respond(&raft.RequestVoteResponse{Term: uint64(id)}, nil)
			case <-g.done:
			}
		}()
	}
	for id := uint32(3); id >= 1; id-- {
		var resp raft.RequestVoteResponse
		if err := a.Group(id).RequestVote("n2", "n2", &raft.RequestVoteRequest{}, &resp); err != nil || resp.Term != uint64(id) {
			t.Errorf("group %d answered as %d: %v", id, resp.Term, err)
		}
	}
}

func TestMux_RefusesStrangers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts  Options // Of the dialing node.
		to    string
		group uint32
		want  string
	}{
		"wrong secret":  {Options{NodeID: "n1", Secrets: cellsecret.Must([]byte("another secret of some length..."))}, "n2", testGroup, errBadProof.Error()},
		"wrong cell":    {Options{NodeID: "n1", CellID: "another cell"}, "n2", testGroup, wrongCell.String()},
		"wrong node":    {Options{NodeID: "n1"}, "n3", testGroup, wrongNode.String()},
		"unknown group": {Options{NodeID: "n1"}, "n2", 99, unknownGroup.String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork()
			b := n.listen(t, Options{NodeID: "n2"})
			answer(t, b.Group(testGroup))
			a := n.listen(t, c.opts)
			n.mu.Lock()
			n.addrs["n3"] = n.addrs["n2"] // A stale address book.
			n.mu.Unlock()
			err := vote(a.Group(c.group), c.to)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("vote: %v, want %q", err, c.want)
			}
			eventually.True(t, patience, "the refusal", func() bool { return b.Metrics().Refused == 1 })
			if m := b.Metrics(); m.Accepted != 0 {
				t.Errorf("metrics = %+v, want nothing accepted", m)
			}
		})
	}
}

// A secret is replaced in steps, and nodes one step apart connect, in both directions.
// Nodes two steps apart do not always.
func TestMux_TheSecretIsReplacedInSteps(t *testing.T) {
	t.Parallel()
	before, after := []byte("the secret of before"), []byte("the secret of afterwards")
	steps := [][][]byte{{before}, {before, after}, {after, before}, {after}}
	for i, dialer := range steps {
		for j, listener := range steps {
			n := newNetwork()
			b := n.listen(t, Options{NodeID: "n2", Secrets: cellsecret.Must(listener...)})
			answer(t, b.Group(testGroup))
			dials := cellsecret.Must(dialer...)
			a := n.listen(t, Options{NodeID: "n1", Secrets: dials})
			err := vote(a.Group(testGroup), "n2")
			if apart := max(i, j) - min(i, j); apart <= 1 && err != nil || apart == len(steps)-1 && err == nil {
				t.Errorf("dialed at step %d to step %d: %v", i, j, err)
			}
			if last := dials.Status()[len(dialer)-1]; err == nil && !last.Signs && (last.LastUse.By == "n2") != (j/2 != i/2) {
				t.Errorf("dialed at step %d to step %d: use of the second secret %+v", i, j, last)
			}
		}
	}
}

// An impostor in the listener's place is found out before anything is sent.
func TestDial_RefusesAListenerWithoutTheSecret(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sent := make(chan []byte, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, _, err := readHello(c); err != nil {
			return
		}
		if _, err := c.Write(make([]byte, nonceBytes+proofBytes)); err != nil {
			return
		}
		rest, _ := io.ReadAll(c)
		sent <- rest
	}()
	n := newNetwork()
	a := n.listen(t, Options{NodeID: "n1"})
	n.mu.Lock()
	n.addrs["n2"] = ln.Addr().String()
	n.mu.Unlock()
	if err := vote(a.Group(testGroup), "n2"); !errors.Is(err, errBadProof) {
		t.Errorf("vote: %v, want %v", err, errBadProof)
	}
	if rest := <-sent; len(rest) != 0 {
		t.Errorf("%d bytes sent to the impostor", len(rest))
	}
}

func TestMux_CutsOffGarbageAndSlowPeers(t *testing.T) {
	t.Parallel()
	h := hello{lane: laneRPC, group: testGroup, cell: "cell", from: "n1", to: "n2"}
	good, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string][]byte{
		"silence":            nil,
		"half a hello":       good[:len(good)-1],
		"hello, no proof":    good,
		"hello, wrong proof": append(bytes.Clone(good), make([]byte, proofBytes)...),
		"http":               []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"wrong version":      append([]byte(magic), 99, 0, 0, 0, 0, 0, 0),
		"wrong lane":         append([]byte(magic), 1, 9, 0, 0, 0, 0, 0),
		"empty name":         append([]byte(magic), 1, 1, 0, 0, 0, 0, 0),
		"noise":              bytes.Repeat([]byte{0xff}, 4096),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork()
			m := n.listen(t, Options{NodeID: "n2", HandshakeTimeout: 200 * time.Millisecond})
			m.Group(testGroup)
			c, err := net.Dial("tcp", m.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(first); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			trickled := make(chan struct{})
			go func() { // A byte now and then must not keep it alive.
				defer close(trickled)
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
						if name != "silence" {
							_, _ = c.Write([]byte{0})
						}
					}
				}
			}()
			if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, c)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("connection was not cut off")
			}
			close(stop)
			<-trickled
			eventually.True(t, patience, "the refusal", func() bool { return m.Metrics().Refused == 1 })
			if m.Metrics().Accepted != 0 {
				t.Error("connection was accepted")
			}
		})
	}
}

func TestMux_BoundsHandshakesInProgress(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	m := n.listen(t, Options{NodeID: "n2", HandshakeTimeout: time.Minute})
	conns := make([]net.Conn, handshakesMax+8)
	for i := range conns {
		c, err := net.Dial("tcp", m.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	eventually.True(t, patience, "refusal of what is over the limit", func() bool { return m.Metrics().Refused == 8 })
	// Close does not wait for the minute.
	start := time.Now()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("close took %v", took)
	}
}

func TestSnapshot_InFlightDoesNotDelayVotes(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	a := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
	b := n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
	arriving, finish := make(chan struct{}), make(chan struct{})
	answerWith(t, b, func(rpc raft.RPC) {
		_, err := io.ReadFull(rpc.Reader, make([]byte, 1))
		close(arriving)
		<-finish // The socket's buffers fill up and the sender blocks.
		_, copyErr := io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, errors.Join(err, copyErr))
	})
	sent := make(chan error, 1)
	size := int64(64 << 20)
	go func() {
		sent <- a.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{Size: size}, new(raft.InstallSnapshotResponse), io.LimitReader(zeroes{}, size))
	}()
	<-arriving
	for range 20 {
		if err := vote(a, "n2"); err != nil {
			t.Fatalf("vote during a snapshot: %v", err)
		}
	}
	select {
	case err := <-sent:
		t.Fatalf("the snapshot ended meanwhile (%v): the votes above prove nothing", err)
	default:
	}
	close(finish)
	if err := <-sent; err != nil {
		t.Errorf("snapshot: %v", err)
	}
}

// The receiver reads a snapshot on its raft loop, so a sender that hangs must
// not hold it for longer than the stall limit.
func TestSnapshot_HangingSenderIsCutOff(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	a := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
	b := n.listen(t, Options{NodeID: "n2", SnapshotStall: 200 * time.Millisecond}).Group(testGroup)
	received := make(chan error, 1)
	answerWith(t, b, func(rpc raft.RPC) {
		_, err := io.ReadFull(rpc.Reader, make([]byte, 1<<20))
		received <- err
		rpc.Respond(&raft.InstallSnapshotResponse{}, err)
	})
	hang, release := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		sent <- a.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{Size: 1 << 20}, new(raft.InstallSnapshotResponse), hang)
	}()
	if _, err := release.Write(make([]byte, 512<<10)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if err := <-received; !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("receiver ended with %v, want a timeout", err)
	}
	if err := release.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err == nil {
		t.Error("the sender thinks it succeeded")
	}
}

// A receiver that stops, or that takes a few bytes now and then, keeps what is sent to
// it for a time that depends on the size alone.
func TestSnapshot_ReceiverThatHardlyReadsIsCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stall, whole time.Duration
		drips        bool
	}{
		"it stops":      {stall: 200 * time.Millisecond, whole: time.Hour},
		"bytes trickle": {stall: time.Hour, whole: 300 * time.Millisecond, drips: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork()
			a := n.listen(t, Options{NodeID: "n1", SnapshotStall: c.stall, RPCTimeout: c.whole}).Group(testGroup)
			b := n.listen(t, Options{NodeID: "n2"}).Group(testGroup)
			over := make(chan struct{})
			answerWith(t, b, func(rpc raft.RPC) {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
						if c.drips {
							_, _ = io.CopyN(io.Discard, rpc.Reader, 256)
						}
					}
				}
			})
			sent := make(chan error, 1)
			go func() {
				sent <- a.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{Size: 1 << 20}, new(raft.InstallSnapshotResponse), io.LimitReader(zeroes{}, 1<<30))
			}()
			select {
			case err := <-sent:
				var timeout net.Error
				if !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("the sender ended with %v, want a timeout", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the sender goes on")
			}
			close(over)
		})
	}
}

// With a spool, raft's loop sees a snapshot only once all of it is there.
func TestSpool_RaftSeesOnlyCompleteSnapshots(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	dir := t.TempDir()
	a := n.listen(t, Options{NodeID: "n1"}).Group(testGroup)
	b := n.listen(t, Options{NodeID: "n2", SpoolDir: dir, SnapshotStall: 500 * time.Millisecond}).Group(testGroup)
	seen := make(chan string, 1)
	answerWith(t, b, func(rpc raft.RPC) {
		body, err := io.ReadAll(rpc.Reader)
		seen <- string(body)
		rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, err)
	})
	send := func(body io.Reader, size int) error {
		var resp raft.InstallSnapshotResponse
		err := a.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{Size: int64(size)}, &resp, body)
		if err == nil && !resp.Success {
			err = errors.New("not installed")
		}
		return err
	}
	if err := send(strings.NewReader("all of it"), 9); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "all of it" {
		t.Errorf("raft got %q", got)
	}
	if err := send(strings.NewReader(""), 0); err != nil {
		t.Errorf("empty snapshot: %v", err)
	}
	if got := <-seen; got != "" {
		t.Errorf("raft got %q of an empty snapshot", got)
	}
	// A sender that stops half-way is cut off, and raft never hears of it.
	if err := send(strings.NewReader("half"), 9); err == nil {
		t.Error("half a snapshot was installed")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("spool holds %v, %v", left, err)
	}
	select {
	case got := <-seen:
		t.Errorf("raft got the incomplete %q", got)
	default:
	}
	if err := vote(a, "n2"); err != nil {
		t.Errorf("vote after it: %v", err)
	}
}

func TestSpool_NewMemberCatchesUpBySnapshot(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	old := startMember(t, n, Options{NodeID: "n1", SpoolDir: t.TempDir()}, 200*time.Millisecond, []string{"n1"})
	eventually.True(t, patience, "leadership", func() bool { return old.raft.State() == raft.Leader })
	for i := range 50 {
		old.apply(t, strings.Repeat("x", i))
	}
	if err := old.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	joined := startMember(t, n, Options{NodeID: "n2", SpoolDir: t.TempDir()}, 200*time.Millisecond, nil)
	if err := old.raft.AddVoter("n2", "n2", 0, 10*time.Second).Error(); err != nil {
		t.Fatal(err)
	}
	old.apply(t, "after")
	eventually.True(t, patience, "catching up", func() bool { return joined.fsm.has("after") })
	if err := divergence(old, joined); err != nil {
		t.Error(err)
	}
	if m := old.wire.mux.Metrics(); m.SnapshotsSent == 0 {
		t.Error("no snapshot was sent")
	}
}

func TestSpool_OlderTransferDoesNotOvertakeANewerOne(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	g := n.listen(t, Options{NodeID: "n2", SpoolDir: t.TempDir()}).Group(testGroup)
	done := make(chan struct{})
	go func() {
		defer close(done)
		rpc := <-g.Consumer()
		rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, nil)
	}()
	old, recent := g.arrivals.Add(1), g.arrivals.Add(1)
	if err := g.enqueueSnapshot(raft.RPC{RespChan: make(chan raft.RPCResponse, 1)}, old); !errors.Is(err, errSuperseded) {
		t.Errorf("older transfer: %v, want %v", err, errSuperseded)
	}
	if err := g.enqueueSnapshot(raft.RPC{RespChan: make(chan raft.RPCResponse, 1)}, recent); err != nil {
		t.Errorf("newest transfer: %v", err)
	}
	<-done
}

func TestGroup_CloseEndsItsConnectionsAndANewOneTakesOver(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	a, bm := n.listen(t, Options{NodeID: "n1"}).Group(testGroup), n.listen(t, Options{NodeID: "n2"})
	b := bm.Group(testGroup)
	answer(t, b)
	other := bm.Group(testGroup + 1)
	if err := vote(a, "n2"); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := vote(a, "n2"); err == nil {
		t.Error("a closed group granted a vote")
	}
	if err := b.RequestVote("n1", "n1", &raft.RequestVoteRequest{}, new(raft.RequestVoteResponse)); !errors.Is(err, ErrClosed) {
		t.Errorf("request of a closed group: %v, want ErrClosed", err)
	}
	again := bm.Group(testGroup)
	if again == b {
		t.Fatal("the closed group came back")
	}
	if err := b.Close(); err != nil { // Closing twice takes nothing from the new one.
		t.Fatal(err)
	}
	if bm.Group(testGroup) != again || bm.Group(testGroup+1) != other {
		t.Error("closing one group removed another")
	}
	answer(t, again)
	if err := vote(a, "n2"); err != nil {
		t.Errorf("vote at the new group: %v", err)
	}
}

func TestMux_CloseReleasesEverything(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	am, bm := n.listen(t, Options{NodeID: "n1"}), n.listen(t, Options{NodeID: "n2"})
	a, b := am.Group(testGroup), bm.Group(testGroup)
	answer(t, b)
	if err := vote(a, "n2"); err != nil {
		t.Fatal(err)
	}
	if err := bm.Close(); err != nil {
		t.Fatal(err)
	}
	// The dialer's idle connection is dead now, and so is the port.
	if c, err := net.Dial("tcp", bm.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port still answers")
	}
	for range 2 {
		if err := vote(a, "n2"); err == nil {
			t.Error("a closed node granted a vote")
		}
	}
	if err := bm.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := bm.Group(99).stream.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("group of a closed mux: %v", err)
	}
}

func TestMux_OverMemory(t *testing.T) {
	t.Parallel()
	lns := map[string]*pipeListener{}
	muxes := map[string]*Mux{}
	for _, id := range []string{"n1", "n2"} {
		lns[id] = &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		m := Listen(lns[id], Options{
			NodeID: id, CellID: "cell", Secrets: cellsecret.Must(testSecret), Logger: quiet(),
			Resolve: func(id string) (string, error) { return id, nil },
			Dial:    func(ctx context.Context, to string) (net.Conn, error) { return lns[to].dial(ctx) },
		})
		muxes[id] = m
		defer m.Close()
	}
	answer(t, muxes["n2"].Group(1))
	if err := vote(muxes["n1"].Group(1), "n2"); err != nil {
		t.Error(err)
	}
}

// pipeListener accepts in-memory connections.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return nodeAddr("memory") }

func TestTLS_BindsNodeIDsToCertificates(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	foreign := newAuthority(t)
	for name, c := range map[string]struct {
		dialer, listener *tls.Config
		ok               bool
	}{
		"both named":             {ca.config(t, "n1"), ca.config(t, "n2"), true},
		"dialer under another":   {ca.config(t, "n9"), ca.config(t, "n2"), false},
		"listener under another": {ca.config(t, "n1"), ca.config(t, "n9"), false},
		"foreign dialer":         {foreign.config(t, "n1"), ca.config(t, "n2"), false},
		"dialer without":         {nil, ca.config(t, "n2"), false},
		"listener without":       {ca.config(t, "n1"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork()
			// Plain against TLS ends by timeout: neither side hears what it waits for.
			limit := 2 * time.Second
			a := n.listen(t, Options{NodeID: "n1", TLS: c.dialer, HandshakeTimeout: limit}).Group(testGroup)
			b := n.listen(t, Options{NodeID: "n2", TLS: c.listener, HandshakeTimeout: limit}).Group(testGroup)
			answer(t, b)
			if err := vote(a, "n2"); (err == nil) != c.ok {
				t.Errorf("vote: %v, want success %v", err, c.ok)
			}
		})
	}
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cell"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// config is mutual TLS for a node of this authority.
func (a authority) config(t testing.TB, node string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{node},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

func FuzzReadHello(f *testing.F) {
	h := hello{lane: laneSnapshot, group: 42, cell: "c", from: "node one", to: "n2", nonce: newNonce()}
	good, err := h.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(good, "more"...))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, raw, err := readHello(r)
		if read := len(b) - r.Len(); read > helloMax {
			t.Fatalf("read %d bytes, a hello has at most %d", read, helloMax)
		}
		if err != nil {
			return
		}
		again, err := h.encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if !bytes.Equal(again, raw) || !bytes.HasPrefix(b, raw) {
			t.Fatalf("read %x, kept %x, wrote %x", b, raw, again)
		}
	})
}
