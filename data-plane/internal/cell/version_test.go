package cell

import (
	"errors"
	"testing"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func speaking(id string, lowest, highest uint32) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_Node{Node: &cellv1.Node{
		Id: id, RaftAddress: "10.0.0.1:7001", ApiUrl: "http://10.0.0.1:7101", LowestVersion: lowest, HighestVersion: highest,
	}}}
}

func removed(id string) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_RemoveNodeId{RemoveNodeId: id}}
}

func TestVersion_IsRaisedOnlyWhenEveryNodeSupportsIt(t *testing.T) {
	b := newBench(t)
	b.machine.speaks.Highest = 3
	b.must(speaking("n1", 1, 1), speaking("n2", 1, 1), versionChange(1))
	b.refused(ReasonVersion, versionChange(2))
	b.must(speaking("n1", 1, 2))
	b.refused(ReasonVersion, versionChange(2))
	b.must(speaking("n2", 1, 3))
	b.must(speaking("n1", 1, 1)) // It went back: the older program works as before.
	b.refused(ReasonVersion, versionChange(2))
	b.must(speaking("n1", 1, 2))
	b.refused(ReasonVersion, versionChange(3))
	b.must(versionChange(2))
	b.must(versionChange(2)) // Again.
	if got := b.machine.View().Version(); got != 2 {
		t.Fatalf("the cell is at version %d", got)
	}
	b.refused(ReasonVersion, versionChange(1))
	b.refused(ReasonVersion, speaking("n1", 1, 1)) // Now it is too late to go back.
	b.refused(ReasonVersion, speaking("n3", 1, 1))
	b.must(speaking("n3", 0, 0)) // Only its address: an operator tells it.
	b.refused(ReasonVersion, versionChange(3))
	b.must(removed("n3"), removed("n1"))
	b.must(versionChange(3))
	again := benchOver(t, b.store)
	if got := again.machine.View().Version(); got != 3 {
		t.Errorf("read again, the cell is at version %d", got)
	}
}

func TestVersion_AnAddressAloneLeavesWhatTheNodeSaid(t *testing.T) {
	b := newBench(t)
	b.must(speaking("n1", 1, 2), speaking("n1", 0, 0))
	if n, _ := b.machine.View().NodeByID("n1"); n.GetHighestVersion() != 2 {
		t.Errorf("the node is said to speak up to version %d", n.GetHighestVersion())
	}
}

// The record of a node may be older than its program: then the node stops at the switch,
// before an entry that it could not apply.
func TestVersion_ANodeThatWentBackUnnoticedStopsAtTheSwitch(t *testing.T) {
	b := newBench(t)
	b.must(speaking("n1", 1, cellversion.Highest+1), versionChange(1))
	payload, err := marshal(&cellv1.ApplyRequest{Changes: []*cellv1.Change{versionChange(cellversion.Highest + 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.payloads(payload); !errors.Is(err, cellversion.ErrSkew) {
		t.Errorf("the switch is applied: %v", err)
	}
}

func TestVersion_EveryKindOfChangeHasOne(t *testing.T) {
	fields := (&cellv1.Change{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); sinceOf[int(f.Number())] == 0 {
			t.Errorf("sinceOf has no version for the change %s", f.Name())
		}
	}
	if len(sinceOf) != fields.Len() {
		t.Errorf("sinceOf has %d kinds of change and there are %d", len(sinceOf), fields.Len())
	}
}

func TestVersion_AChangeOfALaterOneIsNotProposed(t *testing.T) {
	sinceOf[5] = 2
	defer func() { sinceOf[5] = cellversion.First }()
	req := &cellv1.ApplyRequest{Changes: []*cellv1.Change{removed("n1")}}
	if err := allowed(req, 1); fault.As(err) == nil || fault.As(err).Reason != ReasonVersion {
		t.Errorf("at version 1: %v", err)
	}
	if err := allowed(req, 2); err != nil {
		t.Errorf("at version 2: %v", err)
	}
}

func TestRaiseVersion_NeedsEveryNodeToAnswer(t *testing.T) {
	c := newTestCell(t, 3)
	c.ready()
	leader := c.leader()
	if _, err := leader.members.RaiseVersion(t.Context(), cellversion.Highest+1); fault.As(err) == nil || fault.As(err).Reason != ReasonVersion {
		t.Errorf("raised beyond what the nodes speak: %v", err)
	}
	res, err := leader.members.RaiseVersion(t.Context(), 0)
	if err != nil || res.GetRaised() || res.GetVersion() != cellversion.Highest {
		t.Errorf("a new cell isn't at the newest version: %v, %v", res, err)
	}
	for id, n := range c.nodes {
		if n != leader {
			c.kill(id)
			break
		}
	}
	if _, err := leader.members.RaiseVersion(t.Context(), 0); fault.As(err) == nil || fault.As(err).Reason != ReasonVersion {
		t.Errorf("raised while a node doesn't answer: %v", err)
	}
}
