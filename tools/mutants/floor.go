package main

const (
	logGroup      = "internal/floor/raftlog/group.go"
	logStore      = "internal/floor/raftlog/store.go"
	logEntry      = "internal/floor/raftlog/entry.go"
	diskPrewrite  = "internal/floor/disk/prewrite.go"
	groupAhead    = "internal/floor/group/ahead.go"
	groupFSM      = "internal/floor/group/fsm.go"
	groupCut      = "internal/floor/group/truncation.go"
	groupClock    = "internal/floor/group/clock.go"
	groupLead     = "internal/floor/group/leadership.go"
	groupPropose  = "internal/floor/group/propose.go"
	peerHeartbeat = "internal/floor/transport/heartbeat.go"
	peerHandshake = "internal/floor/transport/handshake.go"
	peerAppend    = "internal/floor/transport/append.go"
	peerPipeline  = "internal/floor/transport/pipeline.go"
	peerCommit    = "internal/floor/transport/commit.go"
	shardPace     = "internal/engine/shard/pace.go"
	shardBatch    = "internal/engine/shard/batch.go"
	shardRound    = "internal/engine/shard/round.go"
	shardCalls    = "internal/engine/shard/shard.go"
)

// floorMutations break what makes a job durable: the log, the replica over it, its messages, and
// the loop that proposes.
var floorMutations = []mutation{
	// What survives a power loss.
	{"the state isn't synced before the log is cut", transfer, "g.db.synced(func(b *pebble.Batch) error { return b.Set(g.noteKey(), value, nil) })", "g.db.pebble.Set(g.noteKey(), value, pebble.NoSync)"},
	{"the log is cut without a look at the state", groupFSM, "return f.store.MarkCovered(applied{index: index, term: term}.encode())", "return nil"},
	{"Pebble hears first that the log failed", logStore, "s.fs = disk.Counting(failFast)", "s.fs = disk.Counting(disk.Yielding(disk.OrderedMarkers(s.opts.FS)))\n\t_ = failFast"},
	{"an append isn't synced", logStore, "return s.commitWith(batch, s.sync)", "return s.commitWith(batch, pebble.NoSync)"},
	{"zeros are written over entries", diskPrewrite, "\tf.end += int64(n)\n", ""},
	{"a reused log is written with zeros again", diskPrewrite, "reused.size = info.Size()", "_ = info"},
	{"all of the log is written twice", diskPrewrite, " && f.unsynced <= prewriteMost {", " {"},
	{"the state's log is written out when it is full", stateStore, "WALBytesPerSync:             logBytesPerSync,", ""},
	{"a relaxed disk probe isn't synced", logStore, "return s.commitWith(batch, pebble.Sync)", "return s.commit(batch)"},
	{"how far the state is isn't noted in the log", groupCut, "l.StoreLogsAnd(logs, appliedNote, applied)", "l.LogStore.StoreLogs(logs)"},
	{"a group that rests notes nothing", groupCut, "if seen <= l.noted.Load() {", "if seen <= l.noted.Load() || true {"},
	{"what was applied before a power loss is forgotten", groupCut, "return max(l.applied(), l.before)", "return l.applied()"},
	{"applied entries may be cut", groupCut, "if to < last || from > applied || last < applied {", "if to < last || from > applied || last < applied || true {"},
	{"the applied record isn't in the batch", groupFSM, "f.check(p.txn.SetApplied(appliedKey(f.store), p.next.encode()))", "_ = p.next.encode()"},
	{"an entry is applied again after a restart", groupFSM, "if l.Index > p.next.index {", "if l.Index > p.next.index || l.Index <= f.applied.index {"},
	{"entries without a command are missing from the record", groupFSM, "if f.applied.index >= index {", "if f.applied.index >= 0 {"},

	// The log.
	{"a suffix that was deleted is read from memory", logGroup, "\tg.tail.dropFrom(from)\n", ""},
	{"a suffix that was deleted is still the end", logGroup, "g.last, g.through = from-1, through", "_, g.through = from-1, through"},
	{"a gap keeps the log before it", logGroup, "replaced := last != 0 && logs[0].Index > last+1", "replaced := last != 0 && logs[0].Index > last+1 && false"},
	{"an entry overwrites another", logGroup, "if logs[0].Index == 0 || logs[0].Index <= last {", "if logs[0].Index == 0 {"},
	{"a hole is made", logGroup, "case lo == first:", "case lo >= first:"},
	{"a flipped bit of an entry is read", logEntry, "if checksum(key, body) != binary.BigEndian.Uint32(sum) {", "if checksum(key, body) != binary.BigEndian.Uint32(sum) && false {"},
	{"a flipped bit of a vote is read", logStore, "if n < 0 || checksum(key, sealed[:n]) != binary.BigEndian.Uint32(sealed[n:]) {", "if n < 0 {"},

	// The replica.
	{"time goes back with the leader's clock", groupClock, "Lease: max(at.Lease, t.Lease+1)", "Lease: at.Lease"},
	{"calendar time goes back", groupClock, "Calendar: max(at.Calendar, t.Calendar+1)", "Calendar: at.Calendar"},
	{"a jump of the wall ends leases", groupClock, "return next + min(max(wall-next, -slew), slew)", "return next + wall - next + 0*slew"},
	{"calendar time follows a jump at once", groupClock, "case c.last-c.since >= settleTime && c.trusted():", "case c.trusted():"},
	{"calendar time follows a wall that is wrong", groupClock, "case c.last-c.since >= settleTime && c.trusted():", "case c.last-c.since >= settleTime:"},
	{"a new leader believes a wall that is wrong", groupClock, "if floor == (Times{}) || c.trusted() {", "if floor == (Times{}) || c.trusted() || true {"},
	{"another digest is none of a replica's business", groupFSM, "e.checkDigest != a.digest && !f.ask()", "e.checkDigest != a.digest && false"},
	{"an older snapshot is installed", groupFSM, "if in.meta.Index <= f.applied.index {", "if in.meta.Index == 0 {"},
	{"digests outlive the state they are of", groupFSM, "\tf.marks.clear()\n", ""},
	{"a leader serves before its barrier", groupLead, "if !g.barrier(ctx) {", "if ctx.Err() != nil {"},
	{"a silent node leads", groupLead, "return g.ready.Load() && !g.health.Silent() && g.Disputed()", "return g.ready.Load() && g.Disputed()"},
	{"a disputed replica leads", groupLead, `!g.health.Silent() && g.Disputed() == "" }`, "!g.health.Silent() }"},
	{"what is on its way isn't waited for", groupPropose, "none, unsure := g.fsm.proposed.none(), ", "none, unsure := true, "},
	{"an entry whose fate is unknown isn't waited for", groupPropose, "if none && g.sure.Load() == unsure {", "if none {"},
	{"a barrier is written again and again", groupPropose, "\tg.sure.Store(unsure)\n", ""},
	{"nothing is applied while it is stored", groupAhead, "l.fsm.proposed.has(logs[0]) {", "l.fsm.proposed.has(logs[0]) && false {"},
	{"what was applied ahead is taken for another entry", groupAhead, "if a != nil && a.log == l {", "if a != nil {"},
	{"an entry is applied before the one in front of it", groupAhead, "f.ahead != nil || l.Index != f.applied.index+1 {", "f.ahead != nil {"},
	{"the machine remembers an entry that was dropped", groupAhead, "if err := f.machine.Reset(); err != nil {", "if err := error(nil); err != nil {"},
	{"a replica that stops keeps what it applied ahead", groupAhead, "\tf.aheads.Wait()\n\tf.turn <- struct{}{}\n\tdefer func() { <-f.turn }()\n\tf.dropAhead()\n", "\tf.aheads.Wait()\n"},
	{"a term that was given up goes on", groupLead, "case <-current.over():", "case <-(*term)(nil).over():"},
	{"a loop that gave its term up waits for its end", shardCalls, "\tt.end()\n\tend()\n", "\tt.end()\n"},
	{"an outcome is told to whoever asks first", groupPropose, "t.outcome <- Outcome{results[i], logs[i].Index, t.at}", "t.outcome <- Outcome{results[0*i], logs[i].Index, t.at}"},

	// Messages.
	{"every heartbeat takes the fast path", peerHeartbeat, "if g.harmless(rpc) {", "if g.harmless(rpc) || true {"},
	{"a heartbeat of another term is harmless", peerHeartbeat, "return req.Term == r.CurrentTerm() && ", "return req != nil && "},
	{"a heartbeat to a leader is harmless", peerHeartbeat, "r.State() == raft.Follower && ", "r.State() != raft.Shutdown && "},
	{"a heartbeat after a silence is harmless", peerHeartbeat, "time.Since(r.LastContact()) < fresh", "time.Since(r.LastContact()) < fresh+time.Hour"},
	{"a follower commits what no message proved", peerCommit, "req.LeaderCommitIndex = min(req.LeaderCommitIndex, proven(req))", "_ = proven(req)"},
	{"a part promises what it doesn't carry", peerAppend, "\t\tboundCommit(&part)\n", ""},
	{"a newer commit index is nothing new", peerPipeline, "args.LeaderCommitIndex > p.told || ", ""},
	{"what an idle pipeline leaves out isn't waited for", peerPipeline, "return sent, sent.answered()", "return sent, nil"},
	{"an idle pipeline of a silent node stays", peerPipeline, ">= p.pause || p.health.Silent() {", ">= p.pause {"},
	{"a follower that was started again isn't told", peerPipeline, "time.Since(p.at) >= p.pause || ", ""},
	{"a commit is told although more was sent", peerPipeline, "committed != proven(p.before.Request())", "committed > proven(p.before.Request())"},
	{"a commit is told after a rejection", peerPipeline, "last == nil || last.answered() != nil ||", "last == nil ||"},
	{"a commit is told with the entry before it", peerPipeline, "next.PrevLogEntry, next.PrevLogTerm = req.Entries[n-1].Index, req.Entries[n-1].Term", "_ = n"},
	{"a commit is told again and again", peerPipeline, "committed <= p.told || ", ""},
	{"what another leader committed is told", peerPipeline, "if (*r).State() == raft.Leader &&", "if"},
	{"a commit is told of what was sent in another term", peerPipeline, "p.before.Request().Term != term || ", ""},
	{"the followers of the cell's group wait for a tick", cellGroup, "OnCommit: trans.TellCommitted,", "OnCommit: nil,"},
	{"a part names no entry before it", peerAppend, "rest.PrevLogEntry, rest.PrevLogTerm = rest.Entries[n:], last.Index, last.Term", "_, _ = rest.Entries[n:], last.Index, last.Term"},
	{"large requests travel whole", peerAppend, "if bytes > MessageBytesMax && i > 0 {", "if bytes > MessageBytesMax<<20 && i > 0 {"},
	{"a dialer without the secret is let in", peerHandshake, "if !hmac.Equal(theirs[:], proof(secret, dialerLabel, raw, nonce[:], frame)) {", "if !hmac.Equal(theirs[:], proof(secret, dialerLabel, raw, nonce[:], frame)) && false {"},
	{"a listener without the secret is believed", peerHandshake, "if hmac.Equal(theirs, proof(secret, listenerLabel, raw, nonce)) {", "if hmac.Equal(theirs, proof(secret, listenerLabel, raw, nonce)) || true {"},
	{"a verdict without the secret is believed", peerHandshake, "append(v[:], frame...))) {", "append(v[:], frame...))) && false {"},
	{"a proof covers no names", peerHandshake, "\tfor _, p := range parts {\n\t\tmac.Write(p)\n\t}\n", "\tmac.Write(parts[len(parts)-1])\n"},

	// The loop.
	{"callers in two halves stay so", shardPace, "p.expect, p.until, p.naps, p.all = n+others, time.Time{}, 0, false", "p.expect, p.until, p.naps, p.all = n, time.Time{}, 0, false"},
	{"half of the callers is taken for all", shardPace, "if r.answered == 0 || p.part {", "if r.answered == 0 {"},
	{"the next entry waits until one is applied", shardRound, "if !t.pace.halves() ||", "if true ||"},
	{"a fetch follows an entry that the memory doesn't know of", shardRound, "if q.Fetch != nil || len(q.Renew) > 0 {", "if len(q.Renew) > 0 {"},
	{"a renewal follows an entry that may end its lease", shardRound, "if q.Fetch != nil || len(q.Renew) > 0 {", "if q.Fetch != nil {"},
	{"a job that somebody waits for follows an entry", shardRound, "ok && t.table.Awaited(e.NS, e.Queue) {", "ok && t.table.Awaited(e.NS, e.Queue) && false {"},
	{"the end of a hold-off is met in the middle of an entry", shardBatch, "if !b.holdOff {", "if !t.shard.holdOff.Load() {"},
	{"entries follow each other while timers wait", shardRound, "if n < followMax {", "if n < followMax || true {"},
	{"a digest is taken behind an entry under way", groupPropose, " && g.fsm.proposed.none() {", " {"},
	{"a single caller waits for company", shardPace, "if p.expect < 2 || n == 0 {", "if n == 0 {"},
	{"callers who stay away are waited for", shardPace, "return p.back < p.commit*7/8", "return p.back < p.commit*7/8 || true"},
	{"offers make an entry of any size", shardBatch, "b.offered < entryBytesMax &&", ""},
	{"offers lease any number of jobs in an entry", shardBatch, "b.leases -= n", "_ = n"},
	{"a newcomer is served before those who have waited", shardBatch, "	if !b.takesOffers() {\n		return 0", "	if b.leases <= 0 {\n		return 0"},
	{"a lease of an earlier leader ends at once", shardBatch, "if h.Epoch.Index <= t.first {", "if h.Epoch.Index <= t.first && false {"},
	{"a renewed lease ends", shardBatch, "if r, ok := t.renewals[d.ID]; ok && r.epoch == h.Epoch {", "if r, ok := t.renewals[d.ID]; ok && r.epoch != h.Epoch {"},
	{"a lease is renewed beyond its limit", shardBatch, "until = min(until, limit)", "_ = limit"},
	{"an enqueue overtakes what is put back in its entry", shardBatch, "b.requeues = b.requeues || slices.ContainsFunc(cmds, state.MayRequeue)", "_ = slices.ContainsFunc(cmds, state.MayRequeue)"},
	{"an enqueue overtakes those before a fetch that came between", shardBatch, "if len(b.unpromised) == 0 || b.requeues ||", "if len(b.unpromised) >= 0 || b.requeues ||"},
	{"an empty fetch is written", shardRound, "if len(b.cmds) == 0 {", "if len(b.cmds) == 0 && len(b.requests) == 0 {"},
	{"the memory keeps what a refused entry gave out", shardRound, "\tt.table = t.shard.newTable()\n", ""},
	{"a read isn't confirmed", shardCalls, "if verr := s.group.VerifyLeader(); verr != nil {", "if verr := error(nil); verr != nil {"},
	{"a full disk takes jobs", shardCalls, "if err := s.TakesJobs(); err != nil && len(r.After) > 0 {", "if err := s.TakesJobs(); err != nil && len(r.After) > 1<<20 {"},
	{"a fetch that gave up forgets its grant", shardCalls, "case t.cancels <- q:", "case t.cancels <- q:\n\t\t\treturn Reply{}, ctx.Err()"},
}
