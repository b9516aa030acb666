package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fault is one kind of fault of the table in docs/faults.md. make injects it and returns
// what undoes it, or nil if it could not be made now.
type fault struct {
	kind   string
	weight int
	make   func(s *storm) (what string, undo func())
}

const armed = "F24 crash between durable steps"

const partitioned = "F9 partition"

// unreadable is counted when a read has failed: most is read from memory.
const unreadable = "F5 failing reads"

// storm makes faults, one after another and some at the same time.
type storm struct {
	w       *world
	l       *load
	rng     *rand.Rand
	pending sync.WaitGroup // Undoing.

	mu    sync.Mutex     // Guards the rest.
	steps map[string]int // Crashes between durable steps, by the step.
	drawn map[string]int
}

// faults is read from top to bottom by docs/faults.md.
var faults = []fault{
	{"F1 kill", 3, func(s *storm) (string, func()) { return s.crash(100) }},
	{"F2 power loss", 4, func(s *storm) (string, func()) { return s.crash(s.rng.IntN(100)) }},
	{"F3 power loss of the whole cell", 1, (*storm).blackout},
	{"F4 changed bits on a disk", 1, (*storm).rot},
	{"F5 disk error", 1, (*storm).diskError},
	{unreadable, 2, (*storm).readError},
	{"F6 disk full", 1, (*storm).diskFull},
	{"F7 slow disk", 2, (*storm).slowDisk},
	{"F7 stalled disk", 2, (*storm).stalledDisk},
	{"F8 clock jump", 2, (*storm).clockJump},
	{"F8 clock drift", 1, (*storm).clockDrift},
	{partitioned, 3, (*storm).partition},
	{"F9 one-way partition", 3, (*storm).oneWay},
	{"F9 bridge", 1, (*storm).bridge},
	{"F10 lost connections", 3, (*storm).loseConnections},
	{"F10 slow links", 1, (*storm).slowLinks},
	{"F11 pause", 3, (*storm).pause},
	{"F12 leader transfers", 2, (*storm).transfers},
	{"F13 node replaced", 1, (*storm).replace},
	{"F20 worker dies", 3, (*storm).workerDies},
	{"F20 worker hears nothing", 2, (*storm).workerDeaf},
	{armed, 5, (*storm).crashBetween},
}

