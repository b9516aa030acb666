package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// NodeValue reads a value that the node keeps beside the logs of its groups, or nil
// if there is none. It is in the same store, so that it is lost only together with
// the logs.
func (s *Store) NodeValue(name string) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	value, err := s.readStable(nodeKey(name))
	if err != nil {
		return nil, fmt.Errorf("read %q of the node: %w", name, err)
	}
	return value, nil
}

// SetNodeValue stores a value of the node and returns when it is durable.
func (s *Store) SetNodeValue(name string, value []byte) error {
	defer s.opts.Watch(OpSet)()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if err := s.commitStable(nodeKey(name), value); err != nil {
		return fmt.Errorf("store %q of the node: %w", name, err)
	}
	return nil
}

func nodeKey(name string) []byte { return stableKey(ownGroup, []byte("node/"+name)) }

// GroupIDs lists the groups that have an entry or a stable value, ascending.
func (s *Store) GroupIDs() (ids []uint32, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	it, err := s.db.NewIter(nil)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	next := binary.BigEndian.AppendUint32(nil, ownGroup+1)
	for it.SeekGE(next) {
		id := binary.BigEndian.Uint32(it.Key())
		ids = append(ids, id)
		next = binary.BigEndian.AppendUint32(nil, id+1)
	}
	return ids, it.Error()
}
