package free

import "errors"

type Bare struct{} // A line comment is a sign too.

type Naked struct { /* want `Naked is exported and has no comment` */
}

func (Naked) Walk() {} // want `Walk is exported and has no comment`

func (Naked) String() string { return "" }

func (*hidden) Walk() {}

type hidden struct{}

// Kind of a thing.
type Kind int

const (
	First Kind = iota
	Second
)

var ErrBare = errors.New( /* want `ErrBare is exported and has no comment` */ "bare")

// Errors of this package.
var (
	ErrSigned = errors.New("signed")
)

func Open() {} // want `Open is exported and has no comment`

// Shut has one.
func Shut() {}
