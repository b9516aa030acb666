package main

const (
	hold        = "internal/engine/state/hold.go"
	expire      = "internal/engine/state/expire.go"
	admit       = "internal/engine/state/admit.go"
	retrypolicy = "internal/engine/state/retrypolicy.go"
	usage       = "internal/engine/state/usage.go"
	deliver     = "internal/engine/state/deliver.go"
	chain       = "internal/engine/state/chain.go"
	batch       = "internal/engine/state/batch.go"
	deleteEnded = "internal/engine/state/deleteended.go"
	depend      = "internal/engine/state/depend.go"
	overlay     = "internal/engine/state/overlay.go"
)

// ruleMutations break what jobs do to each other, and what people and producers may ask.
var ruleMutations = []mutation{
	// Holds.
	{"a held job keeps its place", hold, "\t\tx.leavingReady(&j)\n\t\tx.leave(&j)\n", ""},
	{"the memory keeps a job that was held", hold, "\t\tx.leavingReady(&j)\n\t\tx.leave", "\t\tx.leave"},
	{"an attempt that ends in a hold counts", held, "j.Attempt--", "_ = j.Attempt"},
	{"a worker asked to let go for a hold cancels", held, "j.Flags |= records.FlagHoldNext", "j.Flags |= 0"},
	{"a job that is not held is approved", decide, "if j.State != job.Held {", "if j.State != job.Held && j.State.Terminal() {"},
	{"anybody decides", decide, "if len(why.Approvers) > 0 && !slices.Contains(why.Approvers, c.By) {", "if len(why.Approvers) > 1000 && !slices.Contains(why.Approvers, c.By) {"},
	{"a rejected job runs", held, "\tif approve {\n", "\tif approve || !approve {\n"},
	{"a rejected job is called by the wrong name", held, "records.DeadRejected", "records.DeadRetries"},
	{"a hold has no end", held, "if why.Until != 0 {", "if false {"},
	{"a hold that ended is approved", held, "why, why.ApproveAtLast)", "why, true)"},
	{"a cancel of a job that is to be held holds it", cancel, "j.Flags &^= records.FlagHoldNext // It ends instead.", "_ = records.FlagHoldNext"},
	{"what a worker was to let go for outlives it", transition, "j.Flags &^= records.FlagHoldNext | records.FlagExpired", "_ = records.FlagHoldNext"},

	// Time to live.
	{"a finished job keeps the row of its end", transition, "\tx.dropExpiry(j)\n", ""},
	{"a deleted job keeps the row of its end", deleteJob, "\tx.dropExpiry(j)\n", ""},
	{"the end of a job that waits asks nobody", expire, "if j.State.Leased() {\n\t\tx.expireLeased", "if true {\n\t\tx.expireLeased"},
	{"a job that expired is cancelled", expire, "j.Flags = j.Flags&^records.FlagHoldNext | records.FlagExpired", "j.Flags = j.Flags &^ records.FlagHoldNext"},
	{"a job that is to be cancelled expires", expire, "|| j.State == job.Cancelling && !j.Has(records.FlagHoldNext) {", "{"},
	{"the row of another end counts", expire, "j.ExpireAt != d.At ||", "j.ExpireAt == 0 ||"},
	{"a retry keeps an end that is past", expire, "if j.ExpireAt <= x.now {", "if false {"},
	{"a job that expired is called by the wrong name", expire, "DeadExpired", "DeadRetries"},

	// Draining, retry defaults, explicit failures.
	{"a draining queue takes jobs in", admit, "if q.config.Draining {", "if q == nil {"},
	{"a repetition is refused by a draining queue", enqueue, "\tif !known {\n\t\tif !admitted {", "\tif known || !known {\n\t\tif !admitted {"},
	{"a refused job lets the others in", atomic, "g.why, res.Culprit = res.Refusal, uint32(i)", "res.Culprit = uint32(i)"},
	{"a group is refused behind its end", sequence, "\ts.group.left--\n", ""},
	{"the queue says nothing of retries", retrypolicy, "take(&p, q.Retry, open&q.RetrySet)", "_ = q.RetrySet"},
	{"the queue's word counts for parts that it has none of", retrypolicy, "open&q.RetrySet", "open"},
	{"a terminal failure is tried again", fail, "case c.Terminal:", "case c.Terminal && j.Attempt > 1000:"},
	{"a delay that was asked for is the backoff's", fail, "if c.Delay != nil {\n\t\treturn *c.Delay", "if c.Delay != nil && *c.Delay < 0 {\n\t\treturn *c.Delay"},
	{"a release with a delay is ready at once", fail, "c.Delay != nil && *c.Delay > 0 {", "c.Delay != nil && *c.Delay < 0 {"},

	// Usage.
	{"a total is added", recordsUsage, "news = said.Minus(l.total)", "news = said"},
	{"an attempt's totals take the place of the one before's", recordsUsage, "\tif u.Lease != lease {\n", "\tif false {\n"},
	{"the hour forgets what it had", usage, "news = sum.Plus(news)", "_ = sum"},
	{"models are not told apart", recordsUsage, "l.Provider == provider && l.Model == model {", "l.Provider == provider {"},

	// What an ending does to others.
	{"an ending is delivered to nobody", deliver, "x.ended = append(x.ended, d)", "_ = d"},
	{"a chain ends with its first step", deliver, "if d.Has(records.FlagChain) {\n\t\t\tx.advance", "if false {\n\t\t\tx.advance"},
	{"a batch does not learn of its members' ends", deliver, "if d.Has(records.FlagBatch) {", "if false {"},
	{"those who wait are not told", deliver, "if d.Has(records.FlagDependents) {", "if false {"},
	{"a retried member stays counted", deliver, "\tif j.Has(records.FlagBatch) {\n\t\tx.reopenMember", "\tif false {\n\t\tx.reopenMember"},
	{"a retried step does not resume its chain", deliver, "\tif j.Has(records.FlagChain) {\n\t\tx.resumeChain", "\tif false {\n\t\tx.resumeChain"},
	{"a next step does not join the batch", deliver, "c.Batch = d.body.Batch", "_ = d.body.Batch"},
	{"what follows has no time to live", deliver, "if d.body.ExpireAt != 0 {", "if false {"},
	{"what follows has its own priority", deliver, "Priority: d.Priority", "Priority: job.Normal"},
	{"a deleted job is delivered to nobody", deleteJob, "\t\tx.deliver(j, records.OutcomeDeleted, ending{})\n", ""},
	{"a swept job is delivered to nobody", sweep, "x.deliver(&j, records.OutcomeDeleted, ending{})", "_ = records.OutcomeDeleted"},
	{"a step that is not the last advances", chain, "step != len(s.Jobs)-1 || s.Status != records.ChainRunning", "s.Status != records.ChainRunning"},
	{"a chain that ended goes on", chain, "step != len(s.Jobs)-1 || s.Status != records.ChainRunning", "step != len(s.Jobs)-1"},
	{"exit is not heard", chain, "d.outcome == records.OutcomeCompleted && d.exit:", "d.outcome == records.OutcomeCompleted && d.exit && step < 0:"},
	{"a dead step always lets the chain go on", chain, "d.outcome == records.OutcomeDead && c.GoOn:", "d.outcome == records.OutcomeDead:"},
	{"on_failure runs at every death", chain, "c.OnFailure == nil || !s.OnFailure.IsZero()", "c.OnFailure == nil"},
	{"the result of the step before is not told", chain, "d.outcome == records.OutcomeCompleted && d.Has(records.FlagResult)", "false"},
	{"a batch fires open", batch, "if !b.Sealed || b.Open > 0 || b.Fired() {", "if b.Open > 0 || b.Fired() {"},
	{"a batch fires before its last member", batch, "if !b.Sealed || b.Open > 0 || b.Fired() {", "if !b.Sealed || b.Open > 1 || b.Fired() {"},
	{"what its members do changes a batch that fired", batch, "if !ok || b.Fired() {\n\t\treturn\n", "if !ok || b.Fired() && d == nil {\n\t\treturn\n"},
	{"a member that is deleted after its end counts twice", deleteJob, "\tif !j.State.Terminal() {\n\t\tx.deliver(", "\tif true {\n\t\tx.deliver("},
	{"a member that is swept after its end counts twice", sweep, "\tif !j.State.Terminal() {\n\t\tx.deliver(", "\tif true {\n\t\tx.deliver("},
	{"a sealed batch takes members", batch, "case b.Sealed:", "case b.Fired():"},
	{"what a callback carried stays", batch, "\tx.txn.Delete(k)\n\treturn payload", "\treturn payload"},
	{"what ended since the leader looked is deleted", deleteEnded, "j.State.Terminal() && j.Finished <= c.Before", "j.State.Terminal()"},
	{"a batch that runs is deleted", deleteEnded, "!ok || !b.Fired() || b.FinishedAt > before", "!ok || b.FinishedAt > before"},
	{"a chain that runs is deleted", deleteEnded, "s.Status == records.ChainRunning || s.FinishedAt > before", "s.Status == records.ChainRunning && s.FinishedAt > before"},
	{"a deleted batch leaves its members", deleteEnded, "	x.txn.DeleteRange(x.m.space.Members(ns, id, job.ID{}))\n", "	_ = job.ID{}\n"},
	{"a batch that fired opens again", batch, "if !ok || b.Fired() || was == records.NoOutcome {", "if !ok || was == records.NoOutcome {"},
	{"a job waits for one of those it names", depend, "open = append(open, on)", "open = []job.ID{on}"},
	{"a dependency that failed before does not count", depend, "failed = failed || c.OnDependency != command.DependencyRun", "failed = failed || c.OnDependency > command.DependencyCancel"},
	{"a failed dependency is as good as a completed one", depend, "if o != records.OutcomeCompleted {", "if o == records.NoOutcome {"},
	{"a firing of endings forgets the rest", depend, "case w.Count() > 0:", "case w.Count() > DependentsMax:"},
	{"an end that did not last is told on", depend, "x.addDue(d, records.EncodeOutcome(outcome))", "x.addDue(keys.Due{At: x.now, Kind: d.Kind, NS: d.NS, ID: d.ID}, records.EncodeOutcome(outcome))"},
	{"who was told is written down for ever", depend, "\tx.txn.Delete(row)\n\tx.resolve", "\tx.resolve"},
	{"a blocked job is handed out", transition, "if j.Has(records.FlagBlocked) {", "if false {"},
	{"a retry opens a lost lease to everybody", retry, "if j.Crashes > 0 || j.Has(records.FlagReclaimed) {", "if false {"},
	{"a schedule's new rule waits for the old one", putschedule, "max(min(s.Since, x.now+1), c.Next)", "max(s.Since, c.Next)"},
	{"a schedule's new rule repeats a tick", putschedule, "max(min(s.Since, x.now+1), c.Next)", "c.Next"},
	{"a moved job goes to a worker of its old queue", fetch, "if len(c.Queues) > 0 && !slices.Contains(c.Queues, j.Queue) {", "if len(c.Queues) > 0 && slices.Contains(c.Queues, \"\") {"},
	{"a fetch is granted more than an answer holds", fetch, "if r.jobs > 0 && r.taken+size > FetchBytesMax {", "if false {"},
	{"a job larger than an answer is never granted", fetch, "if r.jobs > 0 && r.taken+size > FetchBytesMax {", "if r.taken+size > FetchBytesMax {"},
	{"a checkpoint has no part in an answer", fetch, "size += len(read(", "_ = len(read("},
	{"younger jobs are handed out before one that did not fit", fetch, "		x.refuse(q)\n		return", "		x.tell(q)\n		return"},
	{"a fetch is bounded before the cell's version says so", fetch, "bounded: x.version >= cellversion.FetchBytes", "bounded: x.version+9 >= cellversion.FetchBytes"},
	{"a fetch brings a deleted queue back", fetch, "if !deleted && ", "if (!deleted || true) && "},
	{"an own member of a follow-up's payload loses", overlay, "if slices.Contains(mine, m.name) {", "if slices.Contains(mine, m.name) && false {"},
}
