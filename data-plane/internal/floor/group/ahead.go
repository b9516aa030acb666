package group

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// ahead is an entry of this replica's that was applied while the log stores it, and is not
// committed to the state yet: nobody sees anything of it.
type ahead struct {
	*part
	log    *raft.Log // Raft hands to a leader's machine the very entry that it stored.
	result any
}

// aheadLog has a leader's entries applied while they are stored.
type aheadLog struct {
	LogStore
	fsm *fsm
}

// StoreLog stores one entry.
func (l aheadLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores entries, and has one that was proposed here applied meanwhile.
func (l aheadLog) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 1 && l.fsm.proposed.has(logs[0]) {
		l.fsm.aheads.Go(func() { l.fsm.applyAhead(logs[0]) })
	}
	return l.LogStore.StoreLogs(logs)
}

// applyAhead applies an entry that is being stored, if it is the next one: then there is little left
// to do when it is committed. If something else is applied in its place, it was for nothing.
func (f *fsm) applyAhead(l *raft.Log) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if f.ahead != nil || l.Index != f.applied.index+1 {
		return
	}
	began := time.Now()
	defer func() { f.busy.Add(int64(time.Since(began))) }()
	p := f.newPart()
	f.ahead = &ahead{part: p, log: l, result: f.applyOne(p, l)}
}

// takeAhead is what was applied ahead, if that is l: then it is up to the caller to commit it. Anything
// else that was applied ahead is dropped: the state goes on without it. The caller has the turn.
func (f *fsm) takeAhead(l *raft.Log) *ahead {
	a := f.ahead
	if a != nil && a.log == l {
		f.ahead = nil
		return a
	}
	f.dropAhead()
	return nil
}

// dropAhead forgets what was applied ahead. The caller has the turn.
func (f *fsm) dropAhead() {
	if f.ahead == nil {
		return
	}
	f.check(f.ahead.txn.Discard())
	f.ahead = nil
	if err := f.machine.Reset(); err != nil {
		f.fatal(fmt.Errorf("reset machine of group %d: %w", f.store.ID(), err))
	}
}

// endAhead waits for what is being applied ahead and drops it. Nothing is stored any more.
func (f *fsm) endAhead() {
	f.aheads.Wait()
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.dropAhead()
}
