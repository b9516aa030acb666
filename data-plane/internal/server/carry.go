package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// carry sends the whole request to the leader, once: a request that was carried
// already is refused rather than sent in circles while leadership moves.
func (s *Server) carry(c *call) error {
	target, err := s.target(c)
	if err != nil {
		return err
	}
	opts := forward.Options{
		Prepare:  func(h http.Header) { s.vouch(h, c) },
		Response: func(_ int, h http.Header) { h.Set(headerForwarded, "1") },
		Body:     c.raw, // Nil unless it was read for a shard that has moved since.
	}
	if c.route.stream {
		opts.HalfClose = s.draining
	}
	if c.route.waits {
		leave := s.leaveOnDrain(c, &opts)
		defer leave()
	}
	err = s.forward.Forward(c.w, c.r, target, opts)
	switch {
	case err == nil:
		return nil
	case c.route.waits && s.isDraining():
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "this node is shutting down; no job was taken, try again")
	case forward.NeverSent(err) || c.r.Method == http.MethodGet || c.route.events:
		s.log.Info("leader not reachable", "request_id", c.id, "leader", target.Host, "err", err)
		return fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "the leader can not be reached; nothing was done, try again")
	default:
		s.log.Warn("leader lost during a call", "request_id", c.id, "leader", target.Host, "err", err)
		return fault.New(fault.UnknownOutcome, "UNKNOWN_OUTCOME",
			"the leader was lost before it answered; retry with the same idempotency key")
	}
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

func (*carried) end()   {} // The server's own drain half-closes it.
func (c *carried) cut() { c.cancel() }

// carryStream is carry for a stream, counted and ended with the others.
func (s *Server) carryStream(c *call) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	through := &carried{cancel: cancel}
	if !s.streams.add(through, s.opts.StreamsMax) {
		return errTooManyStreams()
	}
	defer s.streams.remove(through)
	passing := *c
	passing.r = c.r.WithContext(ctx)
	return s.carry(&passing)
}

// target is the leader's URL, or why the call can not be carried there.
func (s *Server) target(c *call) (*url.URL, error) {
	switch {
	case c.place.LeaderURL == "":
		return nil, fault.New(fault.Unavailable, "LEADER_UNAVAILABLE", "no leader is known; nothing was done, try again")
	case c.who.Forwarded:
		return nil, fault.New(fault.Unavailable, "FORWARD_LOOP", "leadership is moving; nothing was done, try again")
	case s.opts.Signer == nil:
		return nil, &fault.Error{
			Code: fault.NotLeader, Message: "another node leads; nothing was done", Leader: c.place.LeaderURL,
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
