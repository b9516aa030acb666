package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

const (
	// votersEvery is how often a node that leads shards asks the others how full their
	// disks are.
	votersEvery = 2 * time.Second
	// ampleFor is how long voters with ample room are not asked again: filling that takes
	// longer. It ends between two looks.
	ampleFor = 9 * time.Second
	// retryFullEvery is how often a node finds out whether a disk that refused a write has room
	// again. Each time may cost two changes of leadership.
	retryFullEvery = 5 * time.Second
)

// room is how full the disks are that this node's work depends on.
type room struct {
	mu     sync.Mutex // Guards the rest.
	spaces []*disk.Space
	disks  map[string]diskRoom
	// refused: a write found no space, and nothing has shown since that there is some.
	refused bool
	voters  map[uint32]shortage // Of the shards that this node led when it asked.
	asked   map[uint32][]string // Who those voters were.
	// ampleUntil is the zero time unless all of them had ample room.
	ampleUntil time.Time
}

type diskRoom struct {
	level disk.SpaceLevel
	used  float64
}

// shortage is what the voters of a shard have no room for: each names the nodes whose
// disks are the reason, and is empty while there is room.
type shortage struct{ jobs, leases []string }

// watchDisks begins to watch the disk of the data and, if it is elsewhere, that of the
// log.
func (n *Node) watchDisks() error {
	dirs := []string{n.cfg.Dir}
	if n.cfg.LogDir != "" {
		dirs = append(dirs, n.cfg.LogDir)
	}
	for _, dir := range dirs {
		s, err := disk.NewSpace(n.cfg.FS, dir, disk.SpaceOptions{Logger: n.logger, OnChange: func(level disk.SpaceLevel, used float64) { n.onSpace(dir, level, used) }})
		if err != nil {
			return err
		}
		n.room.mu.Lock()
		n.room.spaces = append(n.room.spaces, s)
		n.room.mu.Unlock()
	}
	return nil
}

// onSpace: at 90 % no new jobs, at 97 % no leases either, before the log fills the
// disk. At both levels, nodes with room lead instead. The fullest disk counts.
func (n *Node) onSpace(dir string, level disk.SpaceLevel, used float64) {
	n.room.mu.Lock()
	defer n.room.mu.Unlock()
	if n.room.disks == nil {
		n.room.disks = make(map[string]diskRoom)
	}
	n.room.disks[dir] = diskRoom{level, used}
	n.judgeRoom()
}

// onFull: a write found no space, whatever the volume says.
func (n *Node) onFull() {
	n.room.mu.Lock()
	defer n.room.mu.Unlock()
	n.room.refused = true
	n.fitness.Set(health.DiskFull, "a write found no space")
}

// retryFull ends what onFull began where no level changes: the disk had space again before it
// was measured, or lacks something that isn't measured.
func (n *Node) retryFull() {
	tick := time.NewTicker(retryFullEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.retryFullOnce()
		case <-n.loopCtx.Done():
			return
		}
	}
}

func (n *Node) retryFullOnce() {
	n.room.mu.Lock()
	defer n.room.mu.Unlock()
	if n.room.refused {
		n.judgeRoom()
	}
}

// judgeRoom sets the reasons that follow from the fullest disk. The caller holds room.mu.
func (n *Node) judgeRoom() {
	worst, where := diskRoom{}, n.cfg.Dir
	for d, r := range n.room.disks {
		if r.level > worst.level || r.level == worst.level && r.used > worst.used {
			worst, where = r, d
		}
	}
	detail := fmt.Sprintf("%.0f %% of the disk under %s used", worst.used, where)
	switch worst.level {
	case disk.SpaceOK:
		// A disk that refused a write is full until it takes the ballast.
		n.room.refused = !n.layAgain() && n.room.refused
	case disk.SpaceTight:
		n.room.refused = false // The ballast would make it full.
	}
	if n.room.refused && worst.level < disk.SpaceExhaust {
		detail = "a write found no space"
	}
	n.setIf(worst.level >= disk.SpaceExhaust || n.room.refused, health.DiskFull, detail)
	n.setIf(worst.level == disk.SpaceTight, health.DiskTight, detail)
}

