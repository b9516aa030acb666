package cell

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func reading(ns, hour, seq, egress int) *cellv1.Reading {
	return &cellv1.Reading{NamespaceId: nsID(ns), Hour: int64(hour), Seq: uint64(seq), EgressBytes: int64(egress), StreamsPeak: 1}
}

func proxyReadings(name string, completeTo int, list ...*cellv1.Reading) *cellv1.Readings {
	return &cellv1.Readings{Source: "proxy/" + name, Epoch: name, CompleteToNs: int64(completeTo), List: list}
}

// lines are readings as text.
func lines(all []*cellv1.Readings) (out []string) {
	for _, r := range all {
		out = append(out, fmt.Sprintf("%s to %d", r.GetSource(), r.GetCompleteToNs()))
		for _, one := range r.GetList() {
			out = append(out, fmt.Sprintf("%s hour %d: %d at %d", one.GetNamespaceId()[len(one.GetNamespaceId())-1:], one.GetHour(), one.GetEgressBytes(), one.GetSeq()))
		}
	}
	return out
}

func (c *testCell) hasNamespaces(n int) {
	c.t.Helper()
	changes := []*cellv1.Change{testTenant(1, "acme")}
	for i := range n {
		changes = append(changes, testNamespace(i+1, 1, fmt.Sprintf("jobs-%d", i+1)))
	}
	index, err := c.admin().Apply(c.t.Context(), changes...)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range c.nodes {
		eventually.True(c.t, patience, "every node has the namespaces", func() bool { return n.cell.View().Index() >= index })
	}
}

func TestReadings_AnyNodeTellsTheNewestOfEachWhicheverNodeWasTold(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 3)
	c.leader()
	c.hasNamespaces(2)
	tell := func(node string, r *cellv1.Readings) {
		t.Helper()
		if _, err := c.client(node).ReportReadings(t.Context(), connect.NewRequest(&cellv1.ReportReadingsRequest{Readings: r})); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, from int64, want ...string) {
		t.Helper()
		for node := range c.nodes {
			res, err := c.client(node).ListReadings(t.Context(), connect.NewRequest(&cellv1.ListReadingsRequest{FromHour: from}))
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(res.Msg.GetReadings()); !slices.Equal(got, want) {
				t.Errorf("%s, from %s: %q, want %q", what, node, got, want)
			}
		}
	}
	want("nothing yet", 0)
	tell("node-1", proxyReadings("a", 10, reading(1, 7, 1, 100), reading(2, 7, 1, 5), reading(9, 7, 1, 1)))
	tell("node-2", proxyReadings("a", 20, reading(1, 7, 2, 150), reading(1, 8, 2, 1)))
	tell("node-2", proxyReadings("b", 15))
	want("of two nodes", 0, "proxy/a to 20", "1 hour 7: 150 at 2", "2 hour 7: 5 at 1", "1 hour 8: 1 at 2", "proxy/b to 15")
	tell("node-2", proxyReadings("a", 5, reading(1, 7, 1, 100)))
	tell("node-3", proxyReadings("a", 5, reading(1, 7, 1, 100)))
	want("older again", 0, "proxy/a to 20", "1 hour 7: 150 at 2", "2 hour 7: 5 at 1", "1 hour 8: 1 at 2", "proxy/b to 15")
	want("from an hour on", 8, "proxy/a to 20", "1 hour 8: 1 at 2", "proxy/b to 15")

	all, err := c.admin().ProxyReadings(t.Context(), 0)
	if err != nil || len(all) != 2 {
		t.Fatalf("the client reads %v, %v", all, err)
	}
	if err := c.admin().ReportReadings(t.Context(), proxyReadings("c", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin().ListReadings(t.Context(), &cellv1.ListReadingsRequest{Shard: 77}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("of a shard that isn't there: %v", err)
	}
}

func TestReadings_WhatNoProxySaysIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	hour := int(now.Unix() / 3600)
	long := strings.Repeat("x", readingNameMax+1)
	for name, c := range map[string]struct {
		in    *cellv1.Readings
		paths string
	}{
		"nothing":    {nil, "source epoch"},
		"a shard":    {&cellv1.Readings{Source: "shard/2", Epoch: "e"}, "source"},
		"long names": {&cellv1.Readings{Source: "proxy/" + long, Epoch: long, CompleteToNs: -1}, "source epoch complete_to_ns"},
		"numbers":    {proxyReadings("a", 1, &cellv1.Reading{Hour: -1, EgressBytes: -1, StreamsPeak: -1}), "list[0].hour list[0].egress_bytes list[0].streams_peak"},
		"the future": {proxyReadings("a", 1, reading(1, hour+2, 1, 1)), "list[0].hour"},
		"too many":   {proxyReadings("a", 1, slices.Repeat([]*cellv1.Reading{reading(1, hour, 1, 1)}, readingsPart+1)...), "list"},
	} {
		f := fault.As(newReadings().take(&View{}, c.in, now))
		if f == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		var got []string
		for _, v := range f.Fields {
			got = append(got, strings.TrimPrefix(v.Path, "readings."))
		}
		if strings.Join(got, " ") != c.paths {
			t.Errorf("%s: %v, want %s", name, got, c.paths)
		}
	}
}

