package feed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// The functions of this file follow the chain of one namespace through the feed:
// what they cost depends on the namespace's own entries, never on its neighbours'.

// ErrAhead: the namespace has not had as many events as the cursor says.
var ErrAhead = errors.New("the cursor is ahead of the feed")

// MarkOf reads where the events of a namespace end.
func MarkOf(store *statedb.Group, ns job.Namespace) (Mark, error) {
	b, err := store.Get(keys.In(store.Prefix()).EventMark(ns))
	if errors.Is(err, statedb.ErrNotFound) {
		return Mark{}, nil
	}
	if err != nil {
		return Mark{}, fmt.Errorf("read event mark of %s: %w", ns, err)
	}
	return DecodeMark(b)
}

// Since lists entries, oldest first and at most limit, that hold the events of a namespace
// after number seq; none if there are none yet. ErrTrimmed tells that some of them were
// removed, and the list is of the oldest others; ErrAhead that seq never was. What it
// costs grows with limit, and hardly with how far back that is.
func Since(store *statedb.Group, ns job.Namespace, seq uint64, limit int) ([]uint64, error) {
	mark, err := MarkOf(store, ns)
	switch {
	case err != nil:
		return nil, err
	case seq > mark.Seq:
		return nil, ErrAhead
	case seq == mark.Seq:
		return nil, nil
	}
	newest, err := place(store, ns, mark.Index)
	if err != nil {
		return nil, err
	}
	oldest, lost, err := newest.back(store, func(l *Link) bool { return l.First <= seq+1 })
	if err != nil {
		return nil, err
	}
	last := oldest.N + uint64(limit) - 1
	at, _, err := newest.back(store, func(l *Link) bool { return l.N <= last })
	if err != nil {
		return nil, err
	}
	out := make([]uint64, 0, at.N-oldest.N+1)
	for {
		out = append(out, at.index)
		if at.N <= oldest.N {
			break
		}
		if at, err = place(store, ns, at.Prev); errors.Is(err, ErrTrimmed) {
			lost = true // Since it was looked for.
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(out)
	if lost {
		return out, ErrTrimmed
	}
	return out, nil
}

// entryOf is an entry in the chain of a namespace.
type entryOf struct {
	Link
	index uint64
}

// back follows the chain to the newest entry that is far enough, in the longest steps
// that do not pass over it. If the chain was cut off before, the oldest entry that is
// left is returned, and lost is true.
func (at entryOf) back(store *statedb.Group, far func(*Link) bool) (_ entryOf, lost bool, err error) {
	for !far(&at.Link) {
		next, err := at.leap(store, far)
		if errors.Is(err, ErrTrimmed) {
			return at, true, nil
		}
		if err != nil {
			return entryOf{}, false, err
		}
		at = next
	}
	return at, false, nil
}

// leap takes one step: a long one only where it does not go far enough, for there
// may be a newer entry that does.
func (at entryOf) leap(store *statedb.Group, far func(*Link) bool) (entryOf, error) {
	for level := len(strides) - 1; level >= 0; level-- {
		if at.Far[level] == 0 {
			continue
		}
		next, err := at.before(store, at.Far[level])
		if err == nil && !far(&next.Link) {
			return next, nil
		}
		if err != nil && !errors.Is(err, ErrTrimmed) {
			return entryOf{}, err
		}
	}
	return at.before(store, at.Prev)
}

func (at entryOf) before(store *statedb.Group, index uint64) (entryOf, error) {
	if index == 0 || index >= at.index {
		return entryOf{}, fmt.Errorf("%w: entry %d is linked to %d", ErrMalformed, at.index, index)
	}
	next, err := place(store, at.NS, index)
	if err == nil && (next.N >= at.N || next.First >= at.First) {
		return entryOf{}, fmt.Errorf("%w: entry %d is not before %d", ErrMalformed, index, at.index)
	}
	return next, err
}

func place(store *statedb.Group, ns job.Namespace, index uint64) (entryOf, error) {
	l, err := linkAt(store, index, ns)
	return entryOf{l, index}, err
}

func linkAt(store *statedb.Group, index uint64, ns job.Namespace) (Link, error) {
	b, err := entryAt(store, index)
	if err != nil {
		return Link{}, err
	}
	_, links, err := decodeLinks(codec.NewReader(b))
	if err != nil {
		return Link{}, fmt.Errorf("feed entry %d: %w", index, err)
	}
	for _, l := range links {
		if l.NS == ns {
			return l, nil
		}
	}
	return Link{}, fmt.Errorf("%w: entry %d has nothing of %s", ErrMalformed, index, ns)
}

// At reads one entry; ErrTrimmed if it was removed.
func At(store *statedb.Group, index uint64) (Batch, error) {
	b, err := entryAt(store, index)
	if err != nil {
		return Batch{}, err
	}
	return decodeBatch(keys.In(store.Prefix()), keys.In(store.Prefix()).Feed(index), b)
}

func entryAt(store *statedb.Group, index uint64) ([]byte, error) {
	b, err := store.Get(keys.In(store.Prefix()).Feed(index))
	if errors.Is(err, statedb.ErrNotFound) {
		return nil, ErrTrimmed
	}
	if err != nil {
		return nil, fmt.Errorf("read feed entry %d: %w", index, err)
	}
	return b, nil
}
