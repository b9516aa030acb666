package state

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// table says of each kind of command how it is applied, and what a proposer must know of
// that before it is. Nobody else lists commands: who builds an entry asks the functions
// below.
var table = tableOf(
	on((*entry).enqueue,
		// One that waits for other jobs may end at once, for what they are, and another one
		// follow on it.
		requeues(func(c *command.Enqueue) bool { return len(c.DependsOn) > 0 && (c.Chain != nil || !c.Batch.IsZero()) })),
	on((*entry).fetch),
	on((*entry).ack,
		settles(func(c *command.Ack) (job.ID, command.Holder) { return c.ID, c.By }),
		requeues(func(c *command.Ack) bool { return c.Agent == command.AgentContinue })),
	on((*entry).fail,
		settles(func(c *command.Fail) (job.ID, command.Holder) { return c.ID, c.By }),
		requeues(func(c *command.Fail) bool { return c.Release })),
	on((*entry).heartbeat),
	on((*entry).extend),
	on((*entry).fire,
		requeues(func(c *command.Fire) bool { return c.Due.Kind != keys.DueUnique && c.Due.Kind != keys.DueIdempotency })),
	on((*entry).cancel, ends(func(c *command.Cancel) job.ID { return c.ID })),
	on((*entry).retry, requeues(always[*command.Retry])),
	on((*entry).delete, ends(func(c *command.Delete) job.ID { return c.ID })),
	on((*entry).move, requeues(always[*command.Move])),
	on((*entry).prioritize, requeues(always[*command.Prioritize])),
	on((*entry).requeue, requeues(always[*command.Requeue])),
	on((*entry).holdJob),
	on((*entry).decide,
		ends(func(c *command.Decide) job.ID { return c.ID }),
		requeues(func(c *command.Decide) bool { return c.Approve })),
	on((*entry).pause),
	on((*entry).setQueue),
	on((*entry).deleteQueue),
	on((*entry).clearQueue),
	on((*entry).sweep,
		requeues(always[*command.Sweep]),
		removes(func(c *command.Sweep, each func(job.ID)) {
			for _, id := range c.Jobs {
				each(id)
			}
		})),
	on[*command.Atomic](nil), // About the commands behind it: see next.
	on((*entry).makeBatch),
	on((*entry).sealBatch, requeues(always[*command.SealBatch])),
	on((*entry).putSchedule),
	on((*entry).deleteSchedule),
	on((*entry).tick, requeues(always[*command.Tick])),
	on((*entry).putBudget),
	on((*entry).deleteBudget),
	on((*entry).putPolicy),
	on((*entry).deletePolicy),
	on[*command.Audit](nil), // About the commands behind it: see next.
	on((*entry).auditCollected),
	on((*entry).endNamespace),
	on((*entry).sweepNamespaceThatStands,
		removes(func(c *command.SweepNamespace, each func(job.ID)) {
			for i := range c.Due {
				each(c.Due[i].ID)
			}
		})),
	on((*entry).trimEvents),
	on((*entry).deleteEnded),
	on((*entry).trimReadings, since[*command.TrimReadings](cellversion.Metering)),
)

// row is what the table says of one kind. What is nil the command does not do.
type row struct {
	kind command.Kind
	// since is the version of the cell that brought the command, and parts the one that the
	// parts of a single command need, where there are newer ones.
	since    cellversion.Version
	parts    func(command.Command) cellversion.Version
	apply    func(*entry, command.Command) Result
	requeues func(command.Command) bool
	ends     func(command.Command) job.ID
	settles  func(command.Command) (job.ID, command.Holder)
	removes  func(c command.Command, each func(job.ID))
}

// effect is something that commands of a type may do.
type effect[C command.Command] func(*row)

func on[C interface {
	*T
	command.Command
}, T any](apply func(*entry, C) Result, effects ...effect[C]) row {
	r := row{kind: command.KindOf(C(new(T))), since: cellversion.First}
	if apply != nil {
		r.apply = func(x *entry, c command.Command) Result { return apply(x, c.(C)) }
	}
	for _, e := range effects {
		e(&r)
	}
	return r
}

