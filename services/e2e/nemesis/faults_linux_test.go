package nemesis

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/history"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// fault is one kind of fault of the table in docs/faults.md. make injects it and returns
// what undoes it, or nil if it could not be made now.
type fault struct {
	kind   string
	weight int
	make   func(s *storm) (what string, undo func())
	// slow: undoing it needs a cell that serves.
	slow bool
}

const (
	wholeCell     = "kill of the whole cell"
	failingDisk   = "failing disk"
	failingWrites = "failing writes"
	failingReads  = "failing reads"
)

// faults is read from top to bottom by docs/faults.md.
var faults = []fault{
	{kind: "kill", weight: 3, make: (*storm).kill},
	{kind: "kill while it starts", weight: 2, make: (*storm).killStarting},
	{kind: wholeCell, weight: 1, make: (*storm).blackout},
	{kind: "pause", weight: 3, make: (*storm).pause},
	{kind: "partition", weight: 3, make: (*storm).partition},
	{kind: "one-way partition", weight: 3, make: (*storm).oneWay},
	{kind: "bridge", weight: 1, make: (*storm).bridge},
	{kind: "narrow link", weight: 2, make: (*storm).narrow},
	{kind: "slow link", weight: 2, make: (*storm).slowLink},
	{kind: "lossy link", weight: 2, make: (*storm).lossyLink},
	{kind: "slow disk", weight: 2, make: (*storm).slowDisk},
	{kind: "stalled disk", weight: 2, make: (*storm).stalledDisk},
	{kind: failingDisk, weight: 2, make: (*storm).failingDisk},
	{kind: failingWrites, weight: 2, make: (*storm).failingWrites},
	{kind: failingReads, weight: 2, make: (*storm).failingReads},
	{kind: "full disk", weight: 2, make: (*storm).fullDisk},
	{kind: "leader transfers", weight: 2, make: (*storm).transfers},
	{kind: "node replaced", weight: 2, make: (*storm).replace, slow: true},
	{kind: "other build", weight: 2, make: (*storm).otherBuild},
}

func (s *storm) draw() fault {
	only, err := regexp.Compile(*stormOnly)
	if err != nil {
		s.t.Fatal(err)
	}
	drawn := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !only.MatchString(f.kind) })
	total := 0
	for _, f := range drawn {
		total += f.weight
	}
	if total == 0 {
		s.t.Fatalf("no kind of fault matches %q", *stormOnly)
	}
	n := s.rng.IntN(total)
	for _, f := range drawn {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("weights")
}

// victim is a node that no fault of this round is about yet.
func (s *storm) victim() *rig.CellNode {
	free := slices.DeleteFunc(slices.Clone(s.cell.Nodes), func(n *rig.CellNode) bool { return s.busy[n.ID] || n.Exited() })
	if len(free) == 0 {
		return nil
	}
	n := free[s.rng.IntN(len(free))]
	s.busy[n.ID] = true
	return n
}

func (s *storm) kill() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	n.Kill()
	return n.ID, n.Start
}

// killStarting kills a node, and again in the middle of its recovery.
func (s *storm) killStarting() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	n.Kill()
	n.Start()
	after := s.between(0, 500*time.Millisecond)
	time.Sleep(after) // The moment is the fault.
	n.Kill()
	return fmt.Sprintf("%s, %s after its start", n.ID, after.Round(time.Millisecond)), n.Start
}

func (s *storm) blackout() (string, func()) {
	if len(s.busy) > 0 {
		return "", nil
	}
	all := slices.Clone(s.cell.Nodes)
	for _, n := range all {
		s.busy[n.ID] = true
		n.Signal(syscall.SIGKILL)
	}
	return "all nodes", func() {
		for _, n := range all {
			n.Kill()
			n.Start()
		}
	}
}

func (s *storm) pause() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	s.excused[n.ID] = n.Binary != "" // The older build takes a long pause for a dead disk.
	n.Signal(syscall.SIGSTOP)
	return n.ID, func() { n.Signal(syscall.SIGCONT) }
}

