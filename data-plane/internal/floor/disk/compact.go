package disk

import "github.com/cockroachdb/pebble/v2"

// OneCompaction schedules the compactions of one store that runs one at a time. Pebble's own
// scheduler looks besides, ten times a second, whether more of them may run by now, which here they
// never may: a twelfth of what wakes an idle service. Pebble has the one without for its tests, and both
// are the same otherwise: a compaction begins when it is asked for, or when the one before it ends.
func OneCompaction() pebble.CompactionScheduler {
	return pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
}
