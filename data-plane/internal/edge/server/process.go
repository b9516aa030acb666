package server

import (
	"context"
	"math"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"syscall"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// Health is what the node knows about itself.
type Health struct {
	// Working is false when only a restart helps; Ready when traffic should wait.
	Working   bool
	Ready     bool
	RaftState string // "leader", "follower", ... of the node's groups taken together.
	Leader    string // API URL of a leader, when one is known.
	Reason    string // Why not working or not ready.
}

func (c *call) info() error {
	return c.reply(wire.Info{ServerVersion: c.s.opts.Version, APIVersion: APIVersion})
}

func (s *Server) health(ctx context.Context) Health {
	if s.opts.Health == nil {
		return Health{Working: true, Ready: true}
	}
	return s.opts.Health(ctx)
}

func (c *call) healthz() error {
	h := c.s.health(c.r.Context())
	return c.replyHealth(h, h.Working)
}

func (c *call) readyz() error {
	h := c.s.readiness(c.r.Context())
	return c.replyHealth(h, h.Working && h.Ready)
}

// Ready is what /readyz says.
func (s *Server) Ready(ctx context.Context) bool {
	h := s.readiness(ctx)
	return h.Working && h.Ready
}

func (s *Server) readiness(ctx context.Context) Health {
	h := s.health(ctx)
	if s.isDraining() {
		h.Ready, h.Reason = false, "shutting down"
	}
	return h
}

func (c *call) replyHealth(h Health, ok bool) error {
	if !ok {
		writeStatus(c.w, c.r, http.StatusServiceUnavailable, "UNHEALTHY", h.Reason)
		return nil
	}
	return c.reply(wire.Health{Status: "ok", RaftState: h.RaftState, Leader: h.Leader, Reason: h.Reason})
}

func (c *call) openAPI() error {
	c.w.Header().Set("Content-Type", "application/json")
	if _, err := c.w.Write(c.s.openAPI()); err != nil {
		c.s.log.Debug("document not delivered", "request_id", c.id, "err", err)
	}
	return nil
}

func (c *call) clusterStatus() error {
	if c.s.opts.Cluster == nil {
		writeStatus(c.w, c.r, http.StatusNotImplemented, "UNSUPPORTED", "cluster membership is not available here")
		return nil
	}
	return c.reply(c.s.opts.Cluster())
}

func (c *call) runtime() error {
	// Read through runtime/metrics: runtime.ReadMemStats stops the world.
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/sched/pauses/total/gc:seconds"},
	}
	metrics.Read(samples)
	a := wire.Runtime{
		Goroutines: runtime.NumGoroutine(), GoMaxProcs: runtime.GOMAXPROCS(0),
		HeapInuseBytes:  samples[0].Value.Uint64() + samples[1].Value.Uint64(),
		StackInuseBytes: samples[2].Value.Uint64(),
		GCPauseP99NS:    quantile(samples[3].Value.Float64Histogram(), 0.99).Nanoseconds(),
	}
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err == nil {
		a.CPUUserNS, a.CPUSysNS = use.Utime.Nano(), use.Stime.Nano()
		a.MaxRSSBytes = use.Maxrss << 10 // Linux counts kibibytes.
	}
	if c.s.opts.Connections != nil {
		a.Connections, a.ConnectionsClosed = c.s.opts.Connections.Counts()
	}
	return c.reply(a)
}

// quantile is the upper edge of the bucket that holds q of all samples.
func quantile(h *metrics.Float64Histogram, q float64) time.Duration {
	var total uint64
	for _, n := range h.Counts {
		total += n
	}
	want := uint64(float64(total) * q)
	var seen uint64
	i := slices.IndexFunc(h.Counts, func(n uint64) bool { seen += n; return seen > want })
	if i < 0 {
		return 0
	}
	edge := h.Buckets[i+1]
	if math.IsInf(edge, 1) {
		edge = h.Buckets[i]
	}
	return time.Duration(edge * float64(time.Second))
}
