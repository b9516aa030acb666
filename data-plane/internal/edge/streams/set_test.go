package streams

import "testing"

type quiet struct{ int }

func (*quiet) End() {}
func (*quiet) Cut() {}

// A tenant alone may have all streams of a node; one that has none still gets its share.
func TestSet_OneTenantsStreamsLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	const most = 8
	s := NewSet(most, 1, nil)
	var open []*quiet
	for i := range most {
		open = append(open, &quiet{i})
		if err := s.Add("loud", open[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add("loud", &quiet{}); err == nil {
		t.Error("a tenant has more than all")
	}
	for i := range most / 2 {
		if err := s.Add("other", &quiet{i}); err != nil {
			t.Errorf("stream %d of another tenant: %v", i, err)
		}
	}
	if err := s.Add("other", &quiet{}); err == nil {
		t.Error("a tenant has more than its share while nothing is left")
	}
	for _, st := range open {
		s.Remove(st)
	}
	if err := s.Add("other", &quiet{}); err != nil {
		t.Errorf("although there is room: %v", err)
	}
}
