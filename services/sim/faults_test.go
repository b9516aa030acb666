package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/services/e2e/history"
)

// fault is one kind of fault of the table in docs/faults.md. make injects it and returns
// what undoes it, or nil if it could not be made now. It draws from a source of its own.
type fault struct {
	kind   string
	weight int
	make   func(s *storm, rng *rand.Rand) (what string, undo func())
}

// Kinds that are counted when they have had an effect, not when they are made.
const (
	armed      = "F24 crash between durable steps"
	unreadable = "F5 failing reads" // Most is read from memory.
	replaced   = "F13 node replaced"
	removed    = "F13 node removed"
)

var countedLater = []string{armed, unreadable, replaced, removed}

const partitioned = "F9 partition"

// storm makes faults, one after another and some at the same time.
type storm struct {
	w       *world
	l       *load
	pending sync.WaitGroup // Undoing.

	mu    sync.Mutex     // Guards the rest.
	steps map[string]int // Crashes between durable steps, by the step.
	drawn map[string]int
}

// faults is read from top to bottom by docs/faults.md.
var faults = []fault{
	{"F1 kill", 3, func(s *storm, rng *rand.Rand) (string, func()) { return s.crash(rng, 100) }},
	{"F2 power loss", 4, func(s *storm, rng *rand.Rand) (string, func()) { return s.crash(rng, rng.IntN(100)) }},
	{"F3 power loss of the whole cell", 1, (*storm).blackout},
	{"F4 changed bits on a disk", 1, (*storm).rot},
	{"F5 disk error", 1, (*storm).diskError},
	{unreadable, 2, (*storm).readError},
	{"F6 disk full", 1, (*storm).diskFull},
	{"F6 no space left", 1, (*storm).noSpaceLeft},
	{"F7 slow disk", 2, (*storm).slowDisk},
	{"F7 stalled disk", 2, (*storm).stalledDisk},
	{"F8 clock jump", 2, (*storm).clockJump},
	{"F8 clock drift", 1, (*storm).clockDrift},
	{"F8 clock stands still", 1, (*storm).clockStandsStill},
	{partitioned, 3, (*storm).partition},
	{"F9 one-way partition", 3, (*storm).oneWay},
	{"F9 bridge", 1, (*storm).bridge},
	{"F10 lost connections", 3, (*storm).loseConnections},
	{"F10 slow links", 1, (*storm).slowLinks},
	{"F11 pause", 3, (*storm).pause},
	{"F12 leader transfers", 2, (*storm).transfers},
	{replaced, 1, (*storm).replace},
	{removed, 1, (*storm).removeOne},
	{"F20 worker dies", 3, (*storm).workerDies},
	{"F20 worker hears nothing", 2, (*storm).workerDeaf},
	{armed, 5, (*storm).crashBetween},
}

// planned is one fault of a seed. What happens to the cell changes none of it.
type planned struct {
	fault   fault
	source  uint64        // Of all that this fault draws.
	lasts   time.Duration // Until it is undone.
	overlap bool          // The next one is made meanwhile,
	pause   time.Duration // so long after this one.
}

// plan are the faults of a seed.
func plan(seed uint64, count int) []planned {
	rng, total := rand.New(rand.NewPCG(seed, 0)), 0
	for _, f := range faults {
		total += f.weight
	}
	var out []planned
	for range count {
		out = append(out, planned{
			fault: draw(rng.IntN(total)), source: rng.Uint64(), lasts: between(rng, 100*time.Millisecond, 5*time.Second), overlap: rng.IntN(3) == 0,
			pause: between(rng, 50*time.Millisecond, 2*time.Second),
		})
	}
	return out
}

func draw(n int) fault {
	for _, f := range faults {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("weights")
}

func between(rng *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(rng.Int64N(int64(b-a)))
}

// branch is a source for what draws more often in one run than in another, or in a goroutine of its own.
func branch(rng *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 0)) }

