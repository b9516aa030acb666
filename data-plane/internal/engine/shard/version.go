package shard

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// checkVersion refuses what the version of the cell does not have yet: replicas of an older
// program could not apply it.
func (s *Shard) checkVersion(r *Request) error {
	version := s.group.Version()
	need := max(needed(r.Settle, version), needed(r.After, version))
	if need <= version {
		return nil
	}
	return fault.New(fault.Invalid, "CELL_VERSION",
		"the call needs version %d of the cell, which is at version %d; nothing was done: the operator has to upgrade every node and then run `corvo-cloud cell raise-version`", need, version)
}

// needed is the version that commands need. A program that knows no newer version than
// the one in force has no command that needs one.
func needed(cmds []command.Command, version cellversion.Version) cellversion.Version {
	need := cellversion.First
	if version >= cellversion.Highest {
		return need
	}
	for _, c := range cmds {
		need = max(need, state.Since(c))
	}
	return need
}

// checkEntry is the last look before an entry goes to raft: what this replica made by
// itself must not need a newer version either.
func (t *term) checkEntry(b *batch) error {
	version := t.shard.group.Version()
	if need := needed(b.cmds, version); need > version {
		return fmt.Errorf("%w: an entry for version %d was built at version %d", cellversion.ErrSkew, need, version)
	}
	return nil
}
