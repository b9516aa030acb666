package records

import "time"

const hoursPerDay = 24

// HourOf and dayOf number the UTC hours and days since 1970.
func HourOf(now int64) uint64 { return uint64(now / int64(time.Hour)) }

func DayOf(now int64) uint64 { return HourOf(now) / hoursPerDay }

// EndOfDay is when the UTC day ends, beginOfDay when one begins.
func EndOfDay(now int64) int64 { return BeginOfDay(DayOf(now) + 1) }

func BeginOfDay(day uint64) int64 { return int64(day) * int64(hoursPerDay*time.Hour) }
