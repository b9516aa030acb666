package cell

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

const (
	// compareEvery is how often a node compares the digests of its replicas with those of
	// the other members, where something changed.
	compareEvery = time.Second
	// comparePause is the least time between two comparisons, however often they are asked for.
	comparePause = 100 * time.Millisecond
	// compareWait bounds the question to one member; it is asked again.
	compareWait = time.Second
)

// Quarantine is where a node keeps its replicas that must not take part.
type Quarantine interface {
	// Quarantine durably leaves this node's replica of a group out and stops it.
	Quarantine(group uint32, why string) error
	// Dispute durably keeps the replica from serving; "" ends that.
	Dispute(group uint32, why string) error
	// Differs tells the operator that members differ from the majority. Nil: none do.
	Differs(group uint32, nodes []string)
	// Digests are those that a replica had when it was left out.
	Digests(group uint32, indexes []uint64) []group.Mark
	// Quarantined is the status of each replica that is left out.
	Quarantined() []*cellv1.GroupStatus
	// Leads tells which node leads a group that is left out, "" if none was found.
	Leads(group uint32, node string)
}

// Finding is what a comparison of digests says of a replica.
type Finding int

// Findings. Same is also that of a replica of which nobody reports anything.
const (
	Same     Finding = iota // No member reports another digest.
	Right                   // Members differ, and the majority has this replica's digest.
	Wrong                   // The majority has another digest.
	Disputed                // Members differ, and no digest has a majority.
)

// report is a digest that each member has at one index.
type report struct {
	index   uint64
	own     uint64
	digests map[string]uint64 // Of the other members that know it.
}

// judged is the outcome of a comparison.
type judged struct {
	finding Finding
	index   uint64   // Where members differ.
	differs []string // Right: members with another digest. Disputed: those that differ from this one.
	agreed  uint64   // Newest index at which the majority has this replica's digest.
}

// judge compares what the members report for the same indexes, newest first. Only
// voters count, and only a majority of all of them decides.
func judge(self string, voters []string, reports []report) judged {
	out := judged{}
	for _, r := range reports {
		with, differs, counts := 0, []string(nil), map[uint64]int{}
		for _, v := range voters {
			digest, known := r.digests[v]
			if v == self {
				digest, known = r.own, true
			}
			if !known {
				continue
			}
			counts[digest]++
			if digest == r.own {
				with++
			}
		}
		for id, d := range r.digests {
			if d != r.own {
				differs = append(differs, id)
			}
		}
		slices.Sort(differs)
		majority := len(voters)/2 + 1
		if with >= majority {
			out.agreed = max(out.agreed, r.index)
		}
		finding := Same
		switch {
		case len(differs) == 0:
		case with >= majority:
			finding = Right
		case anyReaches(counts, majority):
			finding = Wrong
		default:
			finding = Disputed
		}
		if rank(finding) > rank(out.finding) {
			out.finding, out.index, out.differs = finding, r.index, differs
		}
	}
	// What differed once and was repaired since is settled.
	if out.finding == Disputed && out.agreed >= out.index {
		out.finding = Right
	}
	return out
}

// rank orders findings: a decision counts more than a dispute.
func rank(f Finding) int { return [...]int{Same: 0, Right: 1, Disputed: 2, Wrong: 3}[f] }

func anyReaches(counts map[uint64]int, majority int) bool {
	for _, n := range counts {
		if n >= majority {
			return true
		}
	}
	return false
}

// Suspect has the digests of all groups compared at once. It never blocks.
func (m *Membership) Suspect() {
	m.settledMu.Lock()
	clear(m.settled)
	m.settledMu.Unlock()
	m.compareSoon()
}

func (m *Membership) compareSoon() {
	select {
	case m.suspects <- struct{}{}:
	default: // One comparison looks at all.
	}
}

// unsettle compares a group again whose members were found equal, because one of them
// says now that it isn't.
func (m *Membership) unsettle(id uint32) {
	m.settledMu.Lock()
	_, settled := m.settled[id]
	delete(m.settled, id)
	m.settledMu.Unlock()
	if settled { // Otherwise it is compared anyway.
		m.compareSoon()
	}
}

// CompareDigests compares this node's replicas with those of the other members, until
// ctx ends, and leaves out what the majority finds wrong (R21).
func (m *Membership) CompareDigests(ctx context.Context, q Quarantine) {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.suspects:
		case <-ctx.Done():
			return
		}
		m.compareAll(ctx, q)
		if pause(ctx, comparePause) != nil {
			return
		}
	}
}

