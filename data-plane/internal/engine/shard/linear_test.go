package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/raftlog"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// What callers see of one unique key must be explained by one order of their
// calls (INV-18): each key has a queue of its own, so that at most one job of the
// queue is alive and everything said about it belongs to the key.

type verb uint8

const (
	opEnqueue verb = iota
	opFetch
	opAck
	opRelease
	opCancel
)

// ask is a call, told its answer.
type ask struct {
	key   int
	verb  verb
	id    job.ID
	token keys.Position
}

type told struct {
	unknown bool
	ok      bool   // Accepted; enqueue: created; fetch: got a job.
	id      job.ID // Enqueue: who answers; fetch: the job.
	token   keys.Position
}

// keyState is the model: the one living job of a key.
type keyState struct {
	id     job.ID
	leased bool
	// token is that of the last lease; zero when the grant's answer was never seen.
	token keys.Position
	// cancelling: the lease goes on until its holder lets go.
	cancelling bool
	// Settlements that may be reported again with the same answer.
	acked, let settlements
	// released: the last holder gave the job back.
	released bool
}

// settlements is a set of leases, comparable as model states must be.
type settlements string

func settlement(a ask) settlements {
	return settlements(fmt.Sprintf("%s@%d.%d;", a.id, a.token.Index, a.token.Ordinal))
}

func (s settlements) has(a ask) bool { return strings.Contains(string(s), string(settlement(a))) }

func (k keyState) alive() bool { return !k.id.IsZero() }

func (k keyState) end() keyState {
	k.id, k.leased, k.token, k.cancelling, k.released = job.ID{}, false, keys.Position{}, false, false
	return k
}

// next is what the call does, and whether the answer fits.
func (k keyState) next(a ask, o told) (bool, keyState) {
	fits := func(want bool) bool { return o.unknown || o.ok == want }
	switch a.verb {
	case opEnqueue:
		if k.alive() {
			return o.unknown || !o.ok && o.id == k.id, k
		}
		k.id = a.id
		return o.unknown || o.ok && o.id == a.id, k
	case opFetch:
		if !k.alive() || k.leased {
			return fits(false), k
		}
		k.leased, k.token, k.released = true, o.token, false
		return o.unknown || o.ok && o.id == k.id, k
	case opAck:
		if k.id == a.id && k.leased && k.token == a.token {
			k.acked += settlement(a)
			return fits(true), k.end()
		}
		return fits(k.acked.has(a)), k
	case opRelease:
		switch {
		case k.id == a.id && k.leased && k.token == a.token && k.cancelling:
			k.let += settlement(a)
			return fits(true), k.end()
		case k.id == a.id && k.leased && k.token == a.token:
			k.leased, k.released = false, true
			return fits(true), k
		case k.id == a.id && !k.leased && k.released && k.token == a.token:
			return fits(true), k // Given back again: the same answer.
		}
		return fits(k.let.has(a)), k
	default:
		switch {
		case k.id == a.id && k.leased:
			k.cancelling = true
			return fits(true), k
		case k.id == a.id:
			// The last holder, giving it back again, is told that it was cancelled.
			k.let += settlement(ask{id: k.id, token: k.token})
			return fits(true), k.end()
		}
		// Long gone: cancelled, completed or never there.
		return true, k
	}
}

