package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

const (
	// watchers is how many nodes are followed at a time, so that neither a dead
	// node nor one that is cut off from the others delays a revocation.
	watchers = 2
	// watchSilence ends a watch whose node says nothing for two of its heartbeats.
	watchSilence = 12 * time.Second
	// watchFirst is for the first message: a node that is behind makes us wait.
	watchFirst = 2 * time.Second
	// The pause before the next node is asked, with full jitter: many proxies must
	// not come back in step. The bound keeps a revocation less than a second late.
	watchPauseMin = 50 * time.Millisecond
	watchPauseMax = time.Second
	// saveEvery bounds how often a busy state is written to disk.
	saveEvery = time.Second
	// saveConfirmed is how often a state that does not change is written with the time at
	// which it was confirmed.
	saveConfirmed = time.Hour

	// lagsMax is how many heartbeats in a row may be of an older state.
	lagsMax = 2

	watchMessageBytesMax = 64 << 20
)

var (
	errBehind = errors.New("the node is behind the state that this proxy already has")
	errSilent = errors.New("the node went silent")
	errOther  = errors.New("the node belongs to another cell")
	errLeaves = errors.New("the node isn't ready, but others are")
)

// watch follows the cell's state on one node after another until ctx ends.
func (p *Proxy) watch(ctx context.Context) {
	pause := watchPauseMin
	for turn := 0; ctx.Err() == nil; turn++ {
		base, ok := p.claimWatch(turn)
		if !ok { // Every node is already followed.
			wait(ctx, watchPauseMax)
			continue
		}
		heard, err := p.watchNode(ctx, base)
		p.releaseWatch(base)
		if ctx.Err() != nil {
			return
		}
		p.log.Warn("cell state watch ended", "node", base, "err", err)
		if heard {
			pause = watchPauseMin
		}
		wait(ctx, rand.N(pause))
		pause = min(2*pause, watchPauseMax)
	}
}

// claimWatch picks a node that no other watcher follows, a different one each turn.
func (p *Proxy) claimWatch(turn int) (base string, ok bool) {
	bases := p.nodes.bases()
	p.watchedMu.Lock()
	defer p.watchedMu.Unlock()
	for i := range bases {
		base = bases[(turn+i)%len(bases)]
		if !p.watched[base] {
			p.watched[base] = true
			return base, true
		}
	}
	return "", false
}

func (p *Proxy) releaseWatch(base string) {
	p.watchedMu.Lock()
	defer p.watchedMu.Unlock()
	delete(p.watched, base)
}

// watchNode follows one node. It reports whether the node sent anything useful.
func (p *Proxy) watchNode(ctx context.Context, base string) (heard bool, err error) {
	life := ctx // What follows from a message outlives this watch.
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	silence := time.AfterFunc(watchFirst, func() { cancel(errSilent) })
	defer silence.Stop()
	p.loops.Go(func() { p.leave(ctx, base, cancel) })
	client := cellv1connect.NewCellServiceClient(p.cellClient, base, connect.WithReadMaxBytes(watchMessageBytesMax))
	cur := p.view.current()
	stream, err := client.Watch(ctx, connect.NewRequest(&cellv1.WatchRequest{AfterIndex: cur.index, CellId: cur.cell, ProxyId: p.id}))
	if err != nil {
		return false, fmt.Errorf("watch: %w", err)
	}
	defer stream.Close()
	for lags := 0; stream.Receive(); {
		silence.Reset(watchSilence)
		if !p.take(life, stream.Msg()) {
			if !heard {
				p.loops.Go(func() { p.confirm(ctx, client) })
			}
			heard, lags = true, 0
			continue
		}
		if isOther(p.view.current(), stream.Msg()) {
			return heard, errOther
		}
		// One heartbeat may have been overtaken by a change from another node.
		if lags++; lags == lagsMax || stream.Msg().GetState() != nil {
			return heard, errBehind
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return heard, cause
	}
	if err := stream.Err(); err != nil {
		return heard, fmt.Errorf("watch: %w", err)
	}
	return heard, errors.New("the node ended the watch")
}

// leave ends a watch on a node that takes no more work: it is shutting down and
// would wait for us.
func (p *Proxy) leave(ctx context.Context, base string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if p.nodes.othersBetter(base) {
				cancel(errLeaves)
			}
		}
	}
}