// others are the hosts that a node speaks with; this process, with the proxy, is the last.
func (s *storm) others(n *rig.CellNode) (names []string, hosts []*rig.Host) {
	for _, o := range s.cell.Nodes {
		if o != n {
			names, hosts = append(names, o.ID), append(hosts, s.at(o).host)
		}
	}
	return append(names, "proxy"), append(hosts, s.network.Home)
}

func (s *storm) partition() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	names, hosts := s.others(n)
	if s.rng.IntN(2) == 0 { // The proxy still reaches it.
		names, hosts = names[:len(names)-1], hosts[:len(hosts)-1]
	}
	own := s.at(n).host
	var mend []func()
	for _, h := range hosts {
		mend = append(mend, s.network.Cut(own, h), s.network.Cut(h, own))
	}
	return n.ID + " from " + strings.Join(names, ", "), all(mend)
}

func (s *storm) oneWay() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	names, hosts := s.others(n)
	from := s.rng.IntN(len(hosts))
	names, hosts = names[from:], hosts[from:]
	own, heard := s.at(n).host, s.rng.IntN(2) == 0
	var mend []func()
	for _, h := range hosts {
		if heard {
			mend = append(mend, s.network.Cut(h, own))
		} else {
			mend = append(mend, s.network.Cut(own, h))
		}
	}
	if heard {
		return n.ID + " does not hear " + strings.Join(names, ", "), all(mend)
	}
	return n.ID + " is not heard by " + strings.Join(names, ", "), all(mend)
}

// bridge: two that do not hear each other, and others that hear both.
func (s *storm) bridge() (string, func()) {
	a, b := s.victim(), s.victim()
	if a == nil || b == nil {
		return "", nil
	}
	x, y := s.at(a).host, s.at(b).host
	return a.ID + " and " + b.ID, all([]func(){s.network.Cut(x, y), s.network.Cut(y, x)})
}

func all(undo []func()) func() {
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

// narrow leaves less than the load needs, or little more.
func (s *storm) narrow() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	kilobits := 200 + s.rng.IntN(3000)
	return fmt.Sprintf("%d kbit/s to %s", kilobits, n.ID), s.at(n).host.Narrow(kilobits)
}

// slowLink delays every packet of a node, to and from, so that packets overtake each other.
func (s *storm) slowLink() (string, func()) {
	most := s.between(5*time.Millisecond, 200*time.Millisecond)
	return s.impaired(rig.Impairment{Delay: most}, "up to "+most.Round(time.Millisecond).String())
}

// lossyLink loses packets of a node, and doubles others.
func (s *storm) lossyLink() (string, func()) {
	loss := 0.01 + 0.2*s.rng.Float64()
	return s.impaired(rig.Impairment{Delay: 2 * time.Millisecond, Loss: loss, Twice: loss / 2}, fmt.Sprintf("%.0f %% lost", 100*loss))
}

func (s *storm) impaired(by rig.Impairment, how string) (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	_, hosts := s.others(n)
	own := s.at(n).host
	var mend []func()
	for _, h := range hosts {
		mend = append(mend, s.network.Impair(own, h, by), s.network.Impair(h, own, by))
	}
	return n.ID + ", " + how, all(mend)
}

// slowDisk: syncs take longer, or all calls.
func (s *storm) slowDisk() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	if s.rng.IntN(2) == 0 {
		most := s.between(time.Millisecond, 50*time.Millisecond)
		return fmt.Sprintf("%s, each call up to %s", n.ID, most.Round(time.Millisecond)), s.at(n).disk.Slow(rig.Syncs|rig.Reads|rig.Writes, most)
	}
	most := s.between(5*time.Millisecond, 500*time.Millisecond)
	return fmt.Sprintf("%s, each sync up to %s", n.ID, most.Round(time.Millisecond)), s.at(n).disk.Slow(rig.Syncs, most)
}

// stalledDisk: after ten seconds the node has to end itself (R4).
func (s *storm) stalledDisk() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	s.excused[n.ID] = true
	return n.ID, s.at(n).disk.Stall(rig.Syncs)
}

// failingDisk: a node whose sync has failed must end itself (R6).
func (s *storm) failingDisk() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	s.excused[n.ID] = true
	disk := s.at(n).disk
	mend := disk.Fail(rig.Syncs, 1)
	return n.ID, func() {
		if disk.Failed() > 0 {
			eventually.True(s.t, failLimit, n.ID+" ends itself", n.Exited)
		} else {
			s.without(failingDisk)
		}
		mend()
	}
}

