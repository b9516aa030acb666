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
	kindTogether
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
	kindAuditTaken
	kindEndNamespace
	kindSweepNamespace
	kindTrimFeed
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
	kindTogether:       made[Together],
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
	kindAuditTaken:     made[AuditTaken],
	kindEndNamespace:   made[EndNamespace],
	kindSweepNamespace: made[SweepNamespace],
	kindTrimFeed:       made[TrimFeed],
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
func KindOf(c Command) Kind { return c.kind() }

// NamespaceOf is the namespace that a command is about; false for those that are about
// the shard, and for Together, which is about the commands behind it.
func NamespaceOf(c Command) (job.Namespace, bool) { return c.namespace() }

func (c *Enqueue) kind() Kind { return kindEnqueue }

func (c *Fetch) kind() Kind { return kindFetch }

func (c *Ack) kind() Kind { return kindAck }

func (c *Fail) kind() Kind { return kindFail }

func (c *Heartbeat) kind() Kind { return kindHeartbeat }

func (c *Extend) kind() Kind { return kindExtend }

func (c *Fire) kind() Kind { return kindFire }

func (c *Cancel) kind() Kind { return kindCancel }

func (c *Retry) kind() Kind { return kindRetry }

func (c *Delete) kind() Kind { return kindDelete }

func (c *Move) kind() Kind { return kindMove }

func (c *Prioritize) kind() Kind { return kindPrioritize }

func (c *Requeue) kind() Kind { return kindRequeue }

func (c *Hold) kind() Kind { return kindHold }

func (c *Decide) kind() Kind { return kindDecide }

func (c *Pause) kind() Kind { return kindPause }

func (c *SetQueue) kind() Kind { return kindSetQueue }

func (c *DeleteQueue) kind() Kind { return kindDeleteQueue }

func (c *ClearQueue) kind() Kind { return kindClearQueue }

func (c *Sweep) kind() Kind { return kindSweep }

func (c *Together) kind() Kind { return kindTogether }

func (c *MakeBatch) kind() Kind { return kindMakeBatch }

func (c *SealBatch) kind() Kind { return kindSealBatch }

func (c *PutSchedule) kind() Kind { return kindPutSchedule }

func (c *DeleteSchedule) kind() Kind { return kindDeleteSchedule }

func (c *Tick) kind() Kind { return kindTick }

func (c *PutBudget) kind() Kind { return kindPutBudget }

func (c *DeleteBudget) kind() Kind { return kindDeleteBudget }

func (c *PutPolicy) kind() Kind { return kindPutPolicy }

func (c *DeletePolicy) kind() Kind { return kindDeletePolicy }

func (c *Audit) kind() Kind { return kindAudit }

func (c *AuditTaken) kind() Kind { return kindAuditTaken }

func (c *EndNamespace) kind() Kind { return kindEndNamespace }

func (c *SweepNamespace) kind() Kind { return kindSweepNamespace }

func (c *TrimFeed) kind() Kind { return kindTrimFeed }

func (c *Enqueue) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Fetch) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Ack) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Fail) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Heartbeat) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Extend) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Fire) namespace() (job.Namespace, bool) { return c.Due.NS, true }

func (c *Cancel) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Retry) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Delete) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Move) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Prioritize) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Requeue) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Hold) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Decide) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Pause) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *SetQueue) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *DeleteQueue) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *ClearQueue) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Sweep) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Together) namespace() (job.Namespace, bool) { return job.Namespace{}, false }

func (c *MakeBatch) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *SealBatch) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *PutSchedule) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *DeleteSchedule) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Tick) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *PutBudget) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *DeleteBudget) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *PutPolicy) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *DeletePolicy) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *Audit) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *AuditTaken) namespace() (job.Namespace, bool) { return job.Namespace{}, false }

func (c *EndNamespace) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *SweepNamespace) namespace() (job.Namespace, bool) { return c.NS, true }

func (c *TrimFeed) namespace() (job.Namespace, bool) { return job.Namespace{}, false }
