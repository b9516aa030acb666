package state

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// generator makes random commands about few things, so that they meet. It looks at
// what is in a replica, not at the oracle.
type generator struct {
	t    *rapid.T
	r    *replica
	next byte
	walk map[queueKey]*stateread.Sweeping // The leader's walks over what deleted queues left.
	// calm leaves out limits, whose refusals last for an entry, and commands with a place
	// in the log.
	calm bool
	// theme is what half of the commands is about, so that some runs get deep into it;
	// nil for none.
	theme func(job.Namespace) command.Command

	seen *auditor // What was there before the command.
}

func newGenerator(t *rapid.T, r *replica) *generator {
	g := &generator{t: t, r: r, walk: map[queueKey]*stateread.Sweeping{}}
	g.theme = []func(job.Namespace) command.Command{nil, g.money, g.schedule, g.tied}[g.pick(4, "theme")]
	return g
}

// approver may decide whatever policy asks for one.
const approver = "ann"

// Whole ones, so that they can be looked for in a store.
var testNamespaces = []job.Namespace{job.Namespace([]byte("the first of all")), job.Namespace([]byte("one that is next"))}

func (g *generator) pick(n int, what string) int { return rapid.IntRange(0, n-1).Draw(g.t, what) }

func (g *generator) ns() job.Namespace { return testNamespaces[g.pick(4, "ns")/3] }

func (g *generator) queue() string { return []string{"a", "a", "b"}[g.pick(3, "queue")] }

func (g *generator) one(of int, what string) bool { return g.pick(of, what) == of-1 }

// fresh is a number that no id had before.
func (g *generator) fresh() byte {
	g.next++
	return g.next
}

// seconds is 0 to n-1.
func (g *generator) seconds(n int, what string) time.Duration {
	return time.Duration(g.pick(n, what)) * time.Second
}

// pass is how much time passes until the next command: sometimes a day begins.
func (g *generator) pass() int64 {
	ms := rapid.IntRange(0, 3000).Draw(g.t, "ms")
	passed := int64(ms) * int64(time.Millisecond)
	if !g.one(40, "hours") {
		return passed
	}
	hours := int64(time.Duration(1+g.pick(20, "hours")) * time.Hour)
	switch g.pick(3, "clock") {
	case 0: // The machine slept: lease time did not go on.
		g.r.lag += hours
	case 1: // Calendar time stands still until the wall has caught up.
		g.r.lag -= hours
		return passed
	}
	return hours + passed
}

// when is the time of commands: some time later, or when what they fire is due.
func (g *generator) when(cmds []command.Command) int64 {
	now := g.r.now + g.pass()
	f, ok := cmds[0].(*command.Fire)
	if !ok {
		return now
	}
	at := f.Due.At
	if f.Due.Kind.OnLeaseTime() {
		at += g.r.lag
	}
	if at < g.r.now+int64(48*time.Hour) && !g.one(4, "early") {
		now = max(now, at)
	}
	return now
}

// commands is one command, or an Atomic with its own.
func (g *generator) commands() []command.Command {
	g.seen = g.r.look(g.t)
	if g.one(16, "atomic") {
		return g.atomic()
	}
	return []command.Command{g.command()}
}

func sortedIDs[K ~[16]byte, V any](m map[K]V) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int { return bytes.Compare(a[:], b[:]) })
}

func (g *generator) job() (job.Namespace, job.ID) {
	return g.jobIn(func(*records.Head) bool { return true })
}

// jobIn is mostly a job of some kind, if there is one.
func (g *generator) jobIn(kind func(*records.Head) bool) (job.Namespace, job.ID) {
	ids := sortedIDs(g.seen.heads)
	of := slices.DeleteFunc(slices.Clone(ids), func(id job.ID) bool { h := g.seen.heads[id]; return !kind(&h) })
	if len(of) > 0 && !g.one(8, "any") {
		ids = of
	}
	if len(ids) == 0 {
		return g.ns(), job.ID{0xff}
	}
	id := rapid.SampledFrom(ids).Draw(g.t, "job")
	if g.one(16, "foreign") {
		return g.ns(), id
	}
	return g.seen.ns[id], id
}

