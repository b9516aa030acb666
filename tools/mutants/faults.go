package main

// faultsModule is where cells run in virtual time.
const faultsModule = "services/sim"

const (
	simEngine    = "../../data-plane/internal/engine/state/"
	simFail      = simEngine + "fail.go"
	simFetch     = simEngine + "fetch.go"
	simEnd       = simEngine + "transition.go"
	simEnqueue   = simEngine + "enqueue.go"
	simCreate    = simEngine + "create.go"
	simTick      = simEngine + "tick.go"
	simLease     = simEngine + "lease.go"
	simChain     = simEngine + "chain.go"
	simAck       = simEngine + "ack.go"
	simThrottle  = "../../data-plane/internal/engine/records/throttle.go"
	simHandedOut = "../../data-plane/internal/edge/messages/fetch.go"
)

// faultMutations are noticed by nobody but who compares what clients were told with what the service says in the end:
// the same rules judge cells in virtual time and storms over processes.
var faultMutations = []mutation{
	{"an ended job keeps its unique key", simEnd, "if j.Has(records.FlagUnique) {", "if j.Has(records.FlagUnique) && false {"},
	{"a unique key isn't asked", simEnqueue, "l, held := x.lock(c.NS, keys.Unique, c.Queue, c.UniqueKey)\n\tif !held {", "l, held := x.lock(c.NS, keys.Unique, c.Queue, c.UniqueKey)\n\tif !held || c.ID != l.Owner {"},
	{"a repeated call is made again", simEnqueue, "if l, held := x.lock(c.NS, keys.Idempotency, c.Queue, c.IdempotencyKey); held {", "if l, held := x.lock(c.NS, keys.Idempotency, c.Queue, c.IdempotencyKey); held && len(c.Queue) == 4 {"},
	{"a job is handed to a worker twice", simHandedOut, "\tfor i := range grants {\n\t\tout[i] = fetched(&grants[i])\n\t}\n\treturn out\n", "\tfor i := range grants {\n\t\tout[i] = fetched(&grants[i])\n\t\tif len(grants[i].Queue) != 4 {\n\t\t\tout = append(out, fetched(&grants[i]))\n\t\t}\n\t}\n\treturn out\n"},
	{"a payload is cut off", simHandedOut, "PayloadJson: string(g.Payload),", "PayloadJson: string(g.Payload[:len(g.Payload)-min(1, len(g.Payload))]),"},
	{"a result is lost", simAck, "\tif c.Result != nil {", "\tif c.Result != nil && len(c.ID) == 0 {"},
	{"the first failure is the last", simFail, "case j.Attempt >= j.Retry.MaxRetries:", "case j.Attempt >= 1:"},
	{"the first lost lease is the last", simLease, "done := j.Crashes >= CrashLimit", "done := j.Crashes >= 1"},
	{"a retry comes at once", simFail, "x.enterFor(j, job.Retrying, max(retryDelay(c, j), 1))", "x.enterFor(j, job.Retrying, min(retryDelay(c, j), 1))"},
	{"a delay is none", simCreate, "x.enterTimed(&j, job.Scheduled, c.ScheduledAt)", "x.enterTimed(&j, job.Scheduled, min(c.ScheduledAt, x.now+1))"},
	{"an attempt is counted twice", simFetch, "\tj.Attempt++\n", "\tj.Attempt += 2\n"},
	{"a throttle always has room", simThrottle, "return max(room, 0)", "return max(room, 1)"},
	{"most ticks are missed", simTick, "if at < s.Since {", "if (at/1e9)%60 > 20 {\n\t\t\ts.Missed++\n\t\t}\n\t\tif at < s.Since || (at/1e9)%60 > 20 {"},
	{"nobody hears of a chain's failure", simChain, "if c.OnFailure == nil || !s.OnFailure.IsZero() {", "if c.OnFailure == nil || s.OnFailure.IsZero() {"},
}
