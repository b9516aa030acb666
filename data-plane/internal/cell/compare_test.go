package cell

import (
	"slices"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

func TestJudge_OnlyAMajorityOfAllVotersDecides(t *testing.T) {
	t.Parallel()
	three := []string{"n1", "n2", "n3"}
	at := func(index, own uint64, others map[string]uint64) report { return report{index, own, others} }
	for _, c := range []struct {
		name    string
		voters  []string
		reports []report
		want    Finding
		differs []string
	}{
		{"all agree", three, []report{at(9, 1, map[string]uint64{"n2": 1, "n3": 1})}, Same, nil},
		{"nobody reports", three, []report{at(9, 1, nil)}, Same, nil},
		{"another differs", three, []report{at(9, 1, map[string]uint64{"n2": 1, "n3": 2})}, Right, []string{"n3"}},
		{"this one differs", three, []report{at(9, 1, map[string]uint64{"n2": 2, "n3": 2})}, Wrong, []string{"n2", "n3"}},
		{"one against one", three, []report{at(9, 1, map[string]uint64{"n2": 2})}, Disputed, []string{"n2"}},
		{"each another", three, []report{at(9, 1, map[string]uint64{"n2": 2, "n3": 3})}, Disputed, []string{"n2", "n3"}},
		{"two voters", three[:2], []report{at(9, 1, map[string]uint64{"n2": 2})}, Disputed, []string{"n2"}},
		{"of five, two against two", []string{"n1", "n2", "n3", "n4", "n5"}, []report{at(9, 1, map[string]uint64{"n2": 1, "n3": 2, "n4": 2})}, Disputed, []string{"n3", "n4"}},
		{"a learner that differs decides nothing", three, []report{at(9, 1, map[string]uint64{"n2": 1, "n9": 2})}, Right, []string{"n9"}},
		{"a learner among the wrong", three[1:], []report{at(9, 1, map[string]uint64{"n2": 2, "n3": 2})}, Wrong, []string{"n2", "n3"}},
		{"an older index decides", three, []report{at(9, 1, map[string]uint64{"n2": 2}), at(5, 3, map[string]uint64{"n2": 4, "n3": 4})}, Wrong, []string{"n2", "n3"}},
		{"what was repaired since is settled", three, []report{at(9, 1, map[string]uint64{"n2": 1}), at(5, 3, map[string]uint64{"n2": 4})}, Right, []string{"n2"}},
	} {
		got := judge("n1", c.voters, c.reports)
		if got.finding != c.want || !slices.Equal(got.differs, c.differs) {
			t.Errorf("%s: finding %d of %v, not %d of %v", c.name, got.finding, got.differs, c.want, c.differs)
		}
	}
}

// Where all were found equal nothing is asked any more: a member that differs since, after
// a restart for example, says so.
func TestCompare_AMemberThatDiffersWakesThoseThatFoundAllEqual(t *testing.T) {
	t.Parallel()
	n := newTestCell(t, 1).nodes["node-1"]
	eventually.True(t, patience, "the shards are recorded", func() bool { return len(n.cell.View().Shards()) > 0 })
	at := n.cell.Group().Marks()[0]
	n.members.settle(GroupID, at)
	if got := n.members.digestsFor(GroupID, []*cellv1.DigestAt{{Index: at.Index, Digest: at.Digest}}); len(got) != 1 || got[0].GetDigest() != at.Digest {
		t.Fatalf("reported %v", got)
	}
	if n.members.settledAt(GroupID) != at || len(n.members.suspects) != 0 {
		t.Fatal("woken by one that agrees")
	}
	n.members.digestsFor(GroupID, []*cellv1.DigestAt{{Index: at.Index, Digest: at.Digest + 1}})
	if n.members.settledAt(GroupID) == at || len(n.members.suspects) != 1 {
		t.Fatal("not woken")
	}
}