func (g *generator) holder(id job.ID) command.Holder {
	if g.calm { // The token of a lease of the same entry is not known yet.
		return command.Holder{Worker: []string{"w1", "w2"}[g.pick(2, "worker")]}
	}
	h := command.Holder{Worker: []string{"", "w1", "w2"}[g.pick(3, "worker")], Peer: uint64(1 + g.pick(2, "peer"))}
	switch g.pick(5, "token") {
	case 0:
		h.Token = command.Token{Attempt: 1, Epoch: keys.Position{Index: 1, Ordinal: 1}}
	case 1, 2:
		h.Token = command.Token{Attempt: 1, Epoch: g.seen.heads[id].Epoch}
	case 3: // Of an iteration that is over.
		if list, _, err := stateread.ReadIterations(g.r.store, g.seen.ns[id], id, 0, 3); err == nil && len(list) > 0 {
			h.Token = command.Token{Attempt: 1, Epoch: list[g.pick(len(list), "iteration")].Lease}
		}
	}
	return h
}

func (g *generator) retry() command.RetryPolicy {
	backoff := job.Backoff(g.pick(4, "backoff"))
	if g.calm && backoff == job.BackoffNone { // An entry ends before it.
		backoff = job.BackoffFixed
	}
	if g.one(6, "open") {
		return command.RetryPolicy{} // Whatever the queue says.
	}
	return command.RetryPolicy{
		MaxRetries: uint32(1 + g.pick(3, "retries")), Backoff: backoff, BaseDelay: time.Second, MaxDelay: 5 * time.Second,
	}
}

func (g *generator) tags() []command.Tag {
	return [][]command.Tag{nil, nil, {{Key: "k", Value: "v"}}, {{Key: "k", Value: "w"}, {Key: "l", Value: "v"}}}[g.pick(4, "tags")]
}

// json is of some size, which is billed.
func (g *generator) json() []byte {
	return append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, g.pick(3, "size")*977)...), '"')
}

func (g *generator) enqueue() *command.Enqueue {
	c := &command.Enqueue{
		NS: g.ns(), ID: job.ID{0, g.fresh()}, Queue: g.queue(), Payload: g.json(), Priority: job.Priority(g.pick(3, "priority")), Retry: g.retry(),
		UniqueKey: []string{"", "", "u"}[g.pick(3, "unique")], UniqueFor: 4 * time.Second, Tags: g.tags(),
		IdempotencyKey: []string{"", "", "i", "k"}[g.pick(4, "idempotency")], IdempotencyFor: 6 * time.Second,
	}
	if g.one(4, "scheduled") {
		c.ScheduledAt = g.r.now + int64(g.seconds(6, "in"))
		if g.calm {
			c.ScheduledAt += int64(time.Second)
		}
	}
	if g.one(2, "more") {
		g.ties(c)
	}
	return c
}

// ties draws the options that only some jobs have.
func (g *generator) ties(m *command.Enqueue) {
	m.OnDependency = command.DependencyPolicy(g.pick(3, "policy"))
	if g.one(4, "expires") {
		within := g.seconds(10, "within") - time.Second
		if g.calm {
			within += 2 * time.Second
		}
		m.ExpireAt = g.r.now + int64(within)
	}
	if g.one(4, "parts") {
		m.RetryOpen = command.RetryParts(g.pick(16, "open"))
	}
	if g.one(3, "batch") {
		m.Batch = g.batch()
	}
	for range g.pick(3, "depends") {
		if _, id := g.job(); !slices.Contains(m.DependsOn, id) {
			m.DependsOn = append(m.DependsOn, id)
		}
	}
	if g.one(3, "agent") {
		m.Agent = g.agent()
	}
	if g.one(3, "chain") {
		m.Chain = &command.Chain{ID: job.ChainID{0, g.fresh()}, Steps: []command.Step{{Queue: m.Queue}}, GoOn: g.one(3, "go on")}
		for range 1 + g.pick(2, "steps") {
			m.Chain.Steps = append(m.Chain.Steps, command.Step{Queue: g.queue()})
		}
		m.Chain.OnExit, m.Chain.OnFailure = g.step(), g.step()
	}
}