func TestReadings_PagesOfAllNodesTellEverythingOnce(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	for i := range 7 {
		b.must(testNamespace(i+1, 1, fmt.Sprintf("jobs-%d", i+1)))
	}
	v, now := b.machine.View(), time.Now()
	nodes := []*readings{newReadings(), newReadings(), newReadings()}
	want := make(map[string]int)
	for p := range 3 {
		for i := range 7 {
			for hour := range 3 {
				at := (p + i + hour) % 3
				for n := range 2 { // Two nodes know it; one has an older reading.
					r := proxyReadings(fmt.Sprintf("p%d", p), 10, reading(i+1, hour, 2-n, 100-n))
					if err := nodes[(at+n)%3].take(v, r, now); err != nil {
						t.Fatal(err)
					}
				}
				want[fmt.Sprintf("p%d %s %d", p, nsID(i+1), hour)] = 100
			}
		}
	}
	for most := 1; most < 70; most += 4 {
		got, req := make(map[string]int), &cellv1.ListReadingsRequest{}
		for more := true; more; {
			more = false
			var answers [][]*cellv1.Readings
			for _, n := range nodes {
				answers = append(answers, n.page(req, most, now))
			}
			for _, r := range mergeReadings(answers, most, len(req.GetNext()) == 0) {
				for _, one := range r.GetList() {
					key := fmt.Sprintf("%s %s %d", r.GetEpoch(), one.GetNamespaceId(), one.GetHour())
					if _, twice := got[key]; twice {
						t.Fatalf("%d a page: %s twice", most, key)
					}
					got[key] = int(one.GetEgressBytes())
				}
				if r.GetMore() {
					more, req.Next = true, r.GetNext()
				}
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d a page: %d readings, want %d", most, len(got), len(want))
		}
		for key, egress := range got {
			if egress != 100 {
				t.Fatalf("%d a page: %s is %d, an older reading", most, key, egress)
			}
		}
	}
}

func TestReadings_PagesGoOnForWhatOneNodeAloneWasTold(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.must(testNamespace(1, 1, "jobs"))
	now := time.Now()
	told, silent := newReadings(), newReadings()
	if err := told.take(b.machine.View(), proxyReadings("a", 10, reading(1, 1, 1, 1), reading(1, 2, 1, 2), reading(1, 3, 1, 3)), now); err != nil {
		t.Fatal(err)
	}
	req, got := &cellv1.ListReadingsRequest{}, ""
	for more := true; more; {
		more = false
		for _, r := range mergeReadings([][]*cellv1.Readings{silent.page(req, 1, now), told.page(req, 1, now)}, 1, len(req.GetNext()) == 0) {
			for _, one := range r.GetList() {
				got += fmt.Sprint(one.GetEgressBytes())
			}
			more, req.Next = r.GetMore(), r.GetNext()
		}
	}
	if got != "123" {
		t.Errorf("pages have %s", got)
	}
}

func TestReadings_AProxyUnheardForADayAndTheOldestHoursGo(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	b.must(testNamespace(1, 1, "jobs"))
	v, now := b.machine.View(), time.Now()
	s := newReadings()
	take := func(r *cellv1.Readings, at time.Time) {
		t.Helper()
		if err := s.take(v, r, at); err != nil {
			t.Fatal(err)
		}
	}
	take(proxyReadings("old", 1, reading(1, 5, 1, 1)), now)
	take(proxyReadings("new", 1, reading(1, 5, 1, 1), reading(1, 6, 1, 1)), now.Add(time.Hour))
	later := now.Add(tellerKept + time.Minute)
	if got := lines(s.page(&cellv1.ListReadingsRequest{}, 10, later)); !slices.Equal(got, []string{"proxy/new to 1", "1 hour 5: 1 at 1", "1 hour 6: 1 at 1"}) {
		t.Errorf("a day later: %q", got)
	}
	s.trim(1)
	if got := lines(s.page(&cellv1.ListReadingsRequest{}, 10, later)); !slices.Equal(got, []string{"proxy/new to 1", "1 hour 6: 1 at 1"}) || s.count != 1 {
		t.Errorf("over the bound: %q", got)
	}
	for i := range tellersMax {
		take(proxyReadings(fmt.Sprint(i), 1), later.Add(time.Duration(i)))
	}
	if len(s.tellers) != tellersMax || s.count != 0 {
		t.Errorf("%d runs of proxies, %d readings", len(s.tellers), s.count)
	}
}
