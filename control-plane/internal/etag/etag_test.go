package etag_test

import (
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
)

func TestOf_DiffersByRecordAndVersionAndStaysTheSame(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, tag := range []string{etag.Of(1, "ns_1"), etag.Of(2, "ns_1"), etag.Of(1, "ns_2"), etag.Of(1, "ten_1", "usr_1"), etag.Of(1, "ten_1usr_1")} {
		if seen[tag] {
			t.Errorf("%s stands for two versions", tag)
		}
		seen[tag] = true
	}
	// Clients keep tags over an upgrade.
	if got := etag.Of(7, "ten_1", "usr_1"); got != "K_KlgNytHcn7kpBe" {
		t.Errorf("got %s", got)
	}
}

func TestCheck_RefusesWhatWasDecidedOnAnotherVersion(t *testing.T) {
	t.Parallel()
	present := etag.Of(2, "ns_1")
	for _, given := range []string{"", present} {
		if err := etag.Check(given, present, "this"); err != nil {
			t.Errorf("%q: %v", given, err)
		}
	}
	f, ok := fault.As(etag.Check(etag.Of(1, "ns_1"), present, "this member"))
	if !ok || f.Code != fault.Conflict || f.Reason != etag.Mismatch || f.Message != "someone else changed this member since you loaded it; reload it and try again" {
		t.Errorf("%+v", f)
	}
}
