package state

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// pair is an engine and the oracle that follows it.
type pair struct {
	t tb
	*replica
	m *oracle
}

// step applies one command to both and compares the answers.
func (p *pair) step(now int64, c command.Command) Result {
	m := p.m
	m.now = max(p.now+1, now)
	got := p.do(p.t, now, c)
	if l, ok := p.t.(interface{ Logf(string, ...any) }); ok { // What led to a failure.
		l.Logf("%d %T%+v: %+v", p.now, c, c, got)
	}
	want := Result{Refusal: got.Refusal}
	switch c := c.(type) {
	case *command.Enqueue:
		want = m.enqueue(c)
		if want.Refusal == Accepted && (got.ID != want.ID || got.State != want.State || got.Duplicate != want.Duplicate || got.Replayed != want.Replayed) {
			p.t.Fatalf("enqueue %+v answered %+v, want %+v (INV-1, INV-5)", c, got, want)
		}
	case *command.Fetch:
		if err := m.fetch(c, got); err != nil {
			p.t.Fatalf("fetch: %v", err)
		}
	case *command.Ack:
		want.Refusal = m.ack(c)
	case *command.Fail:
		want.Refusal = m.fail(c)
	case *command.Heartbeat:
		_, want.Refusal = m.find(c.NS, c.ID, &c.By)
	case *command.Extend:
		if j := m.jobs[c.ID]; j != nil && got.Refusal == Accepted {
			j.due = c.Until
		}
	case *command.Fire:
		m.fire(c.Due)
	case *command.Sweep: // It may be wrong or late.
		m.admin(c)
	case *command.TrimFeed:
	default:
		want.Refusal = m.admin(c)
	}
	if got.Refusal != want.Refusal {
		p.t.Fatalf("%T%+v answered %d, want %d", c, c, got.Refusal, want.Refusal)
	}
	return got
}

// agree wants engine and oracle to hold the same.
func (p *pair) agree() {
	heads := p.audit(p.t) // INV-9, INV-13.
	if len(heads) != len(p.m.jobs) {
		p.t.Fatalf("jobs %v, want %v (INV-1)", slices.Collect(maps.Keys(heads)), slices.Collect(maps.Keys(p.m.jobs)))
	}
	for id, j := range p.m.jobs {
		h, ok := heads[id]
		if !ok {
			p.t.Fatalf("job %s is lost (INV-1)", id)
		}
		expire := j.expire
		if j.state.Terminal() {
			expire = h.ExpireAt // Of no meaning any more.
		}
		got := fmt.Sprintf("%s in %s, %s, attempt %d, crashes %d, due %d, expires %d, reason %s, blocked %v, policy %v",
			h.State, h.Queue, h.Priority, h.Attempt, h.Crashes, h.Due, h.ExpireAt, h.Reason, h.has(flagBlocked), h.Retry)
		want := fmt.Sprintf("%s in %s, %s, attempt %d, crashes %d, due %d, expires %d, reason %s, blocked %v, policy %v",
			j.state, j.name, j.priority, j.attempt, j.crashes, j.due, expire, j.reason, len(j.waits) > 0, j.retry)
		if got != want {
			p.t.Fatalf("job %s is %s\nwant %s (INV-3)", id, got, want)
		}
	}
	p.order(heads)
	p.unique(heads)
	p.groups()
}

// order checks INV-8: the ready order of a queue and priority is that in which its
// jobs became ready.
func (p *pair) order(heads map[job.ID]Head) {
	type line struct {
		queueKey
		job.Priority
	}
	lines := map[line][]job.ID{}
	for id, j := range p.m.jobs {
		if j.state == job.Pending && len(j.waits) == 0 {
			l := line{j.queueKey, j.priority}
			lines[l] = append(lines[l], id)
		}
	}
	for l, ids := range lines {
		slices.SortFunc(ids, func(a, b job.ID) int { return cmp.Compare(p.m.jobs[a].turn, p.m.jobs[b].turn) })
		for i, id := range ids[1:] {
			if before := heads[ids[i]]; !before.Pos.Less(heads[id].Pos) {
				p.t.Fatalf("in %v job %s stands before %s (INV-8)", l, id, ids[i])
			}
		}
	}
}

