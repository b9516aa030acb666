package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
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
	Seconds   float64  `json:"seconds"`
	PerSecond float64  `json:"jobs_per_second"`
	// Earlier: it was measured beside an earlier row with the same work.
	Earlier  bool     `json:"earlier,omitempty"`
	Valid    bool     `json:"valid"`
	Problems []string `json:"problems,omitempty"`
}

// earlierMark stands behind a figure of an earlier row; the notes below the table say so.
const earlierMark = "*"

func (p *PeerRun) String() string {
	if !p.Valid {
		return fmt.Sprintf("%s INVALID: %s", p.Peer, strings.Join(p.Problems, "; "))
	}
	text := fmt.Sprintf("%s %s", p.Peer, thousands(int64(p.PerSecond)))
	if p.Earlier {
		text += earlierMark
	}
	return text
}

// peerKey is what a peer's run depends on.
type peerKey struct {
	peer      Peer
	workload  Workload
	callers   int
	syncDelay time.Duration
}

// peerMax is how long a peer's run may take, with its start and what is not measured.
const peerMax = 5 * time.Minute

// measurePeers measures those that an aim of the row compares with right after our run: the machine
// is not as fast at one moment as at another. The others' latest runs with the same work do.
func (s *Suite) measurePeers(ctx context.Context, sc scenario) []*PeerRun {
	key := func(p Peer) peerKey { return peerKey{p, sc.options.Workload, sc.callers(), sc.syncDelay} }
	now := make(map[Peer]bool)
	for _, p := range sc.rivals() {
		s.peerRuns[key(p)], now[p] = s.peerRun(ctx, key(p)), true
	}
	var all []*PeerRun
	for _, p := range sc.peers {
		run := s.peerRuns[key(p)]
		if run == nil {
			run = s.peerRun(ctx, key(p))
			s.peerRuns[key(p)], now[p] = run, true
		}
		if !now[p] {
			earlier := *run
			earlier.Earlier, run = true, &earlier
		}
		all = append(all, run)
	}
	return all
}

// peerRun measures a peer. What kept it from being measured is its problem.
func (s *Suite) peerRun(ctx context.Context, k peerKey) *PeerRun {
	if s.Progress != nil {
		s.Progress(string(k.peer), 0, 1)
	}
	most := cmp.Or(s.patience, peerMax)
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it took more than %s", most))
	defer cancel()
	run, err := s.runPeer(ctx, k)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return &PeerRun{Peer: k.peer, Workload: k.workload, Callers: k.callers, Problems: []string{err.Error()}}
	}
	return run
}

func (s *Suite) runPeer(ctx context.Context, k peerKey) (*PeerRun, error) {
	cmd := exec.CommandContext(ctx, s.Peers, "run", "--peer", string(k.peer), "--workload", string(k.workload), "--callers", strconv.Itoa(k.callers),
		"--jobs", strconv.Itoa(int(s.peerLasting().Seconds()*peerPerSecond)), "--at-least", s.peerLasting().String(), "--payload-bytes", strconv.Itoa(payloadBytes), "--sync-delay", k.syncDelay.String())
	if s.Dir != "" {
		cmd.Env = append(os.Environ(), "TMPDIR="+s.Dir)
	}
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
	return run, nil
}

// peerPerSecond is what the slowest do with a millisecond a sync, so that they needn't begin again.
const peerPerSecond = 800

// peerLasting is how long the measured phase of a peer lasts at least. It finds out itself how
// many jobs that takes, because one does fifty times as many as another.
func (s *Suite) peerLasting() time.Duration {
	if s.Quick {
		return time.Second
	}
	return 5 * time.Second
}
