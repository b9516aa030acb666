// Package command owns every change that can be asked of the jobs of a shard, as
// typed values, and the one versioned codec by which they enter the raft log. A
// command is complete: ids, times and every choice were made by the proposer, so
// that applying it needs nothing but the state (law 2).
//
// It knows neither how a command is applied (state) nor who proposes it (shard).
// Kind numbers are append-only; an unknown kind stops the node, it is never
// skipped. What only some commands of a kind say stands behind a mask of its parts, so
// that a plain one stays short.
package command

import (
	"errors"
	"fmt"
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Command is one of the types of this package.
type Command interface {
	// about is the command's kind, and where it keeps the namespace that it is about; nil
	// for those about the shard, and for Atomic, which is about the commands behind it.
	about() (Kind, *job.Namespace)
	Fields(f *codec.Fields)
}

const (
	version = 1
	// CommandsMax bounds one entry; the proposer closes a batch before it.
	CommandsMax = 16384
)

// ErrMalformed is returned for bytes that are not a list of known commands.
var ErrMalformed = errors.New("malformed commands")

// Encode writes the payload of one log entry.
func Encode(cmds []Command) []byte {
	w := codec.Writer{Buf: make([]byte, 0, 64+96*len(cmds))}
	w.Byte(version)
	w.Uint(uint64(len(cmds)))
	f := codec.Writing(w)
	for _, c := range cmds {
		f.Writer().Byte(byte(KindOf(c)))
		c.Fields(&f)
	}
	return f.Written()
}

// Size is how many bytes commands take in an entry.
func Size(cmds []Command) int {
	if len(cmds) == 0 {
		return 0
	}
	f := measures.Get().(*codec.Fields)
	defer measures.Put(f)
	n := 0
	for _, c := range cmds {
		w := f.Writer()
		w.Buf, w.Left = w.Buf[:0], 0
		c.Fields(f)
		n += 1 + len(w.Buf) + w.Left
	}
	return n
}

// measures spares every call a buffer. None grows beyond the largest command without its
// texts.
var measures = sync.Pool{New: func() any {
	f := codec.Writing(codec.Writer{Measure: true})
	return &f
}}

// Decode reads the payload of one log entry. Byte slices alias b.
func Decode(b []byte) ([]Command, error) {
	f := codec.Reading(b)
	r := f.Reader()
	if v := r.Byte(); v != version {
		return nil, fmt.Errorf("%w: version %d, this node knows %d", ErrMalformed, v, version)
	}
	n := r.Count(1)
	if n > CommandsMax {
		return nil, fmt.Errorf("%w: %d commands", ErrMalformed, n)
	}
	cmds := make([]Command, 0, n)
	for range n {
		c, err := newCommand(Kind(r.Byte()))
		if err != nil {
			return nil, err
		}
		c.Fields(&f)
		if r.Err() != nil {
			break
		}
		cmds = append(cmds, c)
	}
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return cmds, nil
}
