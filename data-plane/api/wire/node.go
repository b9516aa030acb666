package wire

import (
	"encoding/json"
	"time"
)

// Info is the versions of a server.
type Info struct {
	ServerVersion string `json:"server_version"`
	APIVersion    string `json:"api_version"`
}

// Health is how a process is.
type Health struct {
	Status    string `json:"status"`
	RaftState string `json:"raft_state"`
	Leader    string `json:"leader"`
	Reason    string `json:"reason,omitempty"`
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
	// LogCommits counts the write batches of the log since the start; those that commit together
	// share a sync.
	LogCommits uint64 `json:"log_commits"`
	// LogSyncs counts the syncs of the log's files since the start.
	LogSyncs uint64      `json:"log_syncs"`
	Clock    ClockStatus `json:"clock"`
	// Scrub is the node's last reading of all its files; missing before the first since the start.
	Scrub  *ScrubStatus  `json:"scrub,omitempty"`
	Groups []GroupStatus `json:"groups"`
	Nodes  []NodeStatus  `json:"nodes"`
}

// ScrubStatus is what the last reading of all stored bytes of this node found.
type ScrubStatus struct {
	EndedAt time.Time `json:"ended_at"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
	// DamagedFiles of the log and the state, at most a few: the node should not lead.
	DamagedFiles []string `json:"damaged_files"`
	// RebuiltFiles are read models that were damaged, at most a few. They are made again.
	RebuiltFiles []string `json:"rebuilt_files"`
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

// Runtime is what corvo bench reads before and after a run.
type Runtime struct {
	Goroutines      int    `json:"goroutines"`
	GoMaxProcs      int    `json:"gomaxprocs"`
	HeapInuseBytes  uint64 `json:"heap_inuse_bytes"`
	StackInuseBytes uint64 `json:"stack_inuse_bytes"`
	GCPauseP99NS    int64  `json:"gc_pause_p99_ns"`
	CPUUserNS       int64  `json:"cpu_user_ns"`
	CPUSysNS        int64  `json:"cpu_sys_ns"`
	MaxRSSBytes     int64  `json:"max_rss_bytes"`
	// Connections are open at the API's listener; ConnectionsClosed were idle and closed
	// because there were too many.
	Connections       int    `json:"connections"`
	ConnectionsClosed uint64 `json:"connections_closed"`
}

// AuditPage is a page of the audit log.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Cursor  string       `json:"cursor"`
	HasMore bool         `json:"has_more"`
}

// AuditEntry is one administrative act. Affected and refused count jobs, queues or
// whatever it was about; of audit.cut, the entries that are no longer kept.
type AuditEntry struct {
	At          time.Time       `json:"at"`
	Principal   string          `json:"principal"`
	PrincipalID string          `json:"principal_id,omitempty"` // Whom the key belongs to.
	Peer        string          `json:"peer,omitempty"`
	Action      string          `json:"action"`
	TargetType  string          `json:"target_type"`
	Target      string          `json:"target,omitempty"`
	Detail      json.RawMessage `json:"detail,omitempty"`
	Affected    uint64          `json:"affected"`
	Refused     uint64          `json:"refused"`
	Interrupted bool            `json:"interrupted,omitempty"`
}
