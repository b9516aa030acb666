package job

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// The other things of a namespace that have a name of their own. Like job ids they
// are ULIDs behind a prefix, opaque to callers.

// BatchID names a batch: jobs whose common end calls back.
type BatchID [16]byte

// ChainID names a chain: jobs that run one after the other.
type ChainID [16]byte

// ScheduleID names a cron schedule.
type ScheduleID [16]byte

// BudgetID names a budget.
type BudgetID [16]byte

// PolicyID names an approval policy.
type PolicyID [16]byte

const (
	batchPrefix    = "batch_"
	chainPrefix    = "chn_"
	schedulePrefix = "sched_"
	budgetPrefix   = "budget_"
	policyPrefix   = "apol_"
)

// String returns the public form, "batch_01J...".
func (id BatchID) String() string { return batchPrefix + encode32(id) }

// IsZero reports whether no id was set.
func (id BatchID) IsZero() bool { return id == BatchID{} }

// ParseBatchID reads the public form.
func ParseBatchID(s string) (BatchID, error) {
	b, err := parse(s, batchPrefix)
	return b, err
}

// String returns the public form, "chn_01J...".
func (id ChainID) String() string { return chainPrefix + encode32(id) }

// IsZero reports whether no id was set.
func (id ChainID) IsZero() bool { return id == ChainID{} }

// ParseChainID reads the public form.
func ParseChainID(s string) (ChainID, error) {
	b, err := parse(s, chainPrefix)
	return b, err
}

// String returns the public form, "sched_01J...".
func (id ScheduleID) String() string { return schedulePrefix + encode32(id) }

// IsZero reports whether no id was set.
func (id ScheduleID) IsZero() bool { return id == ScheduleID{} }

// ParseScheduleID reads the public form.
func ParseScheduleID(s string) (ScheduleID, error) {
	b, err := parse(s, schedulePrefix)
	return b, err
}

// String returns the public form, "budget_01J...".
func (id BudgetID) String() string { return budgetPrefix + encode32(id) }

// IsZero reports whether no id was set.
func (id BudgetID) IsZero() bool { return id == BudgetID{} }

// String returns the public form, "apol_01J...".
func (id PolicyID) String() string { return policyPrefix + encode32(id) }

// IsZero reports whether no id was set.
func (id PolicyID) IsZero() bool { return id == PolicyID{} }

// ParsePolicyID reads the public form.
func ParsePolicyID(s string) (PolicyID, error) {
	b, err := parse(s, policyPrefix)
	return b, err
}

// Derived is the id of the nth job that came out of base (a chain, a batch, a
// schedule) at now, in Unix nanoseconds: the same on every replica, and a ULID like
// every other id.
func Derived(now int64, base [16]byte, n uint64) ID {
	var id ID
	ms := uint64(now / int64(time.Millisecond))
	binary.BigEndian.PutUint64(id[:8], ms<<16)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(append([]byte(nil), base[:]...), n))
	copy(id[6:], sum[:10])
	return id
}
