package statedb

import (
	"bytes"
	"slices"
	"sort"
)

// cutMap finds for a key the last of the removed ranges that covers it. Adding a
// range and looking up a key take logarithmic time, amortized: an entry that sweeps
// a queue removes some ranges for each of a thousand jobs.
//
// Invariants: a run is ordered and its ranges do not overlap; every range of a run
// is older than all of the next run; each run is more than twice as long as the
// next one.
type cutMap struct {
	runs  [][]cut
	count int // Ranges added so far: the number of the last one.
}

type cut struct {
	keyRange
	number int // From 1, in the order in which they were added.
}

// add removes [from, to) once more. The map keeps the slices.
func (m *cutMap) add(from, to []byte) {
	m.count++
	if bytes.Compare(from, to) >= 0 {
		return
	}
	m.runs = append(m.runs, []cut{{keyRange{from, to}, m.count}})
	for n := len(m.runs); n > 1 && len(m.runs[n-2]) <= 2*len(m.runs[n-1]); n = len(m.runs) {
		m.runs = append(m.runs[:n-2], overlay(m.runs[n-2], m.runs[n-1]))
	}
}

// last is the number of the last range over key; 0 if there is none.
func (m *cutMap) last(key []byte) int {
	for _, run := range slices.Backward(m.runs) {
		i := sort.Search(len(run), func(i int) bool { return bytes.Compare(key, run[i].to) < 0 })
		if i < len(run) && bytes.Compare(run[i].from, key) <= 0 {
			return run[i].number
		}
	}
	return 0
}

// overlay merges two runs; where they overlap, the younger wins. It consumes old.
func overlay(old, young []cut) []cut {
	out := make([]cut, 0, len(old)+2*len(young)) // A young range may split an old one.
	for _, y := range young {
		for len(old) > 0 && bytes.Compare(old[0].to, y.from) <= 0 {
			out, old = append(out, old[0]), old[1:]
		}
		if len(old) > 0 && bytes.Compare(old[0].from, y.from) < 0 {
			out = append(out, cut{keyRange{old[0].from, y.from}, old[0].number})
		}
		for len(old) > 0 && bytes.Compare(old[0].to, y.to) <= 0 {
			old = old[1:]
		}
		if len(old) > 0 && bytes.Compare(old[0].from, y.to) < 0 {
			old[0].from = y.to
		}
		out = append(out, y)
	}
	return append(out, old...)
}