// run makes faults and returns when all are undone.
func (s *storm) run(faults []planned) {
	for i, f := range faults {
		what, undo := f.fault.make(s, rand.New(rand.NewPCG(f.source, 0)))
		if undo == nil {
			s.w.say("%d. %s: not now", i+1, f.fault.kind)
			continue
		}
		if !slices.Contains(countedLater, f.fault.kind) {
			s.met(f.fault.kind)
		}
		s.w.say("%d. %s: %s, for %s", i+1, f.fault.kind, what, f.lasts.Round(time.Millisecond))
		end := func() { time.Sleep(f.lasts); undo() }
		if f.overlap {
			s.pending.Go(end)
		} else {
			end()
		}
		time.Sleep(f.pause)
	}
	s.pending.Wait()
}

// forget takes the power from all nodes, whose disks have lost the last two seconds.
func (s *storm) forget() {
	old := map[*host]*vfs.MemFS{}
	for _, h := range s.w.members() {
		old[h] = h.disk.copy()
	}
	time.Sleep(2 * time.Second)
	for h, then := range old {
		h.hold()
		h.kill(h.process(), func() { h.disk.forget(then) })
	}
	for h := range old {
		h.release()
	}
}

// victim is the host of the cell that is drawn, or the next one whose node runs.
func (s *storm) victim(rng *rand.Rand) (*host, *process) {
	m := s.w.members()
	at := rng.IntN(1<<16) % len(m) // One draw, however many there are.
	for i := range m {
		h := m[(at+i)%len(m)]
		if p := h.process(); p != nil {
			return h, p
		}
	}
	return nil, nil
}

func (s *storm) crash(rng *rand.Rand, percent int) (string, func()) {
	h, p := s.victim(rng)
	if h == nil {
		return "", nil
	}
	h.hold()
	if !h.kill(p, func() { h.disk.crash(percent, rng) }) {
		h.release()
		return "", nil
	}
	return fmt.Sprintf("%s, %d %% of what was not synced survives", h.id, percent), h.release
}

func (s *storm) blackout(rng *rand.Rand) (string, func()) {
	hosts := s.w.members()
	for _, h := range hosts {
		percent, rng := rng.IntN(100), branch(rng)
		h.hold()
		h.kill(h.process(), func() { h.disk.crash(percent, rng) })
	}
	return "all nodes", func() {
		for _, h := range hosts {
			h.release()
		}
	}
}

func (s *storm) diskError(rng *rand.Rand) (string, func()) {
	return s.disk(rng, &diskFault{fail: inputOutput}, "")
}

// disk has a node meet a fault of its disk.
func (s *storm) disk(rng *rand.Rand, f *diskFault, what string) (string, func()) {
	h, p := s.victim(rng)
	if h == nil {
		return "", nil
	}
	f.rng = branch(rng)
	p.meet(f)
	return h.id + what, func() { h.mend(f) }
}

// readError lets reads fail while the node runs, or while it starts. It may end itself, but must not take
// what it can't read for what isn't there, nor for damage.
func (s *storm) readError(rng *rand.Rand) (string, func()) {
	h, p := s.victim(rng)
	if h == nil {
		return "", nil
	}
	share, starts := []float64{0.05, 0.5, 1}[rng.IntN(3)], rng.IntN(2) == 0
	f := &diskFault{rng: branch(rng), unreadable: share, unread: new(atomic.Int64)}
	mend := func() {
		h.mend(f)
		if n := f.unread.Load(); n > 0 {
			s.w.say("%d reads of %s failed", n, h.id)
			s.met(unreadable)
		}
	}
	if !starts {
		p.meet(f)
		return fmt.Sprintf("%s, %.0f %% of reads", h.id, 100*share), mend
	}
	h.meetNext(f)
	h.kill(p, func() { h.disk.crash(100, rng) })
	return fmt.Sprintf("%s, %.0f %% of reads, from its start on", h.id, 100*share), mend
}

