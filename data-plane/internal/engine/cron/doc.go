// Package cron owns when a cron schedule runs: expressions, time zones and the
// instants that follow from both. It is pure: no clock, no storage, no job.
//
// The fields of an expression are read by the parser of robfig/cron; the instants
// are ours, because that library loses the runs of a skipped hour.
//
// The surprising fact: there are two kinds of expressions (R-T5). One that names
// hours follows the wall clock: runs in a skipped hour come once, when the hour would
// have ended, and runs in a repeated hour come the first time. One that runs in every
// hour follows elapsed time: clock changes neither drop nor repeat a run.
package cron
