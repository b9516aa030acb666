package feed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
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

// Since lists the entries, oldest first, that hold the events of a namespace after
// number seq; none if there are none yet. ErrTrimmed tells that some of
// them were removed, and the list is of the others; ErrAhead that seq never was.
func Since(store *statedb.Group, ns job.Namespace, seq uint64) ([]uint64, error) {
	mark, err := MarkOf(store, ns)
	switch {
	case err != nil:
		return nil, err
	case seq > mark.Seq:
		return nil, ErrAhead
	case seq == mark.Seq:
		return nil, nil
	}
	var out []uint64
	for index := mark.Index; ; {
		l, err := linkAt(store, index, ns)
		if err == nil {
			out = append(out, index)
			if l.First > seq+1 && (l.Prev == 0 || l.Prev >= index) {
				return nil, fmt.Errorf("%w: entry %d is linked to %d", ErrMalformed, index, l.Prev)
			}
		}
		if err != nil || l.First <= seq+1 {
			slices.Reverse(out)
			return out, err
		}
		index = l.Prev
	}
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
