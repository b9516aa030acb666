package state

import "github.com/corvo-cloud/corvo/data-plane/internal/engine/command"

// sequence is what the commands of an entry say of those that follow them.
type sequence struct {
	group callGroup // What is left of the last Atomic.
	act   *act      // The administrative act that the next commands are; nil: none.
}

// next applies the first of the commands of the entry that are left, and what follows
// from it.
func (s *sequence) next(x *entry, cmds []command.Command) (Result, error) {
	res, err := s.apply(x, cmds)
	if err == nil {
		err = x.carryOut()
	}
	if err == nil {
		err = s.countAct(x, cmds[0], &res)
	}
	return res, err
}

func (s *sequence) apply(x *entry, cmds []command.Command) (res Result, err error) {
	switch c := cmds[0].(type) {
	case *command.Atomic:
		s.group, res, err = x.atomic(c, cmds[1:])
		return res, err
	case *command.Audit:
		if ended, err := x.isEnded(c); err != nil || ended {
			return Result{Refusal: NamespaceGone}, err
		}
		s.act = newAct(c, len(cmds)-1)
		return Result{}, nil
	}
	if s.group.left == 0 {
		return x.take(cmds[0], false)
	}
	s.group.left--
	if s.group.why != Accepted {
		return Result{Refusal: s.group.why}, nil
	}
	if _, enqueue := cmds[0].(*command.Enqueue); !enqueue && s.group.first != nil {
		return Result{Batch: s.group.first.Batch, Replayed: true}, nil
	}
	return x.take(cmds[0], true)
}

// countAct counts what became of a command that belongs to an act, and records the act
// after its last one.
func (s *sequence) countAct(x *entry, c command.Command, res *Result) error {
	a := s.act
	if a == nil {
		return nil
	}
	if a.said != c {
		a.left--
		a.count(c, res)
	}
	if a.left > 0 {
		return nil
	}
	s.act = nil
	return x.recordAct(a)
}

// take applies a command, unless its namespace was ended. A new job may have been admitted
// along with its group.
func (x *entry) take(c command.Command, admitted bool) (Result, error) {
	if ended, err := x.isEnded(c); err != nil {
		return Result{}, err
	} else if ended {
		return x.afterTheEnd(c)
	}
	if e, ok := c.(*command.Enqueue); ok && admitted {
		return x.enqueueNew(e, true)
	}
	return x.apply(c)
}
