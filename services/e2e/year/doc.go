// Package year runs as many jobs through one node as a small customer has in a year, in an
// afternoon: retention of a minute stands for that of a week, and whatever grows in a node
// is sampled. Over the last half nothing may grow any more: disk, memory, open files, jobs
// kept, and the time that a restart takes.
//
// It must not know the product except its command line and its wire.
package year