func (g *generator) agent() *command.AgentLimits {
	return &command.AgentLimits{
		MaxIterations: uint32(g.pick(4, "iterations")), MaxCost: int64(g.pick(6, "cost")), IterationTimeout: g.seconds(3, "timeout"),
	}
}

func (g *generator) step() *command.Step {
	if g.one(2, "step") {
		return nil
	}
	return &command.Step{Queue: g.queue(), Payload: []byte(`{"own":1}`)}
}

// tied makes jobs that others follow on or wait for, and ends batches.
func (g *generator) tied(ns job.Namespace) command.Command {
	switch g.pick(4, "tied") {
	case 0:
		return &command.SealBatch{NS: ns, ID: g.batch()}
	case 1:
		return &command.MakeBatch{NS: ns, ID: job.BatchID{0, g.fresh()}, Callback: g.step()}
	default:
		c := g.enqueue()
		g.ties(c)
		return c
	}
}

// batch is one that is there, or one that is not.
func (g *generator) batch() job.BatchID {
	ids := sortedIDs(g.seen.groups.batches)
	if n := g.pick(len(ids)+1, "batch"); n < len(ids) {
		return ids[n]
	}
	return job.BatchID{0xff}
}

// atomic is a call of many: jobs, perhaps as a batch.
func (g *generator) atomic() []command.Command {
	ns, batch := g.ns(), job.BatchID{0, g.fresh()}
	cmds := []command.Command{&command.Atomic{}}
	asBatch := g.one(2, "as batch")
	if asBatch {
		cmds = append(cmds, &command.MakeBatch{NS: ns, ID: batch, Callback: g.step()})
	}
	for range 1 + g.pick(3, "jobs") {
		c := g.enqueue()
		if c.NS = ns; asBatch {
			c.Batch = batch
		}
		cmds = append(cmds, c)
	}
	if asBatch && g.one(2, "seal") {
		cmds = append(cmds, &command.SealBatch{NS: ns, ID: batch})
	}
	cmds[0] = &command.Atomic{Count: uint32(len(cmds) - 1)}
	return cmds
}

func (g *generator) fetch() command.Command {
	ready := func(h *records.Head) bool { return h.State == job.Pending && !h.Blocked() }
	ns, id := g.jobIn(ready)
	c := &command.Fetch{NS: ns, Jobs: []job.ID{id}, Worker: []string{"w1", "w2"}[g.pick(2, "by")], Peer: 1, Lease: 3 * time.Second}
	for range g.pick(3, "more") {
		if _, id := g.jobIn(ready); !slices.Contains(c.Jobs, id) {
			c.Jobs = append(c.Jobs, id)
		}
	}
	switch g.pick(4, "queues") {
	case 0:
		c.Queues = []string{g.queue()}
	case 1:
		c.Queues = []string{"a", "b"}
	}
	return c
}

func (g *generator) heartbeat(ns job.Namespace, id job.ID) command.Command {
	c := &command.Heartbeat{NS: ns, ID: id, By: g.holder(id), Progress: []byte(`1`), Checkpoint: []byte(`2`)}
	c.Usage = g.usage()
	return c
}

