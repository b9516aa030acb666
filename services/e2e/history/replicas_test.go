package history

import (
	"maps"
	"strings"
	"testing"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// said is what a node says of group 1.
func said(id, role string, change func(*cellv1.GroupStatus)) *cellv1.NodeStatus {
	g := &cellv1.GroupStatus{Group: 1, Role: role, Term: 5, AppliedIndex: 100, DigestIndex: 100, Digest: 7, Voters: []string{"n1", "n2"}}
	if change != nil {
		change(g)
	}
	return &cellv1.NodeStatus{Node: &cellv1.Node{Id: id}, Reachable: true, Groups: []*cellv1.GroupStatus{g}}
}

func TestReplicas_EveryBreachIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, breach string
		hear         func(hear func(s *cellv1.NodeStatus, process string, damaged bool))
	}{
		{"nothing wrong", "", func(func(*cellv1.NodeStatus, string, bool)) {}},
		{"two leaders in one term", "INV-17: n1 and n2 led group 1 in term 5", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "leader", nil), "", false)
		}},
		{"two leaders, one of them damaged", "INV-17: n1 and n2 led", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "leader", nil), "", true)
		}},
		{"a leader of a later term", "", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "leader", func(g *cellv1.GroupStatus) { g.Term = 6 }), "", false)
		}},
		{"a leader of another group", "", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "leader", func(g *cellv1.GroupStatus) { g.Group = 2 }), "", false)
		}},
		{"another digest", "INV-16: group 1 at index 100: n1 has the digest 7, n2 8", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "follower", func(g *cellv1.GroupStatus) { g.Digest = 8 }), "", false)
		}},
		{"another digest of the same node", "INV-16: group 1 at index 100: n1 had the digest 7, and then 8", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n1", "leader", func(g *cellv1.GroupStatus) { g.Digest = 8 }), "", false)
		}},
		{"another digest at another index", "", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "follower", func(g *cellv1.GroupStatus) { g.DigestIndex, g.Digest = 101, 8 }), "", false)
		}},
		{"an index that goes back", "INV-17: the applied index of group 1 in first went from 100 to 99", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n1", "leader", func(g *cellv1.GroupStatus) { g.AppliedIndex = 99 }), "first", false)
		}},
		{"an index that goes back with a new process", "", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n1", "leader", func(g *cellv1.GroupStatus) { g.AppliedIndex = 99 }), "second", false)
		}},
		{"a quarantined group", "INV-16: group 1 is quarantined on n2", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "quarantined", nil), "", false)
		}},
		{"a disputed group", "INV-16: group 1 is disputed on n2", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "disputed", nil), "", false)
		}},
		{"a quarantined group of a damaged node", "", func(hear func(*cellv1.NodeStatus, string, bool)) {
			hear(said("n2", "quarantined", func(g *cellv1.GroupStatus) { g.Digest = 8 }), "", true)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := NewReplicas()
			var found []string
			hear := func(s *cellv1.NodeStatus, process string, damaged bool) {
				found = append(found, r.Hear(s, process, damaged)...)
			}
			hear(said("n1", "leader", nil), "first", false)
			tt.hear(hear)
			tt.hear(hear) // Each breach is told once.
			if all := strings.Join(found, "\n"); tt.breach == "" && all != "" || tt.breach != "" && strings.Count(all, tt.breach) != 1 {
				t.Errorf("found %q, want %q", all, tt.breach)
			}
		})
	}
}

func TestReplicas_AreTogetherOnceAllToldOneNewestDigest(t *testing.T) {
	t.Parallel()
	r, ids := NewReplicas(), []string{"n1", "n2"}
	want := func(together bool, compared int) {
		t.Helper()
		if r.Together(ids) != together || r.Compared() != compared {
			t.Errorf("together %v, %d compared; want %v, %d", r.Together(ids), r.Compared(), together, compared)
		}
	}
	hear := func(id string, index uint64) {
		r.Hear(said(id, "follower", func(g *cellv1.GroupStatus) { g.DigestIndex = index }), "", false)
	}
	want(false, 0)
	hear("n1", 100)
	want(false, 0)
	hear("n2", 100)
	want(true, 1)
	hear("n1", 101)
	hear("n2", 102)
	want(false, 1)
	hear("n1", 102)
	want(true, 2)
}

func TestVotes_EveryGroupNeedsALeaderThatCountsTheNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		nodes []*cellv1.NodeStatus
		why   string
	}{
		{"it votes", []*cellv1.NodeStatus{said("n1", "leader", nil), said("n2", "follower", nil)}, ""},
		{"nobody has groups", []*cellv1.NodeStatus{{Node: &cellv1.Node{Id: "n2"}}}, "no node has any"},
		{"nobody leads", []*cellv1.NodeStatus{said("n1", "candidate", nil), said("n2", "follower", nil)}, "nobody leads group 1"},
		{"nobody leads one of two groups", []*cellv1.NodeStatus{said("n1", "leader", nil), said("n2", "follower", func(g *cellv1.GroupStatus) { g.Group = 2 })}, "nobody leads group 2"},
		{"it does not vote", []*cellv1.NodeStatus{said("n1", "leader", func(g *cellv1.GroupStatus) { g.Voters = []string{"n1"} })}, "without n2"},
		{"it does not vote any more", []*cellv1.NodeStatus{
			said("n1", "leader", func(g *cellv1.GroupStatus) { g.Term, g.Voters = 6, []string{"n1"} }), said("n3", "leader", nil),
		}, "without n2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Votes(tt.nodes, "n2")
			if (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) {
				t.Errorf("%v, want %q", err, tt.why)
			}
		})
	}
}

func TestLeaders_TheLaterTermIsRight(t *testing.T) {
	t.Parallel()
	term := func(n uint64) func(*cellv1.GroupStatus) { return func(g *cellv1.GroupStatus) { g.Term = n } }
	other := func(g *cellv1.GroupStatus) { g.Group = 2 }
	led := Leaders([]*cellv1.NodeStatus{said("n1", "leader", term(6)), said("n2", "leader", term(5)), said("n3", "candidate", other)})
	if want := map[uint32]string{1: "n1", 2: ""}; !maps.Equal(led, want) {
		t.Errorf("%v lead, want %v", led, want)
	}
}

func TestToTransfer_IsOfAGroupThatIsLedToAnotherNode(t *testing.T) {
	t.Parallel()
	led := func(id, role string, group uint32) *cellv1.NodeStatus {
		return &cellv1.NodeStatus{Node: &cellv1.Node{Id: id}, Groups: []*cellv1.GroupStatus{{Group: group, Role: role, Term: 1}}}
	}
	if id, to, ok := ToTransfer([]*cellv1.NodeStatus{led("n1", "follower", 1)}, []string{"n1", "n2"}, 0, 0); ok {
		t.Errorf("group %d, which nobody leads, goes to %s", id, to)
	}
	nodes := []*cellv1.NodeStatus{led("n1", "leader", 2), led("n2", "leader", 5), led("n3", "follower", 7)}
	for group := range 4 {
		for to := range 4 {
			id, target, ok := ToTransfer(nodes, []string{"n1", "n2", "n3"}, group, to)
			if leader := map[uint32]string{2: "n1", 5: "n2"}[id]; !ok || leader == "" || leader == target {
				t.Errorf("group %d, which %q leads, goes to %s, %v", id, leader, target, ok)
			}
		}
	}
}
