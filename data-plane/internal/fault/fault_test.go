package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestCode_EveryOneHasAWordOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]Code{}
	for c := Internal; c <= UnknownOutcome; c++ {
		if other, ok := seen[c.String()]; ok || c.String() == "" {
			t.Errorf("codes %d and %d are both %q", other, c, c)
		}
		seen[c.String()] = c
	}
	if len(codeNames) != int(UnknownOutcome)+1 {
		t.Errorf("%d words for %d codes", len(codeNames), int(UnknownOutcome)+1)
	}
	for c, want := range map[Code]string{Internal: "internal", Invalid: "invalid", NotLeader: "not_leader", UnknownOutcome: "unknown_outcome", 200: "internal"} {
		if c.String() != want {
			t.Errorf("code %d is %q, want %q", uint8(c), c, want)
		}
	}
}

// Only what is said on purpose is shown: anything else is internal.
func TestCodeOf_FindsTheErrorThroughWrapping(t *testing.T) {
	t.Parallel()
	e := New(Conflict, "LEASE_LOST", "job %s has another holder", "j")
	wrapped := fmt.Errorf("ack: %w", errors.Join(errors.New("other"), e))
	if As(wrapped) != e || CodeOf(wrapped) != Conflict {
		t.Errorf("found %v, %s", As(wrapped), CodeOf(wrapped))
	}
	for _, err := range []error{nil, errors.New("disk on fire"), fmt.Errorf("wrapped: %w", errors.ErrUnsupported)} {
		if As(err) != nil || CodeOf(err) != Internal {
			t.Errorf("%v is %v, %s", err, As(err), CodeOf(err))
		}
	}
	if e.Error() != "job j has another holder" || e.Reason != "LEASE_LOST" {
		t.Errorf("says %q with reason %q", e, e.Reason)
	}
}

func TestError_NamesEveryField(t *testing.T) {
	t.Parallel()
	e := InvalidFields([]Field{{"jobs[3].queue", "is empty"}, {"lease", "is too long"}})
	want := "the request has invalid fields; jobs[3].queue: is empty; lease: is too long"
	if e.Error() != want || e.Code != Invalid || e.Reason != "VALIDATION_ERROR" {
		t.Errorf("says %q (%s, %s), want %q", e, e.Code, e.Reason, want)
	}
}
