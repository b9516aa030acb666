package state

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// model is the job machine as one would explain it: maps and no indexes.
type model struct {
	now    int64
	jobs   map[job.ID]*modelJob
	unique map[string]modelLock // By namespace, queue and key.
	idem   map[string]modelLock
	paused map[queueKey]bool
}

type modelJob struct {
	ns      job.Namespace
	queue   string
	state   job.State
	attempt uint32
	crashes uint32
	retry   command.RetryPolicy
	due     int64
	token   command.Token
	lease   int64
	worker  string
	peer    uint64
	unique  string
	// reclaimed: the last lease ran out; released: it was given back.
	reclaimed, released bool
}

type modelLock struct {
	owner     job.ID
	expires   int64
	duplicate bool
	state     job.State
}

func newModel() *model {
	return &model{jobs: map[job.ID]*modelJob{}, unique: map[string]modelLock{}, idem: map[string]modelLock{}, paused: map[queueKey]bool{}}
}

func lockKey(ns job.Namespace, queue, key string) string {
	return ns.String() + "/" + queue + "/" + key
}

func (m *model) enqueue(c *command.Enqueue) Result {
	ik := lockKey(c.NS, c.Queue, c.IdempotencyKey)
	if l, ok := m.idem[ik]; ok && c.IdempotencyKey != "" && l.expires > m.now {
		return Result{ID: l.owner, State: l.state, Duplicate: l.duplicate, Replayed: true}
	}
	res := m.create(c)
	if c.IdempotencyKey != "" {
		m.idem[ik] = modelLock{res.ID, m.now + int64(c.IdempotencyFor), res.Duplicate, res.State}
	}
	return res
}

func (m *model) create(c *command.Enqueue) Result {
	uk := lockKey(c.NS, c.Queue, c.UniqueKey)
	if c.UniqueKey != "" {
		if l, ok := m.unique[uk]; ok && l.expires > m.now {
			return Result{ID: l.owner, State: m.jobs[l.owner].state, Duplicate: true}
		}
		m.unique[uk] = modelLock{owner: c.ID, expires: m.now + int64(c.UniqueFor)}
	}
	j := &modelJob{ns: c.NS, queue: c.Queue, state: job.Pending, retry: c.Retry}
	if c.UniqueKey != "" {
		j.unique = uk
	}
	if c.ScheduledAt > m.now {
		j.state, j.due = job.Scheduled, c.ScheduledAt
	}
	m.jobs[c.ID] = j
	return Result{ID: c.ID, State: j.state}
}

func (m *model) finish(id job.ID, j *modelJob, s job.State) {
	j.state, j.due = s, 0
	if l, ok := m.unique[j.unique]; ok && l.owner == id {
		delete(m.unique, j.unique)
	}
	j.unique = ""
}

// fetch grants what the engine granted, if it may; tokens are the engine's.
func (m *model) fetch(c *command.Fetch, got Result) error {
	granted := map[job.ID]Grant{}
	for _, g := range got.Grants {
		granted[g.ID] = g
	}
	for _, id := range c.Jobs {
		j, ok := m.jobs[id]
		may := ok && j.ns == c.NS && j.state == job.Pending && !m.paused[queueKey{j.ns, j.queue}]
		g, was := granted[id]
		if was != may {
			return fmt.Errorf("job %s granted %v, may be %v", id, was, may)
		}
		if !may {
			continue
		}
		delete(granted, id)
		j.attempt++
		j.state, j.due, j.lease = job.Active, m.now+int64(c.Lease), int64(c.Lease)
		j.token = command.Token{Attempt: j.attempt, Epoch: g.Epoch}
		j.worker, j.peer, j.reclaimed, j.released = c.Worker, c.Peer, false, false
		if g.Attempt != j.attempt {
			return fmt.Errorf("job %s attempt %d, want %d", id, g.Attempt, j.attempt)
		}
	}
	return nil
}

func (m *model) holds(j *modelJob, by command.Holder) bool {
	if !by.Token.IsZero() {
		return by.Token == j.token
	}
	return j.crashes == 0 || by.Worker != "" && by.Worker == j.worker || by.Worker == "" && by.Peer == j.peer
}

// settle finds the leased job, or says why not.
func (m *model) settle(ns job.Namespace, id job.ID, by command.Holder) (*modelJob, Refusal) {
	j, ok := m.jobs[id]
	switch {
	case !ok || j.ns != ns:
		return nil, NotFound
	case !j.state.Leased() && by.Token.IsZero():
		return j, NotActive
	case !j.state.Leased() || !m.holds(j, by):
		return j, LeaseLost
	default:
		return j, Accepted
	}
}

