package feed

import (
	"errors"
	"reflect"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

var busy, quiet = job.Namespace{1}, job.Namespace{2}

// chained writes entries with events of namespaces, numbered and linked as package
// state does it.
func chained(t *testing.T, g *statedb.Group, entries map[uint64][]job.Namespace) {
	t.Helper()
	marks := map[job.Namespace]Mark{}
	for index := uint64(1); len(entries) > 0; index++ {
		of, ok := entries[index]
		if !ok {
			continue
		}
		delete(entries, index)
		commit(t, g, func(txn *statedb.Txn, space keys.Space) {
			var links []Link
			var events []Event
			linked := map[job.Namespace]bool{}
			for _, ns := range of {
				m := marks[ns]
				if !linked[ns] {
					linked[ns] = true
					links = append(links, m.Next(ns, index))
				}
				m.Seq++
				marks[ns] = m
				events = append(events, Event{Type: Enqueued, NS: ns})
			}
			txn.SetNew(space.Feed(index), Encode(int64(index), links, events))
			for ns := range linked {
				txn.Set(space.EventMark(ns), marks[ns].Encode())
			}
		})
	}
}

func TestSince_FollowsOneNamespaceAndPassesOverItsNeighbours(t *testing.T) {
	t.Parallel()
	g := openStore(t)
	chained(t, g, map[uint64][]job.Namespace{
		1: {busy}, 2: {quiet, busy, quiet}, 3: {busy, busy}, 5: {busy}, 9: {busy, quiet}, 12: {busy},
	})
	for _, c := range []struct {
		ns    job.Namespace
		after uint64
		want  []uint64
		err   error
	}{
		{quiet, 0, []uint64{2, 9}, nil},
		{quiet, 1, []uint64{2, 9}, nil},
		{quiet, 2, []uint64{9}, nil},
		{quiet, 3, nil, nil},
		{quiet, 4, nil, ErrAhead},
		{busy, 0, []uint64{1, 2, 3, 5, 9, 12}, nil},
		{busy, 3, []uint64{3, 5, 9, 12}, nil},
		{busy, 6, []uint64{12}, nil},
		{job.Namespace{3}, 0, nil, nil},
		{job.Namespace{3}, 1, nil, ErrAhead},
	} {
		got, err := Since(g, c.ns, c.after, 100)
		if !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s after %d: %v, %v, want %v, %v", c.ns, c.after, got, err, c.want, c.err)
		}
	}
	if b, err := At(g, 9); err != nil || len(b.Events) != 2 || b.Events[0].Seq != 6 || b.Events[1].Seq != 3 {
		t.Errorf("entry 9: %+v, %v", b, err)
	}
}

func TestSince_TrimmedEventsAreTold(t *testing.T) {
	t.Parallel()
	g := openStore(t)
	chained(t, g, map[uint64][]job.Namespace{1: {busy}, 2: {quiet}, 3: {busy}, 4: {busy, quiet}})
	trim(t, g, 3)
	for after, want := range map[uint64]error{0: ErrTrimmed, 1: nil, 2: nil, 3: nil} {
		if _, err := Since(g, busy, after, 100); !errors.Is(err, want) {
			t.Errorf("busy after %d: %v, want %v", after, err, want)
		}
	}
	if _, err := Since(g, quiet, 0, 100); !errors.Is(err, ErrTrimmed) {
		t.Errorf("quiet after 0: %v", err)
	}
	if _, err := At(g, 2); !errors.Is(err, ErrTrimmed) {
		t.Errorf("trimmed entry: %v", err)
	}
}

func TestSince_BrokenLinksAreErrors(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string][]byte{
		"no bytes":         {9},
		"of others":        Encode(1, []Link{{NS: quiet, First: 5, Prev: 3}}, nil),
		"to itself":        Encode(1, []Link{{NS: busy, First: 5, Prev: 4}}, nil),
		"to the future":    Encode(1, []Link{{NS: busy, First: 5, Prev: 40}}, nil),
		"to where none is": Encode(1, []Link{{NS: busy, First: 5, Prev: 0}}, nil),
	} {
		g := openStore(t)
		commit(t, g, func(txn *statedb.Txn, space keys.Space) {
			txn.Set(space.Feed(4), entry)
			txn.Set(space.EventMark(busy), Mark{Seq: 5, Index: 4}.Encode())
		})
		if _, err := Since(g, busy, 0, 100); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := openStore(t)
	commit(t, g, func(txn *statedb.Txn, space keys.Space) { txn.Set(space.EventMark(busy), []byte{7}) })
	if _, err := Since(g, busy, 0, 100); !errors.Is(err, ErrMalformed) {
		t.Errorf("broken mark: %v", err)
	}
}

// A place far back is found in some hundred steps, and a page from there costs what the
// page holds: a viewer asks for the oldest event as often as he likes.
func TestSince_WhatItCostsDoesNotGrowWithTheFeed(t *testing.T) {
	t.Parallel()
	g := openStore(t)
	const entries = 20_000
	var m Mark
	for from := uint64(1); from <= entries; from += 1000 {
		commit(t, g, func(txn *statedb.Txn, space keys.Space) {
			for index := from; index < from+1000; index++ {
				l := m.Next(busy, index)
				m.Seq += 1 + index%3
				events := make([]Event, 1+index%3)
				for i := range events {
					events[i] = Event{Type: Enqueued, NS: busy}
				}
				txn.SetNew(space.Feed(index), Encode(int64(index), []Link{l}, events))
			}
			txn.Set(space.EventMark(busy), m.Encode())
		})
	}
	first := func(index uint64) uint64 { // Number of an entry's first event.
		n := uint64(1)
		for i := uint64(1); i < index; i++ {
			n += 1 + i%3
		}
		return n
	}
	for _, cut := range []uint64{1, 137, 9_999} {
		trim(t, g, cut)
		for _, want := range []uint64{1, 64, 65, 4096, 4097, 8192, 10_001, 19_999, entries} {
			got, err := Since(g, busy, first(want)-1, 3)
			if lost := want < cut; lost != errors.Is(err, ErrTrimmed) || !lost && err != nil {
				t.Fatalf("entry %d of those from %d on: %v", want, cut, err)
			}
			from := max(want, cut)
			var all []uint64
			for i := from; i <= min(from+2, entries); i++ {
				all = append(all, i)
			}
			if !reflect.DeepEqual(got, all) {
				t.Fatalf("entry %d of those from %d on: %v, want %v", want, cut, got, all)
			}
			looked := 0
			newest, err := place(g, busy, entries)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := newest.back(g, func(l *Link) bool { looked++; return l.N <= want }); err != nil || looked > 8*64 {
				t.Fatalf("entry %d of those from %d on: %d looks, %v", want, cut, looked, err)
			}
		}
	}
}