// run makes count faults and returns when all are undone.
func (s *storm) run(count int) {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for range count {
		f := s.draw(total)
		what, undo := f.make(s)
		if undo == nil {
			continue
		}
		if f.kind != armed && f.kind != unreadable {
			s.met(f.kind)
		}
		lasts, overlap := s.between(100*time.Millisecond, 5*time.Second), s.rng.IntN(3) == 0
		s.w.say("%s: %s, for %s", f.kind, what, lasts.Round(time.Millisecond))
		end := func() { time.Sleep(lasts); undo() }
		if overlap {
			s.pending.Go(end)
		} else {
			end()
		}
		time.Sleep(s.between(50*time.Millisecond, 2*time.Second))
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

func (s *storm) draw(total int) fault {
	n := s.rng.IntN(total)
	for _, f := range faults {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("weights")
}

func (s *storm) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

// victim is a host of the cell whose node runs.
func (s *storm) victim() (*host, *process) {
	var up []*host
	for _, h := range s.w.members() {
		if h.process() != nil {
			up = append(up, h)
		}
	}
	if len(up) == 0 {
		return nil, nil
	}
	h := up[s.rng.IntN(len(up))]
	return h, h.process()
}

func (s *storm) crash(percent int) (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	h.hold()
	if !h.kill(p, func() { h.disk.crash(percent, s.rng) }) {
		h.release()
		return "", nil
	}
	return fmt.Sprintf("%s, %d %% of what was not synced survives", h.id, percent), h.release
}

func (s *storm) blackout() (string, func()) {
	hosts := s.w.members()
	for _, h := range hosts {
		h.hold()
		h.kill(h.process(), func() { h.disk.crash(s.rng.IntN(100), s.rng) })
	}
	return "all nodes", func() {
		for _, h := range hosts {
			h.release()
		}
	}
}

func (s *storm) diskError() (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	p.wronged.Store(true)
	p.mount.failWith(inputOutput)
	return h.id, func() { p.mount.failWith(nil) }
}

// readError lets reads fail while the node runs, or while it starts. It may end itself, but must not take
// what it can't read for what isn't there, nor for damage.
func (s *storm) readError() (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	share := []float64{0.05, 0.5, 1}[s.rng.IntN(3)]
	failed := new(atomic.Int64)
	fail := func(p *process) {
		p.wronged.Store(true)
		p.mount.failReads(share, failed)
	}
	mend := func() {
		h.armNext(nil) // It may not have started yet.
		if now := h.process(); now != nil {
			now.mount.failReads(0, nil)
		}
		if n := failed.Load(); n > 0 {
			s.w.say("%d reads of %s failed", n, h.id)
			s.met(unreadable)
		}
	}
	if s.rng.IntN(2) == 0 {
		fail(p)
		return fmt.Sprintf("%s, %.0f %% of reads", h.id, 100*share), mend
	}
	h.armNext(fail)
	h.kill(p, func() { h.disk.crash(100, s.rng) })
	return fmt.Sprintf("%s, %.0f %% of reads, from its start on", h.id, 100*share), mend
}

func (s *storm) diskFull() (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	p.mount.full.Store(true)
	return h.id, func() { p.mount.full.Store(false) }
}

func (s *storm) slowDisk() (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	by := s.between(5*time.Millisecond, 200*time.Millisecond)
	p.mount.slow(by)
	return fmt.Sprintf("%s, up to %s", h.id, by.Round(time.Millisecond)), func() { p.mount.slow(0) }
}

// stalledDisk lasts longer than other faults now and then: after ten seconds the node has
// to end itself (R4).
func (s *storm) stalledDisk() (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	p.wronged.Store(true)
	release, more := p.mount.stall(), s.between(0, 9*time.Second)
	return fmt.Sprintf("%s, and %s more", h.id, more.Round(time.Millisecond)), func() { time.Sleep(more); release() }
}

func (s *storm) clockJump() (string, func()) {
	h, _ := s.victim()
	if h == nil {
		return "", nil
	}
	spans := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	by := spans[s.rng.IntN(len(spans))]
	if s.rng.IntN(2) == 0 {
		by = -by
	}
	s.w.wrongClocks.CompareAndSwap(0, time.Now().UnixNano())
	h.clock.jump(by)
	return fmt.Sprintf("%s by %s", h.id, by), h.clock.right
}

func (s *storm) clockDrift() (string, func()) {
	h, _ := s.victim()
	if h == nil {
		return "", nil
	}
	rate := 0.99 + 0.02*s.rng.Float64()
	s.w.wrongClocks.CompareAndSwap(0, time.Now().UnixNano())
	h.clock.drift(rate)
	return fmt.Sprintf("%s at %.3f", h.id, rate), h.clock.right
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

func (s *storm) partition() (string, func()) {
	h, _ := s.victim()
	if h == nil {
		return "", nil
	}
	others := s.others(h)
	if s.rng.IntN(2) == 0 {
		others = others[:len(others)-1] // The proxy still reaches it.
	}
	return h.id + " from " + strings.Join(others, ","), s.w.net.cut(both(h.ip, others)...)
}

func (s *storm) oneWay() (string, func()) {
	h, _ := s.victim()
	if h == nil {
		return "", nil
	}
	others := s.others(h)
	others = others[s.rng.IntN(len(others)):]
	var links []link
	word := "to"
	for _, o := range others {
		links = append(links, link{h.ip, o})
	}
	if s.rng.IntN(2) == 0 {
		word = "from"
		for i, l := range links {
			links[i] = link{l.to, l.from}
		}
	}
	return fmt.Sprintf("%s hears no more %s %s", h.id, word, strings.Join(others, ",")), s.w.net.cut(links...)
}

// bridge: two that do not hear each other, and others that hear both.
func (s *storm) bridge() (string, func()) {
	m := s.w.members()
	i := s.rng.IntN(len(m))
	a, b := m[i], m[(i+1)%len(m)]
	return a.id + " and " + b.id, s.w.net.cut(both(a.ip, []string{b.ip})...)
}

func (s *storm) loseConnections() (string, func()) {
	h, _ := s.victim()
	if h == nil {
		return "", nil
	}
	n := s.w.net.reset(func(a, _ string) bool { return a == h.ip && s.rng.IntN(2) == 0 })
	return fmt.Sprintf("%d of %s", n, h.id), func() {}
}

func (s *storm) slowLinks() (string, func()) {
	by := s.between(10*time.Millisecond, 200*time.Millisecond)
	s.w.net.slowDown(by)
	return "up to " + by.Round(time.Millisecond).String(), func() { s.w.net.slowDown(0) }
}

// pause is what others see of a machine that stands still: nothing arrives, nothing leaves,
// nothing is written. Its own timers run on, which they would not.
func (s *storm) pause() (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	mend, release := s.w.net.cut(both(h.ip, append(s.others(h), adminHost))...), p.mount.stall()
	return h.id, func() { release(); mend() }
}

func (s *storm) transfers() (string, func()) {
	m, count := s.w.members(), 1+s.rng.IntN(6)
	for range count {
		group, to := uint32(1+s.rng.IntN(3)), m[s.rng.IntN(len(m))].id
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_ = s.w.admin.Load().Transfer(ctx, group, to) // Refused if there is no leader, or it is not up to date.
		cancel()
		time.Sleep(s.between(50*time.Millisecond, 500*time.Millisecond))
	}
	return fmt.Sprintf("%d", count), func() {}
}

// replace adds a node with a new id, which the supervisor starts, and then removes another
// for good.
func (s *storm) replace() (string, func()) {
	m := s.w.members()
	if len(m) < 3 {
		return "", nil
	}
	old := m[s.rng.IntN(len(m))]
	by := m[s.rng.IntN(len(m))]
	if by == old || old.damaged.Load() || by.damaged.Load() {
		return "", nil
	}
	added := s.w.addHost(by.peer().APIURL)
	return added.id + " for " + old.id, func() { s.exchange(old, added) }
}

// exchange removes old once added votes in its place.
func (s *storm) exchange(old, added *host) {
	ctx, cancel := context.WithTimeout(context.Background(), joinPatience)
	defer cancel()
	if err := s.w.retry(ctx, "join", func() error { return s.w.votes(added.id) }); err != nil {
		s.w.say("%s did not become a voter: %v", added.id, err)
		return // It stays, and may become one later.
	}
	old.leave()
	s.w.connectAdmin()
	if err := s.w.retry(ctx, "remove "+old.id, func() error { return s.w.admin.Load().RemoveNode(ctx, old.id) }); err != nil {
		s.w.say("%v", err)
	}
	old.remove()
}

// rot changes bits on the disk of one node while it is down. It must notice, or not be hurt;
// what it has may reach nobody. Its operator replaces it in any case.
func (s *storm) rot() (string, func()) {
	if len(s.w.members()) < 3 || s.w.damaged("") {
		return "", nil
	}
	h, p := s.victim()
	if h == nil || h.leaving.Load() {
		return "", nil
	}
	h.hold()
	what := ""
	if !h.kill(p, func() { h.disk.crash(100, s.rng); h.damaged.Store(true); what = h.disk.rot(s.rng) }) {
		h.release()
		return "", nil
	}
	return h.id + ", " + what, func() {
		h.release()
		time.Sleep(s.between(time.Second, 10*time.Second))
		m := s.w.members()
		by := m[(slices.Index(m, h)+1)%len(m)]
		added := s.w.addHost(by.peer().APIURL)
		s.w.say("%s for %s, which was damaged", added.id, h.id)
		for s.exchange(h, added); !h.gone(); {
			s.exchange(h, added)
		}
	}
}

// damaged reports whether a host's disk was changed; of "", of any that is still there.
func (w *world) damaged(id string) bool {
	return slices.ContainsFunc(w.all(), func(h *host) bool { return h.damaged.Load() && (h.id == id || id == "" && !h.gone()) })
}

const joinPatience = 60 * time.Second

func (s *storm) workerDies() (string, func()) {
	return s.l.lose(s.rng.IntN(workers)), s.l.hire
}

// workerDeaf: what the service says does not reach a worker, acks that it confirmed included.
func (s *storm) workerDeaf() (string, func()) {
	host := s.l.crewHost(s.rng.IntN(workers))
	return host, s.w.net.cut(link{proxyHost, host})
}

// crashBetween ends a node, with its power, before one of its next durable steps: while it
// works, or while it recovers from another loss of power.
func (s *storm) crashBetween() (string, func()) {
	h, p := s.victim()
	if h == nil {
		return "", nil
	}
	store := []string{"", "raftlog", "raftlog sync", "state"}[s.rng.IntN(4)]
	count, percent, first := 1+s.rng.IntN(100), s.rng.IntN(100), s.rng.IntN(100)
	rng := rand.New(rand.NewPCG(s.rng.Uint64(), 0)) // The node's goroutine draws from it.
	arm := func(p *process) {
		step := ""
		p.mount.crashAt(count, func(next string) bool {
			step = next
			return strings.HasPrefix(next, store)
		}, func() {
			if h.kill(p, func() { h.disk.crash(percent, rng) }) {
				s.hit(step)
			}
		})
	}
	disarm := func() {
		if p := h.process(); p != nil {
			p.mount.crashAt(0, nil, nil)
		}
	}
	if s.rng.IntN(2) == 0 {
		arm(p)
		return fmt.Sprintf("%s before change %d of %q, %d %% survives", h.id, count, store, percent), disarm
	}
	count = 1 + count/2
	h.armNext(arm)
	h.kill(p, func() { h.disk.crash(first, s.rng) })
	return fmt.Sprintf("%s loses its power, and again before change %d of %q of its start, %d %% survives", h.id, count, store, percent), disarm
}

func (s *storm) met(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn[kind]++
}

func (s *storm) hit(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[step]++
}
