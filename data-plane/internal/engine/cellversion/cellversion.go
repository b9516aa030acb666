// Package cellversion says which versions of the cell this program speaks.
//
// The version of a cell says which stored forms are in use: kinds of commands and their
// parts, records, and the rules by which apply decides. A newer program can do more than
// its cell does; it goes on writing what the cell's version has until an entry raises
// that, when every node can. So programs change first and forms afterwards, and until
// then the older program may come back.
//
// It owns the numbers and the one error. It must not know what a version brings: the
// tables of commands (state) and of changes (cell) say that.
//
// A new version: raise Highest, write in the list below what it brings, and give its
// number to every row, part and rule that it brings. Lowest follows when no cell can be
// that old any more; only then may what knew the older form be removed.
package cellversion

import (
	"errors"
	"fmt"
)

// Version of a cell. 0 is that of a group without an entry, which has no stored form yet.
type Version = uint32

const (
	// First is everything that the first release stores.
	First Version = 1
	// Metering counts what is billed: the readings of namespaces, in the head of a job what
	// it stores, and the command that trims readings.
	Metering Version = 2
	// FetchBytes bounds the bytes of the jobs that one fetch is granted.
	FetchBytes Version = 3

	// Lowest and Highest are what this program speaks.
	Lowest  Version = First
	Highest Version = 3
)

// Range is what a program speaks, both ends included.
type Range struct{ Lowest, Highest Version }

// Supported is what this program speaks.
func Supported() Range { return Range{Lowest, Highest} }

// ErrSkew: the program is too old, or too new, for the cell's version.
var ErrSkew = errors.New("this program doesn't speak the cell's version")

// Check is nil for a version that r holds, and for that of a group without an entry.
func (r Range) Check(v Version) error {
	switch {
	case v == 0 || r.Lowest <= v && v <= r.Highest:
		return nil
	case v > r.Highest:
		return fmt.Errorf("%w: the cell is at version %d, and this program speaks %s: start the newer program that the other nodes run", ErrSkew, v, r)
	default:
		return fmt.Errorf("%w: the cell is at version %d, and this program speaks %s: start an older program first, and raise the version with it", ErrSkew, v, r)
	}
}

func (r Range) String() string {
	if r.Lowest == r.Highest {
		return fmt.Sprintf("version %d only", r.Lowest)
	}
	return fmt.Sprintf("versions %d to %d", r.Lowest, r.Highest)
}
