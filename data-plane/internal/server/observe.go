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

// ClusterStatus is the groups and nodes as this process sees them.
type ClusterStatus struct {
	Mode   string `json:"mode"`
	NodeID string `json:"node_id"`
	Shards int    `json:"shards"`
	// RaftNoSync: the log is not synced (relaxed).
	RaftNoSync bool `json:"raft_nosync"`
	// SyncDelayMS is added to every sync of the log, for measurements.
	SyncDelayMS float64 `json:"sync_delay_ms"`
	// LogCommits counts the write batches of the log; each is one sync unless RaftNoSync.
	LogCommits uint64        `json:"log_commits"`
	Clock      ClockStatus   `json:"clock"`
	Groups     []GroupStatus `json:"groups"`
	Nodes      []NodeStatus  `json:"nodes"`
}

// ClockStatus compares the node's clock with those of the other nodes.
type ClockStatus struct {
	// State is agreed, off (the node does not lead), unknown, or alone.
	State string `json:"state"`
	// AheadMS is how far the clock is ahead of those of most nodes.
	AheadMS int64  `json:"ahead_ms"`
	Detail  string `json:"detail,omitempty"`
}

// GroupStatus is one raft group on this node.
type GroupStatus struct {
	ID           uint32 `json:"id"`
	State        string `json:"state"`
	LeaderID     string `json:"leader_id"`
	LeaderAddr   string `json:"leader_addr"`
	Term         uint64 `json:"term"`
	AppliedIndex uint64 `json:"applied_index"`
	CommitIndex  uint64 `json:"commit_index"`
	LastIndex    uint64 `json:"last_index"`
	// ReadModelLagMS is for how long lists have missed something: the age of the oldest change
	// that they do not show, or of a rebuild. Only the leader of a shard knows.
	ReadModelLagMS *int64 `json:"read_model_lag_ms,omitempty"`
}

// NodeStatus is one member.
type NodeStatus struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	Self    bool   `json:"self,omitempty"`
}

type infoAnswer struct {
	ServerVersion string `json:"server_version"`
	APIVersion    string `json:"api_version"`
}

func (c *call) info() error {
	return c.reply(infoAnswer{ServerVersion: c.s.opts.Version, APIVersion: APIVersion})
}

type healthAnswer struct {
	Status    string `json:"status"`
	RaftState string `json:"raft_state"`
	Leader    string `json:"leader"`
	Reason    string `json:"reason,omitempty"`
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
	h := c.s.health(c.r.Context())
	if c.s.isDraining() {
		h.Ready, h.Reason = false, "shutting down"
	}
	return c.replyHealth(h, h.Working && h.Ready)
}

func (c *call) replyHealth(h Health, ok bool) error {
	if !ok {
		writeStatus(c.w, c.r, http.StatusServiceUnavailable, "UNHEALTHY", h.Reason)
		return nil
	}
	return c.reply(healthAnswer{Status: "ok", RaftState: h.RaftState, Leader: h.Leader, Reason: h.Reason})
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

// runtimeAnswer is what corvo bench reads before and after a run.
type runtimeAnswer struct {
	Goroutines      int    `json:"goroutines"`
	GoMaxProcs      int    `json:"gomaxprocs"`
	HeapInuseBytes  uint64 `json:"heap_inuse_bytes"`
	StackInuseBytes uint64 `json:"stack_inuse_bytes"`
	GCPauseP99NS    int64  `json:"gc_pause_p99_ns"`
	CPUUserNS       int64  `json:"cpu_user_ns"`
	CPUSysNS        int64  `json:"cpu_sys_ns"`
	MaxRSSBytes     int64  `json:"max_rss_bytes"`
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
	a := runtimeAnswer{
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