func (g *generator) ack(ns job.Namespace, id job.ID) command.Command {
	c := &command.Ack{NS: ns, ID: id, By: g.holder(id), Result: g.json()}
	if h := g.seen.heads[id]; h.Has(records.FlagAgent) || g.one(3, "more") {
		c.Usage, c.HoldReason = g.usage(), "look"
		if h.Has(records.FlagAgent) && !g.one(4, "unsaid") || g.one(8, "agent") {
			c.Agent = []command.AgentStatus{command.AgentContinue, command.AgentContinue, command.AgentDone, command.AgentHold}[g.pick(4, "status")]
		}
		if g.one(2, "exit") {
			c.Step, c.ExitReason = command.StepExit, "enough"
		}
	}
	return c
}

func (g *generator) fail(ns job.Namespace, id job.ID) command.Command {
	c := &command.Fail{NS: ns, ID: id, By: g.holder(id), Error: "boom", Release: g.one(3, "release")}
	if g.one(3, "more") {
		c.Terminal, c.Usage = g.one(2, "terminal"), g.usage()
		delay := g.seconds(3, "delay")
		if g.calm {
			delay += time.Second
		}
		if g.one(2, "has") {
			c.Delay = &delay
		}
	}
	return c
}

func (g *generator) usage() *command.Usage {
	if g.one(3, "usage") {
		return nil
	}
	cost := int64(g.pick(4, "cost"))
	return &command.Usage{Cost: cost, Input: 10 * cost, Output: int64(g.pick(2, "output")), Model: []string{"m", "m", "m", "n"}[g.pick(4, "model")], Total: g.one(2, "total")}
}

func (g *generator) hold(ns job.Namespace, id job.ID) command.Command {
	return &command.Hold{NS: ns, ID: id, Reason: "look", By: "me"}
}

// requeue names dead jobs, and one that may be anything.
func (g *generator) requeue(ns job.Namespace, id job.ID) command.Command {
	c := &command.Requeue{NS: ns, Queue: g.queue(), Jobs: []job.ID{id}}
	for _, id := range sortedIDs(g.seen.heads) {
		if g.seen.heads[id].State == job.Dead && id != c.Jobs[0] {
			c.Jobs = append(c.Jobs, id)
		}
	}
	return c
}

func (g *generator) setQueue(ns job.Namespace) command.Command {
	c := &command.SetQueue{
		NS: ns, Queue: g.queue(), Set: command.Settings(g.pick(8, "set")), Paused: g.one(4, "paused"), MaxConcurrency: uint32(g.pick(3, "max")),
	}
	if limit := g.pick(4, "limit"); limit > 0 {
		c.Throttle = command.Throttle{Limit: uint32(limit), Window: time.Second + g.seconds(5, "window")}
	}
	if g.one(2, "more") {
		c.Set |= command.Settings(g.pick(8, "set")) * command.SetDraining
		c.Draining, c.Retry, c.RetrySet = g.one(3, "draining"), g.retry(), command.RetryParts(g.pick(16, "parts"))
		c.Retention = command.QueueRetention{Completed: g.seconds(3, "completed"), Dead: g.seconds(3, "dead"), Max: int64(g.pick(3, "most"))}
	}
	return c
}

// money makes agents, reports what they cost, and says what that may be.
func (g *generator) money(ns job.Namespace) command.Command {
	switch g.pick(8, "money") {
	case 0, 1:
		return g.govern(ns)
	case 2:
		c := g.enqueue()
		c.Agent = g.agent()
		return c
	case 3, 4:
		return g.fetch()
	default:
		ns, id := g.jobIn(func(h *records.Head) bool { return h.State.Leased() })
		return []func(job.Namespace, job.ID) command.Command{g.heartbeat, g.heartbeat, g.ack, g.fail, g.hold}[g.pick(5, "report")](ns, id)
	}
}

