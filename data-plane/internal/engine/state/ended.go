package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// isEnded reports whether a command's namespace was ended. Mostly none is, and then it
// costs a command nothing.
func (x *entry) isEnded(c command.Command) bool {
	if x.m.ended == nil {
		x.m.loadEnded()
	}
	if len(x.m.ended) == 0 {
		return false
	}
	ns, ok := command.NamespaceOf(c)
	if !ok {
		return false
	}
	_, ended := x.m.ended[ns]
	return ended
}

// loadEnded reads which namespaces were ended; apply keeps them from then on.
func (m *Machine) loadEnded() {
	list := statedb.Must(stateread.ReadEndedNamespaces(m.store))
	m.ended = make(map[job.Namespace]records.EndedMark, len(list))
	for _, e := range list {
		m.ended[e.NS] = records.EndedMark{At: e.At, Swept: e.Swept}
	}
}

// afterTheEnd answers a command about a namespace that was ended. Of all of them only the
// sweep does anything; a due row that comes up before the sweep goes.
func (x *entry) afterTheEnd(c command.Command) Result {
	switch c := c.(type) {
	case *command.EndNamespace:
		return Result{} // Repeated.
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
	return Result{Refusal: NamespaceGone}
}
