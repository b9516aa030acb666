package state

import (
	"fmt"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// The tests' lists of commands: what a line of a script says, how a script shows it, what
// the model does, and what is drawn at random. A new command goes into each of them.

// command is what a line of a script says.
func (l *scriptLine) command() command.Command {
	switch l.verb {
	case "enqueue":
		return l.enqueue()
	case "fetch":
		return l.fetch()
	case "ack":
		return l.ack()
	case "fail", "release":
		return l.failCommand()
	case "atomic":
		return &command.Atomic{Count: uint32(l.uint("count", 0))}
	case "heartbeat":
		c := &command.Heartbeat{NS: l.ns(), ID: l.id(), By: l.holder(), Progress: l.bytes("progress"), Checkpoint: l.bytes("checkpoint")}
		c.Usage = l.usage()
		return c
	case "extend":
		return &command.Extend{NS: l.ns(), ID: l.id(), Epoch: l.position(l.text("epoch", "")), Until: l.time("until")}
	case "fire":
		return l.fire()
	case "pause", "resume":
		if len(l.names) != 1 {
			l.fail("names %v, want one queue", l.names)
			return nil
		}
		return &command.Pause{NS: l.ns(), Queue: l.names[0], Paused: l.verb == "pause"}
	case "set":
		return l.setQueue()
	case "destroy":
		return &command.DeleteQueue{NS: l.ns(), Queue: l.queue()}
	case "move":
		return &command.Move{NS: l.ns(), ID: l.id(), Queue: l.text("to", "")}
	case "prioritize":
		p, ok := job.ParsePriority(l.text("to", ""))
		if !ok {
			l.fail("priority")
		}
		return &command.Prioritize{NS: l.ns(), ID: l.id(), Priority: p}
	case "requeue":
		return l.requeue()
	case "clear":
		return &command.ClearQueue{NS: l.ns(), Queue: l.queue()}
	case "sweep":
		return l.sweep()
	case "batch":
		return &command.MakeBatch{NS: l.ns(), ID: job.BatchID(l.id()), Callback: l.step("callback")}
	case "seal":
		return &command.SealBatch{NS: l.ns(), ID: job.BatchID(l.id())}
	case "hold":
		return &command.Hold{NS: l.ns(), ID: l.id(), Reason: l.text("reason", ""), By: l.text("by", "")}
	case "approve", "reject":
		return &command.Decide{NS: l.ns(), ID: l.id(), Approve: l.verb == "approve", Comment: l.text("comment", ""), By: l.text("by", "")}
	case "cancel":
		return &command.Cancel{NS: l.ns(), ID: l.id()}
	case "retry":
		return &command.Retry{NS: l.ns(), ID: l.id()}
	case "delete":
		return &command.Delete{NS: l.ns(), ID: l.id()}
	case "budget":
		return &command.PutBudget{NS: l.ns(), Budget: l.budget()}
	case "unbudget":
		b := l.budget()
		return &command.DeleteBudget{NS: l.ns(), Scope: b.Scope, Target: b.Target}
	case "policy":
		return &command.PutPolicy{NS: l.ns(), Policy: l.policy()}
	case "unpolicy":
		return &command.DeletePolicy{NS: l.ns(), ID: job.PolicyID(l.id())}
	case "schedule":
		return l.schedule()
	case "unschedule":
		return &command.DeleteSchedule{NS: l.ns(), ID: job.ScheduleID(l.id())}
	case "tick":
		return l.tick()
	case "run":
		return &command.Tick{NS: l.ns(), ID: job.ScheduleID(l.id()), Manual: true}
	case "delete-ended":
		return l.deleteEnded()
	case "trim-readings":
		c := &command.TrimReadings{Before: records.HourOf(epoch) + l.uint("before", 0)}
		for _, name := range l.names {
			c.Idle = append(c.Idle, job.Namespace(idOf(name)))
		}
		return c
	case "trim":
		return &command.TrimEvents{NS: l.ns(), Before: l.uint("before", 0)}
	default:
		l.fail("no command %q", l.verb)
		return nil
	}
}

// commandText is how scripts show a command beside its answer.
func commandText(c command.Command) string {
	switch c := c.(type) {
	case *command.Enqueue:
		return "enqueue " + idText(c.ID)
	case *command.Fetch:
		return "fetch"
	case *command.Ack:
		return "ack " + idText(c.ID)
	case *command.Fail:
		if c.Release {
			return "release " + idText(c.ID)
		}
		return "fail " + idText(c.ID)
	case *command.Heartbeat:
		return "heartbeat " + idText(c.ID)
	case *command.Extend:
		return "extend " + idText(c.ID)
	case *command.Fire:
		return "fire " + dueNames[c.Due.Kind] + " " + idText(c.Due.ID)
	case *command.Pause:
		if c.Paused {
			return "pause " + c.Queue
		}
		return "resume " + c.Queue
	case *command.MakeBatch:
		return "batch " + idText(c.ID)
	case *command.SealBatch:
		return "seal " + idText(c.ID)
	case *command.Hold:
		return "hold " + idText(c.ID)
	case *command.Decide:
		if c.Approve {
			return "approve " + idText(c.ID)
		}
		return "reject " + idText(c.ID)
	case *command.Cancel:
		return "cancel " + idText(c.ID)
	case *command.Retry:
		return "retry " + idText(c.ID)
	case *command.Delete:
		return "delete " + idText(c.ID)
	case *command.SetQueue:
		return "set " + c.Queue
	case *command.DeleteQueue:
		return "destroy " + c.Queue
	case *command.Move:
		return "move " + idText(c.ID) + " to " + c.Queue
	case *command.Prioritize:
		return "prioritize " + idText(c.ID) + " " + c.Priority.String()
	case *command.Requeue:
		return "requeue of " + c.Queue
	case *command.ClearQueue:
		return "clear " + c.Queue
	case *command.Sweep:
		return sweepText(c)
	case *command.PutBudget:
		return "budget of " + c.Budget.Target
	case *command.DeleteBudget:
		return "no budget of " + c.Target
	case *command.PutPolicy:
		return "policy " + c.Policy.Name
	case *command.DeletePolicy:
		return "no policy " + idText(c.ID)
	case *command.Atomic:
		return fmt.Sprintf("atomic %d", c.Count)
	case *command.PutSchedule:
		return "schedule " + idText(c.ID)
	case *command.DeleteSchedule:
		return "unschedule " + idText(c.ID)
	case *command.Tick:
		if c.Manual {
			return "run " + idText(c.ID)
		}
		return "tick " + idText(c.ID)
	case *command.TrimReadings:
		return "trim readings before " + hourText(c.Before)
	case *command.TrimEvents:
		return fmt.Sprintf("trim before %d", c.Before)
	case *command.DeleteEnded:
		return fmt.Sprintf("delete %d jobs, %d batches, %d chains that ended", len(c.Jobs), len(c.Batches), len(c.Chains))
	default:
		return fmt.Sprintf("%T", c)
	}
}

// apply is one command; got is what the engine answered.
func (m *oracle) apply(c command.Command, got Result) (want Result) {
	switch c := c.(type) {
	case *command.Enqueue:
		want = m.enqueue(c, false)
	case *command.Fetch:
		want.Grants = m.fetch(c, got.Grants)
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
	case *command.Prioritize:
		want.Refusal = m.person(c.NS, c.ID, func(j *modelJob) Refusal { return m.prioritize(j, c.Priority) })
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
	case *command.DeleteEnded:
		m.deleteEnded(c)
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
		m.putBudget(c.NS, c.Budget)
	case *command.DeleteBudget:
		want.Refusal = remove(m.budgets, budgetAt{c.NS, c.Scope, c.Target})
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
		want.Refusal = remove(m.schedules, scheduleKey{c.NS, c.ID})
	case *command.Tick:
		want.Refusal = m.tick(c, got.ID)
	}
	m.follow()
	return want
}

// command draws one; what people ask for is admin's.
func (g *generator) command() command.Command {
	ns, id := g.job()
	if g.theme != nil && g.one(2, "theme") {
		return g.theme(ns)
	}
	switch n := g.pick(40, "command"); n {
	case 0, 1, 2, 3, 4, 5:
		return g.enqueue()
	case 6, 7, 8, 9, 10, 11:
		return g.fetch()
	case 12, 13, 14, 15, 16, 17, 18:
		ns, id := g.jobIn(func(h *records.Head) bool { return h.State.Leased() })
		return []func(job.Namespace, job.ID) command.Command{g.ack, g.ack, g.ack, g.fail, g.fail, g.heartbeat, g.heartbeat}[n-12](ns, id)
	case 19, 20, 21, 22, 23:
		return g.due()
	case 24:
		return g.sweep()
	case 25:
		if g.one(3, "ended") {
			return g.deleteEnded()
		}
		return g.sweep()
	case 26:
		if h, ok := g.seen.heads[id]; ok && !g.calm && g.one(2, "extend") {
			return &command.Extend{NS: ns, ID: id, Epoch: h.Epoch, Until: g.r.lease + int64(g.seconds(4, "until"))}
		}
		switch g.pick(5, "log") {
		case 0:
			return &command.AuditCollected{Through: uint64(g.pick(6, "through"))}
		case 1:
			return &command.TrimReadings{Before: records.HourOf(g.r.now) + uint64(g.pick(3, "hours")), Idle: testNamespaces}
		case 2, 3:
			c := &command.Audit{NS: ns, By: "key_1", Act: "job.retry", Type: "job", Target: id.String(), Covers: uint32(g.pick(3, "covers"))}
			if g.one(2, "in parts") {
				c.Op, c.Done = job.ID{0xac, byte(g.pick(3, "op"))}, g.one(2, "done")
			}
			return c
		}
		return &command.TrimEvents{NS: ns, Before: g.r.index / 2}
	case 27, 28, 29:
		return g.govern(ns)
	case 30, 31, 32:
		return g.schedule(ns)
	default:
		return g.admin(ns, id)
	}
}

func (g *generator) admin(ns job.Namespace, id job.ID) command.Command {
	switch n := g.pick(18, "admin"); n {
	case 0:
		return &command.Cancel{NS: ns, ID: id}
	case 1:
		return &command.Retry{NS: ns, ID: id}
	case 2:
		return &command.Delete{NS: ns, ID: id}
	case 3:
		return g.requeue(ns, id)
	case 4, 15:
		return g.hold(ns, id)
	case 5, 6, 7:
		ns, id := g.jobIn(func(h *records.Head) bool { return h.State == job.Held })
		return &command.Decide{NS: ns, ID: id, Approve: n > 5, By: []string{approver, "me"}[g.pick(2, "by")]}
	case 8:
		return &command.DeleteQueue{NS: ns, Queue: g.queue()}
	case 9:
		return &command.ClearQueue{NS: ns, Queue: g.queue()}
	case 10:
		return &command.Move{NS: ns, ID: id, Queue: g.queue()}
	case 11:
		return &command.Prioritize{NS: ns, ID: id, Priority: job.Priority(g.pick(3, "priority"))}
	case 12:
		return &command.MakeBatch{NS: ns, ID: job.BatchID{0, g.fresh()}, Callback: g.step()}
	case 13:
		return &command.SealBatch{NS: ns, ID: g.batch()}
	}
	if g.calm {
		return g.enqueue()
	}
	if g.one(3, "pause") {
		return &command.Pause{NS: ns, Queue: g.queue(), Paused: g.one(2, "paused")}
	}
	return g.setQueue(ns)
}
