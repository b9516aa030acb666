package main

const (
	planlimits = "internal/edge/queue/planlimits.go"
	admitting  = "internal/edge/queue/admit.go"
	window     = "internal/engine/dispatch/dispatch.go"
	readings   = "internal/cell/proxyreadings.go"
	meters     = "proxy/meters.go"
	proxyUses  = "proxy/uses.go"
)

// planMutations break what the plan of a tenant holds back and refuses.
var planMutations = []mutation{
	{"ready jobs of a held tenant start", memory, "\tif t.held(q) {\n\t\treturn 0\n\t}\n", ""},
	{"a new job of a held tenant is promised", waiters, "|| t.held(q) ||", "||"},
	{"a hold that ends by itself opens late", memory, "at = stateread.Times{Calendar: q.heldUntil}", "at = stateread.Times{Calendar: q.heldUntil + 1<<40}"},
	{"a lifted hold wakes nobody", memory, "\t\tq.heldUntil = until(q.ns)\n\t}\n\tt.lookAgain()\n", "\t\tq.heldUntil = until(q.ns)\n\t}\n"},
	{"a queue that is read while it is held starts jobs", window, "heldUntil: t.until(ns)", "heldUntil: 0 * t.until(ns)"},
	{"an enqueue is refused after the hold has ended", planlimits, "if !h.Enqueue || h.over(now) {", "if !h.Enqueue {"},
	{"a hold of dispatch refuses enqueues", planlimits, "if !h.Enqueue || h.over(now) {", "if h.over(now) {"},
	{"a batch that goes beyond the limit fits", admitting, "has+uint64(more) > uint64(limit)", "has >= uint64(limit)"},
	{"a burst is no more than a second's worth", admitting, "if l.Burst > 0 {", "if l.Burst < 0 {"},
	{"an older reading replaces a newer one", readings, "if ok && had.GetSeq() >= r.GetSeq() {", "if ok && had.GetSeq() > 1<<60 {"},
	{"what a node has beyond its page is forgotten", readings, "more = more || r.GetMore()", "more = more && r.GetMore()"},
	{"a proxy that is gone is told of for ever", readings, "\t\tif now.Sub(t.heard) > tellerKept {\n\t\t\ts.forget(k)\n\t\t\tcontinue\n\t\t}\n", ""},
}

// proxyMutations break what proxies count.
var proxyMutations = []mutation{
	{"a stream counts only in the hour in which it began", meters, "\t\th.peak.Store(m.open)\n\t\tm.current.Store(h)", "\t\tm.current.Store(h)"},
	{"an hour without calls has no streams", meters, "\tif open {\n\t\tm.in(now)", "\tif open && now < 0 {\n\t\tm.in(now)"},
	{"a reading that changed keeps its number", meters, "h.toldEgress, h.toldPeak, h.seq = egress, peak, ms.seq", "h.toldEgress, h.toldPeak, h.seq = egress, peak, 1"},
	{"what comes late opens an hour that is over", meters, "h.hour >= hour {\n\t\treturn h\n\t}\n\tm.mu.Lock()\n\tdefer m.mu.Unlock()\n\th := m.current.Load()\n\tif h.hour < hour {", "h.hour == hour {\n\t\treturn h\n\t}\n\tm.mu.Lock()\n\tdefer m.mu.Unlock()\n\th := m.current.Load()\n\tif h.hour != hour {"},
	{"one node is told", proxyUses, "if told++; told == watchers {", "if told++; told == 1 {"},
	{"a stream that ended is open", meters, "\tm.open--\n", "\tm.open -= 0\n"},
}
