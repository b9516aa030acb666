package statedb

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Lookup reads many keys of one snapshot of the group. If the keys come in order,
// each read starts where the last one ended, which is much cheaper than as many
// Gets. Close it.
type Lookup struct {
	it     *pebble.Iterator
	prefix [4]byte
}

// Lookup takes a snapshot of the committed state.
func (g *Group) Lookup() (*Lookup, error) {
	from, to := g.span()
	it, err := g.db.pebble.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return nil, fmt.Errorf("look up state: %w", err)
	}
	return &Lookup{it: it, prefix: g.prefix}, nil
}

// Get returns the value of key, valid until the next call, or ErrNotFound.
func (l *Lookup) Get(key []byte) ([]byte, error) {
	assertPrefix(l.prefix, key)
	if !l.it.SeekGE(key) || !bytes.Equal(l.it.Key(), key) {
		if err := l.it.Error(); err != nil {
			return nil, fmt.Errorf("read state key %x: %w", key, err)
		}
		return nil, ErrNotFound
	}
	v, err := l.it.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("read state key %x: %w", key, err)
	}
	return v, nil
}

// Close releases the snapshot.
func (l *Lookup) Close() error { return l.it.Close() }