// compareAll looks at all groups at once: a member that does not answer delays each.
func (m *Membership) compareAll(ctx context.Context, q Quarantine) {
	var groups sync.WaitGroup
	for _, id := range m.local() {
		groups.Go(func() { m.compare(ctx, id, q) })
	}
	for _, out := range q.Quarantined() {
		groups.Go(func() { q.Leads(out.GetGroup(), m.leaderOf(ctx, out.GetGroup())) })
	}
	groups.Wait()
}

func (m *Membership) settledAt(id uint32) group.Mark {
	m.settledMu.Lock()
	defer m.settledMu.Unlock()
	return m.settled[id]
}

func (m *Membership) settle(id uint32, at group.Mark) {
	m.settledMu.Lock()
	defer m.settledMu.Unlock()
	m.settled[id] = at
}

// compare looks at one group, unless nothing changed since all its members agreed.
func (m *Membership) compare(ctx context.Context, id uint32, q Quarantine) {
	g := m.group(id)
	if g == nil {
		return
	}
	own := g.Marks()
	if own[0].Index == 0 || m.settledAt(id) == own[0] {
		return
	}
	st := g.Status()
	if len(st.Voters) < 2 || st.Role == "stopped" {
		return
	}
	reports, all := m.reports(ctx, id, own, append(slices.Clone(st.Voters), st.Learners...))
	found := judge(m.cell.NodeID(), st.Voters, reports)
	var err error
	switch found.finding {
	case Wrong:
		err = q.Quarantine(id, fmt.Sprintf("its state at index %d differs from that of most voters", found.index))
	case Disputed:
		err = q.Dispute(id, fmt.Sprintf("its state at index %d differs from that of %s, and no majority of the voters %s has the same", found.index, names(found.differs), names(st.Voters)))
	case Right:
		q.Differs(id, found.differs)
		err = m.undispute(g, q, found)
	case Same:
		q.Differs(id, nil)
		err = m.undispute(g, q, found)
		if all && err == nil {
			m.settle(id, own[0])
		}
	}
	if err != nil {
		m.logger.Error("compare digests", "group", id, "err", err)
	}
}

// undispute ends a dispute once the majority has this replica's digest where it stands.
func (m *Membership) undispute(g *group.Group, q Quarantine, found judged) error {
	if g.Disputed() == "" || found.agreed == 0 || found.agreed < found.index {
		return nil
	}
	return q.Dispute(g.ID(), "")
}

func names(ids []string) string {
	out := ""
	for i, id := range ids {
		if i > 0 {
			out += ", "
		}
		out += id
	}
	return out
}

// reports asks every member for its digests at own's indexes. all says whether each
// knew where this replica stands.
func (m *Membership) reports(ctx context.Context, id uint32, own []group.Mark, members []string) (out []report, all bool) {
	req := &cellv1.CompareDigestsRequest{Group: id}
	at := make(map[uint64]int)
	for _, o := range own {
		if _, twice := at[o.Index]; !twice {
			at[o.Index] = len(out)
			out = append(out, report{index: o.Index, own: o.Digest, digests: make(map[string]uint64)})
			req.Digests = append(req.Digests, &cellv1.DigestAt{Index: o.Index, Digest: o.Digest})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, compareWait)
	defer cancel()
	var mu sync.Mutex // Guards out's maps.
	var asked sync.WaitGroup
	for _, member := range members {
		client, ok := m.peers.node(member)
		if member == m.cell.NodeID() || !ok {
			continue
		}
		asked.Go(func() {
			res, err := client.CompareDigests(ctx, connect.NewRequest(req))
			if err != nil {
				m.logger.Debug("a member doesn't report its digests", "group", id, "node", member, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, d := range res.Msg.GetDigests() {
				if i, wanted := at[d.GetIndex()]; wanted {
					out[i].digests[member] = d.GetDigest()
				}
			}
		})
	}
	asked.Wait()
	return out, len(out[0].digests) == len(members)-1
}

// digestsFor answers another node's comparison. Where this node's replica differs, it
// compares too: it may have found all members equal before.
func (m *Membership) digestsFor(id uint32, theirs []*cellv1.DigestAt) []*cellv1.DigestAt {
	said := make(map[uint64]uint64, len(theirs))
	indexes := make([]uint64, 0, len(theirs))
	for _, d := range theirs {
		said[d.GetIndex()] = d.GetDigest()
		indexes = append(indexes, d.GetIndex())
	}
	var known []group.Mark
	if g := m.group(id); g != nil {
		known = g.DigestsAt(indexes)
	} else if m.quarantine != nil {
		known = m.quarantine.Digests(id, indexes)
	}
	out := make([]*cellv1.DigestAt, 0, len(known))
	for _, k := range known {
		if said[k.Index] != k.Digest {
			m.unsettle(id)
		}
		out = append(out, &cellv1.DigestAt{Index: k.Index, Digest: k.Digest})
	}
	return out
}
