package main

// mutation replaces one text of a file, which must stand there exactly once.
type mutation struct {
	what string
	file string
	old  string
	new  string
}

const (
	may                    = "internal/edge/queue/may.go"
	redact                 = "internal/edge/queue/redact.go"
	sequence               = "internal/engine/state/sequence.go"
	deletebudget           = "internal/engine/state/deletebudget.go"
	enqueue                = "internal/engine/state/enqueue.go"
	transition             = "internal/engine/state/transition.go"
	machine                = "internal/engine/state/machine.go"
	txn                    = "internal/floor/statedb/txn.go"
	cuts                   = "internal/floor/statedb/cuts.go"
	transfer               = "internal/floor/statedb/transfer.go"
	stateStore             = "internal/floor/statedb/statedb.go"
	exports                = "internal/floor/statedb/exports.go"
	feedRead               = "internal/engine/feed/read.go"
	events                 = "internal/engine/state/events.go"
	limits                 = "internal/engine/state/limits.go"
	settings               = "internal/engine/state/setqueue.go"
	destroy                = "internal/engine/state/deletequeue.go"
	sweep                  = "internal/engine/state/sweep.go"
	memory                 = "internal/engine/dispatch/limits.go"
	waiters                = "internal/engine/dispatch/waiters.go"
	recordsHead            = "internal/engine/records/head.go"
	recordsHistory         = "internal/engine/records/history.go"
	recordsQueue           = "internal/engine/records/queue.go"
	recordsThrottle        = "internal/engine/records/throttle.go"
	recordsUsage           = "internal/engine/records/usage.go"
	recordsBudget          = "internal/engine/records/budget.go"
	recordsPolicy          = "internal/engine/records/policy.go"
	recordsGeneration      = "internal/engine/records/generation.go"
	statereadJob           = "internal/engine/stateread/job.go"
	statereadSweep         = "internal/engine/stateread/sweep.go"
	statereadBudget        = "internal/engine/stateread/budget.go"
	statereadDead          = "internal/engine/stateread/dead.go"
	statereadDeletedqueues = "internal/engine/stateread/deletedqueues.go"
	ack                    = "internal/engine/state/ack.go"
	fail                   = "internal/engine/state/fail.go"
	lease                  = "internal/engine/state/lease.go"
	fetch                  = "internal/engine/state/fetch.go"
	heartbeat              = "internal/engine/state/heartbeat.go"
	extend                 = "internal/engine/state/extend.go"
	failure                = "internal/engine/state/failure.go"
	fire                   = "internal/engine/state/fire.go"
	lock                   = "internal/engine/state/lock.go"
	create                 = "internal/engine/state/create.go"
	stateTime              = "internal/engine/state/time.go"
	job                    = "internal/engine/state/job.go"
	retry                  = "internal/engine/state/retry.go"
	deleteJob              = "internal/engine/state/delete.go"
	cancel                 = "internal/engine/state/cancel.go"
	trimevents             = "internal/engine/state/trimevents.go"
	queue                  = "internal/engine/state/queue.go"
	generation             = "internal/engine/state/generation.go"
	held                   = "internal/engine/state/held.go"
	decide                 = "internal/engine/state/decide.go"
	atomic                 = "internal/engine/state/atomic.go"
	putschedule            = "internal/engine/state/putschedule.go"
	tick                   = "internal/engine/state/tick.go"
	spend                  = "internal/engine/state/spend.go"
	putbudget              = "internal/engine/state/putbudget.go"
	overspent              = "internal/engine/state/overspent.go"
	putpolicy              = "internal/engine/state/putpolicy.go"
	deletepolicy           = "internal/engine/state/deletepolicy.go"
)