var keyModel = porcupine.Model{
	Init: func() any { return keyState{} },
	Step: func(s, in, out any) (bool, any) { return s.(keyState).next(in.(ask), out.(told)) },
	Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
		parts := map[int][]porcupine.Operation{}
		for _, o := range h {
			parts[o.Input.(ask).key] = append(parts[o.Input.(ask).key], o)
		}
		var out [][]porcupine.Operation
		for _, p := range parts {
			out = append(out, p)
		}
		return out
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// recorder keeps the history of all callers.
type recorder struct {
	began time.Time
	mu    sync.Mutex // Guards the rest.
	ops   []porcupine.Operation
	// Leases somebody was told of, by key.
	leases map[int][]ask
}

// call runs one request and notes what was asked and told. It reports whether
// the shard still serves.
func (c *recorder) call(r *rig, client int, a ask, patient time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	at := time.Since(c.began).Nanoseconds()
	rep, err := r.Do(ctx, a.request())
	end := time.Since(c.began).Nanoseconds()
	o := told{unknown: err != nil}
	switch fault.CodeOf(err) {
	case fault.UnknownOutcome:
		end = 1 << 62 // Perhaps it happens only later.
	case fault.NotLeader, fault.Unavailable:
		return false // Nothing was done.
	default:
		if err != nil {
			panic(err)
		}
		o = a.read(&rep)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, porcupine.Operation{ClientId: client, Input: a, Output: o, Call: at, Return: end})
	if a.verb == opFetch && o.ok {
		c.leases[a.key] = append(c.leases[a.key], ask{key: a.key, id: o.id, token: o.token})
	}
	return true
}

func (a ask) request() Request {
	queue := fmt.Sprintf("q%d", a.key)
	by := command.Holder{Token: command.Token{Attempt: uint32(a.token.Ordinal >> 16), Epoch: keys.Position{Index: a.token.Index, Ordinal: a.token.Ordinal & 0xffff}}}
	switch a.verb {
	case opEnqueue:
		return Request{After: []command.Command{&command.Enqueue{
			NS: stepNS, ID: a.id, Queue: queue, Payload: []byte(`{}`), Retry: command.DefaultRetry(), UniqueKey: "k", UniqueFor: time.Hour,
		}}}
	case opFetch:
		return Request{Fetch: &Fetch{NS: stepNS, Queues: []string{queue}, Count: 1, Worker: "w", Lease: time.Hour}}
	case opAck:
		return settle(&command.Ack{NS: stepNS, ID: a.id, By: by})
	case opRelease:
		return settle(&command.Fail{NS: stepNS, ID: a.id, By: by, Release: true})
	default:
		return settle(&command.Cancel{NS: stepNS, ID: a.id})
	}
}

// pack puts the attempt beside the place of the grant; both are small here.
func pack(g state.Grant) keys.Position {
	if g.Epoch.Ordinal > 0xffff || g.Attempt > 0xffff {
		panic("a token does not fit")
	}
	return keys.Position{Index: g.Epoch.Index, Ordinal: g.Attempt<<16 | g.Epoch.Ordinal}
}

func (a ask) read(rep *Reply) told {
	switch a.verb {
	case opEnqueue:
		return told{ok: !rep.After[0].Duplicate, id: rep.After[0].ID}
	case opFetch:
		if len(rep.Grants) == 0 {
			return told{}
		}
		return told{ok: true, id: rep.Grants[0].ID, token: pack(rep.Grants[0])}
	default:
		return told{ok: rep.Settled[0].Refusal == state.Accepted}
	}
}

// draw chooses the next call.
func (c *recorder) draw(rng *rand.Rand, m *maker, key int) ask {
	a := ask{key: key, verb: verb(rng.IntN(5))}
	c.mu.Lock()
	known := c.leases[key]
	c.mu.Unlock()
	switch {
	case a.verb == opEnqueue || a.verb != opFetch && len(known) == 0:
		a.verb, a.id = opEnqueue, m.newJob().ID
	case a.verb != opFetch:
		l := known[max(len(known)-1-rng.IntN(2), 0)] // The latest, or one before it.
		a.id, a.token = l.id, l.token
		if a.verb == opCancel {
			if rng.IntN(3) > 0 {
				a.verb = opAck
			} else {
				a.token = keys.Position{}
			}
		}
	}
	return a
}

func TestLinear_WhatCallersAreToldHasOneOrder(t *testing.T) {
	t.Parallel()
	eras, length := 5, 800*time.Millisecond
	if testing.Short() {
		eras, length = 2, 300*time.Millisecond
	}
	d := memDisks()
	c := &recorder{began: time.Now(), leases: map[int][]ask{}}
	var m maker
	for era := range eras {
		r := start(t, d, "", raftlog.Options{})
		var wg sync.WaitGroup
		for client := range 6 {
			rng := rand.New(rand.NewPCG(uint64(era), uint64(client)))
			wg.Go(func() {
				for n := 0; ; n++ {
					key := max(era-rng.IntN(2), 0)*100 + n/60*4 + rng.IntN(4) // Few keys at a time, and some of the era before.
					patient := patience
					if rng.IntN(60) == 0 {
						patient = time.Duration(rng.IntN(300)) * time.Microsecond
					}
					if !c.call(r, client, c.draw(rng, &m, key), patient) {
						return
					}
					time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
				}
			})
		}
		time.Sleep(length) // The moment is arbitrary on purpose.
		if err := r.Group().Shutdown(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		r.stop(t)
	}
	unknown := 0
	for _, o := range c.ops {
		if o.Output.(told).unknown {
			unknown++
		}
	}
	t.Logf("%d calls, %d of unknown outcome", len(c.ops), unknown)
	if unknown == 0 || len(c.ops) < 100*eras {
		t.Error("too little happened: the test proves nothing")
	}
	res, info := porcupine.CheckOperationsVerbose(keyModel, c.ops, 15*time.Second)
	if res != porcupine.Ok {
		path := t.ArtifactDir() + "/history.html"
		t.Errorf("check is %v; drawn in %s: %v", res, path, porcupine.VisualizePath(keyModel, info, path))
	}
}

// A leader that was deposed without knowing must not say that something is not there.
func TestRead_ThatFindsNothingIsConfirmedToo(t *testing.T) {
	t.Parallel()
	r, deafen := paired(t)
	deafen()
	eventually.True(t, patience, "the peer does not confirm", func() bool { return r.Group().VerifyLeader() != nil || !r.Group().Leading() })
	_, err := Read(t.Context(), r.Shard, func(*statedb.Group) (struct{}, error) { return struct{}{}, statedb.ErrNotFound })
	if fault.CodeOf(err) != fault.NotLeader {
		t.Fatalf("a node that nobody confirms answers: %v", err)
	}
}
