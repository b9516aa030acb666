package command

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
)

func TestTenantSettings_OnlyWhatIsGivenChanges(t *testing.T) {
	t.Parallel()
	stored := &cellv1.Limits{
		PayloadBytesMax: 1 << 10, Weight: 3,
		Retention:    &cellv1.Retention{CompletedNs: int64(time.Hour), DeadNs: int64(48 * time.Hour), FinishedMax: 5},
		RetentionMax: &cellv1.Retention{UsageNs: int64(90 * time.Minute)},
	}
	given := readTenant(nil)
	c := &cobra.Command{}
	settingFlags(c, given.all())
	if err := c.ParseFlags([]string{"--weight=0", "--enqueue-per-second=9", "--retention-completed=off", "--retention-limit-usage=30d", "--retention-limit-finished-max=6"}); err != nil {
		t.Fatal(err)
	}
	now := readTenant(stored)
	change(c, given.all(), now.all())
	want := &cellv1.Limits{
		PayloadBytesMax: 1 << 10, EnqueuePerSecond: 9,
		Retention:    &cellv1.Retention{DeadNs: int64(48 * time.Hour), FinishedMax: 5},
		RetentionMax: &cellv1.Retention{UsageNs: int64(30 * 24 * time.Hour), FinishedMax: 6},
	}
	if got := now.message(); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	var text strings.Builder
	writeSettings(&text, now.all())
	lines := strings.Fields(text.String())
	if got, want := strings.Join(lines, " "), "payload-bytes-max 1024 enqueue-per-second 9 retention-dead 2d retention-finished-max 5 retention-limit-usage 30d retention-limit-finished-max 6"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A setting that nobody can see or change is forgotten here when it is added there.
func TestTenantSettings_AreAllThatATenantHas(t *testing.T) {
	t.Parallel()
	own := readTenant(nil)
	for i, s := range own.all() {
		n := int64(i+1) * int64(time.Hour)
		switch {
		case s.age != nil:
			*s.age = time.Duration(n)
		case s.number != nil:
			*s.number = n
		case s.other.at != nil:
			*s.other.at = n
		case s.other.word != nil:
			*s.other.word = "jobs_per_month"
		default:
			*s.other.on = true
		}
	}
	full := own.message().ProtoReflect()
	for i := range full.Descriptor().Fields().Len() {
		field := full.Descriptor().Fields().Get(i)
		if !full.Has(field) {
			t.Errorf("no flag sets %s", field.FullName())
		}
		if field.Message() == nil {
			continue
		}
		part := full.Get(field).Message()
		for j := range part.Descriptor().Fields().Len() {
			if f := part.Descriptor().Fields().Get(j); !part.Has(f) {
				t.Errorf("no flag sets %s of %s", f.Name(), field.Name())
			}
		}
	}
}

func TestWithin_MoreThanTheTenantsMaximumIsRefusedByFlag(t *testing.T) {
	t.Parallel()
	tenant := &cellv1.Tenant{Limits: &cellv1.Limits{RetentionMax: &cellv1.Retention{CompletedNs: int64(90 * time.Minute), FinishedMax: 10}}}
	for want, p := range map[string]retention.Policy{
		"": {Finished: retention.Finished{Completed: 90 * time.Minute, Dead: math.MaxInt64, Max: 10}},
		"--retention-completed is 2h, more than the tenant's maximum, 1h30m": {Finished: retention.Finished{Completed: 2 * time.Hour}},
		"--retention-finished-max is 11, more than the tenant's maximum, 10": {Finished: retention.Finished{Max: 11}},
	} {
		err := withinTenant(tenant, retentionSettings(&p, "retention-", ""))
		if got := ""; err != nil {
			got = err.Error()
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		} else if want != "" {
			t.Errorf("not refused, want %q", want)
		}
	}
}

func TestTenantSettings_AHoldIsGivenAndTakenAway(t *testing.T) {
	t.Parallel()
	set := func(stored *cellv1.Limits, args ...string) (*cellv1.Limits, string) {
		t.Helper()
		given, c := readTenant(nil), &cobra.Command{}
		settingFlags(c, given.all())
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		now := readTenant(stored)
		change(c, given.all(), now.all())
		var text strings.Builder
		writeSettings(&text, now.all())
		return now.message(), strings.Join(strings.Fields(text.String()), " ")
	}
	got, text := set(nil, "--hold-dispatch", "--hold-enqueue", "--hold-limit=jobs_per_month", "--hold-value=5", "--hold-until=1970-01-01T00:00:01Z")
	want := &cellv1.Limits{Hold: &cellv1.Hold{Dispatch: true, Enqueue: true, Limit: "jobs_per_month", Value: 5, UntilNs: int64(time.Second)}}
	if !proto.Equal(got, want) || text != "hold-dispatch true hold-enqueue true hold-limit jobs_per_month hold-value 5 hold-until 1970-01-01T00:00:01Z" {
		t.Errorf("got  %v\nwant %v\n%s", got, want, text)
	}
	if got, _ := set(got, "--hold-enqueue=false"); got.GetHold().GetEnqueue() || !got.GetHold().GetDispatch() {
		t.Errorf("half of it taken away: %v", got)
	}
	if got, text := set(got, "--hold-dispatch=false", "--hold-enqueue=false", "--hold-limit=", "--hold-value=0", "--hold-until=off"); got.GetHold() != nil || text != "" {
		t.Errorf("taken away: %v, %s", got, text)
	}
}
