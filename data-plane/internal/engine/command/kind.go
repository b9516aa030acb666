package command

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Kind is the number of a command's type in the log.
type Kind uint8

// Stored in the log: append only.
const (
	kindEnqueue Kind = iota + 1
	kindFetch
	kindAck
	kindFail
	kindHeartbeat
	kindExtend
	kindFire
	kindCancel
	kindRetry
	kindDelete
	kindMove
	kindPrioritize
	kindRequeue
	kindHold
	kindDecide
	kindPause
	kindSetQueue
	kindDeleteQueue
	kindClearQueue
	kindSweep
	kindAtomic
	kindMakeBatch
	kindSealBatch
	kindPutSchedule
	kindDeleteSchedule
	kindTick
	kindPutBudget
	kindDeleteBudget
	kindPutPolicy
	kindDeletePolicy
	kindAudit
	kindAuditCollected
	kindEndNamespace
	kindSweepNamespace
	kindTrimEvents
	kindDeleteEnded
	kindTrimReadings
	kindsEnd
)

// Kinds is how many kinds there are, and one for the kind 0 that nothing has.
const Kinds = int(kindsEnd)

// makers make an empty command of each kind, to be decoded into.
var makers = [Kinds]func() Command{
	kindEnqueue:        made[Enqueue],
	kindFetch:          made[Fetch],
	kindAck:            made[Ack],
	kindFail:           made[Fail],
	kindHeartbeat:      made[Heartbeat],
	kindExtend:         made[Extend],
	kindFire:           made[Fire],
	kindCancel:         made[Cancel],
	kindRetry:          made[Retry],
	kindDelete:         made[Delete],
	kindMove:           made[Move],
	kindPrioritize:     made[Prioritize],
	kindRequeue:        made[Requeue],
	kindHold:           made[Hold],
	kindDecide:         made[Decide],
	kindPause:          made[Pause],
	kindSetQueue:       made[SetQueue],
	kindDeleteQueue:    made[DeleteQueue],
	kindClearQueue:     made[ClearQueue],
	kindSweep:          made[Sweep],
	kindAtomic:         made[Atomic],
	kindMakeBatch:      made[MakeBatch],
	kindSealBatch:      made[SealBatch],
	kindPutSchedule:    made[PutSchedule],
	kindDeleteSchedule: made[DeleteSchedule],
	kindTick:           made[Tick],
	kindPutBudget:      made[PutBudget],
	kindDeleteBudget:   made[DeleteBudget],
	kindPutPolicy:      made[PutPolicy],
	kindDeletePolicy:   made[DeletePolicy],
	kindAudit:          made[Audit],
	kindAuditCollected: made[AuditCollected],
	kindEndNamespace:   made[EndNamespace],
	kindSweepNamespace: made[SweepNamespace],
	kindTrimEvents:     made[TrimEvents],
	kindDeleteEnded:    made[DeleteEnded],
	kindTrimReadings:   made[TrimReadings],
}

func made[T any, C interface {
	*T
	Command
}]() Command {
	return C(new(T))
}

func newCommand(k Kind) (Command, error) {
	if k == 0 || int(k) >= Kinds {
		return nil, fmt.Errorf("%w: unknown command %d", ErrMalformed, k)
	}
	return makers[k](), nil
}

// KindOf is the kind of a command.
func KindOf(c Command) Kind {
	k, _ := c.about()
	return k
}

// NamespaceOf is the namespace that a command is about; false for those that are about
// the shard, and for Atomic, which is about the commands behind it.
func NamespaceOf(c Command) (job.Namespace, bool) {
	_, ns := c.about()
	if ns == nil {
		return job.Namespace{}, false
	}
	return *ns, true
}

func (c *Enqueue) about() (Kind, *job.Namespace) { return kindEnqueue, &c.NS }

func (c *Fetch) about() (Kind, *job.Namespace) { return kindFetch, &c.NS }

func (c *Ack) about() (Kind, *job.Namespace) { return kindAck, &c.NS }

func (c *Fail) about() (Kind, *job.Namespace) { return kindFail, &c.NS }

func (c *Heartbeat) about() (Kind, *job.Namespace) { return kindHeartbeat, &c.NS }

func (c *Extend) about() (Kind, *job.Namespace) { return kindExtend, &c.NS }

func (c *Fire) about() (Kind, *job.Namespace) { return kindFire, &c.Due.NS }

func (c *Cancel) about() (Kind, *job.Namespace) { return kindCancel, &c.NS }

func (c *Retry) about() (Kind, *job.Namespace) { return kindRetry, &c.NS }

func (c *Delete) about() (Kind, *job.Namespace) { return kindDelete, &c.NS }

func (c *Move) about() (Kind, *job.Namespace) { return kindMove, &c.NS }

func (c *Prioritize) about() (Kind, *job.Namespace) { return kindPrioritize, &c.NS }

func (c *Requeue) about() (Kind, *job.Namespace) { return kindRequeue, &c.NS }

func (c *Hold) about() (Kind, *job.Namespace) { return kindHold, &c.NS }

func (c *Decide) about() (Kind, *job.Namespace) { return kindDecide, &c.NS }

func (c *Pause) about() (Kind, *job.Namespace) { return kindPause, &c.NS }

func (c *SetQueue) about() (Kind, *job.Namespace) { return kindSetQueue, &c.NS }

func (c *DeleteQueue) about() (Kind, *job.Namespace) { return kindDeleteQueue, &c.NS }

func (c *ClearQueue) about() (Kind, *job.Namespace) { return kindClearQueue, &c.NS }

func (c *Sweep) about() (Kind, *job.Namespace) { return kindSweep, &c.NS }

func (c *Atomic) about() (Kind, *job.Namespace) { return kindAtomic, nil }

func (c *MakeBatch) about() (Kind, *job.Namespace) { return kindMakeBatch, &c.NS }

func (c *SealBatch) about() (Kind, *job.Namespace) { return kindSealBatch, &c.NS }

func (c *PutSchedule) about() (Kind, *job.Namespace) { return kindPutSchedule, &c.NS }

func (c *DeleteSchedule) about() (Kind, *job.Namespace) { return kindDeleteSchedule, &c.NS }

func (c *Tick) about() (Kind, *job.Namespace) { return kindTick, &c.NS }

func (c *PutBudget) about() (Kind, *job.Namespace) { return kindPutBudget, &c.NS }

func (c *DeleteBudget) about() (Kind, *job.Namespace) { return kindDeleteBudget, &c.NS }

func (c *PutPolicy) about() (Kind, *job.Namespace) { return kindPutPolicy, &c.NS }

func (c *DeletePolicy) about() (Kind, *job.Namespace) { return kindDeletePolicy, &c.NS }

func (c *Audit) about() (Kind, *job.Namespace) { return kindAudit, &c.NS }

func (c *AuditCollected) about() (Kind, *job.Namespace) { return kindAuditCollected, nil }

func (c *EndNamespace) about() (Kind, *job.Namespace) { return kindEndNamespace, &c.NS }

func (c *SweepNamespace) about() (Kind, *job.Namespace) { return kindSweepNamespace, &c.NS }

func (c *TrimEvents) about() (Kind, *job.Namespace) { return kindTrimEvents, &c.NS }

func (c *DeleteEnded) about() (Kind, *job.Namespace) { return kindDeleteEnded, &c.NS }

func (c *TrimReadings) about() (Kind, *job.Namespace) { return kindTrimReadings, nil }
