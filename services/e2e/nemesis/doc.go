// Package nemesis breaks a cell of real processes under load that comes through the
// proxy, and then judges everything that clients were told by the rules of package
// history. There are two tests: one kills the process that leads, again and again, and
// measures how soon writes resume; the other, the storm, draws its faults from a seed.
//
// It owns the faults and the load. It must not know anything of the product beside the Go
// SDK, the wire, the cell's administration and the command line.
//
// Surprising: a storm runs in a process of its own with a network and mounts of its own, so
// nothing of it can be left behind, and the test must be root. DESIGN.md says how.
package nemesis
