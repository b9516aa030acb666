package feed

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// MarkOf reads where the events of a namespace end.
func MarkOf(store *statedb.Group, ns job.Namespace) (Mark, error) {
	return markIn(store, keys.In(store.Prefix()), ns)
}

func markIn(r interface{ Get([]byte) ([]byte, error) }, space keys.Space, ns job.Namespace) (Mark, error) {
	b, err := r.Get(space.EventMark(ns))
	if errors.Is(err, statedb.ErrNotFound) {
		return Mark{}, nil
	}
	if err != nil {
		return Mark{}, fmt.Errorf("read event mark of %s: %w", ns, err)
	}
	return DecodeMark(b)
}

// Walk hands over the events of a namespace after number seq, oldest first and a row at a
// time, until f returns false. It costs what it hands over, however far back that is.
// Lost tells that events after seq are no longer kept, and then the rows are the oldest
// that are; or that there never was an event seq, and then there are none.
func Walk(store *statedb.Group, ns job.Namespace, seq uint64, f func(*Row) bool) (lost bool, err error) {
	v := store.View() // One snapshot: a trim meanwhile would be a gap.
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(store.Prefix())
	m, err := markIn(v, space, ns)
	if err != nil || seq >= m.Seq {
		return seq > m.Seq, err
	}
	at, err := rowWith(v, space, ns, seq+1)
	if err != nil {
		return false, err
	}
	lost = at.first == 0
	from, to := space.EventsFrom(ns, max(at.first, 1))
	return lost, v.Scan(from, to, func(key, value []byte) (bool, error) {
		row, err := decodeRow(space, ns, key, value)
		if err != nil {
			return false, err
		}
		if skip := seq + 1 - min(row.Events[0].Seq, seq+1); skip > 0 {
			row.Events = row.Events[skip:]
		}
		return f(&row), nil
	})
}

func decodeRow(space keys.Space, ns job.Namespace, key, value []byte) (Row, error) {
	first, err := space.EventNumber(key)
	if err != nil {
		return Row{}, err
	}
	row, err := Decode(ns, first, value)
	if err == nil && len(row.Events) == 0 {
		err = fmt.Errorf("%w: no event", ErrMalformed)
	}
	if err != nil {
		return Row{}, fmt.Errorf("events of %s from %d on: %w", ns, first, err)
	}
	return row, nil
}

// place is a row without its events; first is 0 if there is none.
type place struct {
	first, last uint64
	Row
}

// rowWith finds the row in which an event is kept.
func rowWith(v *statedb.View, space keys.Space, ns job.Namespace, seq uint64) (at place, err error) {
	from, to := space.EventsBetween(ns, 0, seq+1)
	err = v.ScanBack(from, to, func(key, value []byte) (bool, error) {
		p, err := placeOf(space, key, value)
		if err == nil && p.last >= seq {
			at = p
		}
		return false, err
	})
	return at, err
}

func placeOf(space keys.Space, key, value []byte) (place, error) {
	first, err := space.EventNumber(key)
	if err != nil {
		return place{}, err
	}
	row, n, err := decodeHead(codec.NewReader(value))
	return place{first, first + uint64(n) - 1, row}, err
}

// Keep is what is kept of a namespace's events.
type Keep struct {
	Age   time.Duration
	Bytes uint64
	// Read is the number of the last event that the lists have read; later ones are kept up
	// to unreadFactor times the bytes.
	Read uint64
}

// has reports whether a row is to be kept at a time, in a namespace whose events end at m.
func (k *Keep) has(at *place, now int64, m *Mark) bool {
	behind := m.Bytes - at.Bytes // So much comes after the row.
	return at.Now >= now-int64(k.Age) && behind < k.Bytes || at.last > k.Read && behind < unreadFactor*k.Bytes
}

// later is somewhat more than is kept: so much is let come together before it is cut.
func (k Keep) later() Keep { return Keep{k.Age + k.Age/64, k.Bytes + k.Bytes/16, k.Read} }

// Cut is the number of the first event of a namespace to keep at a time; 0 if nothing is to
// go yet. Rows are not divided.
func Cut(store *statedb.Group, ns job.Namespace, now int64, keep Keep) (before uint64, err error) {
	v := store.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	space := keys.In(store.Prefix())
	m, err := markIn(v, space, ns)
	if err != nil || m.Seq == 0 {
		return 0, err
	}
	oldest, later := uint64(0), keep.later()
	from, to := space.EventsFrom(ns, 0)
	err = v.Scan(from, to, func(key, value []byte) (bool, error) {
		at, err := placeOf(space, key, value)
		if err == nil && !later.has(&at, now, &m) {
			oldest = at.first
		}
		return false, err
	})
	if err != nil || oldest == 0 {
		return 0, err
	}
	return search(oldest, m.Seq+1, func(seq uint64) (uint64, bool, error) {
		at, err := rowWith(v, space, ns, seq)
		return at.first, err == nil && keep.has(&at, now, &m), err
	})
}

// unreadFactor is by how much events that nobody has read yet may exceed what is kept.
const unreadFactor = 4

// search finds the first event in [low, high) whose row is kept, high if none is; kept
// also returns where the row begins.
func search(low, high uint64, kept func(seq uint64) (first uint64, _ bool, _ error)) (uint64, error) {
	for low < high {
		middle := low + (high-low)/2
		first, ok, err := kept(middle)
		switch {
		case err != nil:
			return 0, err
		case ok && first < middle:
			high = max(first, low)
		case ok:
			high = middle
		default:
			low = middle + 1
		}
	}
	return low, nil
}