// mutations is what may not go unnoticed.
var mutations = []mutation{
	// Leases and tokens.
	{"any token is taken", recordsHead, "return by.Token.Epoch == h.Epoch", "return true"},
	{"a token of the same entry is taken", recordsHead, "return by.Token.Epoch == h.Epoch", "return by.Token.Epoch.Index == h.Epoch.Index"},
	{"without a token anybody settles, crash or not", recordsHead, "case h.Crashes == 0 && !h.Has(FlagRanOut):", "case true:"},
	{"without a token only the holder settles, ever", recordsHead, "case h.Crashes == 0 && !h.Has(FlagRanOut):", "case false:"},
	{"a worker id is not compared", recordsHead, "return by.Worker == h.Worker", "return true"},
	{"a peer is not compared", recordsHead, "return by.Peer == h.Peer", "return true"},
	{"a repeated ack is refused", ack, "if j.State == job.Completed && records.Holds(&j.Head, c.By) || x", "if x"},
	{"a repeated ack is taken from anybody", ack, "j.State == job.Completed && records.Holds(&j.Head, c.By) || x", "j.State == job.Completed || x"},
	{"a repeated fail is refused", fail, "res.Refusal == LeaseLost && settled && records.Holds(&j.Head, c.By)", "res.Refusal == LeaseLost && settled && c == nil"},
	{"a job that is not leased may be settled", lease, "case !j.State.Leased(), !records.Holds(&j.Head, by):", "case !records.Holds(&j.Head, by):"},
	{"a fetch takes jobs that are not pending", fetch, "j.State != job.Pending || j.Blocked() {", "j.State.Leased() || j.Blocked() {"},
	{"a fetch takes jobs of a paused queue", fetch, "if q.config.Paused || ", "if "},
	{"a fetch does not count the attempt", fetch, "j.Attempt++", "_ = j.Attempt"},
	{"a release spends the attempt", fail, "j.Attempt--", "_ = j.Attempt"},
	{"a release of a cancelled job counts as a failure", fail, "if c.Release || j.Has(records.FlagHoldNext) {", "if j.Has(records.FlagHoldNext) {"},
	{"a worker asked to let go gets its job again", fail, "\tcase cancelling:\n\t\tx.letGo(c, &j)", "\tcase cancelling && c == nil:\n\t\tx.letGo(c, &j)"},
	{"a heartbeat does not pass on the cancel", heartbeat, "j.State == job.Cancelling, j.StoppedByBudget()", "false, j.StoppedByBudget()"},
	{"a renewal of another lease counts", extend, "j.Epoch != c.Epoch || until", "until"},
	{"a renewal may shorten a lease", extend, "until <= j.Due", "until == j.Due"},
	{"a renewal leaves the old due row", extend, "x.txn.Delete(x.m.space.Due(j.due(j.Due, keys.DueLease)))", "_ = j.Due"},
	{"floors may fall", fetch, "q.counts.Floor[f.Priority].Less(f.Pos)", "q.counts.Floor[f.Priority] != f.Pos"},
	{"an ack does not say it has a result", ack, "j.Flags |= records.FlagResult", "j.Flags |= 0"},

	// Attempts and timers.
	{"one attempt more than asked", fail, "case j.Attempt >= j.Retry.MaxRetries:", "case j.Attempt > j.Retry.MaxRetries:"},
	{"remaining attempts are off by one", fail, "res.Remaining = j.Retry.MaxRetries - j.Attempt", "res.Remaining = j.Retry.MaxRetries - j.Attempt + 1"},
	{"the backoff has no jitter", fail, "return job.Jitter(j.Retry.Backoff.Delay(j.Attempt, j.Retry.BaseDelay, j.Retry.MaxDelay), j.id, j.Attempt)", "return j.Retry.Backoff.Delay(j.Attempt, j.Retry.BaseDelay, j.Retry.MaxDelay)"},
	{"failures are not counted", failure, "x.touched(q).Failed++", "x.touched(q)"},
	{"failures without a text are not counted", failure, "\tx.countFailure(j)\n", "\tif c.Error != \"\" {\n\t\tx.countFailure(j)\n\t}\n"},
	{"an expired lease is no crash", lease, "j.Crashes++", "_ = j.Crashes"},
	{"one crash more than the limit", lease, "done := j.Crashes >= CrashLimit", "done := j.Crashes > CrashLimit"},
	{"a crash loop is called by the wrong name", lease, "DeadCrashes,", "DeadRetries,"},
	{"timers fire before their time", fire, "if c.Due.At > x.nowOf(c.Due.Kind) {", "if false {"},
	{"a timer of another time fires", fire, "j.Due == 0 || j.Due != d.At ||", "j.Due == 0 ||"},
	{"a timer of another kind fires", fire, "|| dueKind(j.State) != d.Kind {", "{"},
	{"a timer at zero is not refused", fire, "j.Due == 0 || j.Due != d.At", "j.Due != d.At"},
	{"a silent worker asked to let go crashes its job", fire, "x.endLetGo(&j, \"\")", "x.expireLease(&j)"},
	{"a stale timer removes another job's lock", lock, "if there && l.By == d.ID && l.Expires == d.At {", "if there && l.Expires >= 0 {"},

	// Locks.
	{"the first owner's end frees the next owner's key", lock, "if !there || !owner.IsZero() && l.Owner != owner {", "if !there {"},
	{"a lock is in force at its end", lock, "l.Expires <= x.now", "l.Expires < x.now"},
	{"a lock never ends by itself", lock, "l.Expires <= x.now", "l.Expires < 0"},
	{"taking a lock over leaves the old due row", lock, "x.txn.Delete(x.m.space.Due(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}))", "_ = l.Expires"},
	{"a replay forgets that it was a duplicate", enqueue, "Duplicate: l.Duplicate, Replayed: true", "Replayed: true"},
	{"the due row of a key names the holder instead of the caller", enqueue, "By: c.ID, Expires: x.after(int64(c.IdempotencyFor))", "By: res.ID, Expires: x.after(int64(c.IdempotencyFor))"},
	{"times wrap around at their end", recordsUsage, "case b > 0 && a > math.MaxInt64-b:", "case b > 0 && a < 0 && a > math.MaxInt64-b:"},
	{"a job scheduled for now waits", create, "case c.ScheduledAt > x.now:", "case c.ScheduledAt >= x.now:"},
	{"ending a job keeps its unique key", transition, "if j.Has(records.FlagUnique) {", "if false {"},
	{"deleting a job keeps its unique key", deleteJob, "if j.Has(records.FlagUnique) {", "if false {"},
	{"a key is given back twice", transition, "j.Flags &^= records.FlagUnique", "_ = records.FlagUnique"},

	// Indexes and counters.
	{"the ready row stays", transition, "x.txn.Delete(x.m.space.Ready(j.ns, j.Queue, j.Priority, j.Pos))", "_ = j.Pos"},
	{"the due row stays", transition, "x.txn.Delete(x.m.space.Due(j.due(j.Due, dueKind(j.State))))", "_ = j.Due"},
	{"the old state keeps its count", transition, "c.Jobs[j.State]--", "c.Jobs[j.State] += 0"},
	{"the leader is not told of the first due time", stateTime, "\t\t*first = d.At", "\t\t_ = d.At"},
	{"the leader is not told of jobs that left", transition, "if !j.Pos.IsZero() {\n\t\tx.out.Unready", "if j.State == job.Held {\n\t\tx.out.Unready"},
	{"all places of an entry are the same", machine, "x.ordinal++", "x.ordinal = 1"},
	{"a cached head outlives its lease", job, "delete(x.m.leased, k)", "_ = k"},
	{"an entry's events replace each other", events, "x.events = append(x.events, e)", "x.events = append(x.events[:0], e)"},
	{"a history changes the copies that share it", recordsHistory, "append(keep[:len(keep):len(keep)], Moment", "append(keep, Moment"},
	{"a history loses its beginning", recordsHistory, "keep[0]), keep[2:]...)", "keep[1]), keep[2:]...)"},

	// Administration.
	{"a retry keeps the crashes", retry, "j.Attempt, j.Crashes, j.Reason, j.Finished, j.Epoch = 0, 0, records.NotDead, 0, keys.Position{}", "j.Attempt, j.Reason, j.Finished, j.Epoch = 0, records.NotDead, 0, keys.Position{}"},
	{"a retry keeps the attempts", retry, "j.Attempt, j.Crashes, j.Reason, j.Finished, j.Epoch = 0, 0, records.NotDead, 0, keys.Position{}", "j.Crashes, j.Reason, j.Finished, j.Epoch = 0, records.NotDead, 0, keys.Position{}"},
	{"a retry does not take scheduled jobs", retry, "case job.Scheduled, job.Retrying: // As when", "case job.Retrying: // As when"},
	{"a leased job may be deleted", deleteJob, "if j.State.Leased() {", "if false {"},
	{"a deleted job's errors stay", deleteJob, "if j.Has(records.FlagErrors) {", "if false {"},
	{"a deleted job's result stays", deleteJob, "{records.FlagResult, keys.Result}, {records.FlagCheckpoint", "{records.FlagCheckpoint"},
	{"a dead job may be cancelled", cancel, "case job.Completed, job.Dead:", "case job.Completed:"},
	{"events are trimmed beyond the last", trimevents, "c.Before > x.eventsEnd(c.NS).Seq+1", "c.Before > 1<<62"},

	// Limits of queues.
	{"a limit of slots is one too high", recordsQueue, "n.Leased() >= int64(c.MaxConcurrency)", "n.Leased() > int64(c.MaxConcurrency)"},
	{"a cancelling job has no slot", recordsQueue, "return c.Jobs[job.Active] + c.Jobs[job.Cancelling]", "return c.Jobs[job.Active]"},
	{"a throttle is not asked", recordsQueue, "return c.Throttle.IsZero() || n.Starts.Room(lease, c.Throttle) > 0", "return c.Throttle.IsZero() || lease > 0"},
	{"a refused queue goes on in the same entry", limits, "if q.refused || shut != 0 || !q.config.HasRoom", "if shut != 0 || !q.config.HasRoom"},
	{"a refusal lasts for ever", machine, "q.refused, q.tell = false, false, false, false, false", "q.tell = false, false, false, false"},
	{"the memory is not told of a refusal", limits, "\tq.refused = true\n\tx.tell(q)", "\tq.refused = true"},
	{"the memory is not told of freed slots", machine, "if q.tell || q.config.Limited() {", "if q.tell {"},
	{"starts are not counted", limits, "if !q.config.Throttle.IsZero() {", "if q == nil {"},
	{"a start leaves its window early", recordsThrottle, "return now-r.Last >= int64(t.Window) }", "return now-r.Last >= int64(t.Window)-1 }"},
	{"a run leaves with its first start", recordsThrottle, "return now-r.Last >= int64(t.Window) }", "return now-r.First >= int64(t.Window) }"},
	{"runs are longer than a grain", recordsThrottle, "<= int64(t.Window)/StartGrain", "<= int64(t.Window)/2"},
	{"the throttle opens with the first run", recordsThrottle, "if used < int64(t.Limit) {", "if used <= int64(t.Limit) {"},
	{"starts share their memory", recordsThrottle, "slices.Clone(s.live(now, t))", "slices.Grow(s.live(now, t), 0)"},
	{"the oldest run is forgotten when there are many", recordsThrottle, "s[1].N += s[0].N", "s[1].N += 0"},
	{"a removed throttle is still counted", settings, "x.touched(q).Starts = nil", "x.touched(q)"},
	{"a setting that was not named is set", settings, "if c.Set&command.SetConcurrency != 0 {", "if true {"},
	{"nothing changed and everybody is told", settings, "if made || q.config != was {", "if made || q != nil {"},
	{"the memory does not know what the entry took", memory, "\t\tq.takes++", "\t\t_ = q.takes"},
	{"a settled job frees its slot twice", memory, "if _, twice := t.freed[id]; twice {", "if false {"},
	{"a newcomer takes the slot that somebody waits for", memory, "if q.frees > 0 && q.waiting() == nil {", "if q.frees > 0 {"},
	{"a stranger's ack frees a slot", memory, "|| !h.State.Leased() || !records.Holds(&h, by)", "|| !h.State.Leased() || false && !records.Holds(&h, by)"},
	{"what an entry took is counted for ever", memory, "q.takes, q.frees, q.isCounted = 0, 0, false", "q.frees, q.isCounted = 0, false"},
	{"a throttle opens and nobody looks", memory, "\t\tq.isBlocked = false\n\t\tt.heatIfOpen(q)", "\t\tq.isBlocked = false"},
	{"the waiters of one queue come before all others", waiters, "t.hot = append(t.hot[1:], q)", "_ = q"},
	{"a new job is promised before older ones", waiters, "q.mayHaveReady() || q.Limited()", "q.Limited()"},

	// Deleted queues.
	{"a job outlives its queue", job, " || !x.queue(ns, j.Queue).generation().Has(j.Gen, j.State.Leased())", ""},
	{"a deleted job is read", statereadJob, "if !gen.Has(h.Gen, h.State.Leased()) {\n\t\treturn records.Head{}, statedb", "if gen.Own == 1 && !gen.Has(h.Gen, h.State.Leased()) {\n\t\treturn records.Head{}, statedb"},
	{"a lock outlives its queue", lock, "return q.generation().Keeps(l.Gen)", "return true"},
	{"a job is not of its queue's generation", create, "Retry: retryOf(c, &q.config), Gen: q.gen}", "Retry: retryOf(c, &q.config)}"},
	{"a lock is not of its queue's generation", lock, "\tl.Gen = x.queue(ns, queue).gen\n", ""},
	{"a queue made again is of the old generation", queue, "QueueConfig{CreatedAt: x.now, Gen: q.gen}", "QueueConfig{CreatedAt: x.now}"},
	{"a generation comes twice in an entry", generation, "max(x.index, q.gen+1)", "x.index"},
	{"the generation of a name without a queue is forgotten", queue, "q.gen = mark.Gen", "_ = mark.Gen"},
	{"the ready order outlives its queue", generation, "x.txn.DeleteRange(x.m.space.ReadyOf(q.key.ns, q.key.name))", "_ = q.key"},
	{"the counters outlive their queue", destroy, "x.txn.Delete(x.m.space.Queue(q.key.ns, keys.QueueCounts, q.key.name))", "_ = keys.QueueCounts"},
	{"an unused queue is swept", destroy, "if q.hasCounts {", "if q != nil {"},
	{"a queue of jobs that were moved there is unused", destroy, "if q.hasCounts {", "if q.counts.Enqueued > 0 {"},
	{"a queue through which jobs passed is unused", destroy, "if q.hasCounts {", "if q.counts.Enqueued > 0 || q.counts.Leased() > 0 {"},
	{"the leader is not told to sweep", generation, "x.out.Sweep = true", "x.out.Sweep = false"},
	{"a sweep takes what is alive", sweep, "j.Queue != q.key.name || q.generation().Has(j.Gen, j.State.Leased()) {", "j.Queue != q.key.name {"},
	{"a sweep takes another queue's jobs", sweep, "!ok || j.Queue != q.key.name || q.generation()", "!ok || q.generation()"},
	{"a sweep leaves due rows", sweep, "if j.Due != 0 {", "if false {"},
	{"a sweep takes locks that are alive", sweep, " && !x.isHeld(q.key.ns, family, q.key.name, &l)", " && l.Gen >= 0"},
	{"the end of an old sweep counts", sweep, "if !ok || mark.Gen != gen {", "if !ok || mark.Gen == 0 {"},
	{"after a sweep the generation stays in memory", sweep, "if !q.hasConfig {", "if q == nil {"},
	{"a swept job is told to nobody", sweep, "x.events = append(x.events,", "_ = append(x.events,"},
	{"the walk forgets the locks", statereadSweep, "if err != nil || l.Gen == gen.Own || family", "if err != nil || l.Gen <= gen.Own || family"},
	{"the walk ends after its first part", statereadSweep, "\t\t\tmore = true\n\t\t\treturn false, nil", "\t\t\treturn false, nil"},

	// What the machine stands on.
	{"a deletion is not seen by the entry", txn, "if s.value == nil {\n\t\t\treturn nil, ErrNotFound", "if s.value == nil {\n\t\t\treturn t.group.Get(key)"},
	{"a removed range is not seen by the transaction", txn, "if t.gone.last(key) > 0 {", "if t.gone.last(key) < 0 {"},
	{"a row of an earlier entry outlives its range", txn, "if t.gone.last([]byte(s.key)) > s.cuts {", "if t.gone.last([]byte(s.key)) > t.gone.count {"},
	{"a row that came after a range is taken for removed", txn, "if t.gone.last([]byte(s.key)) > s.cuts {", "if t.gone.last([]byte(s.key)) > 0 {"},
	{"half of a range is forgotten under a newer one", cuts, "out = append(out, cut{keyRange{old[0].from, y.from}, old[0].number})", "_ = y"},
	{"an older range counts", cuts, "old[0].from = y.to", "old[0].from, y.number = y.to, old[0].number"},
	{"a new row is forgotten in a later entry", txn, "s.entry, s.fresh = t.entry, false", "s.entry = t.entry"},
	{"the digest forgets the values", txn, "t.feed(s.value)\n", "\n"},
	{"a spent transaction's ranges live on", txn, "cuts: t.cuts[:0]}", "cuts: t.cuts[:0], gone: t.gone}"},
	{"a transfer is not bound to its group", transfer, "h.Write(g.prefix[:])", "h.Write(nil)"},
	{"a damaged transfer is taken", transfer, "if !m.hash.matches() {", "if false {"},
	{"leftovers of a transfer stay", transfer, "for _, name := range names {", "for _, name := range names[:0] {"},
	{"a third transfer begins beside two", exports, "slots: make(chan struct{}, exportsMax)", "slots: make(chan struct{}, exportsMax+1)"},
	{"a transfer is shared that is too old", exports, "!s.retired && (s.label == nil || usable(s.label))", "!s.retired"},
	{"a transfer of a replaced state is shared", exports, "s.retired = true", "s.retired = false"},
	{"the last reader of a transfer keeps its slot", exports, "\t<-s.exports.slots\n", "\n"},
	{"a reader of a transfer who gave up keeps its place", exports, "func() { _ = x.end() })", "func() {})"},
	{"a transfer that nobody waits for keeps its slot", exports, "\t<-e.slots\n", "\n"},
	{"the log may be cut before the state is durable", stateStore, "ApplyNoSyncWait(b, pebble.Sync)", "Apply(b, pebble.NoSync)"},
	{"lost events are not told", feedRead, "lost = at.first == 0", "lost = false"},
	{"lost events are told one event late", feedRead, "rowWith(v, space, ns, seq+1)", "rowWith(v, space, ns, seq+2)"},
	{"events before the cursor are read again", feedRead, "seq+1); skip > 0 {", "seq+1); skip > 1 {"},
	{"events are cut that nobody has read", feedRead, "at.last > k.Read", "at.first > k.Read"},
	{"more bytes of events are kept", feedRead, "behind < k.Bytes ||", "behind < 2*k.Bytes ||"},
	{"older events are kept", feedRead, "at.Now >= now-int64(k.Age)", "at.Now >= now-2*int64(k.Age)"},

	// Who may do what in which queue.
	{"a queue that is named is anybody's", may, "\tif c.Rights.Queue(p, queue) {", "\tif true {"},
	{"what one knows nothing of is forbidden, not missing", may, "case c.knows(queue):", "case true:"},
	{"a job is acted on whatever its queue", may, "return c.mayOn(p, h.Queue, errNoJob(id))", "_ = h\n\treturn nil"},
	{"later steps are for any queue", may, "for i := range in.Chain.Steps {", "for i := range in.Chain.Steps[:0] {"},
	{"the step after a failure is for any queue", may, "if in.Chain.OnFailure != nil {", "if false {"},
	{"the step at the end is for any queue", may, "if in.Chain.OnExit != nil {", "if false {"},
	{"a job waits for one of which its producer knows nothing", may, "case !c.knows(h.Queue):", "case h.Queue == \"\":"},
	{"the second queue of a fetch is anybody's", may, "for _, q := range queues {", "for _, q := range queues[:1] {"},
	{"the callback of a batch is for any queue", may, "\tif queue == \"\" {", "\tif true {"},
	{"a checkpoint is shown to everybody", redact, "v.Payload, v.Progress, v.Checkpoint, v.Result = nil, nil, nil, nil", "v.Payload, v.Progress, v.Result = nil, nil, nil"},
	{"a backtrace is shown to everybody", redact, "v.Errors[i].Error, v.Errors[i].Backtrace = \"\", \"\"", "v.Errors[i].Error = \"\""},
	{"nobody is told that something is hidden", redact, "\tv.Redacted = true\n}\n\nfunc (c *Caller) redactRow", "}\n\nfunc (c *Caller) redactRow"},
}
