package state

import (
	"math"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// The oracle: what models cost, who must approve, and agents.

type modelReport struct {
	of    *modelJob
	lease keys.Position
	queue string
	at    int64
	model string
	records.Meter
}

type budgetAt struct {
	ns     job.Namespace
	scope  command.BudgetScope
	target string
}

type modelBudget struct {
	ns job.Namespace
	command.Budget
	since int    // Of a tag only what was reported since it has a budget counts.
	told  uint64 // The day of which it told that it is spent.
}

// covers reports whether a budget counts the jobs of a queue with some tags.
func (b *modelBudget) covers(ns job.Namespace, queue string, tags []command.Tag) bool {
	tagged := slices.ContainsFunc(tags, func(t command.Tag) bool { return b.Target == t.Key+":"+t.Value })
	return b.ns == ns && (b.Scope == command.BudgetGlobal || b.Scope == command.BudgetQueue && b.Target == queue || b.Scope == command.BudgetTag && tagged)
}

func (m *oracle) putBudget(ns job.Namespace, put command.Budget) {
	k := budgetAt{ns, put.Scope, put.Target}
	b := m.budgets[k]
	if b == nil {
		b = &modelBudget{ns: ns}
		if m.budgets[k] = b; put.Scope == command.BudgetTag {
			b.since = len(m.reports)
		}
	}
	if b.Daily != put.Daily {
		b.told = 0
	}
	b.Budget = put
}

// today is what the reports of the day cost that a budget counts.
func (m *oracle) today(b *modelBudget) (cost int64) {
	for _, r := range m.reports[b.since:] {
		if records.DayOf(r.at) == records.DayOf(m.now) && b.covers(r.of.NS, r.queue, r.of.Tags) {
			cost += r.Cost
		}
	}
	return cost
}

// spent reports whether a budget that stops jobs from starting or, if rejecting, from
// being enqueued is spent for the day.
func (m *oracle) spent(ns job.Namespace, queue string, tags []command.Tag, rejecting bool) bool {
	for _, b := range m.budgets {
		counts := b.Daily > 0 && (b.On == command.ExceedReject || b.On == command.ExceedHold && !rejecting)
		if counts && b.covers(ns, queue, tags) && m.today(b) >= b.Daily {
			return true
		}
	}
	return false
}

// used is what a job reported, starting at one report.
func (m *oracle) used(j *modelJob, from int) (sum records.Meter) {
	for _, r := range m.reports[from:] {
		if r.of == j {
			sum = sum.Plus(r.Meter)
		}
	}
	return sum
}

// report counts what is new in a report about a model by the lease of a job: all of it,
// or, of a total, the part that it had not reported before.
func (m *oracle) report(j *modelJob, u *command.Usage) {
	if u == nil {
		return
	}
	news := records.Meter{Input: u.Input, Output: u.Output, CacheCreation: u.CacheCreation, CacheRead: u.CacheRead, Cost: u.Cost, Attempts: 1}
	for _, r := range m.reports {
		switch {
		case r.of != j || r.lease != j.epoch || r.model != u.Model:
		case u.Total:
			news = news.Minus(r.Meter)
		default:
			news.Attempts -= r.Attempts
		}
	}
	if news == (records.Meter{}) {
		return
	}
	m.reports = append(m.reports, modelReport{j, j.epoch, j.Queue, m.now, u.Model, news})
	for _, b := range m.budgets {
		if b.covers(j.NS, j.Queue, j.Tags) && b.Daily > 0 && m.today(b) >= b.Daily {
			b.told = records.DayOf(m.now)
		}
	}
	j.dearer = j.dearer || m.over(j) > overNot
}

// What the strictest budget says about a job that exceeds its limit per job.
const overNot, overAlert, overHold, overReject = 0, 1, 2, 3

func (m *oracle) over(j *modelJob) (worst int) {
	says := map[command.OnExceed]int{command.ExceedAlert: overAlert, command.ExceedHold: overHold, command.ExceedReject: overReject}
	for _, b := range m.budgets {
		if b.PerJob > 0 && b.covers(j.NS, j.Queue, j.Tags) && m.used(j, 0).Cost > b.PerJob {
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
		m.end(j, job.Dead, records.DeadBudget)
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

type modelIteration struct {
	status  command.AgentStatus
	lease   keys.Position
	usage   records.Meter
	reports int // That there were up to its end.
}

// limit is the latest end of a job's lease.
func (j *modelJob) limit() int64 {
	if a := j.Agent; a != nil && a.IterationTimeout > 0 {
		return j.started + int64(a.IterationTimeout)
	}
	return math.MaxInt64
}

// iterated ends an iteration of an agent, and reports whether the job goes on.
func (m *oracle) iterated(j *modelJob, says command.AgentStatus) bool {
	from, a, n := 0, j.Agent, len(j.iterations)
	if n > 0 {
		from = j.iterations[n-1].reports
	}
	if says == command.AgentUnsaid {
		says = command.AgentDone
	}
	j.iterations = append(j.iterations, modelIteration{says, j.epoch, m.used(j, from), len(m.reports)})
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