// unique checks INV-5: a unique key has one living holder at most, and its lock is the
// holder's.
func (p *pair) unique(heads map[job.ID]Head) {
	holders := map[string]job.ID{}
	for id, j := range p.m.jobs {
		if l, ok := p.m.locks[j.unique]; ok && l.owner == id {
			if other, twice := holders[j.unique]; twice || j.state.Terminal() {
				p.t.Fatalf("key %q is held by %s (%s) and %s (INV-5)", j.unique, id, j.state, other)
			}
			holders[j.unique] = id
			if h := heads[id]; !h.has(flagUnique) {
				p.t.Fatalf("job %s does not know that it holds %q (INV-5)", id, j.unique)
			}
		}
	}
}

// causes checks INV-4 in the events: between two starts of a job stands what allowed
// the second.
func (p *pair) causes() {
	allowed := map[feed.Type]bool{feed.Retrying: true, feed.Released: true, feed.LeaseExpired: true, feed.Retried: true, feed.Approved: true}
	may := map[job.ID]bool{} // Of jobs whose beginning was not trimmed away.
	from, to := keys.In(p.store.Prefix()).Feed(1), keys.In(p.store.Prefix()).Feed(1<<63)
	err := p.store.Scan(from, to, func(_, v []byte) (bool, error) {
		_, events, err := feed.Decode(v)
		for _, e := range events {
			_, known := may[e.ID]
			switch {
			case e.Type == feed.Enqueued || e.Type == feed.Scheduled || known && allowed[e.Type]:
				may[e.ID] = true
			case known && e.Type == feed.Started:
				if !may[e.ID] {
					p.t.Fatalf("job %s started again and no event says why (INV-4)", e.ID)
				}
				may[e.ID] = false
			}
		}
		return true, err
	})
	if err != nil {
		p.t.Fatalf("read the feed: %v", err)
	}
}