// layAgain lays the ballasts that are missing, and reports whether none is.
func (n *Node) layAgain() bool {
	all := true
	for _, b := range []*disk.Ballast{n.ballast, n.logBallast} {
		if b == nil {
			continue
		}
		if err := b.Lay(); err != nil {
			n.logger.Error("reserve room on the disk", "err", err)
		}
		all = all && b.Laid()
	}
	return all
}

// watchVoters asks the other nodes how full they are while this one leads: a quorum
// that depends on a full disk is lost with the next write to it.
func (n *Node) watchVoters() {
	tick := time.NewTicker(votersEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-n.loopCtx.Done():
			return
		}
		n.askVoters(n.loopCtx)
		n.holdOff()
	}
}

// askVoters asks unless the same voters had ample room a short time ago.
func (n *Node) askVoters(ctx context.Context) {
	led := n.ledShards()
	if n.room.enough(led, time.Now()) {
		return
	}
	var nodes []*cellv1.NodeStatus
	if len(led) > 0 {
		nodes = n.members.Nodes(ctx)
	}
	found, ample := make(map[uint32]shortage), true
	for id, voters := range led {
		found[id] = shortageOf(voters, nodes)
		ample = ample && allAmple(voters, nodes)
	}
	before := n.room.learn(led, found, ample, time.Now())
	for id, s := range found {
		if was := before[id]; !slices.Equal(was.jobs, s.jobs) || !slices.Equal(was.leases, s.leases) {
			n.logger.Warn("room on the disks of a shard's voters", "shard", id, "new_jobs_refused_for", strings.Join(s.jobs, ","), "no_leases_for", strings.Join(s.leases, ","))
		}
	}
}

// enough reports whether what is known of exactly these voters of exactly these shards need not
// be asked again.
func (r *room) enough(led map[uint32][]string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.ampleUntil) && maps.EqualFunc(led, r.asked, slices.Equal)
}

// learn replaces what is known of the voters, and returns what was known before.
func (r *room) learn(asked map[uint32][]string, found map[uint32]shortage, ample bool, now time.Time) (before map[uint32]shortage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.asked, r.voters, r.ampleUntil = r.voters, asked, found, time.Time{}
	if ample {
		r.ampleUntil = now.Add(ampleFor)
	}
	return before
}

// ledShards are the voters of the shards that this node leads.
func (n *Node) ledShards() map[uint32][]string {
	led := make(map[uint32][]string)
	for _, id := range n.openShardIDs() {
		if g := n.groups.Group(id); g != nil && g.Leading() {
			led[id] = g.Status().Voters
		}
	}
	return led
}

// ampleDisks reports whether this node's disks are far from full.
func (n *Node) ampleDisks() bool {
	watched := n.room.watched()
	return len(watched) > 0 && !slices.ContainsFunc(watched, func(s *disk.Space) bool { return !s.Ample() })
}

func (r *room) watched() []*disk.Space {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spaces
}

// allAmple reports whether each of the voters said that its disks are far from full.
func allAmple(voters []string, nodes []*cellv1.NodeStatus) bool {
	return !slices.ContainsFunc(voters, func(id string) bool {
		return !slices.ContainsFunc(nodes, func(n *cellv1.NodeStatus) bool {
			return n.GetNode().GetId() == id && n.GetReachable() && n.GetAmpleDisks()
		})
	})
}

// shortageOf finds out whether the voters that answer and have room are a quorum. If
// they are not, the full ones are the reason; voters that do not answer alone are none.
func shortageOf(voters []string, nodes []*cellv1.NodeStatus) shortage {
	var s shortage
	var tight, full []string
	answer := 0
	for _, n := range nodes {
		id := n.GetNode().GetId()
		if !slices.Contains(voters, id) || !n.GetReachable() {
			continue
		}
		answer++
		switch causes := n.GetCauses(); {
		case hasCause(causes, health.DiskFull):
			full, tight = append(full, id), append(tight, id)
		case hasCause(causes, health.DiskTight):
			tight = append(tight, id)
		}
	}
	quorum := len(voters)/2 + 1
	if answer-len(tight) < quorum {
		s.jobs = tight
	}
	if answer-len(full) < quorum {
		s.leases = full
	}
	return s
}