// govern draws an operator's budgets and approval policies.
func (g *generator) govern(ns job.Namespace) command.Command {
	scope := command.BudgetScope(3 - g.pick(3, "scope"))
	target := map[command.BudgetScope]string{command.BudgetGlobal: records.AllTarget, command.BudgetQueue: g.queue(), command.BudgetTag: "k=v"}[scope]
	policies := g.policies(ns)
	switch g.pick(6, "govern") {
	case 0:
		return &command.DeleteBudget{NS: ns, Scope: scope, Target: target}
	case 1:
		p := command.Policy{
			ID: job.PolicyID{0, g.fresh()}, Name: "p", Enabled: !g.one(6, "off"), Any: g.one(2, "any"), Queue: []string{"", "a"}[g.pick(2, "queue")],
			TagKey: "k", TagValue: []string{"", "v"}[g.pick(2, "value")], Expires: g.seconds(6, "expires"), ApproveAtLast: g.one(2, "at last"),
		}
		if n := g.pick(len(policies)+1, "policy"); n < len(policies) {
			p.ID = policies[n]
		}
		if g.one(2, "approvers") {
			p.Approvers = []string{approver, "bob"}
		}
		return &command.PutPolicy{NS: ns, Policy: p}
	case 2:
		return &command.DeletePolicy{NS: ns, ID: append(policies, job.PolicyID{0xff})[g.pick(len(policies)+1, "policy")]}
	}
	b := command.Budget{ID: job.BudgetID{0, g.fresh()}, Scope: scope, Target: target, Daily: int64(g.pick(8, "daily")), PerJob: int64(g.pick(5, "per job"))}
	b.On = command.OnExceed(g.pick(3, "on"))
	if g.calm && scope != command.BudgetTag && b.On != command.ExceedAlert {
		b.Daily = 0 // It shuts a queue for the rest of the entry.
	}
	return &command.PutBudget{NS: ns, Budget: b}
}

func (g *generator) policies(ns job.Namespace) (ids []job.PolicyID) {
	list, err := stateread.ReadPolicies(g.r.store, ns)
	if err != nil {
		g.t.Fatalf("read policies: %v", err)
	}
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return ids
}

// schedule makes schedules, changes them and lets them tick, sometimes as a leader
// would that has an outdated view.
func (g *generator) schedule(ns job.Namespace) command.Command {
	list, err := stateread.ReadSchedules(g.r.store, ns, job.ScheduleID{}, 100)
	if err != nil {
		g.t.Fatalf("read schedules: %v", err)
	}
	of := stateread.IDSchedule{ID: job.ScheduleID{0, ns[0], g.fresh()}}
	if n := g.pick(len(list)+1, "schedule"); n < len(list) {
		of = list[n]
	}
	switch g.pick(6, "schedule") {
	case 0:
		if g.one(2, "delete") {
			return &command.DeleteSchedule{NS: ns, ID: of.ID}
		}
		fallthrough
	case 1:
		return g.putSchedule(ns, &of)
	default:
		if of.Version == 0 && g.one(2, "make") {
			return g.putSchedule(ns, &of)
		}
		return g.tick(ns, &of)
	}
}

func (g *generator) putSchedule(ns job.Namespace, of *stateread.IDSchedule) command.Command {
	return &command.PutSchedule{
		NS: ns, ID: of.ID, Next: g.soon(), Change: of.Version != 0 && !g.one(8, "again"), Version: of.Version - uint64(g.pick(8, "version")/7),
		Schedule: command.Schedule{
			Name: []string{"x", "y", "z"}[g.pick(3, "name")], Cron: []string{"1", "2"}[g.pick(2, "cron")], Zone: "UTC", Paused: g.one(5, "paused"),
			Jitter: g.seconds(3, "jitter"), Overlap: command.Overlap(g.pick(3, "overlap")),
			Job: command.Template{
				Queue: g.queue(), Priority: job.Priority(g.pick(3, "priority")), Retry: g.retry(), RetryOpen: command.RetryParts(g.pick(16, "open")),
				ExpireAfter: 2 * g.seconds(3, "expire"), Tags: g.tags(), UniqueKey: []string{"", "", "u"}[g.pick(3, "unique")], UniqueFor: 4 * time.Second,
			},
		},
	}
}

