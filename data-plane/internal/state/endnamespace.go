package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/stateread"
)

// isEnded reports whether a command's namespace was ended. Mostly none is, and then it
// costs a command nothing.
func (x *entry) isEnded(c command.Command) (bool, error) {
	if x.m.ended == nil {
		if err := x.m.loadEnded(); err != nil {
			return false, err
		}
	}
	if len(x.m.ended) == 0 {
		return false, nil
	}
	ns, ok := command.NamespaceOf(c)
	if !ok {
		return false, nil
	}
	_, ended := x.m.ended[ns]
	return ended, nil
}

// loadEnded reads which namespaces were ended; apply keeps them from then on.
func (m *Machine) loadEnded() error {
	list, err := stateread.ReadEndedNamespaces(m.store)
	if err != nil {
		return err
	}
	m.ended = make(map[job.Namespace]records.EndedMark, len(list))
	for _, e := range list {
		m.ended[e.NS] = records.EndedMark{At: e.At, Swept: e.Swept}
	}
	return nil
}

// afterTheEnd answers a command about a namespace that was ended. Of all of them only the
// sweep does anything; a due row that comes up before the sweep goes.
func (x *entry) afterTheEnd(c command.Command) (Result, error) {
	switch c := c.(type) {
	case *command.EndNamespace:
		return Result{}, nil // Repeated.
	case *command.SweepNamespace:
		return x.sweepNamespace(c)
	case *command.Fire:
		if c.Due.Kind == keys.DueAudit {
			return x.fire(c) // It only records an act.
		}
		x.txn.Delete(x.m.space.Due(c.Due))
	case *command.Tick:
		x.txn.Delete(x.m.space.Due(keys.Due{At: c.Due, Kind: keys.DueSchedule, NS: c.NS, ID: job.ID(c.ID)}))
	}
	return Result{Refusal: NamespaceGone}, nil
}

// sweepNamespaceThatStands is a sweep of a namespace that was never ended, or of which that
// is forgotten.
func (x *entry) sweepNamespaceThatStands(*command.SweepNamespace) (Result, error) {
	return Result{Refusal: WrongState}, nil
}

// endNamespace removes everything of a namespace in one small entry: its own rows are one
// span, and so are the marks of its deleted queues. Rows of the group that name it (due
// rows, events) do nothing from now on, and wait for sweepNamespace. Records of who did
// what stay until they were taken and are old.
func (x *entry) endNamespace(c *command.EndNamespace) (Result, error) {
	ns := c.NS
	for _, span := range x.m.space.NamespaceButAudit(ns) {
		x.txn.DeleteRange(span[0], span[1])
	}
	x.txn.DeleteRange(x.m.space.SweepsOf(ns))
	x.forgetNamespace(ns)
	mark := records.EndedMark{At: x.now}
	x.txn.Set(x.m.space.Ended(ns), mark.Encode())
	x.m.ended[ns] = mark
	x.out.Ended = append(x.out.Ended, ns)
	return Result{}, nil
}

// forgetNamespace drops what caches and the entry itself hold of a namespace: the end of
// the entry would write it again.
func (x *entry) forgetNamespace(ns job.Namespace) {
	m := x.m
	maps.DeleteFunc(m.queues, func(k queueKey, _ *queueRecord) bool { return k.ns == ns })
	maps.DeleteFunc(m.leased, func(k jobKey, _ records.Head) bool { return k.ns == ns })
	delete(m.marks, ns)
	delete(m.purses, ns)
	delete(m.policies, ns)
	x.dirty = slices.DeleteFunc(x.dirty, func(q *queueRecord) bool { return q.key.ns == ns })
	x.events = slices.DeleteFunc(x.events, func(e feed.Event) bool { return e.NS == ns })
	x.links = slices.DeleteFunc(x.links, func(l feed.Link) bool { return l.NS == ns })
	x.out.Ready = slices.DeleteFunc(x.out.Ready, func(r Ready) bool { return r.NS == ns })
	x.out.Unready = slices.DeleteFunc(x.out.Unready, func(r Ready) bool { return r.NS == ns })
}

// sweepNamespace removes rows that the leader found, in pieces; in the end nothing tells
// of the namespace any more.
func (x *entry) sweepNamespace(c *command.SweepNamespace) (Result, error) {
	for i := range c.Due {
		x.txn.Delete(x.m.space.Due(c.Due[i]))
	}
	for _, index := range c.Feed {
		if err := x.dropEvents(c.NS, index); err != nil {
			return Result{}, err
		}
	}
	mark := x.m.ended[c.NS]
	switch {
	case c.Forget && mark.Swept:
		x.txn.DeleteRange(x.m.space.NamespaceSpan(c.NS)) // Where its audit records were.
		x.txn.Delete(x.m.space.Ended(c.NS))
		delete(x.m.ended, c.NS)
	case c.Done && !mark.Swept:
		mark.Swept = true
		x.txn.Set(x.m.space.Ended(c.NS), mark.Encode())
		x.m.ended[c.NS] = mark
	}
	return Result{}, nil
}

// dropEvents takes the events of a namespace out of an entry of the feed.
func (x *entry) dropEvents(ns job.Namespace, index uint64) error {
	key := x.m.space.Feed(index)
	v, err := x.txn.Get(key)
	if errors.Is(err, statedb.ErrNotFound) || index == 0 || index >= x.index {
		return nil // Trimmed since.
	}
	if err != nil {
		return fmt.Errorf("read feed entry %d: %w", index, err)
	}
	rest, err := feed.Without(v, ns)
	if err != nil {
		return fmt.Errorf("feed entry %d: %w", index, err)
	}
	if rest == nil {
		x.txn.Delete(key)
		return nil
	}
	x.txn.Set(key, rest)
	return nil
}