func hasCause(causes []*cellv1.HealthCause, r health.Reason) bool {
	return slices.ContainsFunc(causes, func(c *cellv1.HealthCause) bool { return c.GetReason() == string(r) })
}

// shortage is what the voters of a shard have no room for.
func (n *Node) shortage(id uint32) shortage {
	n.room.mu.Lock()
	defer n.room.mu.Unlock()
	s := n.room.voters[id]
	if n.fitness.Has(health.DiskTight) || n.fitness.Has(health.DiskFull) {
		s.jobs = []string{n.cfg.ID}
	}
	return s
}

// holdOff stops granting leases that the node may not be able to keep, and taking
// jobs that there is hardly room for, here or on a quorum of the voters.
func (n *Node) holdOff() {
	level := n.fitness.Level()
	for _, id := range n.openShardIDs() {
		s := n.groups.shard(id)
		if s == nil {
			continue
		}
		short := n.shortage(id)
		s.HoldOff(level >= health.Critical || len(short.leases) > 0)
		s.RefuseJobs(short.jobs)
	}
}

func (n *Node) openShardIDs() []uint32 {
	return slices.DeleteFunc(n.groups.IDs(), func(id uint32) bool { return n.groups.shard(id) == nil })
}

// logDir is where the raft log is.
func (n *Node) logDir() string { return filepath.Join(n.logHome(), "raftlog") }

// logHome is the folder on the log's disk.
func (n *Node) logHome() string {
	if n.cfg.LogDir != "" {
		return n.cfg.LogDir
	}
	return n.cfg.Dir
}

// logDirFile is in the folder of a node whose log is elsewhere, and says where.
const logDirFile = "log-dir"

// logDirOf is where the log of a folder is, "" if it is in the folder.
func logDirOf(fsys vfs.FS, dir string) string {
	f, err := fsys.Open(fsys.PathJoin(dir, logDirFile))
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// checkLogDir refuses to look for the log where it is not, and notes where it is.
func (n *Node) checkLogDir() error {
	known := logDirOf(n.cfg.FS, n.cfg.Dir)
	switch {
	case known == n.cfg.LogDir:
		return nil
	case n.cfg.LogDir == "":
		return fmt.Errorf("%w: its raft log is in %s: start it with --log-dir %s", ErrFolder, known, known)
	}
	if _, err := n.cfg.FS.Stat(n.logDir()); err != nil {
		for _, dir := range []string{n.cfg.Dir, known} {
			if elsewhere := n.cfg.FS.PathJoin(dir, "raftlog"); dir != "" && exists(n.cfg.FS, elsewhere) {
				return fmt.Errorf("%w: its raft log is %s: move it to %s first", ErrFolder, elsewhere, n.logDir())
			}
		}
	}
	return disk.WriteFile(n.cfg.FS, n.cfg.FS.PathJoin(n.cfg.Dir, logDirFile), []byte(n.cfg.LogDir+"\n"))
}

func exists(fsys vfs.FS, path string) bool {
	_, err := fsys.Stat(path)
	return err == nil
}

// layBallasts reserves room on both disks.
func (n *Node) layBallasts() (err error) {
	lay := func(dir string) (*disk.Ballast, error) {
		return disk.NewBallast(n.cfg.FS, n.cfg.FS.PathJoin(dir, "ballast"), ballastBytes, n.logger, n.onFull)
	}
	if n.ballast, err = lay(n.cfg.Dir); err != nil || n.cfg.LogDir == "" {
		return err
	}
	n.logBallast, err = lay(n.cfg.LogDir)
	return err
}

// logFS is the file system under the log.
func (n *Node) logFS() *disk.Ballast {
	if n.logBallast != nil {
		return n.logBallast
	}
	return n.ballast
}