// since is for a command that a version after the first brought.
func since[C command.Command](v cellversion.Version) effect[C] { return func(r *row) { r.since = v } }

// needs is for a command of which some version after the first brought a part: a bit of
// its mask, or a value. It says which version a command needs.
func needs[C command.Command](which func(C) cellversion.Version) effect[C] {
	return func(r *row) { r.parts = func(c command.Command) cellversion.Version { return which(c.(C)) } }
}

func requeues[C command.Command](when func(C) bool) effect[C] {
	return func(r *row) { r.requeues = func(c command.Command) bool { return when(c.(C)) } }
}

func always[C command.Command](C) bool { return true }

func ends[C command.Command](which func(C) job.ID) effect[C] {
	return func(r *row) { r.ends = func(c command.Command) job.ID { return which(c.(C)) } }
}

func settles[C command.Command](which func(C) (job.ID, command.Holder)) effect[C] {
	return func(r *row) {
		r.settles = func(c command.Command) (job.ID, command.Holder) { return which(c.(C)) }
		r.ends = func(c command.Command) job.ID { id, _ := which(c.(C)); return id }
	}
}

func removes[C command.Command](which func(c C, each func(job.ID))) effect[C] {
	return func(r *row) { r.removes = func(c command.Command, each func(job.ID)) { which(c.(C), each) } }
}

func tableOf(rows ...row) (t [command.Kinds]row) {
	for _, r := range rows {
		if t[r.kind].kind != 0 {
			panic(fmt.Sprintf("state: kind %d stands twice in the table", r.kind))
		}
		t[r.kind] = r
	}
	return t
}

func (x *entry) apply(c command.Command) Result {
	apply := table[command.KindOf(c)].apply
	if apply == nil {
		statedb.Check(fmt.Errorf("%w: no apply function", command.ErrMalformed))
	}
	return apply(x, c)
}

// Since is the version of the cell that a command needs: below it no leader proposes the
// command, and no replica applies it.
func Since(c command.Command) cellversion.Version {
	r := &table[command.KindOf(c)]
	if r.parts == nil {
		return r.since
	}
	return max(r.since, r.parts(c))
}

// checkVersion finds a command that the version in force does not have. A program that
// does not know a newer version than that has no such command.
func checkVersion(cmds []command.Command, version cellversion.Version) error {
	if version >= cellversion.Highest {
		return nil
	}
	for _, c := range cmds {
		if err := tooNew(c, version); err != nil {
			return err
		}
	}
	return nil
}

func tooNew(c command.Command, version cellversion.Version) error {
	if need := Since(c); need > max(version, cellversion.First) {
		return fmt.Errorf("%w: %T needs version %d, and the entry has version %d", cellversion.ErrSkew, c, need, version)
	}
	return nil
}

// MayRequeue reports whether a command may put a job into a ready order ahead of the jobs
// that the entry enqueues behind it.
func MayRequeue(c command.Command) bool {
	when := table[command.KindOf(c)].requeues
	return when != nil && when(c)
}

// MayEnd is the job that a command may end.
func MayEnd(c command.Command) (job.ID, bool) {
	which := table[command.KindOf(c)].ends
	if which == nil {
		return job.ID{}, false
	}
	return which(c), true
}

// Settles is the job whose lease a command ends if by holds it.
func Settles(c command.Command) (id job.ID, by command.Holder, ok bool) {
	which := table[command.KindOf(c)].settles
	if which == nil {
		return job.ID{}, command.Holder{}, false
	}
	id, by = which(c)
	return id, by, true
}

// EachUnleased calls each with the jobs of which a command that was accepted ended the
// lease, or removed it together with the job.
func EachUnleased(c command.Command, each func(job.ID)) {
	if id, _, ok := Settles(c); ok {
		each(id)
	} else if which := table[command.KindOf(c)].removes; which != nil {
		which(c, each)
	}
}