// settle checks INV-2: once people decide, queues are open and workers work, every
// job ends, within so many rounds.
func (p *pair) settle() {
	const rounds = 200
	for k := range p.m.queues {
		p.step(p.now, &command.SetQueue{NS: k.ns, Queue: k.name, Set: command.SetPaused | command.SetConcurrency | command.SetThrottle})
	}
	for range rounds {
		var open []job.ID
		for id, j := range p.m.jobs {
			if !j.state.Terminal() {
				open = append(open, id)
			}
		}
		if len(open) == 0 {
			p.agree()
			return
		}
		slices.SortFunc(open, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
		p.agree()
		now := p.now + int64(10*time.Second)
		rows, err := ReadDue(p.store, 0, now, 1000)
		if err != nil {
			p.t.Fatalf("read due: %v", err)
		}
		for _, d := range rows {
			p.step(now, &command.Fire{Due: d})
		}
		for _, id := range open {
			switch j := p.m.jobs[id]; {
			case j == nil:
			case j.state == job.Held:
				p.step(now, &command.Decide{NS: j.ns, ID: id, Approve: true})
			case j.state.Leased():
				p.step(now, &command.Ack{NS: j.ns, ID: id, By: command.Holder{Token: j.token}})
			case j.state == job.Pending && len(j.waits) == 0:
				p.step(now, &command.Fetch{NS: j.ns, Jobs: []job.ID{id}, Worker: "w", Lease: time.Minute})
			}
		}
	}
	p.t.Fatalf("jobs do not end (INV-2): %+v", p.m.jobs)
}

// generator makes random commands about few things, so that they meet.
type generator struct {
	t    *rapid.T
	m    *oracle
	next byte
	walk map[queueKey]*Sweeping // The leader's walks over what deleted queues left.
	// calm leaves out limits, whose refusals last for an entry.
	calm bool
}

var testNamespaces = []job.Namespace{{1}, {2}}

func (g *generator) pick(n int, what string) int { return rapid.IntRange(0, n-1).Draw(g.t, what) }
func (g *generator) ns() job.Namespace           { return testNamespaces[g.pick(2, "ns")] }
func (g *generator) queue() string               { return []string{"a", "b"}[g.pick(2, "queue")] }

// seconds is 0 to n-1.
func (g *generator) seconds(n int, what string) time.Duration {
	return time.Duration(g.pick(n, what)) * time.Second
}

func (g *generator) job() (job.Namespace, job.ID) {
	ids := slices.SortedFunc(maps.Keys(g.m.jobs), func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	if len(ids) == 0 {
		return g.ns(), job.ID{0xff}
	}
	id := rapid.SampledFrom(ids).Draw(g.t, "job")
	if g.pick(16, "foreign") == 0 {
		return g.ns(), id
	}
	return g.m.jobs[id].ns, id
}

func (g *generator) holder(id job.ID) command.Holder {
	if g.calm { // The token of a lease of the same entry is not known yet.
		return command.Holder{Worker: []string{"w1", "w2"}[g.pick(2, "worker")]}
	}
	h := command.Holder{Worker: []string{"", "w1", "w2"}[g.pick(3, "worker")], Peer: uint64(1 + g.pick(2, "peer"))}
	switch j := g.m.jobs[id]; g.pick(4, "token") {
	case 0:
		h.Token = command.Token{Attempt: 1, Epoch: keys.Position{Index: 1, Ordinal: 1}}
	case 1, 2:
		if j != nil {
			h.Token = j.token
		}
	}
	return h
}

func (g *generator) retry() command.RetryPolicy {
	backoff := job.Backoff(g.pick(4, "backoff"))
	if g.calm && backoff == job.BackoffNone { // An entry ends before it.
		backoff = job.BackoffFixed
	}
	if g.pick(6, "open") == 0 {
		return command.RetryPolicy{} // Whatever the queue says.
	}
	return command.RetryPolicy{
		MaxRetries: uint32(1 + g.pick(3, "retries")), Backoff: backoff, BaseDelay: time.Second, MaxDelay: 5 * time.Second,
	}
}

func (g *generator) enqueue() *command.Enqueue {
	g.next++
	c := &command.Enqueue{
		NS: g.ns(), ID: job.ID{0, g.next}, Queue: g.queue(), Payload: []byte(`{}`), Priority: job.Priority(g.pick(3, "priority")), Retry: g.retry(),
		UniqueKey: []string{"", "", "u"}[g.pick(3, "unique")], UniqueFor: 4 * time.Second,
		IdempotencyKey: []string{"", "", "i", "k"}[g.pick(4, "idempotency")], IdempotencyFor: 6 * time.Second,
	}
	if g.pick(4, "scheduled") == 0 {
		c.ScheduledAt = g.m.now + int64(g.seconds(6, "in"))
		if g.calm {
			c.ScheduledAt += int64(time.Second)
		}
	}
	if g.pick(2, "more") == 0 {
		c.More = g.more(c.NS, c.Queue)
	}
	return c
}

func (g *generator) command(r *replica) command.Command {
	ns, id := g.job()
	switch g.pick(26, "command") {
	case 0, 1, 2, 3:
		return g.enqueue()
	case 4, 5, 6, 7:
		c := &command.Fetch{NS: ns, Worker: []string{"w1", "w2"}[g.pick(2, "by")], Peer: 1, Lease: 3 * time.Second}
		for range 1 + g.pick(3, "count") {
			if _, id := g.job(); !slices.Contains(c.Jobs, id) {
				c.Jobs = append(c.Jobs, id)
			}
		}
		return c
	case 8, 9:
		c := &command.Ack{NS: ns, ID: id, By: g.holder(id), Result: []byte(`1`)}
		if g.pick(4, "exit") == 0 {
			c.More = &command.AckMore{Step: command.StepExit, ExitReason: "enough"}
		}
		return c
	case 10, 11:
		c := &command.Fail{NS: ns, ID: id, By: g.holder(id), Error: "boom", Release: g.pick(3, "release") == 0}
		if g.pick(3, "more") == 0 {
			c.More = &command.FailMore{Terminal: g.pick(2, "terminal") == 0, HasDelay: g.pick(2, "has") == 0, Delay: g.seconds(3, "delay")}
			if g.calm {
				c.More.Delay += time.Second
			}
		}
		return c
	case 12:
		return &command.Heartbeat{NS: ns, ID: id, By: g.holder(id), Progress: []byte(`1`), Checkpoint: []byte(`2`)}
	case 13, 14, 15, 16:
		return g.due(r)
	case 17:
		return g.sweep(r)
	case 18:
		if j := g.m.jobs[id]; j != nil && !g.calm && g.pick(2, "extend") == 0 {
			return &command.Extend{NS: j.ns, ID: id, Epoch: j.token.Epoch, Until: g.m.now + int64(time.Second)}
		}
		return &command.TrimFeed{Before: r.index / 2}
	default:
		return g.admin(ns, id)
	}
}

func (g *generator) admin(ns job.Namespace, id job.ID) command.Command {
	all := []command.Command{
		&command.Cancel{NS: ns, ID: id}, &command.Retry{NS: ns, ID: id}, &command.Delete{NS: ns, ID: id},
		&command.Hold{NS: ns, ID: id, Reason: "look", By: "me"},
		&command.Decide{NS: ns, ID: id, Approve: true, By: "me"}, &command.Decide{NS: ns, ID: id, By: "me"},
		&command.DeleteQueue{NS: ns, Queue: g.queue()}, &command.ClearQueue{NS: ns, Queue: g.queue()},
		&command.Move{NS: ns, ID: id, Queue: g.queue()},
	}
	if !g.calm {
		all = append(all, g.setQueue(ns), &command.Pause{NS: ns, Queue: g.queue(), Paused: g.pick(3, "pause") == 0})
	}
	all = append(all, g.grouped(ns, id)...)
	return all[g.pick(len(all), "admin")]
}

func (g *generator) setQueue(ns job.Namespace) command.Command {
	c := &command.SetQueue{
		NS: ns, Queue: g.queue(), Set: command.Settings(g.pick(8, "set")), Paused: g.pick(4, "paused") == 0, MaxConcurrency: uint32(g.pick(3, "max")),
	}
	if limit := g.pick(4, "limit"); limit > 0 {
		c.Throttle = command.Throttle{Limit: uint32(limit), Window: time.Second + g.seconds(5, "window")}
	}
	if g.pick(2, "more") == 0 {
		c.Set |= command.Settings(g.pick(4, "set")) * command.SetDraining
		c.More = &command.QueueMore{Draining: g.pick(3, "draining") == 0, Retry: g.retry(), RetrySet: command.RetryParts(g.pick(16, "parts"))}
	}
	return c
}

// due picks a row that is there, or one that is not.
func (g *generator) due(r *replica) command.Command {
	rows, err := ReadDue(r.store, 0, 1<<62, 50)
	if err != nil {
		g.t.Fatalf("read due: %v", err)
	}
	if len(rows) == 0 || g.pick(10, "stray") == 0 {
		ns, id := g.job()
		return &command.Fire{Due: keys.Due{At: g.m.now, Kind: keys.DueKind(1 + g.pick(8, "kind")), NS: ns, ID: id}}
	}
	return &command.Fire{Due: rows[g.pick(len(rows), "row")]}
}

// sweep walks on, or asks for what is alive to be swept, which must do nothing.
func (g *generator) sweep(r *replica) command.Command {
	if g.calm || g.pick(2, "wrong") == 0 { // A generation is called after its entry.
		ns, id := g.job()
		return &command.Sweep{NS: ns, Queue: g.queue(), Jobs: []job.ID{id}, Unique: []string{"u"}, Idempotency: []string{"i", "k"}}
	}
	queues, err := ReadSweeps(r.store)
	if err != nil {
		g.t.Fatalf("read sweeps: %v", err)
	}
	if len(queues) == 0 {
		return &command.Sweep{NS: g.ns(), Queue: g.queue(), Done: r.index}
	}
	q := &queues[g.pick(len(queues), "sweep")]
	k := queueKey{q.NS, q.Queue}
	if w, ok := g.walk[k]; ok && (w.gen == q.gen || g.pick(2, "stale") == 0) {
		q = w
	}
	g.walk[k] = q
	for {
		c, err := q.Next(r.store)
		if err != nil {
			g.t.Fatalf("sweep: %v", err)
		}
		if c != nil {
			if c.Done != 0 {
				delete(g.walk, k)
			}
			return c
		}
	}
}

// Whatever comes in whatever order, the engine answers as the oracle does, every job
// stands in exactly the indexes of its state, counters equal the sets (INV-9), and in
// the end every job ends.
func TestModel_EngineAndModelAgreeAfterEveryCommand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{t, newReplica(t), newOracle()}
		defer p.close(t)
		g := &generator{t: t, m: p.m, walk: map[queueKey]*Sweeping{}}
		for range 1 + g.pick(60, "steps") {
			now := p.now + int64(rapid.IntRange(0, 3000).Draw(t, "ms"))*int64(time.Millisecond)
			p.step(now, g.command(p.replica))
			p.agree()
		}
		p.sweepEverything()
		p.agree()
		p.causes()
		p.settle()
	})
}

