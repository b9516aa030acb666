package state

import (
	"maps"
	"math"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// apply is one command; got is what the engine answered.
func (m *oracle) apply(c command.Command, got Result) (want Result) {
	switch c := c.(type) {
	case *command.Enqueue:
		want = m.enqueue(c, false)
	case *command.Ack:
		want.Refusal = m.ack(c)
	case *command.Fail:
		want.Refusal = m.fail(c)
	case *command.Heartbeat:
		want.Refusal = m.heartbeat(c)
	case *command.Extend:
		want.Refusal = m.extend(c)
	case *command.Fire:
		m.fire(c.Due)
	case *command.Cancel:
		want.Refusal = m.person(c.NS, c.ID, m.cancel)
	case *command.Retry:
		want.Refusal = m.person(c.NS, c.ID, m.retry)
	case *command.Requeue:
		for _, id := range c.Jobs {
			if j := m.find(c.NS, id); j != nil && j.state == job.Dead && j.Queue == c.Queue {
				m.retry(j)
				want.Requeued++
			}
		}
	case *command.Delete:
		want.Refusal = m.person(c.NS, c.ID, m.delete)
	case *command.Hold:
		want.Refusal = m.person(c.NS, c.ID, m.holdJob)
	case *command.Decide:
		want.Refusal = m.person(c.NS, c.ID, func(j *modelJob) Refusal {
			if j.state == job.Held && len(j.approvers) > 0 && !slices.Contains(j.approvers, c.By) {
				return NotApprover
			}
			return m.decide(j, c.Approve)
		})
	case *command.Move:
		want.Refusal = m.person(c.NS, c.ID, func(j *modelJob) Refusal { return m.move(j, c.Queue) })
	case *command.Pause:
		q := m.queue(queueKey{c.NS, c.Queue})
		q.paused, q.draining = c.Paused, q.draining && c.Paused // A resume ends both.
	case *command.SetQueue:
		m.setQueue(c, m.queue(queueKey{c.NS, c.Queue}))
	case *command.DeleteQueue:
		want.Refusal = m.empty(queueKey{c.NS, c.Queue}, true)
	case *command.ClearQueue:
		want.Refusal = m.empty(queueKey{c.NS, c.Queue}, false)
	case *command.Sweep:
		m.sweep(c)
	case *command.MakeBatch:
		if m.batches[c.ID] != nil {
			want.Refusal = Exists
		} else {
			m.batches[c.ID] = &modelBatch{ns: c.NS, callback: c.Callback}
		}
	case *command.SealBatch:
		if b := m.batches[c.ID]; b == nil || b.ns != c.NS {
			want.Refusal = NotFound
		} else {
			b.sealed = true
			m.fireBatch(c.ID)
		}
	case *command.PutBudget:
		m.putBudget(c)
	case *command.DeleteBudget:
		n := len(m.budgets)
		m.budgets = slices.DeleteFunc(m.budgets, func(b *modelBudget) bool { return b.is(c.NS, c.Scope, c.Target) })
		if len(m.budgets) == n {
			want.Refusal = NotFound
		}
	case *command.PutPolicy:
		if i := m.policy(c.NS, c.Policy.ID); i >= 0 {
			m.policies[i] = c
		} else {
			m.policies = append(m.policies, c)
		}
	case *command.DeletePolicy:
		if i := m.policy(c.NS, c.ID); i >= 0 {
			m.policies = slices.Delete(m.policies, i, i+1)
		} else {
			want.Refusal = NotFound
		}
	case *command.PutSchedule:
		want.Refusal = m.putSchedule(c)
	case *command.DeleteSchedule:
		if m.schedules[scheduleKey{c.NS, c.ID}] == nil {
			want.Refusal = NotFound
		}
		delete(m.schedules, scheduleKey{c.NS, c.ID})
	case *command.Tick:
		want.Refusal = m.tick(c, got.ID)
	}
	m.follow()
	return want
}

// group is the commands of a Together.
func (m *oracle) group(cmds []command.Command) []Result {
	why, again := m.together(cmds)
	out := make([]Result, len(cmds))
	for i, c := range cmds {
		e, enqueue := c.(*command.Enqueue)
		switch {
		case why != Accepted:
			out[i].Refusal = why
		case enqueue:
			out[i] = m.enqueue(e, true)
			m.follow()
		case !again:
			out[i] = m.apply(c, Result{})
		}
	}
	return out
}

// What people do with jobs and queues.

func (m *oracle) person(ns job.Namespace, id job.ID, do func(j *modelJob) Refusal) Refusal {
	j := m.find(ns, id)
	if j == nil {
		return NotFound
	}
	return do(j)
}

func (m *oracle) cancel(j *modelJob) Refusal {
	switch {
	case j.state == job.Completed || j.state == job.Dead:
		return WrongState
	case j.state == job.Active || j.state == job.Cancelling && j.then == job.Held:
		j.ask(job.Cancelled, NotDead)
	case j.state != job.Cancelled && j.state != job.Cancelling:
		m.end(j, job.Cancelled, NotDead)
	}
	return Accepted
}

// retry lets a job run again that had ended or waits for its time.
func (m *oracle) retry(j *modelJob) Refusal {
	if j.state == job.Pending || j.state.Leased() || j.state == job.Held {
		return WrongState
	}
	c := m.chains[j.chain]
	if c != nil && j.state.Terminal() && c.last() == j.ID && (c.status == ChainFailed || c.status == ChainCancelled) {
		c.status = ChainRunning
	}
	m.ready(j)
	j.attempt, j.crashes, j.token, j.reason, j.outcome, j.untold = 0, 0, command.Token{}, NotDead, NoOutcome, 0
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
	if j.gone, j.removed = true, true; !j.state.Terminal() {
		m.ended = append(m.ended, j)
	}
}

func (m *oracle) holdJob(j *modelJob) Refusal {
	switch {
	case j.state.Terminal() || j.state == job.Cancelling && j.then != job.Held:
		return WrongState
	case j.state == job.Active:
		j.ask(job.Held, NotDead)
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
		m.end(j, job.Dead, DeadRejected)
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

func (m *oracle) setQueue(c *command.SetQueue, q *modelQueue) {
	if c.Set&command.SetPaused != 0 {
		q.paused = c.Paused
	}
	if c.Set&command.SetConcurrency != 0 {
		q.max = c.MaxConcurrency
	}
	if c.Set&command.SetThrottle != 0 {
		if q.rate = c.Throttle; q.rate.IsZero() {
			q.starts = nil
		}
	}
	if c.Set&command.SetDraining != 0 {
		q.draining = c.More.Draining
	}
	if c.Set&command.SetRetry != 0 {
		q.retry, q.retrySet = c.More.Retry, c.More.RetrySet
	}
}

// empty takes the jobs of a queue away: all with the queue itself, or those that no
// worker holds. What they leave is swept later.
func (m *oracle) empty(k queueKey, whole bool) Refusal {
	if m.queues[k] == nil {
		return NotFound
	}
	for _, j := range m.jobs {
		j.gone = j.gone || j.queue() == k && (whole || !j.state.Leased())
	}
	if whole {
		delete(m.queues, k)
		maps.DeleteFunc(m.answers, func(a answerKey, _ modelAnswer) bool { return a.queueKey == k })
	}
	return Accepted
}

func (m *oracle) sweep(c *command.Sweep) {
	for _, id := range c.Jobs {
		for _, j := range m.jobs {
			if j.ID == id && j.queue() == (queueKey{c.NS, c.Queue}) && j.gone && !j.removed {
				m.remove(j)
			}
		}
	}
}

// What the end of a job does to others.

type modelBatch struct {
	ns            job.Namespace
	callback      *command.Step
	sealed, fired bool
	counts        [outcomeSlots]uint64 // When it fired.
}

type modelChain struct {
	ns job.Namespace
	*command.Chain
	status         ChainStatus
	jobs           []job.ID
	failed, exited bool // on_failure, on_exit was made.
}

func (c *modelChain) last() job.ID { return c.jobs[len(c.jobs)-1] }

// follow does what follows on the jobs that ended: the chain first, so that a batch
// does not end between two steps.
func (m *oracle) follow() {
	for len(m.ended) > 0 {
		j := m.ended[0]
		m.ended = m.ended[1:]
		o := outcomeOf(j.state)
		if o == NoOutcome {
			o = OutcomeDeleted
		}
		m.advance(j, o)
		j.outcome, j.untold = o, m.now
		m.fireBatch(j.More.Batch)
	}
}

// advance takes the chain of a job on, if the job is its furthest step.
func (m *oracle) advance(j *modelJob, o Outcome) {
	c := m.chains[j.chain]
	if c == nil || c.status != ChainRunning || c.last() != j.ID {
		return
	}
	exit := o == OutcomeCompleted && j.exit
	switch n := len(c.jobs); {
	case o == OutcomeCompleted || o == OutcomeDead && c.GoOn:
		if n < len(c.Steps) && !exit {
			c.jobs = append(c.jobs, m.next(j, &c.Steps[n], uint64(n)))
			return
		}
		if c.status = ChainCompleted; exit {
			c.status = ChainExited
		}
		if !c.exited && c.OnExit != nil {
			c.exited = true
			m.next(j, c.OnExit, derivedOnExit)
		}
	case o == OutcomeDead:
		if c.status = ChainFailed; !c.failed && c.OnFailure != nil {
			c.failed = true
			m.next(j, c.OnFailure, derivedOnFailure)
		}
	default:
		c.status = ChainCancelled
	}
}

// next makes a job of a chain.
func (m *oracle) next(j *modelJob, s *command.Step, n uint64) job.ID {
	c := command.Enqueue{
		NS: j.NS, ID: job.Derived(m.now, j.chain, n), Queue: s.Queue, Priority: j.Priority, Retry: j.Retry, Tags: j.Tags,
		More: &command.EnqueueMore{Agent: j.More.Agent},
	}
	if j.More.ExpireAt != 0 {
		c.More.ExpireAt = m.now + j.More.ExpireAt - j.made
	}
	if b := m.batches[j.More.Batch]; b != nil && !b.fired {
		c.More.Batch = j.More.Batch
	}
	m.create(c).chain = j.chain
	return c.ID
}

// members counts the jobs of a batch by their outcomes.
func (m *oracle) members(id job.BatchID) (counts [outcomeSlots]uint64) {
	for _, j := range m.jobs {
		if j.More.Batch == id {
			counts[j.outcome]++
		}
	}
	return counts
}

func (m *oracle) fireBatch(id job.BatchID) {
	b := m.batches[id]
	if b == nil || !b.sealed || b.fired || m.members(id)[NoOutcome] > 0 {
		return
	}
	if b.fired, b.counts = true, m.members(id); b.callback != nil {
		m.create(command.Enqueue{NS: b.ns, ID: job.Derived(m.now, id, 0), Queue: b.callback.Queue, Priority: job.Normal})
	}
}

// tell resolves the jobs that wait for one that ended.
func (m *oracle) tell(d keys.Due) {
	for _, on := range m.jobs {
		if on.NS != d.NS || on.ID != d.ID || on.untold != d.At {
			continue
		}
		on.untold = 0
		for _, j := range m.jobs {
			switch {
			case j.gone || j.NS != d.NS || !j.waits[d.ID]:
			case on.outcome != OutcomeCompleted && j.More.OnDependency != command.DependencyRun:
				m.unmet(j)
			default:
				if j.waits[d.ID] = false; !j.blocked() && j.state == job.Pending {
					m.ready(j)
				}
			}
		}
	}
}

func (m *oracle) unmet(j *modelJob) {
	if j.More.OnDependency == command.DependencyCancel {
		m.end(j, job.Cancelled, NotDead)
		return
	}
	m.end(j, job.Dead, DeadDependency)
}

// What models cost.

type modelReport struct {
	of    *modelJob
	lease keys.Position
	queue string
	at    int64
	model string
	Meter
}

type modelBudget struct {
	ns job.Namespace
	command.Budget
	since int    // Of a tag only what was reported since it has a budget counts.
	told  uint64 // The day of which it told that it is spent.
}

func (b *modelBudget) is(ns job.Namespace, s command.BudgetScope, target string) bool {
	return b.ns == ns && b.Scope == s && b.Target == target
}

// covers reports whether a budget counts the jobs of a queue with some tags.
func (b *modelBudget) covers(ns job.Namespace, queue string, tags []command.Tag) bool {
	tagged := slices.ContainsFunc(tags, func(t command.Tag) bool { return b.Target == t.Key+"="+t.Value })
	return b.ns == ns && (b.Scope == command.BudgetGlobal || b.Scope == command.BudgetQueue && b.Target == queue || b.Scope == command.BudgetTag && tagged)
}

func (m *oracle) putBudget(c *command.PutBudget) {
	for _, b := range m.budgets {
		if b.is(c.NS, c.Budget.Scope, c.Budget.Target) {
			if b.Daily != c.Budget.Daily {
				b.told = 0
			}
			b.Budget = c.Budget
			return
		}
	}
	b := &modelBudget{ns: c.NS, Budget: c.Budget}
	if b.Scope == command.BudgetTag {
		b.since = len(m.reports)
	}
	m.budgets = append(m.budgets, b)
}

// today is what the reports of the day cost that a budget counts.
func (m *oracle) today(b *modelBudget) (cost int64) {
	for _, r := range m.reports[b.since:] {
		if dayOf(r.at) == dayOf(m.now) && b.covers(r.of.NS, r.queue, r.of.Tags) {
			cost += r.Cost
		}
	}
	return cost
}

// spent reports whether the day of a budget is spent that lets nothing more start or,
// if rejecting, be enqueued.
func (m *oracle) spent(ns job.Namespace, queue string, tags []command.Tag, rejecting bool) bool {
	return slices.ContainsFunc(m.budgets, func(b *modelBudget) bool {
		counts := b.Daily > 0 && (b.On == command.ExceedReject || b.On == command.ExceedHold && !rejecting)
		return counts && b.covers(ns, queue, tags) && m.today(b) >= b.Daily
	})
}

// used is what a job reported from one report on.
func (m *oracle) used(j *modelJob, from int) (sum Meter) {
	for _, r := range m.reports[from:] {
		if r.of == j {
			sum = sum.Plus(r.Meter)
		}
	}
	return sum
}

// report takes in what is new in what the lease of a job says of a model: all of it,
// or, of a total, what it did not say before.
func (m *oracle) report(j *modelJob, u *command.Usage) {
	if u == nil {
		return
	}
	news := Meter{Input: u.Input, Output: u.Output, CacheCreation: u.CacheCreation, CacheRead: u.CacheRead, Cost: u.Cost, Attempts: 1}
	for _, r := range m.reports {
		switch {
		case r.of != j || r.lease != j.token.Epoch || r.model != u.Model:
		case u.Total:
			news = news.minus(r.Meter)
		default:
			news.Attempts -= r.Attempts
		}
	}
	if news == (Meter{}) {
		return
	}
	m.reports = append(m.reports, modelReport{j, j.token.Epoch, j.Queue, m.now, u.Model, news})
	for _, b := range m.budgets {
		if b.covers(j.NS, j.Queue, j.Tags) && b.Daily > 0 && m.today(b) >= b.Daily {
			b.told = dayOf(m.now)
		}
	}
	j.dearer = j.dearer || m.over(j) > overNot
}

// What the strictest budget says of a job that costs more than it allows for one.
const (
	overNot = iota
	overAlert
	overHold
	overReject
)

func (m *oracle) over(j *modelJob) int {
	worst := overNot
	for _, b := range m.budgets {
		if b.PerJob > 0 && b.covers(j.NS, j.Queue, j.Tags) && m.used(j, 0).Cost > b.PerJob {
			says := map[command.OnExceed]int{command.ExceedAlert: overAlert, command.ExceedHold: overHold, command.ExceedReject: overReject}
			worst = max(worst, says[b.On])
		}
	}
	return worst
}

// tooDear stops a job that would run again, if it costs too much.
func (m *oracle) tooDear(j *modelJob) bool {
	switch m.over(j) {
	case overHold:
		m.hold(j, 0, false, nil)
	case overReject:
		m.end(j, job.Dead, DeadBudget)
	default:
		return false
	}
	return true
}

func (m *oracle) policy(ns job.Namespace, id job.PolicyID) int {
	return slices.IndexFunc(m.policies, func(p *command.PutPolicy) bool { return p.NS == ns && p.Policy.ID == id })
}

// policyFor finds the oldest policy by which a new job must be approved.
func (m *oracle) policyFor(j *modelJob) *command.Policy {
	for _, c := range m.policies {
		p := &c.Policy
		queue := p.Queue == j.Queue
		tag := slices.ContainsFunc(j.Tags, func(t command.Tag) bool { return t.Key == p.TagKey && (p.TagValue == "" || t.Value == p.TagValue) })
		all := (p.Queue == "" || queue) && (p.TagKey == "" || tag)
		some := p.Queue != "" && queue || p.TagKey != "" && tag
		if c.NS == j.NS && p.Enabled && (p.Any && some || !p.Any && all) {
			return p
		}
	}
	return nil
}

// Agents.

type modelIteration struct {
	status  command.AgentStatus
	lease   keys.Position
	usage   Meter
	reports int // That there were up to its end.
}

// limit is when the lease of a job ends at the latest.
func (j *modelJob) limit() int64 {
	if a := j.More.Agent; a != nil && a.IterationTimeout > 0 {
		return j.started + int64(a.IterationTimeout)
	}
	return math.MaxInt64
}

// iterated ends an iteration of an agent, and reports whether the job goes on.
func (m *oracle) iterated(j *modelJob, says command.AgentStatus) bool {
	from, a, n := 0, j.More.Agent, len(j.iterations)
	if n > 0 {
		from = j.iterations[n-1].reports
	}
	if says == command.AgentUnsaid {
		says = command.AgentDone
	}
	j.iterations = append(j.iterations, modelIteration{says, j.token.Epoch, m.used(j, from), len(m.reports)})
	if says == command.AgentDone {
		return false
	}
	if j.state == job.Cancelling && j.then != job.Held {
		m.letGo(j)
		return true
	}
	j.ranOut = j.ranOut || j.crashes > 0
	j.attempt, j.crashes = 0, 0 // They belong to an iteration.
	switch {
	case says == command.AgentHold || j.state == job.Cancelling:
		m.hold(j, 0, false, nil)
	case m.tooDear(j):
	case a.MaxIterations > 0 && n+1 >= int(a.MaxIterations) || a.MaxCost > 0 && m.used(j, 0).Cost >= a.MaxCost:
		m.hold(j, 0, false, nil)
	default:
		m.ready(j)
	}
	return true
}

// Schedules.

type scheduleKey struct {
	ns job.Namespace
	id job.ScheduleID
}

type modelSchedule struct {
	command.Schedule
	version, missed uint64
	next, since     int64
	last            job.ID
}

func (m *oracle) putSchedule(c *command.PutSchedule) Refusal {
	k := scheduleKey{c.NS, c.ID}
	s := m.schedules[k]
	switch {
	case s != nil && !c.Change:
		return Exists
	case s == nil && c.Change:
		return NotFound
	case s != nil && s.version != c.Version:
		return WrongState
	}
	for of, other := range m.schedules {
		if of.ns == c.NS && other != s && other.Name == c.Schedule.Name {
			return Exists
		}
	}
	begins := s == nil || s.Paused || s.Cron != c.Schedule.Cron || s.Zone != c.Schedule.Zone
	if s == nil {
		s = &modelSchedule{}
		m.schedules[k] = s
	}
	s.Schedule, s.version = c.Schedule, s.version+1
	if s.Paused {
		s.next = 0
	} else if begins {
		s.next, s.since = c.Next, max(s.since, c.Next)
	}
	return Accepted
}

// tick makes the jobs of the instants that a schedule waits for, or one by hand.
func (m *oracle) tick(c *command.Tick, byHand job.ID) Refusal {
	s := m.schedules[scheduleKey{c.NS, c.ID}]
	switch {
	case s == nil:
		return NotFound
	case c.Manual:
		return m.run(s, &command.Enqueue{NS: c.NS, ID: byHand})
	case s.next == 0 || c.Version != s.version || c.Due != s.next || c.Due > m.now:
		return WrongState
	}
	s.missed += c.Missed
	for _, at := range c.Ticks {
		if at < s.since {
			continue
		}
		id := job.Derived(at, c.ID, uint64(at))
		if m.run(s, &command.Enqueue{NS: c.NS, ID: id, ScheduledAt: at + lateBy(id, s.Jitter)}) != Accepted {
			s.missed++
		}
		s.since = at + 1 // No tick twice (INV-12).
	}
	if len(c.Ticks) > 0 || c.Missed > 0 {
		s.since = max(s.since, c.Next)
	}
	s.next = c.Next
	return Accepted
}

// run makes one job of a schedule, unless the one before, the queue or a key is
// against it.
func (m *oracle) run(s *modelSchedule, c *command.Enqueue) Refusal {
	last := m.find(c.NS, s.last)
	running := last != nil && !last.state.Terminal()
	if running && s.Overlap == command.OverlapSkip {
		return WrongState
	}
	t := &s.Job
	c.Queue, c.Priority, c.Retry, c.Tags, c.UniqueKey, c.UniqueFor = t.Queue, t.Priority, t.Retry, t.Tags, t.UniqueKey, t.UniqueFor
	if c.More = (&command.EnqueueMore{Open: t.RetryOpen}); t.ExpireAfter > 0 {
		c.More.ExpireAt = m.now + int64(t.ExpireAfter)
	}
	res := m.enqueue(c, false)
	if res.Duplicate {
		return Exists
	}
	if res.Refusal != Accepted {
		return res.Refusal
	}
	if running && s.Overlap == command.OverlapCancel {
		m.cancel(last)
	}
	s.last = c.ID
	return Accepted
}
