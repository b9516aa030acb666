package group

import (
	"time"

	"github.com/hashicorp/raft"
)

// The library's follower looks for its leader only when a timer of one to two
// timeouts fires, and starts it anew if the leader was heard of less than a timeout
// ago: noticing takes one to three timeouts. A voter that has not noticed refuses
// its vote, so an election waits for the slowest. contact notices after one timeout
// and a little, and has the library look at once; after a quarter of that where there was
// no leader yet.

// placeSteps divides the timeout: each voter waits this part longer than the one
// before it, so that two do not stand at the same moment and split the votes.
const placeSteps = 5

// staggers divides a tenth of the timeout: groups of one node look at as many different
// moments for a leader that they lost together (R16).
const staggers = 16

// firstPart of the patience is enough after a start: a leader sends heartbeats five to ten times in a
// timeout. It is never less than firstLeast, in which connections are made, and with a timeout longer than
// firstMost it is as with that: who stands for election though others have a leader gets no vote.
const (
	firstPart  = 4
	firstLeast = 100 * time.Millisecond
	firstMost  = 2 * time.Second
)

// secondLook is the pause before a silence is believed. A process that did not run
// for a while has the heartbeats it missed in its sockets, and reads them first.
const secondLook = 20 * time.Millisecond

// contact decides when a silence is the leader's end.
type contact struct {
	timeout  time.Duration
	group    uint32
	began    time.Time
	suspects bool // The silence was seen once.
}

// look says whether raft should look for its leader now, and when to look next.
// last is zero as long as there never was a leader.
func (c *contact) look(following bool, last, now time.Time, place int) (wake bool, next time.Duration) {
	if !following {
		c.suspects = false
		return false, c.timeout
	}
	patience := c.patience(c.timeout, place)
	if last.IsZero() {
		last, patience = c.began, max(c.patience(min(c.timeout, firstMost), place)/firstPart, firstLeast)
	}
	if left := patience - now.Sub(last); left > 0 {
		c.suspects = false
		return false, left
	}
	if !c.suspects {
		c.suspects = true
		return false, secondLook
	}
	c.suspects = false
	return true, c.timeout
}

// patience is how long a silence must last. It is the same stagger for all members of a group,
// so that their order holds.
func (c *contact) patience(timeout time.Duration, place int) time.Duration {
	stagger := time.Duration(c.group%staggers) * timeout / (10 * staggers)
	return timeout + time.Duration(place)*timeout/placeSteps + stagger
}

// watchContact runs until Shutdown.
func (g *Group) watchContact() {
	defer g.wg.Done()
	c := contact{timeout: g.raft.ReloadableConfig().HeartbeatTimeout, group: g.id, began: time.Now()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-g.stop:
			return
		}
		wake, next := c.look(g.raft.State() == raft.Follower, g.raft.LastContact(), time.Now(), g.place())
		if wake {
			g.lookForLeader()
		}
		timer.Reset(next)
	}
}

// place is this node's number among the group's members.
func (g *Group) place() int {
	members := g.raft.GetConfiguration().Configuration().Servers
	for i, s := range members {
		if string(s.ID) == g.nodeID {
			return placeIn(g.id, i, len(members))
		}
	}
	return 0
}

// placeIn lets another member be first in each group: the one that was not lost does not
// stand for all of them.
func placeIn(group uint32, member, members int) int {
	return (member + int(group)%members) % members % placeSteps
}

// lookForLeader makes raft look at once whether its leader is silent. The library
// does that when the timeout becomes shorter; there is no other way to ask.
func (g *Group) lookForLeader() {
	g.reload.Lock()
	defer g.reload.Unlock()
	usual := g.raft.ReloadableConfig()
	shorter := usual
	shorter.HeartbeatTimeout--
	for _, rc := range []raft.ReloadableConfig{shorter, usual} {
		if err := g.raft.ReloadConfig(rc); err != nil {
			g.logger.Warn("look for the leader", "err", err)
		}
	}
}