func (m *model) ack(c *command.Ack) Refusal {
	j, why := m.settle(c.NS, c.ID, c.By)
	if why == LeaseLost && j.state == job.Completed && m.holds(j, c.By) {
		return Accepted
	}
	if why == Accepted {
		m.finish(c.ID, j, job.Completed)
	}
	return why
}

func (m *model) fail(c *command.Fail) Refusal {
	j, why := m.settle(c.NS, c.ID, c.By)
	settled := j != nil && !j.reclaimed &&
		(j.state == job.Retrying || j.state == job.Dead || j.state == job.Cancelled || c.Release && j.released && j.state == job.Pending)
	switch {
	case why == LeaseLost && settled && m.holds(j, c.By):
		return Accepted
	case why != Accepted:
	case j.state == job.Cancelling:
		m.finish(c.ID, j, job.Cancelled)
	case c.Release:
		j.attempt--
		j.state, j.due, j.released = job.Pending, 0, true
	case j.attempt >= j.retry.MaxRetries:
		m.finish(c.ID, j, job.Dead)
	default:
		d := job.Jitter(j.retry.Backoff.Delay(j.attempt, j.retry.BaseDelay, j.retry.MaxDelay), c.ID, j.attempt)
		j.state, j.due = job.Retrying, m.now+max(int64(d), 1)
	}
	return why
}

func (m *model) fire(d keys.Due) {
	j, ok := m.jobs[d.ID]
	switch d.Kind {
	case keys.DueUnique, keys.DueIdempotency:
		locks := m.unique
		if d.Kind == keys.DueIdempotency {
			locks = m.idem
		}
		for k, l := range locks { // Expired locks mean nothing to the model.
			if l.expires <= m.now {
				delete(locks, k)
			}
		}
	default:
		if !ok || j.ns != d.NS || j.due != d.At || j.due > m.now || dueKind(j.state) != d.Kind {
			return
		}
		m.fireJob(d.ID, j)
	}
}

func (m *model) fireJob(id job.ID, j *modelJob) {
	if j.state.Leased() {
		j.reclaimed = true
	}
	switch {
	case j.state == job.Cancelling:
		m.finish(id, j, job.Cancelled)
	case j.state != job.Active:
		j.state, j.due = job.Pending, 0
	case j.crashes+1 >= CrashLimit:
		j.crashes++
		m.finish(id, j, job.Dead)
	default:
		j.crashes++
		j.state, j.due = job.Pending, 0
	}
}

func (m *model) cancel(ns job.Namespace, id job.ID) Refusal {
	j, ok := m.jobs[id]
	switch {
	case !ok || j.ns != ns:
		return NotFound
	case j.state == job.Completed || j.state == job.Dead:
		return WrongState
	case j.state == job.Active:
		j.state = job.Cancelling
	case j.state != job.Cancelling && j.state != job.Cancelled:
		m.finish(id, j, job.Cancelled)
	}
	return Accepted
}

func (m *model) retry(ns job.Namespace, id job.ID) Refusal {
	j, ok := m.jobs[id]
	switch {
	case !ok || j.ns != ns:
		return NotFound
	case j.state == job.Pending || j.state.Leased() || j.state == job.Held:
		return WrongState
	}
	j.state, j.due, j.attempt, j.crashes, j.token = job.Pending, 0, 0, 0, command.Token{}
	return Accepted
}

func (m *model) delete(ns job.Namespace, id job.ID) Refusal {
	j, ok := m.jobs[id]
	switch {
	case !ok || j.ns != ns:
		return NotFound
	case j.state.Leased():
		return WrongState
	}
	m.finish(id, j, job.Dead)
	delete(m.jobs, id)
	return Accepted
}

