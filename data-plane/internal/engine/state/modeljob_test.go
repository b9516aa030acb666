package state

import (
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// The oracle: the machine of one job, for producers, workers, people and clocks.

// modelJob is a job: as it was enqueued, except that queue, key and retry policy are the
// current ones, and its state.
type modelJob struct {
	command.Enqueue
	state                 job.State
	reason                records.DeadReason
	attempt, crashes      uint32
	made, started, due    int64 // started in lease time, due in that of its kind.
	expire, keyUntil      int64
	epoch                 keys.Position // Of its lease.
	worker                string
	peer                  uint64
	turn                  int
	then                  job.State // What becomes of it when its worker lets go, and why.
	why                   records.DeadReason
	approvers             []string // Of its hold, and what happens when nobody decides.
	approveAtLast         bool
	ranOut                bool            // A lease of it ran out.
	reclaimed             bool            // Its last lease was not settled by its worker.
	settled               feed.Type       // How it was, if it was failed or given back.
	waits                 map[job.ID]bool // For these jobs.
	chain                 job.ChainID
	exit                  bool // Its worker wants no more steps.
	outcome               records.Outcome
	finished              int64 // When it ended last, in calendar time.
	untold                int64 // It ended then, and those who wait for it do not know; 0: they do.
	gone, removed, dearer bool  // Not there; not even in the store; known to cost too much.
	iterations            []modelIteration
	payload, result       int64 // Bytes that are stored; a payload of below 0 is still to be looked up.
}

func (j *modelJob) queue() queueKey { return queueKey{j.NS, j.Queue} }

// find returns a job that is there, or nil.
func (m *oracle) find(ns job.Namespace, id job.ID) *modelJob {
	for _, j := range m.jobs {
		if j.NS == ns && j.ID == id && !j.gone {
			return j
		}
	}
	return nil
}

// create makes a job, from whatever source.
func (m *oracle) create(c command.Enqueue) *modelJob {
	c.Retry = m.retryOf(&c)
	j := &modelJob{Enqueue: c, made: m.now, keyUntil: m.now + int64(c.UniqueFor), waits: map[job.ID]bool{}}
	m.jobs = append(m.jobs, j)
	m.keep(j)
	if c.ExpireAt != 0 {
		j.expire = max(c.ExpireAt, m.now)
	}
	if c.Chain != nil {
		j.chain = c.Chain.ID
		m.chains[j.chain] = &modelChain{ns: c.NS, Chain: c.Chain, jobs: []job.ID{c.ID}}
	}
	if m.ready(j); c.ScheduledAt > m.now {
		j.state, j.due = job.Scheduled, c.ScheduledAt
	}
	if p := m.policyFor(j); p != nil {
		m.hold(j, p.Expires, p.ApproveAtLast, p.Approvers)
	}
	unmet := false
	for _, on := range c.DependsOn {
		dep := m.find(c.NS, on)
		j.waits[on] = !dep.state.Terminal()
		unmet = unmet || dep.state.Terminal() && dep.state != job.Completed && c.OnDependency != command.DependencyRun
	}
	if unmet {
		m.unmet(j)
	}
	return j
}

func (j *modelJob) blocked() bool {
	for _, open := range j.waits {
		if open {
			return true
		}
	}
	return false
}

// ready puts a job at the end of its order.
func (m *oracle) ready(j *modelJob) {
	m.turn++
	j.state, j.due, j.turn = job.Pending, 0, m.turn
}

// hold stops a job until somebody decides, or until it times out (0: never).
func (m *oracle) hold(j *modelJob, within time.Duration, approveAtLast bool, approvers []string) {
	j.state, j.due, j.approveAtLast, j.approvers = job.Held, 0, approveAtLast, approvers
	if within > 0 {
		j.due = m.now + int64(within)
	}
}

// end is every ending of a job.
func (m *oracle) end(j *modelJob, s job.State, why records.DeadReason) {
	j.state, j.reason, j.due, j.UniqueKey, j.waits = s, why, 0, "", map[job.ID]bool{}
	j.finished = m.now
	m.ended = append(m.ended, j)
}

// ask asks the worker of a job to stop; letGo is what happens when it has.
func (j *modelJob) ask(then job.State, why records.DeadReason) {
	j.state, j.then, j.why = job.Cancelling, then, why
}

func (m *oracle) letGo(j *modelJob) {
	if j.then != job.Held {
		m.end(j, j.then, j.why)
		return
	}
	j.attempt--
	m.hold(j, 0, false, nil)
}

// fetch leases jobs, with the engine's names for the leases.
func (m *oracle) fetch(c *command.Fetch, got []Grant) (out []Grant) {
	for _, id := range c.Jobs {
		j := m.find(c.NS, id)
		if j == nil || j.state != job.Pending || j.blocked() || !m.room(j.queue()) || c.Queues != nil && !slices.Contains(c.Queues, j.Queue) {
			continue
		}
		if m.spent(j.NS, j.Queue, j.Tags, false) { // On a tag: the queue has room.
			m.hold(j, time.Duration(records.EndOfDay(m.now)-m.now), true, nil)
			continue
		}
		m.queue(j.queue()).start(m.lease)
		j.attempt++
		j.state, j.started, j.worker, j.peer, j.reclaimed, j.settled = job.Active, m.lease, c.Worker, c.Peer, false, feed.Started
		j.due = min(m.lease+int64(c.Lease), j.limit())
		g := Grant{ID: id, Attempt: j.attempt}
		if n := len(out); n < len(got) && got[n].Epoch != j.epoch {
			g.Epoch, j.epoch = got[n].Epoch, got[n].Epoch
		}
		out = append(out, g)
	}
	return out
}

// holds reports whether the caller has the lease of a job.
func (j *modelJob) holds(by command.Holder) bool {
	if !by.Token.IsZero() {
		return by.Token.Epoch == j.epoch
	}
	return j.crashes == 0 && !j.ranOut || by.Worker != "" && by.Worker == j.worker || by.Worker == "" && by.Peer == j.peer
}

// leased finds a job and whether the caller may settle its lease.
func (m *oracle) leased(ns job.Namespace, id job.ID, by command.Holder) (*modelJob, Refusal) {
	switch j := m.find(ns, id); {
	case j == nil:
		return &modelJob{}, NotFound
	case !j.state.Leased() && by.Token.IsZero():
		return j, NotActive
	case !j.state.Leased() || !j.holds(by):
		return j, LeaseLost
	default:
		return j, Accepted
	}
}

func (m *oracle) ack(c *command.Ack) Refusal {
	j, why := m.leased(c.NS, c.ID, c.By)
	n := len(j.iterations) - 1
	switch {
	case why == LeaseLost && (j.state == job.Completed && j.holds(c.By) || n >= 0 && j.iterations[n].lease == c.By.Token.Epoch):
		return Accepted // Said again.
	case why != Accepted:
		return why
	case c.Agent != command.AgentUnsaid && j.Agent == nil:
		return NotAgent
	}
	m.report(j, c.Usage)
	m.attempted(j)
	if j.Agent != nil && m.iterated(j, c.Agent) {
		return Accepted
	}
	j.exit = c.Step == command.StepExit
	m.keepResult(j, int64(len(c.Result)))
	m.end(j, job.Completed, records.NotDead)
	return Accepted
}

func (m *oracle) fail(c *command.Fail) Refusal {
	j, why := m.leased(c.NS, c.ID, c.By)
	how := feed.Failed
	if c.Release {
		how = feed.Released
	}
	settled := j.state == job.Retrying || j.state == job.Dead || j.state == job.Cancelled || j.state == job.Held || j.state == job.Pending && j.settled == how
	if why == LeaseLost && settled && !j.reclaimed && j.holds(c.By) {
		return Accepted // Said again.
	}
	if why != Accepted {
		return why
	}
	if !c.Release {
		m.attempted(j)
	}
	switch m.report(j, c.Usage); {
	case j.state == job.Cancelling:
		m.letGo(j)
	case c.Release:
		j.attempt--
		if m.tooDear(j) {
			return Accepted
		}
		if m.ready(j); c.Delay != nil && *c.Delay > 0 {
			j.state, j.due = job.Retrying, m.lease+int64(*c.Delay)
		}
		j.settled = feed.Released
	case c.Terminal:
		j.settled = feed.Failed
		m.end(j, job.Dead, records.DeadTerminal)
	default:
		m.failed(j, c.Delay)
	}
	return Accepted
}

// failed is a failed attempt, perhaps not the last one.
func (m *oracle) failed(j *modelJob, delay *time.Duration) {
	j.settled = feed.Failed
	if j.attempt >= j.Retry.MaxRetries {
		m.end(j, job.Dead, records.DeadRetries)
		return
	}
	if m.tooDear(j) {
		return
	}
	wait := job.Jitter(j.Retry.Backoff.Delay(j.attempt, j.Retry.BaseDelay, j.Retry.MaxDelay), j.ID, j.attempt)
	if delay != nil {
		wait = *delay
	}
	j.state, j.due = job.Retrying, m.lease+max(int64(wait), 1)
}

func (m *oracle) heartbeat(c *command.Heartbeat) Refusal {
	j, why := m.leased(c.NS, c.ID, c.By)
	if why == Accepted {
		told, before := j.dearer, m.over(j)
		m.report(j, c.Usage)
		if now := m.over(j); j.state == job.Active && j.dearer && (!told || now > before) {
			switch now {
			case overHold:
				j.ask(job.Held, records.NotDead)
			case overReject:
				j.ask(job.Dead, records.DeadBudget)
			}
		}
	}
	return why
}

func (m *oracle) extend(c *command.Extend) Refusal {
	j := m.find(c.NS, c.ID)
	if j == nil || !j.state.Leased() || j.epoch != c.Epoch || min(c.Until, j.limit()) <= j.due {
		return WrongState
	}
	j.due = min(c.Until, j.limit())
	return Accepted
}

// fire does what is due at a time, if it still applies.
func (m *oracle) fire(d keys.Due) {
	j := m.find(d.NS, d.ID)
	switch {
	case d.Kind.OnLeaseTime() && d.At > m.lease, !d.Kind.OnLeaseTime() && d.At > m.now:
	case d.Kind == keys.DueDeliver:
		m.tell(d)
	case j == nil:
	case d.Kind == keys.DueExpire:
		switch {
		case j.state.Terminal() || j.expire != d.At || j.state == job.Cancelling && j.then != job.Held:
		case j.state.Leased():
			j.ask(job.Dead, records.DeadExpired)
		default:
			m.end(j, job.Dead, records.DeadExpired)
		}
	case j.due == 0 || j.due != d.At || dueKind(j.state) != d.Kind:
	case j.state == job.Held:
		m.decide(j, j.approveAtLast)
	case j.state.Leased():
		m.ranOut(j)
	default:
		m.ready(j)
	}
}

// ranOut is the expiry of a lease.
func (m *oracle) ranOut(j *modelJob) {
	m.attempted(j)
	late := j.due >= j.limit()
	j.reclaimed = true
	switch {
	case j.state == job.Cancelling:
		j.ranOut = j.ranOut || j.then == job.Held
		m.letGo(j)
	case late:
		j.ranOut = true
		m.failed(j, nil)
	default:
		if j.crashes++; j.crashes >= CrashLimit {
			m.end(j, job.Dead, records.DeadCrashes)
		} else if !m.tooDear(j) {
			m.ready(j)
		}
	}
}

func (m *oracle) cancel(j *modelJob) Refusal {
	switch {
	case j.state == job.Completed || j.state == job.Dead:
		return WrongState
	case j.state == job.Active || j.state == job.Cancelling && j.then == job.Held:
		j.ask(job.Cancelled, records.NotDead)
	case j.state != job.Cancelled && j.state != job.Cancelling:
		m.end(j, job.Cancelled, records.NotDead)
	}
	return Accepted
}

// retry lets a job run again that had ended, from its first attempt; one that waits for
// its time does not wait for it.
func (m *oracle) retry(j *modelJob) Refusal {
	if j.state == job.Pending || j.state.Leased() || j.state == job.Held {
		return WrongState
	}
	if !j.state.Terminal() {
		m.ready(j)
		return Accepted
	}
	c := m.chains[j.chain]
	if c != nil && c.last() == j.ID && (c.status == records.ChainFailed || c.status == records.ChainCancelled) {
		c.status = records.ChainRunning
	}
	m.ready(j)
	j.ranOut = j.ranOut || j.crashes > 0 || j.reclaimed
	m.keepResult(j, -j.result)
	j.attempt, j.crashes, j.epoch, j.reason, j.outcome, j.untold = 0, 0, keys.Position{}, records.NotDead, records.NoOutcome, 0
	if j.expire <= m.now {
		j.expire = 0
	}
	return Accepted
}

func (m *oracle) delete(j *modelJob) Refusal {
	if j.state.Leased() {
		return WrongState
	}
	m.remove(j)
	return Accepted
}

func (m *oracle) remove(j *modelJob) {
	m.drop(j)
	if j.gone, j.removed = true, true; !j.state.Terminal() {
		m.ended = append(m.ended, j)
	}
}

func (m *oracle) holdJob(j *modelJob) Refusal {
	switch {
	case j.state.Terminal() || j.state == job.Cancelling && j.then != job.Held:
		return WrongState
	case j.state == job.Active:
		j.ask(job.Held, records.NotDead)
	case j.state != job.Held && j.state != job.Cancelling:
		m.hold(j, 0, false, nil)
	}
	return Accepted
}

func (m *oracle) decide(j *modelJob, approve bool) Refusal {
	switch {
	case j.state != job.Held:
		return WrongState
	case approve:
		m.ready(j)
	default:
		m.end(j, job.Dead, records.DeadRejected)
	}
	return Accepted
}

func (m *oracle) move(j *modelJob, queue string) Refusal {
	to := queueKey{j.NS, queue}
	switch {
	case j.state.Leased():
		return WrongState
	case j.Queue == queue:
		return Accepted
	case m.holder(j.queue(), j.UniqueKey) == j && m.holder(to, j.UniqueKey) != nil:
		return Exists
	}
	j.Queue = queue
	if m.queue(to); j.state == job.Pending {
		m.ready(j)
	}
	return Accepted
}
