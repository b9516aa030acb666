package cellversion_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
)

func TestCheck_SaysWhichProgramToStart(t *testing.T) {
	r := cellversion.Range{Lowest: 2, Highest: 3}
	for v, want := range map[cellversion.Version]string{0: "", 1: "start an older program", 2: "", 3: "", 4: "start the newer program"} {
		err := r.Check(v)
		switch {
		case want == "" && err != nil:
			t.Errorf("version %d: %v", v, err)
		case want != "" && (!errors.Is(err, cellversion.ErrSkew) || !strings.Contains(err.Error(), want)):
			t.Errorf("version %d: %v, want %q", v, err, want)
		}
	}
}

func TestSupported_EndsAreInOrder(t *testing.T) {
	if r := cellversion.Supported(); r.Lowest < cellversion.First || r.Highest < r.Lowest {
		t.Error(r)
	}
}
