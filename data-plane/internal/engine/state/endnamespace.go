package state

import (
	"maps"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// endNamespace removes everything of a namespace in one small entry: its own rows are one
// span, and so are the marks of its deleted queues. Rows of the group that name it (due
// rows, events) do nothing from now on, and wait for sweepNamespace. Records of who did
// what stay until they were taken and are old.
func (x *entry) endNamespace(c *command.EndNamespace) Result {
	ns := c.NS
	for _, span := range x.m.space.NamespaceButAudit(ns) {
		x.txn.DeleteRange(span[0], span[1])
	}
	x.txn.DeleteRange(x.m.space.SweepsOf(ns))
	x.forgetNamespace(ns)
	x.meterEnded(ns)
	mark := records.EndedMark{At: x.now}
	x.txn.Set(x.m.space.Ended(ns), mark.Encode())
	x.m.ended[ns] = mark
	x.out.Ended = append(x.out.Ended, ns)
	return Result{}
}

// forgetNamespace drops what caches and the entry itself hold of a namespace: the end of
// the entry would write it again.
func (x *entry) forgetNamespace(ns job.Namespace) {
	m := x.m
	maps.DeleteFunc(m.queues, func(k queueKey, _ *queueRecord) bool { return k.ns == ns })
	maps.DeleteFunc(m.leased, func(k jobKey, _ records.Head) bool { return k.ns == ns })
	delete(m.marks, ns)
	delete(m.budgets, ns)
	delete(m.policies, ns)
	x.dirty = slices.DeleteFunc(x.dirty, func(q *queueRecord) bool { return q.key.ns == ns })
	x.events = slices.DeleteFunc(x.events, func(e feed.Event) bool { return e.NS == ns })
	x.out.Ready = slices.DeleteFunc(x.out.Ready, func(r Ready) bool { return r.NS == ns })
	x.out.Unready = slices.DeleteFunc(x.out.Unready, func(r Ready) bool { return r.NS == ns })
}
