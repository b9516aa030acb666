package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Peer is another durable queue.
type Peer string

const (
	Beanstalkd Peer = "beanstalkd" // Its binary log synced at every write.
	Asynq      Peer = "asynq"      // On Redis that syncs its append-only file before it answers.
	AsynqRaw   Peer = "asynq-raw"  // Asynq's protocol without asynq's client.
	JetStream  Peer = "jetstream"  // A work-queue stream on files, synced always.
	River      Peer = "river"      // On PostgreSQL.
)

// PeerRun is what one peer did with the work of a row.
type PeerRun struct {
	Peer      Peer     `json:"peer"`
	Version   string   `json:"version"`
	Workload  Workload `json:"workload"`
	Callers   int      `json:"callers"`
	Jobs      int      `json:"jobs"`
	SyncMS    float64  `json:"sync_ms"` // As the peer's server met it.
	Syncs     int64    `json:"syncs"`
	PerSecond float64  `json:"jobs_per_second"`
	Valid     bool     `json:"valid"`
	Problems  []string `json:"problems,omitempty"`
}

func (p *PeerRun) String() string {
	if !p.Valid {
		return fmt.Sprintf("%s INVALID: %s", p.Peer, strings.Join(p.Problems, "; "))
	}
	return fmt.Sprintf("%s %s", p.Peer, thousands(int64(p.PerSecond)))
}

// peerKey is what a peer's run depends on: rows that ask for the same share one.
type peerKey struct {
	peer      Peer
	workload  Workload
	callers   int
	syncDelay time.Duration
}

// jobs is a fixed amount of work of some ten seconds for most peers on most machines.
func (k peerKey) jobs() int {
	n := 30_000
	if k.syncDelay > 0 {
		n = 6_000
	}
	if k.workload == Enqueue && (k.peer == Asynq || k.peer == AsynqRaw) {
		n *= 5 // Redis answers many callers after one sync.
	}
	return n
}

// peerRun measures a peer, once for all rows.
func (s *Suite) peerRun(ctx context.Context, k peerKey) (*PeerRun, error) {
	if run, ok := s.peerRuns[k]; ok {
		return run, nil
	}
	if s.Progress != nil {
		s.Progress(string(k.peer), 0, 1)
	}
	cmd := exec.CommandContext(ctx, s.Peers, "run", "--peer", string(k.peer), "--workload", string(k.workload), "--callers", strconv.Itoa(k.callers),
		"--jobs", strconv.Itoa(s.work(k.jobs())), "--payload-bytes", strconv.Itoa(payloadBytes), "--sync-delay", k.syncDelay.String())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // It ends its servers.
	cmd.WaitDelay = stopTimeout
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w: %s", k.peer, err, strings.TrimSpace(said.String()))
	}
	run := &PeerRun{}
	if err := json.Unmarshal(out, run); err != nil {
		return nil, fmt.Errorf("read what %s printed: %w", s.Peers, err)
	}
	s.peerRuns[k] = run
	return run, nil
}