// meet looks at the state of a node of another cell, in case that cell replaced ours: its other
// nodes may be all that is watched.
func (p *Proxy) meet(ctx context.Context, n *node) (looked bool) {
	res, err := n.admin.GetState(ctx, connect.NewRequest(&cellv1.GetStateRequest{}))
	if err != nil {
		p.log.Debug("can't get the state of a node of another cell", "url", n.base.String(), "err", err)
		return false
	}
	state := res.Msg.GetState()
	if p.take(p.life, &cellv1.WatchResponse{State: state, Index: state.GetIndex(), CellId: state.GetCellId()}) {
		p.log.Warn("a node belongs to another cell and is not used", "url", n.base.String(), "cell", state.GetCellId(), "ours", p.view.current().cell)
	}
	return true
}

// take applies one message with all its effects; ctx lives as long as the proxy.
func (p *Proxy) take(ctx context.Context, msg *cellv1.WatchResponse) (behind bool) {
	p.takeMu.Lock()
	defer p.takeMu.Unlock()
	before := p.view.current()
	if p.view.take(msg, p.now()) {
		return true
	}
	after := p.view.current()
	if after == before {
		return false
	}
	p.log.Debug("cell state changed", "index", after.index)
	if before.cell != "" && before.cell != after.cell {
		p.log.Warn("the cell was recovered: its state replaces ours, and calls under way at the old one end", "was", before.cell, "is", after.cell, "index", after.index)
		p.calls.endAll(false)
		p.applied.restart()
		p.nodes.forgetLeaders()
	}
	p.calls.recheck(before, after, touchedBy(msg), p.now())
	p.applied.set(after.index)
	p.nodes.reconcile(ctx, after.nodes)
	p.noteUnsaved()
	return false
}

// keep writes the state to disk some time after it changed, until ctx ends.
func (p *Proxy) keep(ctx context.Context) {
	var last saved
	idle := time.NewTicker(saveConfirmed)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			p.save(&last)
			return
		case <-p.unsaved:
			p.save(&last)
			wait(ctx, saveEvery)
		case <-idle.C:
			p.save(&last)
		}
	}
}

// saved is what the newest file says.
type saved struct {
	snap      *snapshot
	confirmed int64
}

func (p *Proxy) save(last *saved) {
	cur, confirmed := p.view.current(), p.view.confirmed.Load()
	if !p.view.loaded.Load() || cur == last.snap && confirmed-last.confirmed < int64(saveConfirmed) {
		return
	}
	state := cur.state()
	state.ConfirmedNs = confirmed
	if err := p.files.save(state); err != nil {
		// Serving goes on from memory.
		p.log.Error("can't write the cell's state to disk", "index", cur.index, "err", err)
		p.noteUnsaved()
		return
	}
	*last = saved{cur, confirmed}
}

func (p *Proxy) noteUnsaved() {
	select {
	case p.unsaved <- struct{}{}:
	default: // keep is already awake.
	}
}

// signing signs every call as a part of the cell.
type signing struct {
	next   http.RoundTripper
	signer *identity.Signer
	name   string
	now    func() time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *signing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := s.signer.SignRequest(r, identity.CellPrincipal(s.name, s.now())); err != nil {
		return nil, fmt.Errorf("sign call to the cell: %w", err)
	}
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", r.URL.Host, err)
	}
	return resp, nil
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func parseNodeURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse node address: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || (u.Path != "" && u.Path != "/") {
		return nil, fmt.Errorf("node address %q isn't scheme://host:port", text)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}