// step applies one command to engine and model and compares the answers.
func step(t *rapid.T, r *replica, m *model, now int64, c command.Command) {
	m.now = max(r.now+1, now)
	got := r.do(t, now, c)
	want := got.Refusal
	switch c := c.(type) {
	case *command.Enqueue:
		w := m.enqueue(c)
		if got.ID != w.ID || got.State != w.State || got.Duplicate != w.Duplicate || got.Replayed != w.Replayed {
			t.Fatalf("enqueue answered %+v, want %+v", got, w)
		}
	case *command.Fetch:
		if err := m.fetch(c, got); err != nil {
			t.Fatalf("fetch: %v", err)
		}
	case *command.Ack:
		want = m.ack(c)
	case *command.Fail:
		want = m.fail(c)
	case *command.Heartbeat:
		_, want = m.settle(c.NS, c.ID, c.By)
	case *command.Extend:
		if j, ok := m.jobs[c.ID]; ok && got.Refusal == Accepted {
			j.due = c.Until
		}
	case *command.Fire:
		m.fire(c.Due)
	case *command.Pause:
		m.paused[queueKey{c.NS, c.Queue}] = c.Paused
	case *command.Cancel:
		want = m.cancel(c.NS, c.ID)
	case *command.Retry:
		want = m.retry(c.NS, c.ID)
	case *command.Delete:
		want = m.delete(c.NS, c.ID)
	}
	if got.Refusal != want {
		t.Fatalf("%T%+v answered %d, want %d", c, c, got.Refusal, want)
	}
}

// compare checks that engine and model hold the same jobs in the same states.
func (m *model) compare(t tb, heads map[job.ID]Head) {
	t.Helper()
	if len(heads) != len(m.jobs) {
		t.Fatalf("%d jobs, want %d", len(heads), len(m.jobs))
	}
	for id, j := range m.jobs {
		h, ok := heads[id]
		if !ok {
			t.Fatalf("job %s is lost (INV-1)", id)
		}
		if h.State != j.state || h.Attempt != j.attempt || h.Crashes != j.crashes || h.Due != j.due {
			t.Fatalf("job %s is %s attempt %d crashes %d due %d, want %s %d %d %d",
				id, h.State, h.Attempt, h.Crashes, h.Due, j.state, j.attempt, j.crashes, j.due)
		}
	}
}

// generator makes random commands about few things, so that they meet.
type generator struct {
	t    *rapid.T
	m    *model
	ids  []job.ID
	next byte
}

var testNamespaces = []job.Namespace{{1}, {2}}

func (g *generator) ns() job.Namespace { return rapid.SampledFrom(testNamespaces).Draw(g.t, "ns") }
func (g *generator) queue() string     { return rapid.SampledFrom([]string{"a", "b"}).Draw(g.t, "queue") }

func (g *generator) job() (job.Namespace, job.ID) {
	if len(g.ids) == 0 {
		return g.ns(), job.ID{0xff}
	}
	id := rapid.SampledFrom(g.ids).Draw(g.t, "job")
	j, ok := g.m.jobs[id]
	if !ok || rapid.IntRange(0, 15).Draw(g.t, "foreign") == 0 {
		return g.ns(), id
	}
	return j.ns, id
}

func (g *generator) holder(id job.ID) command.Holder {
	h := command.Holder{Worker: rapid.SampledFrom([]string{"", "w1", "w2"}).Draw(g.t, "worker"), Peer: uint64(rapid.IntRange(1, 2).Draw(g.t, "peer"))}
	switch j, ok := g.m.jobs[id]; rapid.IntRange(0, 3).Draw(g.t, "token") {
	case 0:
		h.Token = command.Token{Attempt: 1, Epoch: keys.Position{Index: 1, Ordinal: 1}}
	case 1, 2:
		if ok {
			h.Token = j.token
		}
	}
	return h
}

func (g *generator) enqueue() command.Command {
	g.next++
	c := &command.Enqueue{
		NS: g.ns(), ID: job.ID{0, g.next}, Queue: g.queue(), Payload: []byte(`{}`),
		Priority: job.Priority(rapid.IntRange(0, 2).Draw(g.t, "priority")),
		Retry: command.RetryPolicy{
			MaxRetries: uint32(rapid.IntRange(1, 3).Draw(g.t, "retries")), Backoff: job.Backoff(rapid.IntRange(0, 3).Draw(g.t, "backoff")),
			BaseDelay: time.Second, MaxDelay: 5 * time.Second,
		},
		UniqueKey: rapid.SampledFrom([]string{"", "", "u"}).Draw(g.t, "unique"), UniqueFor: 4 * time.Second,
		IdempotencyKey: rapid.SampledFrom([]string{"", "", "i", "k"}).Draw(g.t, "idempotency"), IdempotencyFor: 6 * time.Second,
	}
	if rapid.IntRange(0, 3).Draw(g.t, "scheduled") == 0 {
		c.ScheduledAt = g.m.now + int64(rapid.IntRange(-1, 5).Draw(g.t, "in"))*int64(time.Second)
	}
	g.ids = append(g.ids, c.ID)
	return c
}

