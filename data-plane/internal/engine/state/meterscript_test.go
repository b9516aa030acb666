package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// readings shows what whoever bills reads.
func (s *script) readings(t *testing.T, from uint64) string {
	list := s.r.readings(t, stateread.ReadingsFrom{Hour: records.HourOf(epoch) + from}, s.r.now)
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%s %s: entry %d, jobs %d, executions %d, payloads %d, byte-hours %d, open jobs %d, stored %d\n",
			idText(r.NS), hourText(r.Hour), r.Seq, r.Jobs, r.Executions, r.PayloadBytes, r.StoredByteHours, r.OpenJobs, r.StoredBytes)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// readings reads page after page.
func (r *replica) readings(t tb, from stateread.ReadingsFrom, now int64) (list []stateread.Reading) {
	t.Helper()
	for {
		p, err := stateread.ReadReadings(r.store, from, now)
		if err != nil {
			t.Fatalf("readings: %v", err)
		}
		list = append(list, p.List...)
		if from.Next = p.Next; p.Next == nil {
			return list
		}
	}
}
