package cell

import (
	"testing"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
)

// status is a node's view of shard 2, of which n1, n2 and n3 are voters.
func status(id, role string, reachable bool, commit uint64) *cellv1.NodeStatus {
	return &cellv1.NodeStatus{Node: &cellv1.Node{Id: id}, Reachable: reachable, Groups: []*cellv1.GroupStatus{
		{Group: 2, Role: role, Voters: []string{"n1", "n2", "n3"}, CommitIndex: commit},
	}}
}

func TestPick_NobodyWhoCannotLeadIsChosen(t *testing.T) {
	t.Parallel()
	const far = 10 * lagEntriesMax
	for name, c := range map[string]struct {
		others []*cellv1.NodeStatus
		want   string
	}{
		"the one that keeps up":   {[]*cellv1.NodeStatus{status("n2", "follower", true, 0), status("n3", "follower", true, far)}, "n3"},
		"the one that answers":    {[]*cellv1.NodeStatus{status("n2", "follower", false, far), status("n3", "follower", true, far)}, "n3"},
		"a learner":               {[]*cellv1.NodeStatus{status("n4", "follower", true, far)}, ""},
		"nobody else":             {nil, ""},
		"one that is a candidate": {[]*cellv1.NodeStatus{status("n2", "candidate", true, far)}, ""},
	} {
		s := newCandidates(append([]*cellv1.NodeStatus{status("n1", "leader", true, far)}, c.others...), "n1")
		if got, ok := s.pick(2, health.Unfit); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: chose %q, want %q", name, got, c.want)
		}
	}
}