func (g *generator) fetch() command.Command {
	c := &command.Fetch{NS: g.ns(), Worker: rapid.SampledFrom([]string{"w1", "w2"}).Draw(g.t, "by"), Peer: 1, Lease: 3 * time.Second}
	for range rapid.IntRange(1, 3).Draw(g.t, "count") {
		_, id := g.job()
		for _, have := range c.Jobs {
			if have == id {
				return c
			}
		}
		c.Jobs = append(c.Jobs, id)
	}
	return c
}

// due picks a row that is there, or one that is not.
func (g *generator) due(r *replica) command.Command {
	rows, err := ReadDue(r.store, 0, 1<<62, 50)
	if err != nil {
		g.t.Fatalf("read due: %v", err)
	}
	if len(rows) == 0 || rapid.IntRange(0, 9).Draw(g.t, "stray") == 0 {
		ns, id := g.job()
		return &command.Fire{Due: keys.Due{At: g.m.now, Kind: keys.DueKind(rapid.IntRange(1, 5).Draw(g.t, "kind")), NS: ns, ID: id}}
	}
	return &command.Fire{Due: rapid.SampledFrom(rows).Draw(g.t, "row")}
}

func (g *generator) command(r *replica) command.Command {
	ns, id := g.job()
	switch rapid.IntRange(0, 13).Draw(g.t, "command") {
	case 0, 1, 2:
		return g.enqueue()
	case 3, 4, 5:
		return g.fetch()
	case 6:
		return &command.Ack{NS: ns, ID: id, By: g.holder(id), Result: []byte(`1`)}
	case 7:
		return &command.Fail{NS: ns, ID: id, By: g.holder(id), Error: "boom", Release: rapid.Bool().Draw(g.t, "release")}
	case 8:
		return &command.Heartbeat{NS: ns, ID: id, By: g.holder(id), Progress: []byte(`1`), Checkpoint: []byte(`2`)}
	case 9, 10:
		return g.due(r)
	case 11:
		return &command.Pause{NS: ns, Queue: g.queue(), Paused: rapid.IntRange(0, 2).Draw(g.t, "pause") == 0}
	case 12:
		return rapid.SampledFrom([]command.Command{
			&command.Cancel{NS: ns, ID: id}, &command.Retry{NS: ns, ID: id}, &command.Delete{NS: ns, ID: id},
		}).Draw(g.t, "admin")
	default:
		if j, ok := g.m.jobs[id]; ok {
			return &command.Extend{NS: j.ns, ID: id, Epoch: j.token.Epoch, Until: g.m.now + int64(time.Second)}
		}
		return &command.TrimFeed{Before: r.index / 2}
	}
}

// Whatever comes in whatever order, the engine answers as the model does, every
// job stands in exactly the indexes of its state, and counters equal the sets.
func TestModel_EngineAndModelAgreeAfterEveryCommand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, m := newReplica(t), newModel()
		defer r.close(t)
		g := &generator{t: t, m: m}
		m.now = epoch
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now := r.now + int64(rapid.IntRange(0, 3000).Draw(t, "ms"))*int64(time.Millisecond)
			step(t, r, m, now, g.command(r))
			m.compare(t, r.audit(t))
		}
	})
}

// The same log gives the same bytes and the same digest, however its entries are
// gathered into transactions, and whether or not the machine was restarted between.
func TestReplicas_AreByteEqualHoweverEntriesAreGathered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, many := newReplica(t), newReplica(t)
		defer one.close(t)
		defer many.close(t)
		m := newModel()
		m.now = epoch
		g := &generator{t: t, m: m}
		var log []logEntry
		for range rapid.IntRange(1, 25).Draw(t, "entries") {
			e := logEntry{now: one.now + int64(rapid.IntRange(0, 3000).Draw(t, "ms"))*int64(time.Millisecond)}
			for range rapid.IntRange(1, 5).Draw(t, "commands") {
				e.cmds = append(e.cmds, g.command(one))
			}
			one.apply(t, e)
			g.learn(one)
			log = append(log, e)
		}
		for rest := log; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "gathered")
			many.apply(t, rest[:n]...)
			rest = rest[n:]
			if rapid.Bool().Draw(t, "restart") {
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

// learn lets the generator know the real tokens without a model of the entry.
func (g *generator) learn(r *replica) {
	for id, h := range r.audit(g.t) {
		g.m.jobs[id] = &modelJob{state: h.State, token: command.Token{Attempt: h.Attempt, Epoch: h.Epoch}, due: h.Due}
		for _, ns := range testNamespaces {
			if _, err := ReadHead(r.store, ns, id); err == nil {
				g.m.jobs[id].ns = ns
			}
		}
	}
	g.m.now = r.now
}
