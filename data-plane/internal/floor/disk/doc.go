// Package disk owns what a node knows about the health of its disk: a watchdog
// for writes that do not return, a guard for space that runs out, wrappers of Pebble's
// file system that delay, count, reserve, order, write ahead, or tell at once what failed, and
// how Pebble schedules compactions.
//
// It must not know raft, jobs or shards: what a stalled or full disk means for
// them is in the callbacks it is given.
//
// One surprising fact: a disk that stops answering reports no error. The watchdog
// works by timing what has not finished yet (rule R4).
package disk
