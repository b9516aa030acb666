// Package unused has what nobody uses.
package unused

type shelf struct { // want `type shelf is unused`
}

type box struct {
	in  int
	out int // want `field out is unused`
}

// Open is used by whoever likes.
func Open() int { return box{in: 1}.in }

func shut() {} // want `func shut is unused`

// Shelf may be used elsewhere.
func Shelf() {}
