package sampled_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/sampled"
)

// kind is one with as many texts as those of the product have.
type kind struct{ tenant, who, what string }

type counter struct {
	*sampled.Counter[kind, string]
	at time.Time
}

func newCounter(ownerMax int) *counter {
	c := &counter{at: time.Unix(1_800_000_000, 0)}
	c.Counter = sampled.New[kind, string](func() time.Time { return c.at }, ownerMax, nil)
	return c
}

func (c *counter) note(n int, what, first string) {
	for range n {
		c.Note("acme", kind{"acme", "key_1", what}, first)
	}
}

// taken is a line for each that was due.
func (c *counter) taken() (lines []string) {
	for _, of := range c.Take() {
		lines = append(lines, fmt.Sprintf("%s %s %d -%s", of.Kind.what, of.First, of.Times, c.at.Sub(of.Since)))
	}
	slices.Sort(lines)
	return lines
}

func TestCounter_TheFirstAtOnceThenACountEveryWindow(t *testing.T) {
	t.Parallel()
	c := newCounter(10)
	want := func(lines ...string) {
		t.Helper()
		if got := c.taken(); !slices.Equal(got, lines) {
			t.Errorf("taken %q, want %q", got, lines)
		}
	}
	c.note(3, "read", "first")
	want("read first 3 -0s")
	c.note(5, "read", "second")
	c.note(1, "write", "third")
	want("write third 1 -0s")
	c.at = c.at.Add(sampled.Window - time.Minute)
	c.note(2, "read", "fourth")
	want()
	c.at = c.at.Add(time.Minute)
	want("read second 7 -10m0s")
	c.at = c.at.Add(time.Hour)
	want()
	c.note(1, "read", "fifth")
	want("read fifth 1 -0s")
}

func TestCounter_WhatCouldNotBeToldIsDueAtOnceWithWhatFollowed(t *testing.T) {
	t.Parallel()
	c := newCounter(10)
	c.note(2, "read", "first")
	failed := c.Take()
	c.at = c.at.Add(time.Minute)
	c.note(3, "read", "second")
	for _, of := range failed {
		c.Back(of)
	}
	if got := c.taken(); !slices.Equal(got, []string{"read first 5 -1m0s"}) {
		t.Errorf("taken %q", got)
	}
	// Also if it was forgotten in the meantime.
	c.at = c.at.Add(time.Hour)
	c.Take()
	c.Back(failed[0])
	if got := c.taken(); !slices.Equal(got, []string{"read first 2 -1h1m0s"}) {
		t.Errorf("taken %q", got)
	}
}

func TestCounter_IsBoundedAndNoOwnerTakesTheRoomOfAnother(t *testing.T) {
	t.Parallel()
	c := newCounter(2)
	for i := range 5 {
		c.Note("acme", kind{tenant: "acme", what: fmt.Sprint(i)}, "")
		c.Note("beta", kind{tenant: "beta", what: fmt.Sprint(i)}, "")
	}
	if n := len(c.Take()); n != 4 {
		t.Errorf("%d kinds, want two of each", n)
	}
	c.at = c.at.Add(sampled.Window)
	c.Take() // Forgets all, which makes room.
	for i := range sampled.KindsMax + 5 {
		owner := fmt.Sprint(i)
		c.Note(owner, kind{tenant: owner}, "")
	}
	if n := len(c.Take()); n != sampled.KindsMax {
		t.Errorf("%d kinds, want %d", n, sampled.KindsMax)
	}
}

func TestCounter_KeepsCopiesIfItIsTold(t *testing.T) {
	t.Parallel()
	copied := 0
	c := sampled.New(time.Now, 1, func(k kind, first string) (kind, string) {
		copied++
		k.what = strings.Clone(k.what)
		return k, strings.Clone(first)
	})
	for range 3 {
		c.Note("acme", kind{what: "read"}, "first")
		c.Note("acme", kind{what: "no room"}, "first")
	}
	if copied != 1 {
		t.Errorf("copied %d times", copied)
	}
}

func TestCounter_LosesNothingAtOnce(t *testing.T) {
	t.Parallel()
	c := sampled.New[kind, string](time.Now, 1, nil)
	var all sync.WaitGroup
	total := 0
	for range 4 {
		all.Go(func() {
			for range 1000 {
				c.Note("acme", kind{what: "read"}, "")
			}
		})
	}
	for _, of := range c.Take() {
		total += of.Times
		c.Back(of)
		total -= of.Times
	}
	all.Wait()
	for _, of := range c.Take() {
		total += of.Times
	}
	if total != 4000 {
		t.Errorf("counted %d", total)
	}
}

// A caller that is refused may call as often as it can.
func TestCounter_CountingOneMoreAllocatesNothing(t *testing.T) { // Not in parallel: others allocate.
	c, k := sampled.New[kind, string](time.Now, 10, nil), kind{"acme", "key_1", "read"}
	c.Note("acme", k, "first")
	if n := testing.AllocsPerRun(1000, func() { c.Note("acme", k, "first") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNote(b *testing.B) {
	c, k := sampled.New[kind, string](time.Now, 10, nil), kind{"acme", "key_1", "read"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Note("acme", k, "first")
		}
	})
}
