package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// applied is the record of how far the state is: written in the same batch as
// the mutations of the entry it names (law 3).
type applied struct {
	index  uint64
	term   uint64
	now    Times  // Of the last applied command entry.
	digest uint64 // Running digest over all command entries so far.
	// version of the cell under which the last command entry was applied.
	version cellversion.Version
	// Raft configuration in force and the index it came from. config is the
	// library's own encoding; empty until the first configuration entry.
	configIndex uint64
	config      []byte
}

const (
	appliedForm = 1
	appliedHead = 1 + 7*8
)

var errApplied = errors.New("malformed applied record")

func (a applied) encode() []byte {
	b := make([]byte, 0, appliedHead+len(a.config))
	b = append(b, appliedForm)
	for _, v := range [...]uint64{a.index, a.term, uint64(a.now.Lease), uint64(a.now.Calendar), a.digest, uint64(a.version), a.configIndex} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return append(b, a.config...)
}

func decodeApplied(b []byte) (applied, error) {
	if len(b) < appliedHead || b[0] != appliedForm {
		return applied{}, fmt.Errorf("%w: %d bytes", errApplied, len(b))
	}
	if binary.BigEndian.Uint64(b[1+8*5:]) > math.MaxUint32 {
		return applied{}, fmt.Errorf("%w: version of the cell", errApplied)
	}
	u := func(i int) uint64 { return binary.BigEndian.Uint64(b[1+8*i:]) }
	a := applied{index: u(0), term: u(1), now: Times{Lease: int64(u(2)), Calendar: int64(u(3))}, digest: u(4), version: cellversion.Version(u(5)), configIndex: u(6)}
	if len(b) > appliedHead {
		a.config = append([]byte(nil), b[appliedHead:]...)
	}
	return a, nil
}

// configuration decodes the raft configuration; the library panics on garbage,
// which the record's origin (our own batch) rules out.
func (a applied) configuration() raft.Configuration {
	if len(a.config) == 0 {
		return raft.Configuration{}
	}
	return raft.DecodeConfiguration(a.config)
}

// appliedKey is the first key of the group's span.
func appliedKey(g *statedb.Group) []byte {
	p := g.Prefix()
	return append(p[:], 0x00)
}

func loadApplied(g *statedb.Group) (applied, error) {
	return readApplied(g.Get, g)
}

func readApplied(get func([]byte) ([]byte, error), g *statedb.Group) (applied, error) {
	b, err := get(appliedKey(g))
	if errors.Is(err, statedb.ErrNotFound) {
		return applied{}, nil
	}
	if err != nil {
		return applied{}, fmt.Errorf("read applied record of group %d: %w", g.ID(), err)
	}
	a, err := decodeApplied(b)
	if err != nil {
		return applied{}, fmt.Errorf("applied record of group %d: %w", g.ID(), err)
	}
	return a, nil
}
