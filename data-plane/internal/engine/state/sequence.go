package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// sequence is what the commands of an entry say of those that follow them.
type sequence struct {
	group callGroup // What is left of the last Atomic.
	act   *act      // The administrative act that the next commands are; nil: none.
}

// next applies the first of the commands of the entry that are left, and what follows
// from it.
func (s *sequence) next(x *entry, cmds []command.Command) Result {
	res := s.apply(x, cmds)
	x.carryOut()
	s.countAct(x, cmds[0], &res)
	return res
}

func (s *sequence) apply(x *entry, cmds []command.Command) (res Result) {
	switch c := cmds[0].(type) {
	case *command.Atomic:
		s.group, res = x.atomic(c, cmds[1:])
		return res
	case *command.Audit:
		if x.isEnded(c) {
			return Result{Refusal: NamespaceGone}
		}
		s.act = newAct(c, len(cmds)-1)
		return Result{}
	}
	if s.group.left == 0 {
		return x.take(cmds[0], false)
	}
	s.group.left--
	if s.group.why != Accepted {
		return Result{Refusal: s.group.why}
	}
	if _, enqueue := cmds[0].(*command.Enqueue); !enqueue && s.group.first != nil {
		return Result{Batch: s.group.first.Batch, Replayed: true}
	}
	return x.take(cmds[0], true)
}

// countAct counts what became of a command that belongs to an act, and records the act
// after its last one.
func (s *sequence) countAct(x *entry, c command.Command, res *Result) {
	a := s.act
	if a == nil {
		return
	}
	if a.said != c {
		a.left--
		a.count(c, res)
	}
	if a.left > 0 {
		return
	}
	s.act = nil
	x.recordAct(a)
}

// take applies a command, unless its namespace was ended. A new job may have been admitted
// along with its group.
func (x *entry) take(c command.Command, admitted bool) Result {
	if x.isEnded(c) {
		return x.afterTheEnd(c)
	}
	if e, ok := c.(*command.Enqueue); ok && admitted {
		return x.enqueueNew(e, true)
	}
	return x.apply(c)
}
