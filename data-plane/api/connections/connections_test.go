package connections

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// peer is a connection from an address; it only knows whether it was closed.
type peer struct {
	net.Conn
	addr   string
	closed bool
	ctx    context.Context // What its requests run in.
}

func (p *peer) RemoteAddr() net.Addr { return fakeAddr(p.addr) }
func (p *peer) Close() error         { p.closed = true; return nil }

type fakeAddr string

func (fakeAddr) Network() string  { return "tcp" }
func (a fakeAddr) String() string { return string(a) }

// opens lets n connections in, each from an address of its own, or all from one.
func opens(b *Bound, n int, addr string) []*peer {
	out := make([]*peer, n)
	for i := range out {
		out[i] = &peer{addr: addr}
		if addr == "" {
			out[i].addr = fmt.Sprintf("10.%d.%d.1:4711", i/256, i%256)
		}
		out[i].ctx = b.Context(context.Background(), out[i])
	}
	return out
}

// asks makes each connection have a request of an owner under way.
func asks(b *Bound, owner string, peers ...*peer) {
	for _, p := range peers {
		b.State(p, http.StateActive)
		if owner != "" {
			Belongs(p.ctx, owner)
		}
	}
}

func rests(b *Bound, peers ...*peer) {
	for _, p := range peers {
		b.State(p, http.StateIdle)
	}
}

func closed(peers []*peer) (n int) {
	for _, p := range peers {
		if p.closed {
			n++
		}
	}
	return n
}

func TestBound_OwnerWithMostForItsWeightGivesUpTheLongestIdle(t *testing.T) {
	t.Parallel()
	b := New(100, func(owner string) int64 { return map[string]int64{"heavy": 10, "light": 1}[owner] })
	heavy := opens(b, 50, "")
	asks(b, "heavy", heavy...)
	rests(b, heavy...)
	light := opens(b, 50, "")
	asks(b, "light", light...)
	rests(b, light[1:]...)
	rests(b, light[0]) // Idle for the shortest time.
	for range 10 {
		late := opens(b, 1, "")
		asks(b, "late", late...)
	}
	if closed(heavy) != 0 || closed(light) != 10 || light[0].closed || !light[1].closed || !light[10].closed {
		t.Errorf("closed %d of heavy and %d of light", closed(heavy), closed(light))
	}
	if open, n := b.Counts(); open != 100 || n != 10 {
		t.Errorf("%d open, %d closed", open, n)
	}
}

func TestBound_StrangersPushOutOnlyStrangers(t *testing.T) {
	t.Parallel()
	b := New(100, nil)
	owned := opens(b, 60, "")
	asks(b, "tenant", owned...)
	rests(b, owned...)
	strangers := opens(b, 500, "")
	if closed(owned) != 10 { // 100 in all, of which strangers may be 50.
		t.Errorf("strangers closed %d connections of a tenant", closed(owned))
	}
	if n := closed(strangers); n != 450 || strangers[499].closed || !strangers[0].closed {
		t.Errorf("%d of 500 strangers were closed", n)
	}
}

func TestBound_OneAddressPushesOutNoOther(t *testing.T) {
	t.Parallel()
	b := New(80, nil)
	others := opens(b, 20, "")
	flood := opens(b, 500, "203.0.113.7:1")
	if closed(others) != 0 || closed(flood) != 490 { // An eighth of 80.
		t.Errorf("closed %d others and %d of the flood", closed(others), closed(flood))
	}
}

func TestBound_RequestUnderWayIsNeverCut(t *testing.T) {
	t.Parallel()
	b := New(16, nil)
	var busy []*peer
	for range 12 {
		p := opens(b, 1, "192.0.2.1:1")
		asks(b, "tenant", p...)
		busy = append(busy, p...)
	}
	console := opens(b, 4, "")
	asks(b, "", console...) // Calls of the control plane have no owner here.
	late := opens(b, 1, "198.51.100.1:1")
	if closed(busy) != 0 || closed(console) != 0 || !late[0].closed {
		t.Errorf("closed %d and %d that were busy; the late one: %v", closed(busy), closed(console), late[0].closed)
	}
	rests(b, busy[3])
	if again := opens(b, 1, "198.51.100.1:1"); again[0].closed || !busy[3].closed {
		t.Error("an idle connection made no room for a new one")
	}
}

func TestBound_SlowStrangersKeepNobodyOutWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	b := New(64, nil)
	for range 40 { // More than half, with requests that never end.
		slow := opens(b, 1, fmt.Sprintf("10.1.%d.1:1", b.strangers))
		asks(b, "", slow...)
	}
	tenant := opens(b, 1, "198.51.100.1:1")
	if tenant[0].closed {
		t.Fatal("a new connection was closed while there was room")
	}
	asks(b, "tenant", tenant...)
	if open, n := b.Counts(); open != 41 || n != 0 {
		t.Errorf("%d open, %d closed", open, n)
	}
}

func TestBound_WhatEndedIsForgotten(t *testing.T) {
	t.Parallel()
	b := New(100, nil)
	for range 3 {
		peers := opens(b, 40, "")
		asks(b, "tenant", peers[:20]...)
		rests(b, peers[:10]...)
		for _, p := range peers {
			b.State(p, http.StateClosed)
			b.State(p, http.StateClosed)
			Belongs(p.ctx, "late")
		}
	}
	if open, n := b.Counts(); open != 0 || n != 0 || len(b.groups) != 0 || b.strangers != 0 || b.waiting.Len() != 0 {
		t.Errorf("%d open, %d closed, %d groups, %d strangers", open, n, len(b.groups), b.strangers)
	}
}
