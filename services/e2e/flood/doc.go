// Package flood measures what one tenant notices of others that push as hard as they can
// (R17): a quiet tenant makes 100 calls a second, first alone, then beside floods of 50
// connections in frames of 64, on its own shard and on another. All ratios are of one run.
//
// It owns the two generators. The floods run in a process of their own with a lower
// priority (nice), because generators on the machine of the cell take processor time that
// in service belongs to other machines; the quiet tenant's do not, since what it waits for
// is measured. It must not know the product except its command line and its wire.
package flood
