package main

const (
	schedule   = "internal/engine/state/schedule.go"
	policy     = "internal/engine/state/policy.go"
	agent      = "internal/engine/state/agent.go"
	requeue    = "internal/engine/state/requeue.go"
	clearqueue = "internal/engine/state/clearqueue.go"
	move       = "internal/engine/state/move.go"
	prioritize = "internal/engine/state/prioritize.go"
	listfile   = "internal/edge/readmodel/row.go"
)

// orderMutations break what people order for many jobs at once, or for days to come.
var orderMutations = []mutation{
	// Schedules.
	{"a tick comes twice", tick, "c.Version != s.Version || c.Due != s.Next ||", "c.Version != s.Version ||"},
	{"a tick of an older version counts", tick, "c.Version != s.Version || c.Due != s.Next", "c.Due != s.Next"},
	{"a tick comes before its time", tick, "|| c.Due > x.now || s.Next == 0 {", "|| s.Next == 0 {"},
	{"an instant that was dealt with runs again", tick, "if at < s.Since {", "if at < 0 {"},
	{"a tick that was put off has run", tick, "if len(c.Ticks) > 0 || c.Missed > 0 {", "if c != nil {"},
	{"ticks that were left out are not counted", tick, "s.Missed += c.Missed", "_ = c.Missed"},
	{"a tick that made no job is not counted", tick, "\t\t\ts.Missed++", "\t\t\t_ = s.Missed"},
	{"a run does not wait for the one before", tick, "if running && s.Overlap == command.OverlapSkip {", "if running && s.Overlap > command.OverlapCancel {"},
	{"a run does not cancel the one before", tick, "if running && s.Overlap == command.OverlapCancel {", "if running && s.Overlap > command.OverlapCancel {"},
	{"a finished run stands in the way", tick, "return j, ok && !j.State.Terminal()\n", "return j, ok\n"},
	{"a tick knows no jitter", tick, "c.ScheduledAt = at + lateBy(c.ID, s.Jitter)", "c.ScheduledAt = at"},
	{"a job does not know its schedule", tick, "b.Schedule, b.Tick = of, tick", "b.Tick = tick"},
	{"a schedule leaves its old due row", schedule, "\tif s.Next != 0 {\n\t\tx.txn.Delete", "\tif s.Next < 0 {\n\t\tx.txn.Delete"},
	{"a schedule that ended forgets what it had", tick, "\t\ts.Since = max(s.Since, c.Next)\n\t}\n\tx.waitFor", "\t\ts.Since = c.Next\n\t}\n\tx.waitFor"},
	{"any change begins the ticks anew", putschedule, "case !there || old.Paused || old.Cron != s.Cron || old.Zone != s.Zone:", "default:"},
	{"a new expression waits for the old tick", putschedule, "case !there || old.Paused || old.Cron != s.Cron || old.Zone != s.Zone:", "case !there || old.Paused:"},
	{"a paused schedule ticks", putschedule, "\tcase s.Paused:\n", "\tcase s.Paused && c == nil:\n"},
	{"a change of what was changed counts", putschedule, "case there && old.Version != c.Version:", "case there && old.Version < c.Version:"},
	{"two schedules have one name", putschedule, "taken && owner != id", "taken && owner.IsZero()"},
	{"a schedule keeps its old name", putschedule, "if old != name && old != \"\" {", "if old == name && old != \"\" {"},
	{"one schedule more than the limit", putschedule, "if !there && n >= SchedulesMax {", "if !there && n > SchedulesMax {"},

	// Budgets.
	{"costs are not counted", spend, "d.Cost = records.SaturatingAdd(d.Cost, cost)", "_ = cost"},
	{"a queue's costs are not counted", spend, "records.QueueBudget(j.Queue), cost)", "records.QueueBudget(j.Queue), 0)"},
	{"a tag's costs are not counted", spend, "x.addDay(j, p, k, cost)", "x.addDay(j, p, k, 0)"},
	{"a budget that is met is not spent", spend, "return d.Cost >= b.Daily\n", "return d.Cost > b.Daily\n"},
	{"a spent budget lets jobs start", spend, "if b.Closes() && x.spent(ns, &b) {", "if b.Closes() && x.spent(ns, &b) && ns.IsZero() {"},
	{"an alert shuts its queues", recordsBudget, "return b.Daily > 0 && b.On != command.ExceedAlert", "return b.Daily > 0"},
	{"a spent budget that rejects takes jobs in", spend, "\t\t\treturn true\n\t\t}\n\t}\n\treturn false\n}\n", "\t\t\treturn false\n\t\t}\n\t}\n\treturn false\n}\n"},
	{"a spent budget that holds rejects", spend, "if b.Closes() && b.On == command.ExceedReject && ", "if b.Closes() && "},
	{"the memory is not told that a budget is spent", spend, "if b.Closes() && (was >= b.Daily) != (d.Cost >= b.Daily) {", "if b.Closes() && was >= b.Daily && d.Cost < b.Daily {"},
	{"the memory is not told that a correction opened a budget", spend, "if b.Closes() && (was >= b.Daily) != (d.Cost >= b.Daily) {", "if b.Closes() && was < b.Daily && d.Cost >= b.Daily {"},
	{"the memory is not told of a budget that was changed", putbudget, "\tx.out.Budgets = append(x.out.Budgets, BudgetOf{c.NS, b.Key()})\n\treturn Result{}\n}\n\n// reportAgain", "\treturn Result{}\n}\n\n// reportAgain"},
	{"the memory is not told of a budget that was deleted", deletebudget, "\tx.out.Budgets = append(x.out.Budgets, BudgetOf{c.NS, k})\n\treturn Result{}\n}\n", "\treturn Result{}\n}\n"},
	{"a spent budget is told more than once a day", spend, "if d.Cost >= b.Daily && !d.Told {", "if d.Cost >= b.Daily {"},
	{"a budget that was changed is not told of again", putbudget, "\t\td.Told = false\n", ""},
	{"a day's costs are kept for ever", spend, "; began {\n", "; began && cost < 0 {\n"},
	{"a job of a spent tag starts", spend, " || !x.spent(j.ns, &b) {", " || !x.spent(j.ns, &b) || true {"},
	{"a job of a spent tag is rejected at the day's end", spend, "Until: records.EndOfDay(x.now), ApproveAtLast: true,", "Until: records.EndOfDay(x.now),"},
	{"a new leader does not know of a spent budget", statereadBudget, "return k, records.BeginOfDay(day + 1), nil", "return k, 0, nil"},
	{"a job that costs what it may is stopped", overspent, "u.Sum().Cost > b.PerJob", "u.Sum().Cost >= b.PerJob"},
	{"the mildest of the limits of a job counts", overspent, "severity(b.On) > severity(worst.On)", "severity(b.On) < severity(worst.On)"},
	{"a job that costs too much goes on", heartbeat, "if over == nil || j.State != job.Active {", "if over == nil || j.State != job.Held {"},
	{"a job that costs too much runs again", overspent, "\tif over == nil {\n\t\treturn false", "\tif over != nil {\n\t\treturn false"},
	{"a stricter limit per job stops nobody", heartbeat, "if told && before != nil && severity(before.On) >= severity(over.On) {", "if told || before == over {"},
	{"a lost worker's job costs whatever it likes", lease, "done = x.endOverspent(j, records.LeaseRanOut.String())", "_ = done"},
	{"any ack of an agent is said again", agent, "return it.Lease == by.Epoch", "return it.Number > 0"},
	{"an iteration acked while to be held spends attempts", agent, "case cancelling && !j.Has(records.FlagHoldNext):", "case cancelling:"},
	{"that a job costs too much is told with each report", overspent, "\tj.Flags |= records.FlagOverBudget\n", ""},

	// Approval policies.
	{"a policy that is off holds jobs", policy, "if list[i].Enabled && list[i].Matches(queue, tags) {", "if list[i].Matches(queue, tags) {"},
	{"one half of a policy is enough", recordsPolicy, "\tif p.Any {", "\tif !p.Any {"},
	{"a policy of any queue matches by no queue", recordsPolicy, "return (p.Queue == \"\" || byQueue) &&", "return byQueue &&"},
	{"any value of a tag matches", recordsPolicy, "(p.TagValue == \"\" || t.Value == p.TagValue)", "(p.TagValue == \"\" || t.Value != \"\")"},
	{"the newest policy decides", putpolicy, "slices.Compare(a.ID[:], b.ID[:])", "slices.Compare(b.ID[:], a.ID[:])"},
	{"a policy's approvers are forgotten", policy, "Approvers: p.Approvers, ", ""},
	{"a policy's hold has no end", policy, "if p.Expires > 0 {", "if p.Expires < 0 {"},
	{"a policy that was deleted holds jobs", deletepolicy, "x.m.policies[c.NS] = slices.Delete(slices.Clone(list), at, at+1)", "x.m.policies[c.NS] = slices.Clone(list)"},
	{"a policy that was changed is as before", putpolicy, "\t\tlist[at] = p\n", ""},

	// Agents.
	{"an iteration leaves its attempts to the next", agent, "j.Attempt, j.Crashes = 0, 0", "j.Crashes = 0"},
	{"an iteration leaves its crashes to the next", agent, "j.Attempt, j.Crashes = 0, 0", "j.Attempt = 0"},
	{"one iteration more than asked", agent, "a.MaxIterations > 0 && iterations >= a.MaxIterations", "a.MaxIterations > 0 && iterations > a.MaxIterations"},
	{"an agent may cost more than asked", agent, "a.MaxCost > 0 && cost >= a.MaxCost", "a.MaxCost > 0 && cost > a.MaxCost"},
	{"the lease of an iteration is as long as asked", agent, "lease = min(lease, limit)", "lease = max(lease, limit)"},
	{"an iteration is extended beyond its time", recordsHead, "return SaturatingAdd(h.Started-h.Shift, int64(a.IterationTimeout))", "return math.MaxInt64"},
	{"all iterations have one number", agent, "\tj.Iteration++\n\tj.Flags &^= records.FlagIterated\n\tx.enterPending", "\tj.Flags &^= records.FlagIterated\n\tx.enterPending"},
	{"an iteration after a hold has the number of the one before", agent, "\t\tj.Iteration++\n", ""},
	{"a repeated ack of an iteration is refused", agent, "return it.Lease == by.Epoch", "return it.Lease == by.Epoch && it.Number == 0"},
	{"iterations are kept for ever", agent, "if j.Iteration > IterationsKept {", "if j.Iteration < 1 {"},
	{"an iteration does not begin to count anew", agent, "\t\tu.Iteration = records.Meter{}\n", ""},

	// Requeue.
	{"a requeue retries jobs that are alive", requeue, "if !ok || j.State != job.Dead || j.Queue != c.Queue {", "if !ok || j.State == job.Active || j.Queue != c.Queue {"},
	{"a requeue retries jobs of other queues", requeue, "if !ok || j.State != job.Dead || j.Queue != c.Queue {", "if !ok || j.State != job.Dead {"},
	{"the walk over the dead leaves out who did not fit", statereadDead, "d.after, d.done = heads[i].ID, false", "d.done = false"},

	// Clearing a queue.
	{"a clear counts away what workers hold", recordsQueue, "if !s.Leased() {", "if s != 0 {"},
	{"a clear takes what workers hold", recordsGeneration, "return of == g.Own || leased && g.Keeps(of)", "return of == g.Own"},
	{"a clear leaves what waits", recordsGeneration, "return of == g.Own || leased && g.Keeps(of)", "return of == g.Own || g.Keeps(of)"},
	{"a clear brings back what an earlier queue left", recordsGeneration, "of >= g.Kept-1 && of < g.Own", "of < g.Own"},
	{"a second clear forgets whom the first one left", clearqueue, "if q.config.Kept == 0 {", "if q != nil {"},
	{"a job that outlived a clear stays behind", transition, "j.Gen = q.gen", "_ = q.gen"},

	{"a list leaves out what outlived a clear", statereadDeletedqueues, "leased && generation >= q.Kept", "leased && generation > q.Kept"},
	{"a list shows what was cleared", statereadDeletedqueues, "return generation >= q.Alive ||", "return generation > 0 ||"},
	{"a list knows a job as of the generation it was made in", listfile, "generation: h.Gen,", "generation: h.Gen / 2,"},

	// Moving a job.
	{"a job that a worker holds is moved", move, "if j.State.Leased() {", "if j.State == 0 {"},
	{"a moved job is still promised by its old queue", transition, "state, due := j.State, j.Due\n\tx.leavingReady(j)\n", "state, due := j.State, j.Due\n"},
	{"a moved job loses its time", transition, "case due != 0:", "case due < 0:"},
	{"a job that waits for others is ready when it is moved", transition, "case state == job.Pending && !j.Blocked():", "case state == job.Pending:"},
	{"a moved job keeps the generation of its old queue", transition, "j.Queue, j.Priority, j.Gen = queue, p, to.gen", "j.Queue, j.Priority, to.gen = queue, p, to.gen"},
	{"a move takes a key from another job", move, "; taken {", "; taken && owner.IsZero() && c == nil {"},
	{"a moved job leaves its key behind", move, "\tx.takeLock(c.NS, keys.Unique, keys.DueUnique, c.Queue, body.UniqueKey, l)\n", "\t_ = l\n"},
	{"a key whose time is over goes along", move, "\tif !held {\n\t\tj.Flags &^= records.FlagUnique\n\t\treturn job.ID{}, true\n\t}\n", ""},
	{"a move is told as a change of state", transition, "j.left = 0 // The state is what it was.", ""},
	{"a job of another priority stays in its old order", prioritize, "x.replace(&j, j.Queue, c.Priority)", "x.replace(&j, j.Queue, j.Priority)"},
	{"the priority that a job has costs it its place", prioritize, "if j.Priority == c.Priority {", "if j.Priority == c.Priority+9 {"},
	{"what has ended gets another priority", prioritize, "j.State.Leased() || j.State.Terminal()", "j.State.Leased()"},
	{"a job that a worker has gets another priority", prioritize, "j.State.Leased() || j.State.Terminal()", "j.State.Terminal()"},
	{"another priority is not told", prioritize, "x.happened(feed.Prioritized, &j)", "_ = feed.Prioritized"},
}