func (s *storm) noSpaceLeft(rng *rand.Rand) (string, func()) {
	return s.disk(rng, &diskFault{full: true, fail: noSpace}, "")
}

func (s *storm) diskFull(rng *rand.Rand) (string, func()) {
	return s.disk(rng, &diskFault{full: true}, "")
}

func (s *storm) slowDisk(rng *rand.Rand) (string, func()) {
	by := between(rng, 5*time.Millisecond, 200*time.Millisecond)
	return s.disk(rng, &diskFault{latency: by}, ", up to "+by.Round(time.Millisecond).String())
}

// stalledDisk lasts longer than other faults now and then: after ten seconds the node has
// to end itself (R4).
func (s *storm) stalledDisk(rng *rand.Rand) (string, func()) {
	more := between(rng, 0, 9*time.Second)
	what, mend := s.disk(rng, stall(), fmt.Sprintf(", and %s more", more.Round(time.Millisecond)))
	if mend == nil {
		return "", nil
	}
	return what, func() { time.Sleep(more); mend() }
}

func (s *storm) clockJump(rng *rand.Rand) (string, func()) {
	h, _ := s.victim(rng)
	if h == nil {
		return "", nil
	}
	spans := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	by := spans[rng.IntN(len(spans))]
	if rng.IntN(2) == 0 {
		by = -by
	}
	s.w.wrongClocks.CompareAndSwap(0, time.Now().UnixNano())
	h.clock.jump(by)
	return fmt.Sprintf("%s by %s", h.id, by), h.clock.right
}

func (s *storm) clockDrift(rng *rand.Rand) (string, func()) {
	h, _ := s.victim(rng)
	if h == nil {
		return "", nil
	}
	rate := 0.99 + 0.02*rng.Float64()
	s.w.wrongClocks.CompareAndSwap(0, time.Now().UnixNano())
	h.clock.drift(rate)
	return fmt.Sprintf("%s at %.3f", h.id, rate), h.clock.right
}

func (s *storm) clockStandsStill(rng *rand.Rand) (string, func()) {
	h, _ := s.victim(rng)
	if h == nil {
		return "", nil
	}
	s.w.wrongClocks.CompareAndSwap(0, time.Now().UnixNano())
	h.clock.stand()
	return h.id, h.clock.right
}

// others are the hosts that a host of a node speaks with.
func (s *storm) others(h *host) []string {
	out := []string{}
	for _, o := range s.w.members() {
		if o != h {
			out = append(out, o.ip)
		}
	}
	return append(out, proxyHost)
}

func both(a string, others []string) (links []link) {
	for _, b := range others {
		links = append(links, link{a, b}, link{b, a})
	}
	return links
}

func (s *storm) partition(rng *rand.Rand) (string, func()) {
	h, _ := s.victim(rng)
	if h == nil {
		return "", nil
	}
	others := s.others(h)
	if rng.IntN(2) == 0 {
		others = others[:len(others)-1] // The proxy still reaches it.
	}
	return h.id + " from " + strings.Join(others, ","), s.w.net.cut(both(h.ip, others)...)
}

func (s *storm) oneWay(rng *rand.Rand) (string, func()) {
	h, _ := s.victim(rng)
	if h == nil {
		return "", nil
	}
	others := s.others(h)
	others = others[rng.IntN(1<<16)%len(others):]
	var links []link
	word := "is not heard by"
	for _, o := range others {
		links = append(links, link{h.ip, o})
	}
	if rng.IntN(2) == 0 {
		word = "does not hear"
		for i, l := range links {
			links[i] = link{l.to, l.from}
		}
	}
	return fmt.Sprintf("%s %s %s", h.id, word, strings.Join(others, ",")), s.w.net.cut(links...)
}

// bridge: two that do not hear each other, and others that hear both.
func (s *storm) bridge(rng *rand.Rand) (string, func()) {
	m := s.w.members()
	i := rng.IntN(1<<16) % len(m)
	a, b := m[i], m[(i+1)%len(m)]
	return a.id + " and " + b.id, s.w.net.cut(both(a.ip, []string{b.ip})...)
}

