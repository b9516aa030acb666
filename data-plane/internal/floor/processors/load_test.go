package processors

import "testing"

func TestWatch_IsAPartOfTheMachine(t *testing.T) {
	t.Parallel()
	l := Watch()
	for range 3 {
		idle, processors, ok := l()
		if ok && (idle < 0 || idle > 1 || processors < 1) {
			t.Fatalf("idle %f of %f processors", idle, processors)
		}
	}
}