func (s *storm) failingWrites() (string, func()) { return s.failing(failingWrites, rig.Writes) }

func (s *storm) failingReads() (string, func()) { return s.failing(failingReads, rig.Reads) }

// without takes back that a fault was counted: no call has met it.
func (s *storm) without(kind string) {
	s.t.Logf("%s: no call has failed, so it does not count", kind)
	s.result.Faults[kind]--
}

// failing lets a share of the calls fail, while the node runs or from its start on. It may end
// itself, or tell those who asked, but not take what it can't read for what isn't there.
func (s *storm) failing(kind string, calls rig.Calls) (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	s.excused[n.ID] = true
	share := []float64{0.01, 0.1, 1}[s.rng.IntN(3)]
	what := fmt.Sprintf("%s, %.0f %%", n.ID, 100*share)
	starts := s.rng.IntN(2) == 0
	if starts {
		what += ", from its start on"
		n.Kill()
	}
	disk := s.at(n).disk
	mend := disk.Fail(calls, share)
	if starts {
		n.Start()
	}
	return what, func() {
		mend()
		s.t.Logf("%d calls have failed", disk.Failed())
		if disk.Failed() == 0 {
			s.without(kind)
		}
	}
}

func (s *storm) fullDisk() (string, func()) {
	n := s.victim()
	if n == nil {
		return "", nil
	}
	percent := []float64{92, 98, 100}[s.rng.IntN(3)]
	s.excused[n.ID] = percent == 100
	volume := s.at(n).volume
	volume.Fill(s.t, percent)
	return fmt.Sprintf("%s, %.0f %%", n.ID, percent), func() { volume.Free(s.t) }
}

// transfers are of groups that are led, to nodes that do not lead them. One that is refused is none.
func (s *storm) transfers() (string, func()) {
	count, accepted := 1+s.rng.IntN(6), 0
	for range count {
		if s.transfer(s.rng.IntN(1<<16), s.rng.IntN(1<<16)) {
			accepted++
		}
		s.watch(s.between(50*time.Millisecond, 500*time.Millisecond))
	}
	if accepted == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of %d were accepted", accepted, count), func() {}
}

func (s *storm) transfer(group, to int) (accepted bool) {
	id, target, ok := history.ToTransfer(s.cell.Each(s.t.Context()), s.ids(), group, to)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
	defer cancel()
	return s.cell.Admin.Transfer(ctx, id, target) == nil // Refused if that one is not up to date.
}

// replace adds a node under load, and when it votes removes another for good.
func (s *storm) replace() (string, func()) {
	through, old := s.victim(), s.victim()
	if through == nil || old == nil {
		return "", nil
	}
	delete(s.busy, through.ID)
	added := s.cell.StartJoin(through)
	s.busy[added.ID] = true
	return added.ID + " for " + old.ID, func() {
		eventually.NoError(s.t, recoverLimit, added.ID+" votes", func() error { return history.Votes(s.cell.Each(s.t.Context()), added.ID) })
		eventually.NoError(s.t, recoverLimit, old.ID+" is removed", func() error {
			ctx, cancel := context.WithTimeout(s.t.Context(), recoverLimit)
			defer cancel()
			return s.cell.Admin.RemoveNode(ctx, old.ID)
		})
		s.cell.Forget(old)
	}
}

// otherBuild ends a node as an operator does, and starts the other program in its folder.
func (s *storm) otherBuild() (string, func()) {
	if s.older == "" {
		return "", nil
	}
	n := s.victim()
	if n == nil {
		return "", nil
	}
	n.Signal(syscall.SIGTERM)
	word := "older"
	if n.Binary == "" {
		n.Binary = s.older
	} else {
		n.Binary, word = "", "newer"
	}
	return fmt.Sprintf("%s, the %s one", n.ID, word), func() {
		if code := n.WaitExit(recoverLimit); code != 0 {
			s.t.Errorf("%s ended with code %d:\n%s", n.ID, code, n.Stderr())
		}
		n.Start()
	}
}