func (s *storm) loseConnections(rng *rand.Rand) (string, func()) {
	h, _ := s.victim(rng)
	if h == nil {
		return "", nil
	}
	n := s.w.net.reset(h.ip, func() bool { return rng.IntN(2) == 0 })
	return fmt.Sprintf("%d of %s", n, h.id), func() {}
}

func (s *storm) slowLinks(rng *rand.Rand) (string, func()) {
	by := between(rng, 10*time.Millisecond, 200*time.Millisecond)
	return "up to " + by.Round(time.Millisecond).String(), s.w.net.slowDown(by)
}

// pause is what others see of a machine that stands still: nothing arrives, nothing leaves,
// nothing is written. Its own timers run on, which they would not.
func (s *storm) pause(rng *rand.Rand) (string, func()) {
	h, p := s.victim(rng)
	if h == nil {
		return "", nil
	}
	mend, f := s.w.net.cut(both(h.ip, append(s.others(h), adminHost))...), stall()
	p.mount.add(f) // It is too short to be an excuse.
	return h.id, func() { h.mend(f); mend() }
}

// transfers are of groups that are led, to nodes that do not lead them. One that is refused is none.
func (s *storm) transfers(rng *rand.Rand) (string, func()) {
	count, accepted := 1+rng.IntN(6), 0
	for range count {
		group, to, pause := rng.IntN(1<<16), rng.IntN(1<<16), between(rng, 50*time.Millisecond, 500*time.Millisecond)
		if s.transfer(group, to) {
			accepted++
		}
		time.Sleep(pause)
	}
	if accepted == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of %d were accepted", accepted, count), func() {}
}

func (s *storm) transfer(group, to int) (accepted bool) {
	var ids []string
	for _, h := range s.w.members() {
		ids = append(ids, h.id)
	}
	id, target, ok := history.ToTransfer(s.w.each(), ids, group, to)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.w.admin.Load().Transfer(ctx, id, target) == nil // Refused if that one is not up to date.
}

// replace adds a node with a new id, which the supervisor starts, and then removes another
// for good.
func (s *storm) replace(rng *rand.Rand) (string, func()) {
	m := s.w.members()
	if len(m) < 3 {
		return "", nil
	}
	old, by := m[rng.IntN(1<<16)%len(m)], m[rng.IntN(1<<16)%len(m)]
	if by == old || old.damaged.Load() || by.damaged.Load() {
		return "", nil
	}
	added := s.w.addHost(by.peer().APIURL)
	return added.id + " for " + old.id, func() {
		if s.exchange(old, added) {
			s.met(replaced)
		}
	}
}

// exchange removes old once added votes in its place.
func (s *storm) exchange(old, added *host) (done bool) {
	ctx, cancel := context.WithTimeout(context.Background(), joinPatience)
	defer cancel()
	if err := s.w.retry(ctx, "join", func() error { return s.w.votes(added.id) }); err != nil {
		s.w.say("%s did not become a voter: %v", added.id, err)
		return false // It stays, and may become one later.
	}
	return s.takeAway(ctx, old)
}

// removeOne makes a cell of five one of four.
func (s *storm) removeOne(rng *rand.Rand) (string, func()) {
	m := s.w.members()
	old := m[rng.IntN(1<<16)%len(m)]
	if len(m) < 5 || s.w.damaged("") || slices.ContainsFunc(m, func(h *host) bool { return h.leaving.Load() }) {
		return "", nil
	}
	old.leave()
	return old.id, func() {
		ctx, cancel := context.WithTimeout(context.Background(), joinPatience)
		defer cancel()
		if s.takeAway(ctx, old) {
			s.met(removed)
		}
	}
}

