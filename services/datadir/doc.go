// Package datadir owns the right to use a data directory: one process at a time,
// made by the same part of the service, in a layout this program understands.
//
// It must not know what lies in the directory beside its two files, VERSION and
// LOCK.
//
// Surprising: the lock is the operating system's, on an open file, so a process
// that is killed leaves none behind; the file LOCK staying there means nothing.
package datadir