// soon is a whole second about now, or never.
func (g *generator) soon() int64 {
	if g.one(8, "never") {
		return 0
	}
	second := g.r.now / int64(time.Second)
	return (second + int64(g.pick(6, "soon")) - 2) * int64(time.Second)
}

func (g *generator) tick(ns job.Namespace, of *stateread.IDSchedule) command.Command {
	if !g.calm && g.one(4, "by hand") { // Its job is called after its place in the log.
		return &command.Tick{NS: ns, ID: of.ID, Manual: true}
	}
	c := &command.Tick{NS: ns, ID: of.ID, Due: of.Next, Version: of.Version - uint64(g.pick(8, "version")/7), Next: g.soon(), Missed: uint64(g.pick(4, "missed") / 3)}
	from := []int64{of.Next, of.Next - int64(2*time.Second)}[g.pick(6, "stale")/5] // What was dealt with is not made again.
	for i := range int64(g.pick(4, "ticks")) {
		if at := from + i*int64(time.Second); at > 0 {
			c.Ticks = append(c.Ticks, at)
		}
	}
	return c
}

// due picks a row that is there, or one that is not.
func (g *generator) due() command.Command {
	rows, err := bothDue(g.r.store, 0, 1<<62, 50)
	if err != nil {
		g.t.Fatalf("read due: %v", err)
	}
	if len(rows) == 0 || g.one(10, "stray") {
		ns, id := g.job()
		return &command.Fire{Due: keys.Due{At: g.r.now, Kind: keys.DueKind(1 + g.pick(9, "kind")), NS: ns, ID: id}}
	}
	return &command.Fire{Due: rows[g.pick(len(rows), "row")]}
}

// sweep continues the walk, or asks to sweep what still exists, which must do nothing.
// deleteEnded names jobs, and whatever batches and chains there are, ended or not.
func (g *generator) deleteEnded() command.Command {
	ns, id := g.jobIn(func(h *records.Head) bool { return h.State.Terminal() })
	other, _ := g.job()
	c := &command.DeleteEnded{NS: ns, Jobs: []job.ID{id}, Before: g.r.now - int64(g.seconds(8, "before"))}
	if other == ns && g.one(2, "groups") {
		c.Batches, c.Chains = g.groups(ns)
	}
	return c
}

func (g *generator) groups(ns job.Namespace) (batches []job.BatchID, chains []job.ChainID) {
	bs, _, err := stateread.ReadBatches(g.r.store, ns, job.BatchID{}, 2)
	if err != nil {
		g.t.Fatalf("read batches: %v", err)
	}
	cs, _, err := stateread.ReadChains(g.r.store, ns, job.ChainID{}, 2)
	if err != nil {
		g.t.Fatalf("read chains: %v", err)
	}
	for _, b := range bs {
		batches = append(batches, b.ID)
	}
	for _, c := range cs {
		chains = append(chains, c.ID)
	}
	return batches, chains
}

func (g *generator) sweep() command.Command {
	if g.calm || g.one(2, "wrong") { // A generation is called after its entry.
		ns, id := g.job()
		return &command.Sweep{NS: ns, Queue: g.queue(), Jobs: []job.ID{id}, Unique: []string{"u"}, Idempotency: []string{"i", "k"}}
	}
	queues, err := stateread.ReadSweeps(g.r.store)
	if err != nil {
		g.t.Fatalf("read sweeps: %v", err)
	}
	if len(queues) == 0 {
		return &command.Sweep{NS: g.ns(), Queue: g.queue(), Done: g.r.index}
	}
	q := &queues[g.pick(len(queues), "sweep")]
	k := queueKey{q.NS, q.Queue}
	if w, ok := g.walk[k]; ok && (w.Gen == q.Gen || g.one(2, "stale")) {
		q = w
	}
	g.walk[k] = q
	for {
		c, err := q.Next(g.r.store)
		if err != nil {
			g.t.Fatalf("sweep: %v", err)
		}
		if c != nil {
			if c.Done != 0 {
				delete(g.walk, k)
			}
			return c
		}
	}
}
