package stateread

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// endedWalk remembers for the rows of a family when to look at which of them again: when
// one of them may have ended long enough ago, and not before. So a row is read a few times
// in its life, however long that is.
type endedWalk struct {
	// By from; each reaches to the next one, and the last to the end of the family.
	stretches []stretch
}

type stretch struct {
	from [16]byte
	rows int // That were left when they were looked at.
	look int64
}

func newEndedWalk() endedWalk { return endedWalk{stretches: make([]stretch, 1)} }

// ripe reports whether there is anything to look at.
func (w *endedWalk) ripe(now int64) bool {
	return slices.ContainsFunc(w.stretches, func(s stretch) bool { return s.look <= now })
}

// looking is a look at a family.
type looking struct {
	store *statedb.Group
	now   int64
	// shortest is how long whatever ended is kept at least: so long there is no need to
	// look at what has not ended, or is younger.
	shortest time.Duration
	span     func(ns job.Namespace, from, to [16]byte) (lower, upper []byte)
	ns       job.Namespace
}

const (
	// slackPart is the part of the shortest age by which rows may be kept longer, so that
	// those that end one by one do not have their neighbours read each time.
	slackPart = 64
	// lookAgain is when a stretch is looked at again at the latest, or after the shortest age if that
	// is longer, whatever is in it: a row may have come into it since, because ids do not always
	// come in their order.
	lookAgain = 24 * time.Hour
)

// step looks at the stretch whose time came first, or at the beginning of it. goes says
// when a row may go, and takes note of those that may go now.
func (w *endedWalk) step(l *looking, goes func(id [16]byte, value []byte) (int64, error)) error {
	i := w.next()
	end := w.end(i)
	looked, rest, err := l.walk(w.stretches[i].from, end, goes)
	if err != nil {
		return err
	}
	looked.look = min(looked.look, l.now+int64(max(l.shortest, lookAgain))) + l.slack()
	put := []stretch{looked}
	if rest == nil && end == [16]byte{} { // Whatever comes now is young.
		rest = &stretch{from: idAt(l.now), look: l.now + int64(l.shortest) + l.slack()}
	}
	if rest != nil {
		put = append(put, *rest)
	}
	w.replace(i, put)
	return nil
}

func (w *endedWalk) next() int {
	i := 0
	for k := range w.stretches {
		if w.stretches[k].look < w.stretches[i].look {
			i = k
		}
	}
	return i
}

// end is where a stretch ends, zero if it is the last.
func (w *endedWalk) end(i int) [16]byte {
	if i+1 < len(w.stretches) {
		return w.stretches[i+1].from
	}
	return [16]byte{}
}

// walk looks at rows between two ids, until there are enough of them, or they are too
// young; then rest is where it goes on, and when.
func (l *looking) walk(from, end [16]byte, goes func(id [16]byte, value []byte) (int64, error)) (looked stretch, rest *stretch, err error) {
	looked = stretch{from: from, look: math.MaxInt64}
	walked, found := 0, 0
	lower, upper := l.span(l.ns, from, end)
	err = l.store.Scan(lower, upper, func(key, value []byte) (bool, error) {
		id := [16]byte(key[len(key)-16:])
		if ripens := madeAt(id) + int64(l.shortest); ripens > l.now { // It ended after it was made.
			rest = &stretch{from: id, look: ripens + l.slack()}
			return false, nil
		}
		if walked == HeadsWalked || found == command.EndedMax {
			rest = &stretch{from: id, look: l.now}
			return false, nil
		}
		walked++
		at, err := goes(id, value)
		if at <= l.now {
			found++
			return true, err
		}
		looked.rows++
		looked.look = min(looked.look, at)
		return true, err
	})
	return looked, rest, err
}

func (l *looking) slack() int64 { return int64(l.shortest) / slackPart }

// madeAt is the time in an id, in nanoseconds.
func madeAt(id [16]byte) int64 {
	const most = math.MaxInt64 / 2 / int64(time.Millisecond)
	return min(int64(binary.BigEndian.Uint64(id[:])>>16), most) * int64(time.Millisecond)
}

// idAt is the lowest id of a time.
func idAt(now int64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(now/int64(time.Millisecond))<<16)
	return id
}

// replace puts stretches in the place of one. What is left of few rows joins its neighbour.
func (w *endedWalk) replace(i int, put []stretch) {
	if first := put[0]; i > 0 && w.stretches[i-1].rows+first.rows <= HeadsWalked/2 {
		before := &w.stretches[i-1]
		before.rows += first.rows
		before.look = min(before.look, first.look)
		put = put[1:]
	}
	w.stretches = slices.Replace(w.stretches, i, i+1, put...)
}
