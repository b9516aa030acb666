package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/repeat"
)

const (
	// HoldFor is how long a call is held while a shard has no leader: an election
	// takes about a second, and a node itself holds the call for three.
	HoldFor = 5 * time.Second
	// holdPause between two tries doubles up to holdPauseMax.
	holdPause    = 20 * time.Millisecond
	holdPauseMax = 250 * time.Millisecond
	// heldMax calls may be held at a time, divided among tenants like callsMax; more are
	// refused at once. Their bodies count in the budget of all bodies.
	heldMax = 2048
)

// Refusals of a node that the client does not see yet: leadership has moved.
var (
	errNotDone   = errors.New("the node did nothing")
	errClocks    = fmt.Errorf("%w: its clock and ours differ", errNotDone)
	errMaybeDone = errors.New("the node doesn't know whether it was done")
	errNoNode    = errors.New("no node could be reached")
)

// held is one call on its way, over however many tries.
type held struct {
	cl    *call
	safe  bool // It may be done twice.
	maybe bool // It may have been done once.
	begun time.Time
	tries int
}

func (p *Proxy) newHeld(r *http.Request, addr address, cl *call, body []byte) *held {
	h := &held{cl: cl, begun: p.now()}
	h.safe = body != nil && (cl.changesNothing || repeat.Safe(r.Method, addr.path, r.URL.RawQuery, r.Header, body))
	return h
}

// refused declines a node's answer that leadership has moved, or is about to because
// its clock is off.
func (h *held) refused(_ int, header http.Header) error {
	switch outcome := header.Get(identity.HeaderOutcome); {
	case h.cl.caller == nil:
	case outcome == identity.OutcomeNone:
		return errNotDone
	case outcome == identity.OutcomeCell:
		return fmt.Errorf("%w: %w", errNotDone, errOther)
	case outcome == identity.OutcomeClock:
		return errClocks
	case outcome == identity.OutcomeUnknown && h.safe:
		return errMaybeDone
	}
	return nil
}

// prepare tells a node how long the call has already waited, when it is not the
// first node.
func (h *held) prepare(header http.Header, now time.Time) {
	if h.tries > 1 {
		header.Set(identity.HeaderWaited, strconv.FormatInt(now.Sub(h.begun).Milliseconds(), 10))
	}
}

// hold calls try until it answers, no further try may follow, or HoldFor is over.
// If no node answers at all, nothing is held: that is not an election.
func (p *Proxy) hold(ctx context.Context, h *held, try func() (*refusal, error)) *refusal {
	ref, err := try()
	if ref == nil || err == nil || h.cl.caller == nil || !p.nodes.anyAnswers() {
		return ref
	}
	tenant := h.cl.caller.tenant.GetId()
	if !p.holds.Take(tenant, 1) {
		return ref
	}
	defer p.holds.Give(tenant, 1)
	until := time.Now().Add(HoldFor)
	for pause := holdPause; ref != nil && err != nil && time.Now().Before(until); pause = min(2*pause, holdPauseMax) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ref
		}
		ref, err = try()
	}
	return ref
}
