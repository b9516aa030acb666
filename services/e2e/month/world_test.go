package month_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/pgtest"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const (
	webhookSecret = "whsec_of_the_month"
	masterKey     = "5a" // As StartControl's, 32 times.
	controls      = 2
	// patience is how long anything may take that must happen, in real time.
	patience = 2 * time.Minute
)

// world is all processes, and the time that they live in.
type world struct {
	t    *testing.T
	seed uint64

	moving sync.Mutex // Held while wall is moved.
	wall   *rig.WallClock

	stripe   *stripetest.Server
	steps    *steps
	faults   *faults
	database string
	keyFile  string
	mailbox  string
	cell     *rig.Cell

	nodes, proxies, controls []*process
	tending                  sync.WaitGroup
}

// now is the world's time.
func (w *world) now() time.Time {
	now, _ := w.wall.Now()
	return now
}

// moveTo makes it a time, for all processes at once.
func (w *world) moveTo(at time.Time) {
	w.moving.Lock()
	defer w.moving.Unlock()
	if at.After(w.now()) { // Of two at once, the later one counts.
		w.wall.Move(time.Until(at))
	}
}

// rng is a source of its own for each name.
func (w *world) rng(name ...uint64) *rand.Rand {
	h := w.seed
	for _, n := range name {
		h = (h ^ n) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return rand.New(rand.NewPCG(w.seed, h))
}

// Names of sources of randomness.
const (
	ofFaults = iota + 1
	ofSteps
	ofKills
	ofEvents
	ofClients
	ofPauses
	ofTenants
)

// newWorld starts everything at a time.
func newWorld(t *testing.T, seed uint64, at time.Time) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Setenv("CORVO_STRIPE_KEY", stripetest.Key)
	t.Setenv("CORVO_STRIPE_WEBHOOK_SECRET", webhookSecret)
	w := &world{t: t, seed: seed, wall: rig.ShareWallClock(t)}
	w.moveTo(at)
	w.stripe = stripetest.New(t, w.now)
	w.steps, w.faults = newSteps(w.rng(ofSteps)), newFaults(w.rng(ofFaults))
	w.stripe.Faults(w.faults.next)
	w.database = pgtest.Start(t)
	w.keyFile = filepath.Join(t.TempDir(), "control.key")
	if err := os.WriteFile(w.keyFile, []byte(strings.Repeat(masterKey, 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.cell = rig.StartCell(t, rig.CellOptions{Proxies: 2, Clock: w.wall})
	smtp, page := rig.StartMailbox(t)
	w.mailbox = page
	for i, n := range w.cell.Nodes {
		w.nodes = append(w.nodes, &process{kind: "node", place: &n.Place, t: t, rng: w.rng(ofPauses, 1, uint64(i))})
	}
	for i, p := range w.cell.Proxies {
		w.proxies = append(w.proxies, &process{kind: "proxy", place: p, t: t, rng: w.rng(ofPauses, 2, uint64(i))})
	}
	for i := range controls {
		p := &process{kind: "control", t: t, rng: w.rng(ofPauses, 3, uint64(i))}
		gate := httptest.NewServer(&gate{world: w, caller: p})
		t.Cleanup(gate.Close)
		started := w.cell.StartControl(rig.ControlOptions{
			Database: w.database, Listen: rig.Addresses(t, 1)[0], PublicURL: w.cell.Proxies[0].URL, SMTP: smtp, Args: []string{"--stripe-url", gate.URL},
		})
		p.place = &started.Place
		w.controls = append(w.controls, p)
	}
	w.tend()
	return w
}

// all processes.
func (w *world) all() []*process {
	return append(append(append([]*process(nil), w.nodes...), w.proxies...), w.controls...)
}

// tend starts again whatever was killed, until the test ends.
func (w *world) tend() {
	for _, p := range w.all() {
		p.up = true
		w.tending.Go(func() { p.tend(w.t.Context()) }) // Which ends before anything is cleaned up.
	}
	w.t.Cleanup(w.tending.Wait)
}

// notYet is the exit code of what is written down, and not yet in the cell.
const notYet = 7

// operator runs a command of the operator's, until it has succeeded.
func (w *world) operator(args ...string) (stdout string) {
	w.t.Helper()
	eventually.NoError(w.t, patience, strings.Join(args, " "), func() error {
		out, talk, exit := rig.Run(w.t, patience, append(append([]string{"control"}, args...), "--database", w.database)...)
		if stdout = out; exit != 0 && exit != notYet {
			return fmt.Errorf("exit %d: %s", exit, talk)
		}
		return nil
	})
	return stdout
}

// prices give plans that cost something for each meter, in whole cents per unit of Stripe's.
func (w *world) prices(plans ...string) {
	w.t.Helper()
	for i, name := range plans {
		var spec map[string]any
		if err := json.Unmarshal([]byte(w.operator("plans", "show", name, "-o", "json")), &spec); err != nil {
			w.t.Fatal(err)
		}
		cents := int64(i + 1)
		spec["prices"] = []map[string]any{
			{"meter": bill.JobsEnqueued, "per": 1, "amount": 3 * cents}, {"meter": bill.Executions, "per": 1, "amount": 2 * cents},
			{"meter": bill.PayloadBytes, "per": 1 << 10, "amount": cents}, {"meter": bill.StoredByteHours, "per": 1 << 20, "amount": cents},
			{"meter": bill.EgressBytes, "per": 1 << 10, "amount": cents},
		}
		text, err := json.Marshal(spec)
		if err != nil {
			w.t.Fatal(err)
		}
		file := filepath.Join(w.t.TempDir(), name+".json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			w.t.Fatal(err)
		}
		w.operator("plans", "apply", file)
	}
	w.operator("stripe", "sync", "--master-key-file", w.keyFile, "--stripe-url", w.stripe.URL)
}

// follow returns when every shard counts in the hour that it is now.
func (w *world) follow(shards []uint32) {
	w.t.Helper()
	hour := w.now().Truncate(time.Hour)
	for _, shard := range shards {
		eventually.NoError(w.t, patience, fmt.Sprintf("shard %d counts in the hour of %s", shard, hour.Format(time.RFC3339)), func() error {
			ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
			defer cancel()
			// Of the hours after this one: only how far it is, without a list.
			r, err := w.cell.Admin.Readings(ctx, shard, celladmin.ReadingsFrom{Hour: hour.Unix()/3600 + 1})
			if to := time.Unix(0, r.CompleteNs); err == nil && to.Before(hour) {
				return fmt.Errorf("it is complete to %s", to.UTC().Format(time.RFC3339))
			}
			return err
		})
	}
}

// process is one that is killed at any moment, and started again.
type process struct {
	kind  string
	place *rig.Place
	t     *testing.T
	rng   *rand.Rand // Of tend alone.

	mu     sync.Mutex // Guards the rest, and place.Process.
	up     bool       // It has said that it is ready.
	killed bool       // By us, since it was started.
	kills  int
}

// kill kills it, if it is up, and returns when it is gone.
func (p *process) kill() bool {
	p.mu.Lock()
	if !p.up {
		p.mu.Unlock()
		return false
	}
	p.up, p.killed = false, true
	p.kills++
	running := p.place.Process
	p.mu.Unlock()
	running.Kill()
	return true
}

// isUp reports whether it runs.
func (p *process) isUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up
}

func (p *process) tend(ctx context.Context) {
	for {
		p.mu.Lock()
		running := p.place.Process
		p.mu.Unlock()
		select {
		case <-running.Done():
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		if !p.killed {
			p.t.Errorf("a %s ended by itself: %s", p.kind, tail(running.Stderr()))
		}
		p.up = false
		p.mu.Unlock()
		select {
		case <-time.After(time.Duration(p.rng.Int64N(int64(500 * time.Millisecond)))): // It is away for a while.
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		p.killed = false
		p.place.Start()
		running = p.place.Process
		p.mu.Unlock()
		for ctx.Err() == nil && !running.Exited() && !strings.Contains(running.Stdout(), "ready: ") {
			time.Sleep(10 * time.Millisecond) // Until one of them.
		}
		p.mu.Lock()
		p.up = !running.Exited()
		p.mu.Unlock()
	}
}

func tail(text string) string { return text[max(0, len(text)-2000):] }
