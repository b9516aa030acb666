// Package cron owns when a cron schedule runs: expressions, time zones and the
// instants that follow from both. It is pure: no clock, no storage, no job.
//
// The fields of an expression are read by the parser of robfig/cron; the instants
// are ours, because that library loses the runs of a skipped hour.
//
// The surprising fact: there are two kinds of expressions (R-T5). One that names
// hours means the clock on the wall: in an hour that is skipped its runs come once,
// when the hour would have ended, and in an hour that comes twice they come the first
// time. One that runs in every hour means that time passes: it skips nothing that
// passed and leaves out nothing.
package cron
