package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/repeat"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// carryPause is the first pause between two tries to reach a leader; carryPauseMax
	// bounds the later ones.
	carryPause    = 10 * time.Millisecond
	carryPauseMax = 200 * time.Millisecond
	// waitedFrom is how long a long poll must have waited elsewhere to count.
	waitedFrom = 100 * time.Millisecond
)

// Answers of a leader that are not the client's: leadership has moved.
var (
	errNotDone = errors.New("the leader did nothing of it")
	errUnknown = errors.New("the leader does not know whether it was done")
)

// carry sends the request to the leader and stays with it while leadership moves, for
// LeaderWait: what surely was not done is sent again, and so is what can be repeated. A
// request that was carried already goes back to the node that did, rather than in circles.
func (s *Server) carry(c *call) error {
	if c.route.stream {
		return s.carryOnce(c, false)
	}
	if err := c.keepBody(); err != nil {
		return err
	}
	safe := repeat.Safe(c.r.Method, c.r.URL.Path, c.r.URL.RawQuery, c.r.Header, c.raw)
	limit := s.now().Add(s.opts.LeaderWait)
	var lost error // A try of which nobody knows what it did.
	for pause := carryPause; ; pause = min(2*pause, carryPauseMax) {
		err := s.carryOnce(c, safe)
		if err == nil {
			return nil
		}
		if lost == nil && fault.CodeOf(err) == fault.UnknownOutcome {
			lost = err
		}
		mayGoOn := fault.NothingDone(err) || safe && lost != nil
		if !mayGoOn || c.place.Silent || c.who.Forwarded || s.opts.Signer == nil || s.isDraining() || s.now().After(limit) || !sleep(c.r.Context(), pause) {
			return cmp.Or(lost, err)
		}
		p, perr := s.place(c.r.Context(), c.who.Caller.Namespace)
		if perr != nil {
			return cmp.Or(lost, perr)
		}
		if c.place = p; p.Local != nil {
			return s.serveHere(c)
		}
	}
}

// sleep reports whether ctx lasted that long.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// keepBody reads the body of a unary call whole, so that it can be sent again.
func (c *call) keepBody() error {
	if c.raw != nil {
		return nil
	}
	if _, err := c.body(); err != nil {
		return err
	}
	if c.raw == nil {
		c.raw = []byte{}
	}
	return nil
}

// carryOnce is one try. safe: the call may be repeated though it may have been done.
func (s *Server) carryOnce(c *call, safe bool) error {
	target, err := s.target(c)
	if err != nil {
		return err
	}
	opts := forward.Options{
		Prepare:  func(h http.Header) { s.vouch(h, c) },
		Response: func(_ int, h http.Header) { h.Set(headerForwarded, "1") },
		Body:     c.raw, // Nil of a stream.
	}
	if c.route.stream {
		opts.HalfClose = s.draining
	} else {
		opts.Refused = func(_ int, h http.Header) error { return leaderMoved(h, safe) }
	}
	if c.route.waits {
		asked := c.r
		leave := s.leaveOnDrain(c, &opts)
		defer func() { leave(); c.r = asked }()
	}
	err = s.forward.Forward(c.w, c.r, target, opts)
	switch {
	case err == nil:
		return nil
	case c.route.waits && s.isDraining():
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "this node is shutting down; no job was taken, try again")
	case errors.Is(err, errNotDone):
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "the leader is changing; nothing was done, try again")
	case forward.NeverSent(err) || c.r.Method == http.MethodGet || c.route.events:
		s.log.Info("leader not reachable", "request_id", c.id, "leader", target.Host, "err", err)
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "can't reach the leader; nothing was done, try again")
	default:
		s.log.Warn("leader lost during a call", "request_id", c.id, "leader", target.Host, "err", err)
		return fault.New(fault.UnknownOutcome, "UNKNOWN_OUTCOME",
			"the connection to the leader was lost before it answered; retry with the same idempotency key")
	}
}

// leaderMoved is why an answer is not for the client, if the call may be sent again.
func leaderMoved(h http.Header, safe bool) error {
	switch outcome := h.Get(identity.HeaderOutcome); {
	case outcome == identity.OutcomeNone, outcome == identity.OutcomeClock:
		return errNotDone // A leader whose clock is off is not one for long.
	case outcome == identity.OutcomeUnknown && safe:
		return errUnknown
	}
	return nil
}