// sweepEverything removes what deleted queues left, as the leader does, until nothing
// is left: what follows on a swept job may enter a queue, but none is deleted by it.
func (p *pair) sweepEverything() {
	for {
		queues, err := ReadSweeps(p.store)
		if err != nil {
			p.t.Fatalf("read sweeps: %v", err)
		}
		if len(queues) == 0 {
			return
		}
		for done := false; !done; {
			c, err := queues[0].Next(p.store)
			if err != nil {
				p.t.Fatalf("sweep: %v", err)
			}
			if c != nil {
				p.step(p.now, c)
				done = c.Done != 0
			}
		}
	}
}

// The same log gives the same bytes and the same digest (INV-16), however its entries
// are gathered into transactions, and whether or not the machine was restarted between.
func TestReplicas_AreByteEqualHoweverEntriesAreGathered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, many := newReplica(t), newReplica(t)
		defer one.close(t)
		defer many.close(t)
		g := &generator{t: t, m: newOracle(), walk: map[queueKey]*Sweeping{}}
		var log []logEntry
		for range 1 + g.pick(25, "entries") {
			e := logEntry{now: one.now + int64(rapid.IntRange(0, 3000).Draw(t, "ms"))*int64(time.Millisecond)}
			for range 1 + g.pick(5, "commands") {
				e.cmds = append(e.cmds, g.command(one))
			}
			one.apply(t, e)
			g.learn(one)
			log = append(log, e)
		}
		for rest := log; len(rest) > 0; {
			n := 1 + g.pick(len(rest), "gathered")
			many.apply(t, rest[:n]...)
			rest = rest[n:]
			if g.pick(2, "restart") == 0 {
				many.machine = New(many.store, nil)
			}
		}
		if a, b := one.dump(t), many.dump(t); !bytes.Equal(a, b) {
			t.Fatalf("one by one:\n%s\ngathered:\n%s", a, b)
		}
		if one.digest != many.digest {
			t.Fatalf("digest %x, gathered %x", one.digest, many.digest)
		}
		one.audit(t)
	})
}

