package stripe

import (
	"testing"
	"time"
)

func TestPeriods_EndWithTheMonthAndPagesBeforeIt(t *testing.T) {
	t.Parallel()
	at := func(month time.Month, day, hour, minute int) time.Time {
		return time.Date(2028, month, day, hour, minute, 0, 0, time.UTC)
	}
	for _, c := range []struct{ now, anchor, expires time.Time }{
		{at(2, 5, 10, 59), at(3, 1, 0, 0), at(2, 6, 10, 0)},
		{at(2, 29, 3, 5), at(3, 1, 0, 0), at(3, 1, 0, 0)},
		{at(2, 29, 22, 59), at(3, 1, 0, 0), at(3, 1, 0, 0)},
		{at(2, 29, 23, 0), time.Time{}, time.Time{}},
		{at(12, 31, 22, 0).In(time.FixedZone("", 7200)), time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if anchor, expires := periods(c.now); !anchor.Equal(c.anchor) || !expires.Equal(c.expires) {
			t.Errorf("%s: the second period begins at %s and the page ends at %s; want %s and %s", c.now, anchor, expires, c.anchor, c.expires)
		}
	}
}
