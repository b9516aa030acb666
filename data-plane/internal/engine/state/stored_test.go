package state

import (
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// Apply stores no words of its own, but the payload of an on_failure job tells the error
// of the step before, which may be one of these. A text that differs here differs between
// the replicas of two builds: leave it, and choose another one by the version of the entry.
func TestStored_TextsOfVersion1AreFixedForEver(t *testing.T) {
	for got, want := range map[string]string{
		records.LeaseRanOut.String():                 "lease expired: the worker did not renew it in time",
		records.IterationRanOut.String():             "iteration timed out",
		string(appendText(nil, "<a>\x01\u2028\xff")): `"\u003ca\u003e\u0001\u2028\ufffd"`,
	} {
		if got != want {
			t.Errorf("stored %q, want %q", got, want)
		}
	}
}
