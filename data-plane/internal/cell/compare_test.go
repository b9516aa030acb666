package cell

import (
	"slices"
	"testing"
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
