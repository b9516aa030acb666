package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// ErrStuck: the shutdown did not end before its deadline. The caller must end the
// process with ExitStuck.
var ErrStuck = errors.New("the node didn't shut down in time")

// Shutdown ends the node in order: no new work, leadership given away, streams told
// where to go, running calls answered, stores closed. With hurry the node does not
// wait for another leader: all nodes of the cell are leaving. It returns by the end
// of ctx, with ErrStuck if it did not finish.
func (n *Node) Shutdown(ctx context.Context, hurry bool) error {
	ended := make(chan error, 1)
	go func() { ended <- n.shutdown(ctx, hurry) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// The deadline may have cut off the last call and nothing else.
	select {
	case err := <-ended:
		return err
	case <-time.After(lastMoment):
		return ErrStuck
	}
}

const (
	// closeShare: this fraction of a shutdown's time is kept for closing, after the
	// last call; closeMax is enough for any node.
	closeShare = 4
	closeMax   = 5 * time.Second
	// lastMoment is the extra time a shutdown gets to return by itself.
	lastMoment = 100 * time.Millisecond
)

func (n *Node) shutdown(ctx context.Context, hurry bool) error {
	n.stopEntering()
	n.entering.Wait()
	calls, cancel := leaveTime(ctx)
	defer cancel()
	n.fitness.Set(health.ShuttingDown, "")
	n.holdOff()
	if !hurry && n.members != nil {
		n.members.HandOver(calls)
		n.farewell(calls)
	}
	for _, s := range n.shardList() {
		s.Leave()
	}
	var errs []error
	if n.api != nil {
		errs = append(errs, ignoreDeadline(n.api.Drain(calls)))
	}
	if n.http != nil {
		n.endWatches()
		errs = append(errs, n.endCalls(calls, hurry))
	}
	return errors.Join(append(errs, n.close())...)
}

// leaveTime returns a context that ends before ctx, early enough for closing.
func leaveTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/closeShare, closeMax)))
}

// hurryPatience is how long calls may still take in a hurry. net/http keeps even an
// idle HTTP/2 connection for a second after its GOAWAY.
const hurryPatience = 500 * time.Millisecond

// endCalls takes no more calls and waits for those under way.
func (n *Node) endCalls(ctx context.Context, hurry bool) error {
	if hurry {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, hurryPatience)
		defer cancel()
	}
	var calls sync.WaitGroup
	if n.calls != nil {
		calls.Go(func() { n.calls.Shutdown(ctx) })
	}
	err := n.http.Shutdown(ctx)
	calls.Wait()
	if err != nil {
		return n.http.Close()
	}
	return nil
}

// ignoreDeadline: a drain that ran out of time has cut off the rest, which is no
// error of the shutdown.
func ignoreDeadline(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// close closes what is open, in the reverse order of Start. Once no call can reach
// the node, it leads nothing, however long the rest takes to end.
func (n *Node) close() error {
	n.stopEntering()
	n.entering.Wait()
	var errs []error
	n.fitness.Set(health.Closed, "")
	if n.http != nil {
		errs = append(errs, n.http.Close())
	}
	if n.calls != nil {
		n.calls.Close()
	}
	if n.stopLoops != nil {
		n.stopLoops()
	}
	errs = append(errs, n.closeGroups()...)
	n.loops.Wait()
	if n.mux != nil {
		errs = append(errs, n.mux.Close())
	} else {
		errs = append(errs, n.cfg.Raft.Close())
	}
	if n.http == nil {
		errs = append(errs, n.cfg.API.Close())
	}
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	if n.models != nil {
		errs = append(errs, n.models.Close())
	}
	if n.state != nil {
		errs = append(errs, n.state.Close())
	}
	for _, s := range n.room.watched() {
		s.Close()
	}
	if n.dog != nil {
		n.dog.Close()
	}
	n.transport.CloseIdleConnections()
	return ignoreClosed(errors.Join(errs...))
}

// closeGroups shuts all groups down at once: none waits for another.
func (n *Node) closeGroups() []error {
	ends := []func() error{}
	for _, s := range n.shardList() {
		ends = append(ends, s.Group().Shutdown)
	}
	if n.cell != nil {
		ends = append(ends, n.cell.Shutdown)
	}
	errs := make([]error, len(ends))
	var closing sync.WaitGroup
	for i, end := range ends {
		closing.Go(func() { errs[i] = end() })
	}
	closing.Wait()
	return errs
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
