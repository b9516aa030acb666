package feed

import (
	"errors"
	"fmt"
	"math"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ErrTrimmed: the events after the cursor were removed; the reader has to
// rebuild from the state.
var ErrTrimmed = errors.New("the feed no longer reaches back to the cursor")

// Batch is the events of one entry.
type Batch struct {
	Index  uint64
	Now    int64 // Unix nanoseconds.
	Events []Event
}

// Read returns up to limit entries after an index, oldest first. A cursor whose
// next entries were removed gets ErrTrimmed instead of a silent gap.
func Read(store *statedb.Group, after uint64, limit int) ([]Batch, error) {
	var out []Batch
	err := Walk(store, after, func(b Batch) bool {
		out = append(out, b)
		return len(out) < limit
	})
	return out, err
}

// Walk is Read that hands over one entry at a time, until f returns false: an
// entry may have thousands of events.
func Walk(store *statedb.Group, after uint64, f func(Batch) bool) (err error) {
	if after == math.MaxUint64 {
		return nil // Nothing can come after it.
	}
	// One snapshot for the mark and the events: a trim between the two would be a gap.
	v := store.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(store.Prefix())
	trimmed, err := trimmedBefore(v, space)
	if err != nil {
		return err
	}
	if after+1 < trimmed {
		return ErrTrimmed
	}
	from, to := space.FeedFrom(after + 1)
	return v.Scan(from, to, func(key, value []byte) (bool, error) {
		b, err := decodeBatch(space, key, value)
		if err != nil {
			return false, err
		}
		return f(b), nil
	})
}

func decodeBatch(space keys.Space, key, value []byte) (Batch, error) {
	index, err := space.FeedIndex(key)
	if err != nil {
		return Batch{}, err
	}
	now, events, err := Decode(value)
	if err != nil {
		return Batch{}, fmt.Errorf("feed entry %d: %w", index, err)
	}
	return Batch{Index: index, Now: now, Events: events}, nil
}

// The feed's key for index 0, which no entry has, holds where it was trimmed.

// TrimRecord is the value that notes a trim before the given index.
func TrimRecord(before uint64) []byte {
	return keys.In([4]byte{}).Feed(before)[5:]
}

func trimmedBefore(store *statedb.View, space keys.Space) (uint64, error) {
	b, err := store.Get(space.Feed(0))
	if errors.Is(err, statedb.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: trim record of %d bytes", ErrMalformed, len(b))
	}
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v, nil
}