// learn lets the generator know the real jobs without an oracle of the entry.
func (g *generator) learn(r *replica) {
	g.m.jobs = map[job.ID]*shadow{}
	for id, h := range r.audit(g.t) {
		j := &shadow{queueKey: queueKey{name: h.Queue}, state: h.State, token: command.Token{Attempt: h.Attempt, Epoch: h.Epoch}}
		for _, j.ns = range testNamespaces {
			if _, err := ReadHead(r.store, j.ns, id); err == nil {
				break
			}
		}
		g.m.jobs[id] = j
	}
	g.m.now = r.now
}

// Commands that share an entry do what they do in entries of their own (D8, D9, D10):
// only the nanoseconds differ by which one entry comes after another, and what a queue
// is refused for the length of an entry, which is left out here.
func TestModel_OneByOneEqualsBatched(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, many := &pair{t, newReplica(t), newOracle()}, newReplica(t)
		defer p.close(t)
		defer many.close(t)
		g := &generator{t: t, m: p.m, walk: map[queueKey]*Sweeping{}, calm: true}
		for range 1 + g.pick(15, "entries") {
			// The odd microsecond keeps times of different entries from meeting.
			e := logEntry{now: max(p.now, many.now) + int64(time.Duration(g.pick(3000, "ms"))*time.Millisecond+time.Microsecond)}
			for range 1 + g.pick(6, "commands") {
				c := g.command(p.replica)
				e.cmds = append(e.cmds, many.theirs(t, e.now, c))
				p.step(e.now, c)
			}
			many.apply(t, e)
			p.same(many)
		}
	})
}

// theirs is a command with the time that its due row has in this replica.
func (r *replica) theirs(t tb, now int64, c command.Command) command.Command {
	f, ok := c.(*command.Fire)
	if !ok {
		return c
	}
	rows, err := ReadDue(r.store, 0, 1<<62, 1000)
	if err != nil {
		t.Fatalf("read due: %v", err)
	}
	d := f.Due
	if d.Kind == keys.DueDeliver {
		d.At = now // Of this entry, unless it is found.
	}
	for _, row := range rows {
		if row.Kind == d.Kind && row.NS == d.NS && row.ID == d.ID && row.At-f.Due.At < int64(time.Microsecond) && f.Due.At-row.At < int64(time.Microsecond) {
			d = row
		}
	}
	return &command.Fire{Due: d}
}

// same wants another replica to hold the same jobs in the same orders.
func (p *pair) same(many *replica) {
	mine, theirs := p.audit(p.t), many.audit(p.t)
	if len(mine) != len(theirs) {
		p.t.Fatalf("one by one %d jobs, batched %d", len(mine), len(theirs))
	}
	for id, a := range mine {
		b, ok := theirs[id]
		near := func(x, y int64) bool { return x-y < int64(time.Microsecond) && y-x < int64(time.Microsecond) }
		if !ok || a.State != b.State || a.Queue != b.Queue || a.Attempt != b.Attempt || a.Crashes != b.Crashes || a.Reason != b.Reason ||
			a.flags != b.flags || a.Retry != b.Retry || !near(a.Due, b.Due) || !near(a.ExpireAt, b.ExpireAt) {
			p.t.Fatalf("one by one job %s is %+v, batched %+v", id, a, b)
		}
	}
	p.order(theirs)
}