// inCell: a proxy or a node of the cell asks, and not a client.
func (c *call) inCell() bool { return c.who != nil && (c.who.Forwarded || c.who.Identity.ProxyStream) }

// markOutcome tells the rest of the cell what it may do about a refusal for the sake of
// leadership or clocks.
func markOutcome(c *call, f *fault.Error) {
	if c != nil && wordOf(f) == wordClockSkew { // Rightly signed: the cell asks.
		c.w.Header().Set(identity.HeaderOutcome, identity.OutcomeClock)
	}
	if c != nil && wordOf(f) == wordWrongCell { // As above.
		c.w.Header().Set(identity.HeaderOutcome, identity.OutcomeCell)
	}
	if c == nil || !c.inCell() || c.route.stream || c.route.events {
		return // A stream's headers are out, and it is not repeated.
	}
	switch word := wordOf(f); {
	case f.Code == fault.UnknownOutcome:
		c.w.Header().Set(identity.HeaderOutcome, identity.OutcomeUnknown)
	case word == "LEADER_UNAVAILABLE" || word == "FORWARD_LOOP":
		c.w.Header().Set(identity.HeaderOutcome, identity.OutcomeNone)
	}
}

// waited is how long the call has been waiting, here and before it came here.
func (c *call) waited() time.Duration {
	here := c.s.now().Sub(c.start)
	if ms, err := strconv.ParseInt(c.r.Header.Get(identity.HeaderWaited), 10, 32); err == nil && ms > 0 && c.inCell() {
		here += time.Duration(ms) * time.Millisecond
	}
	return here
}

// leaveOnDrain gives up a carried long poll when this node drains, unless its
// answer has begun; the leader takes back what it may just have granted.
func (s *Server) leaveOnDrain(c *call, opts *forward.Options) context.CancelFunc {
	ctx, cancel := context.WithCancel(c.r.Context())
	stop := context.AfterFunc(s.draining, cancel)
	c.r = c.r.WithContext(ctx)
	begun := opts.Response
	opts.Response = func(status int, h http.Header) {
		stop()
		begun(status, h)
	}
	return func() { stop(); cancel() }
}

// carried is a stream on its way through this node.
type carried struct{ cancel context.CancelFunc }

func (*carried) End()   {} // The server's own drain half-closes it.
func (c *carried) Cut() { c.cancel() }

// carryStream is carry for a stream, counted and ended with the others.
func (s *Server) carryStream(c *call) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	through := &carried{cancel: cancel}
	if err := s.streams.Add(c.who.Identity.TenantID, through); err != nil {
		return err
	}
	defer s.streams.Remove(through)
	passing := *c
	passing.r = c.r.WithContext(ctx)
	return s.carry(&passing)
}

// target is the leader's URL, or why the call can not be carried there.
func (s *Server) target(c *call) (*url.URL, error) {
	switch {
	case c.place.LeaderURL == "":
		return nil, fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "there is no leader at the moment; nothing was done, try again")
	case c.who.Forwarded:
		return nil, fault.New(fault.Unavailable, "FORWARD_LOOP", "the leader is changing; nothing was done, try again")
	case s.opts.Signer == nil:
		return nil, &fault.Error{
			Code: fault.NotLeader, Message: "another node is the leader; nothing was done", Leader: c.place.LeaderURL,
		}
	}
	return url.Parse(c.place.LeaderURL)
}

// vouch replaces the caller's own credentials by our signed word for them.
func (s *Server) vouch(h http.Header, c *call) {
	for _, name := range [...]string{"Authorization", "X-Api-Key", "Cookie"} {
		h.Del(name)
	}
	identity.StripExternal(h)
	if waited := c.waited(); c.route.waits && waited > waitedFrom {
		h.Set(identity.HeaderWaited, strconv.FormatInt(waited.Milliseconds(), 10))
	}
	id := c.who.Identity
	id.RequestID = c.id
	id.ExpiresAt = s.now().Add(identity.LifeMax)
	if err := s.opts.Signer.Sign(h, id, c.r.URL.Path); err != nil {
		// It was verified or made by us; unsigned it is refused at the leader.
		s.log.Error("identity not signed", "request_id", c.id, "err", err)
		return
	}
	h.Set(headerForwarded, "1")
}
