package main

// mutation replaces one text of a file, which must stand there exactly once.
type mutation struct {
	what string
	file string
	old  string
	new  string
}

const (
	work       = "internal/state/work.go"
	timers     = "internal/state/timers.go"
	enqueue    = "internal/state/enqueue.go"
	transition = "internal/state/transition.go"
	admin      = "internal/state/admin.go"
	machine    = "internal/state/machine.go"
	records    = "internal/state/records.go"
	txn        = "internal/statedb/txn.go"
	transfer   = "internal/statedb/transfer.go"
	cursor     = "internal/feed/cursor.go"
)

// mutations is what may not go unnoticed.
var mutations = []mutation{
	// Leases and tokens.
	{"any token is taken", work, "return by.Token.Epoch == h.Epoch", "return true"},
	{"a token of the same entry is taken", work, "return by.Token.Epoch == h.Epoch", "return by.Token.Epoch.Index == h.Epoch.Index"},
	{"without a token anybody settles, crash or not", work, "case h.Crashes == 0:", "case true:"},
	{"without a token only the holder settles, ever", work, "case h.Crashes == 0:", "case false:"},
	{"a worker id is not compared", work, "return by.Worker == h.Worker", "return true"},
	{"a peer is not compared", work, "return by.Peer == h.Peer", "return true"},
	{"a repeated ack is refused", work, "h.State == job.Completed && Holds(&h, c.By)", "false"},
	{"a repeated ack is taken from anybody", work, "h.State == job.Completed && Holds(&h, c.By)", "h.State == job.Completed"},
	{"a repeated fail is refused", work, "res.Refusal == LeaseLost && settled && Holds(h, c.By)", "res.Refusal == LeaseLost && settled && c == nil"},
	{"a job that is not leased may be settled", work, "case !h.State.Leased(), !Holds(&h, by):", "case !Holds(&h, by):"},
	{"a fetch takes jobs that are not pending", work, "if err != nil || !ok || h.State != job.Pending {", "if err != nil || !ok || h.State.Leased() {"},
	{"a fetch takes jobs of a paused queue", work, "if err != nil || q.config.Paused {", "if err != nil || q == nil {"},
	{"a fetch does not count the attempt", work, "h.Attempt++", "_ = h.Attempt"},
	{"a release spends the attempt", work, "h.Attempt--", "_ = h.Attempt"},
	{"a release of a cancelled job counts as a failure", work, "if !c.Release {", "if true {"},
	{"a worker asked to let go gets its job again", work, "cancelling := h.State == job.Cancelling", "cancelling := false"},
	{"a heartbeat does not pass on the cancel", work, "res.Cancel = h.State == job.Cancelling", "res.Cancel = false"},
	{"a renewal of another lease counts", work, "h.Epoch != c.Epoch || c.Until", "c.Until"},
	{"a renewal may shorten a lease", work, "c.Until <= h.Due", "c.Until == h.Due"},
	{"a renewal leaves the old due row", work, "x.txn.Delete(x.m.space.Due(keys.Due{At: h.Due, Kind: kind, NS: c.NS, ID: c.ID}))", "_ = h.Due"},
	{"floors may fall", work, "!q.counts.Floor[f.Priority].Less(f.Pos)", "q.counts.Floor[f.Priority] == f.Pos"},
	{"an ack does not say it has a result", work, "h.flags |= flagResult", "h.flags |= 0"},

	// Attempts and timers.
	{"one attempt more than asked", work, "if h.Attempt >= h.Retry.MaxRetries {", "if h.Attempt > h.Retry.MaxRetries {"},
	{"remaining attempts are off by one", work, "res.Remaining = h.Retry.MaxRetries - h.Attempt", "res.Remaining = h.Retry.MaxRetries - h.Attempt + 1"},
	{"the backoff has no jitter", work, "int64(job.Jitter(delay, c.ID, h.Attempt))", "int64(delay)"},
	{"failures are not counted", work, "x.touched(q).Failed++", "x.touched(q)"},
	{"failures without a text are not counted", work, "return x.countFailure(c.NS, h)", "if c.Error == \"\" {\n\t\treturn nil\n\t}\n\treturn x.countFailure(c.NS, h)"},
	{"an expired lease is no crash", timers, "h.Crashes++", "_ = h.Crashes"},
	{"one crash more than the limit", timers, "if h.Crashes >= CrashLimit {", "if h.Crashes > CrashLimit {"},
	{"a crash loop is called by the wrong name", timers, "DeadCrashes)", "DeadRetries)"},
	{"timers fire before their time", timers, "if c.Due.At > x.now {", "if false {"},
	{"a timer of another time fires", timers, "h.Due == 0 || h.Due != d.At ||", "h.Due == 0 ||"},
	{"a timer of another kind fires", timers, "|| dueKind(h.State) != d.Kind {", "{"},
	{"a timer at zero is not refused", timers, "h.Due == 0 || h.Due != d.At", "h.Due != d.At"},
	{"a silent worker asked to let go crashes its job", timers, "case job.Cancelling:", "case job.Held:"},
	{"a stale timer removes another job's lock", timers, "if l.By == d.ID && l.Expires == d.At {", "if l.Expires >= 0 {"},

	// Locks.
	{"the first owner's end frees the next owner's key", enqueue, "if !owner.IsZero() && l.Owner != owner {", "if false {"},
	{"a lock is in force at its end", enqueue, "l.Expires > x.now, err", "l.Expires >= x.now, err"},
	{"a lock never ends by itself", enqueue, "l.Expires > x.now, err", "true, err"},
	{"taking a lock over leaves the old due row", enqueue, "x.txn.Delete(x.m.space.Due(keys.Due{At: l.Expires, Kind: kind, NS: ns, ID: l.By}))", "_ = l.Expires"},
	{"a replay forgets that it was a duplicate", enqueue, "Duplicate: l.Duplicate, Replayed: true", "Replayed: true"},
	{"the due row of a key names the holder instead of the caller", enqueue, "By: c.ID, Expires: x.after(int64(c.IdempotencyFor))", "By: res.ID, Expires: x.after(int64(c.IdempotencyFor))"},
	{"times wrap around at their end", enqueue, "if d > endOfTime-x.now {", "if false {"},
	{"a job scheduled for now waits", enqueue, "if c.ScheduledAt > x.now {", "if c.ScheduledAt >= x.now {"},
	{"ending a job keeps its unique key", transition, "if h.has(flagUnique) {", "if false {"},
	{"deleting a job keeps its unique key", admin, "if h.has(flagUnique) {", "if false {"},
	{"a key is given back twice", transition, "h.flags &^= flagUnique", "_ = flagUnique"},

	// Indexes and counters.
	{"the ready row stays", transition, "x.txn.Delete(x.m.space.Ready(ns, h.Queue, h.Priority, h.Pos))", "_ = h.Pos"},
	{"the due row stays", transition, "x.txn.Delete(x.m.space.Due(keys.Due{At: h.Due, Kind: dueKind(h.State), NS: ns, ID: id}))", "_ = h.Due"},
	{"the old state keeps its count", transition, "c.Jobs[h.State]--", "c.Jobs[h.State] += 0"},
	{"the leader is not told of the first due time", transition, "x.out.FirstDue = d.At", "_ = d.At"},
	{"the leader is not told of jobs that left", admin, "if h.State == job.Pending {\n\t\tx.out.Unready", "if h.State == job.Held {\n\t\tx.out.Unready"},
	{"all places of an entry are the same", machine, "x.ordinal++", "x.ordinal = 1"},
	{"a cached head outlives its lease", machine, "delete(x.m.leased, k)", "_ = k"},
	{"an entry's events replace each other", machine, "x.events = append(x.events, feed.Event{Type: t, NS: ns,", "x.events = append(x.events[:0], feed.Event{Type: t, NS: ns,"},
	{"a history changes the copies that share it", records, "append(keep[:len(keep):len(keep)], Moment", "append(keep, Moment"},
	{"a history loses its beginning", records, "keep[0]), keep[2:]...)", "keep[1]), keep[2:]...)"},

	// Administration.
	{"a retry keeps the crashes", admin, "h.Attempt, h.Crashes, h.Reason, h.Finished = 0, 0, NotDead, 0", "h.Attempt, h.Reason, h.Finished = 0, NotDead, 0"},
	{"a retry keeps the attempts", admin, "h.Attempt, h.Crashes, h.Reason, h.Finished = 0, 0, NotDead, 0", "h.Crashes, h.Reason, h.Finished = 0, NotDead, 0"},
	{"a retry does not take scheduled jobs", admin, "case job.Dead, job.Cancelled, job.Completed, job.Scheduled, job.Retrying:", "case job.Dead, job.Cancelled, job.Completed, job.Retrying:"},
	{"a leased job may be deleted", admin, "if h.State.Leased() {", "if false {"},
	{"a deleted job's errors stay", admin, "if h.has(flagErrors) {", "if false {"},
	{"a deleted job's result stays", admin, "{flagResult, keys.Result}, {flagCheckpoint", "{flagCheckpoint"},
	{"a dead job may be cancelled", admin, "case job.Completed, job.Dead:", "case job.Completed:"},
	{"the feed's trim may go back", admin, "if err == nil && string(v) >= string(feed.TrimRecord(c.Before)) {", "if v == nil && err == nil {"},
	{"the feed is trimmed beyond the entry", admin, "c.Before <= 1 || c.Before > x.index", "c.Before <= 1"},

	// What the machine stands on.
	{"a deletion is not seen by the entry", txn, "if t.slots[i].value == nil {\n\t\t\treturn nil, ErrNotFound", "if t.slots[i].value == nil {\n\t\t\treturn t.group.Get(key)"},
	{"a removed range is not seen by the transaction", txn, "if bytes.Compare(c.from, key) <= 0 && bytes.Compare(key, c.to) < 0 {", "if bytes.Compare(c.to, c.from) < 0 {"},
	{"a new row is forgotten in a later entry", txn, "s.entry, s.fresh = t.entry, false", "s.entry = t.entry"},
	{"the digest forgets the values", txn, "t.feed(s.value)\n", "\n"},
	{"a spent transaction's ranges live on", txn, "gone: t.gone[:0]}", "gone: t.gone}"},
	{"a transfer is not bound to its group", transfer, "h.Write(g.prefix[:])", "h.Write(nil)"},
	{"a damaged transfer is taken", transfer, "if !m.hash.matches() {", "if false {"},
	{"leftovers of a transfer stay", transfer, "for _, name := range names {", "for _, name := range names[:0] {"},
	{"a trimmed cursor is not told", cursor, "if after+1 < trimmed {", "if after+1 < min(trimmed, 0) {"},
	{"a cursor is told one entry late", cursor, "if after+1 < trimmed {", "if after+2 < trimmed {"},
	{"a feed is read from the cursor itself", cursor, "space.FeedFrom(after + 1)", "space.FeedFrom(max(after, 1))"},
}