// takeAway removes a node, whose machine never comes back.
func (s *storm) takeAway(ctx context.Context, old *host) (done bool) {
	old.leave()
	s.w.connectAdmin()
	err := s.w.retry(ctx, "remove "+old.id, func() error { return s.w.admin.Load().RemoveNode(ctx, old.id) })
	if err != nil {
		s.w.say("%v", err)
	}
	old.remove()
	return err == nil
}

// rot changes bits on the disk of one node while it is down. It must notice, or not be hurt;
// what it has may reach nobody. Its operator replaces it in any case.
func (s *storm) rot(rng *rand.Rand) (string, func()) {
	if len(s.w.members()) < 3 || s.w.damaged("") {
		return "", nil
	}
	h, p := s.victim(rng)
	if h == nil || h.leaving.Load() {
		return "", nil
	}
	h.hold()
	what, after, survives := "", between(rng, time.Second, 10*time.Second), branch(rng)
	if !h.kill(p, func() { h.disk.crash(100, survives); h.damaged.Store(true); what = h.disk.rot(rng) }) {
		h.release()
		return "", nil
	}
	return h.id + ", " + what, func() {
		h.release()
		time.Sleep(after)
		m := s.w.members()
		by := m[(slices.Index(m, h)+1)%len(m)]
		added := s.w.addHost(by.peer().APIURL)
		s.w.say("%s for %s, which was damaged", added.id, h.id)
		for range 3 { // It is waited for a minute each time, longer than any other fault lasts.
			if s.exchange(h, added); h.gone() {
				return
			}
		}
		s.w.breach("INV-2: %s, which was damaged, could not be replaced", h.id)
	}
}

// damaged reports whether a host's disk was changed; of "", of any that is still there.
func (w *world) damaged(id string) bool {
	return slices.ContainsFunc(w.all(), func(h *host) bool { return h.damaged.Load() && (h.id == id || id == "" && !h.gone()) })
}

const joinPatience = 60 * time.Second

func (s *storm) workerDies(rng *rand.Rand) (string, func()) {
	host, ok := s.l.lose(rng.IntN(1 << 16))
	if !ok {
		return "", nil
	}
	return host, s.l.hire
}

// workerDeaf: what the service says does not reach a worker, acks that it confirmed included.
func (s *storm) workerDeaf(rng *rand.Rand) (string, func()) {
	host, ok := s.l.crewHost(rng.IntN(1 << 16))
	if !ok {
		return "", nil
	}
	return host, s.w.net.cut(link{proxyHost, host})
}

// crashBetween ends a node, with its power, before one of its next durable steps: while it
// works, or while it recovers from another loss of power.
func (s *storm) crashBetween(rng *rand.Rand) (string, func()) {
	h, p := s.victim(rng)
	if h == nil {
		return "", nil
	}
	store := []string{"", "raftlog", "raftlog sync", "state"}[rng.IntN(4)]
	count, percent, first, starts := 1+rng.IntN(100), rng.IntN(100), rng.IntN(100), rng.IntN(2) == 0
	then := branch(rng) // The node's goroutine draws from it.
	f := &diskFault{
		countdown: count, counts: func(next string) bool { return strings.HasPrefix(next, store) },
		crash: func(p *process, step string) {
			if h.kill(p, func() { h.disk.crash(percent, then) }) {
				s.hit(step)
			}
		},
	}
	disarm := func() { h.mend(f) }
	if !starts {
		p.meet(f)
		return fmt.Sprintf("%s before change %d of %q, %d %% survives", h.id, count, store, percent), disarm
	}
	f.countdown = 1 + count/2
	h.meetNext(f)
	h.kill(p, func() { h.disk.crash(first, rng) })
	return fmt.Sprintf("%s loses its power, and again before change %d of %q of its start, %d %% survives", h.id, f.countdown, store, percent), disarm
}

func (s *storm) met(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn[kind]++
}

// report adds to a result what was met.
func (s *storm) report(r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Faults, r.Steps = maps.Clone(s.drawn), maps.Clone(s.steps)
	r.Faults[crashed] = sum(r.Steps)
}

func (s *storm) hit(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[step]++
}
