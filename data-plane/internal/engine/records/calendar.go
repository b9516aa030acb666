package records

import "time"

const hoursPerDay = 24

// HourOf numbers the UTC hours since 1970.
func HourOf(now int64) uint64 { return uint64(now / int64(time.Hour)) }

// EndOfHour is when a UTC hour ends, by its number.
func EndOfHour(hour uint64) int64 { return int64(hour+1) * int64(time.Hour) }

// DayOf numbers the UTC days since 1970.
func DayOf(now int64) uint64 { return HourOf(now) / hoursPerDay }

// EndOfDay is when the UTC day of a time ends.
func EndOfDay(now int64) int64 { return BeginOfDay(DayOf(now) + 1) }

// BeginOfDay is when a UTC day begins, by its number.
func BeginOfDay(day uint64) int64 { return int64(day) * int64(hoursPerDay*time.Hour) }
