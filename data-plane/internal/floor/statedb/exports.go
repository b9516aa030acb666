package statedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// exportsMax is how many transfers a node has under way at a time, however many groups
// it has. Each is a copy of a group's state on disk, holds the tables of its snapshot
// while it is written, and then competes for the network. Further ones wait in the
// order in which they came.
const exportsMax = 2

// ErrExportEnded is returned for a transfer that was given up: its receiver did, the
// group's state was replaced, or the store closed.
var ErrExportEnded = errors.New("the state transfer was given up")

// exports are the transfers that wait, are being written or are being read.
type exports struct {
	slots chan struct{} // A token for each, from before its snapshot is taken until its file is removed.
	// ctx ends when the store closes.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // Of the writing goroutines.

	mu     sync.Mutex // Guards what follows and the marked fields of each transfer. Nothing blocks while it is held.
	closed bool
	all    []*shared
	spans  map[uint32]spanLock
}

// shared is one transfer and its readers.
type shared struct {
	exports *exports
	group   *Group
	cancel  context.CancelFunc // Ends the wait for a slot and the writing.
	done    chan struct{}      // Closed when file or err is there.

	// Guarded by exports.mu.
	readers int
	label   []byte // Nil until the snapshot is taken.
	retired bool   // No more readers may join.
	ready   bool   // The file is written, and the last reader removes it.

	// Set before done is closed.
	err  error
	file vfs.File
	path string
	size int64
}

func newExports() *exports {
	e := &exports{slots: make(chan struct{}, exportsMax), spans: map[uint32]spanLock{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// close ends all waiting and writing. Transfers that are ready can still be read.
func (e *exports) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.work.Wait()
}

// spanLock is held while a snapshot of a group is in use, or while its span is replaced: Pebble's
// snapshots do not survive an excise. It isn't a sync.RWMutex, because it is held while files are
// written, and virtual time stands still while somebody waits for a mutex.
type spanLock struct {
	users    chan struct{} // A token for each snapshot in use, or all of them to replace the span.
	replaces chan struct{} // Held by the one who takes them all.
}

func (e *exports) spanLock(group uint32) spanLock {
	e.mu.Lock()
	defer e.mu.Unlock()
	l, there := e.spans[group]
	if !there {
		l = spanLock{users: make(chan struct{}, exportsMax), replaces: make(chan struct{}, 1)}
		e.spans[group] = l
	}
	return l
}

func (l spanLock) use() (end func()) {
	l.users <- struct{}{}
	return func() { <-l.users }
}

// replace waits until no snapshot is in use.
func (l spanLock) replace() (end func()) {
	l.replaces <- struct{}{}
	for range cap(l.users) {
		l.users <- struct{}{}
	}
	return func() {
		for range cap(l.users) {
			<-l.users
		}
		<-l.replaces
	}
}

// retire ends the group's transfer that is being written, and closes one that is ready to
// new readers.
func (e *exports) retire(group uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.all {
		if s.group.id == group {
			s.retired = true
			s.cancel()
		}
	}
}

// join finds or begins a transfer for one more reader.
func (e *exports) join(g *Group, key []byte, usable func(label []byte) bool) (*shared, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrExportEnded
	}
	for _, s := range slices.Backward(e.all) {
		if s.group.id == g.id && !s.retired && (s.label == nil || usable(s.label)) {
			s.readers++
			return s, nil
		}
	}
	s := &shared{exports: e, group: g, done: make(chan struct{}), path: g.db.stagingPath("export", g.id), readers: 1}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(e.ctx)
	e.all = append(e.all, s)
	e.work.Go(func() { s.build(ctx, key) })
	return s, nil
}

// build waits for a slot and writes the file. Then both belong to the readers that
// are left.
func (s *shared) build(ctx context.Context, key []byte) {
	e := s.exports
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		s.settle(ErrExportEnded)
		return
	}
	err := s.write(ctx, key)
	if s.settle(err) {
		return
	}
	if err == nil {
		_ = s.remove() // No reader is left to tell; the next start removes the file.
	}
	<-e.slots
}

// write takes a snapshot and writes it to the file. It leaves no file if it fails.
func (s *shared) write(ctx context.Context, key []byte) (err error) {
	defer s.exports.spanLock(s.group.id).use()()
	v := s.group.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	label, err := v.Get(key)
	if errors.Is(err, ErrNotFound) {
		label, err = []byte{}, nil
	}
	if err != nil {
		return fmt.Errorf("label of the export of group %d: %w", s.group.id, err)
	}
	s.exports.mu.Lock()
	s.label = label
	s.exports.mu.Unlock()
	s.file, s.size, err = s.group.writeTransfer(ctx, v, s.path)
	return err
}

// settle tells the readers the outcome, and reports whether they take the file.
func (s *shared) settle(err error) bool {
	s.exports.mu.Lock()
	defer s.exports.mu.Unlock()
	s.err, s.ready = err, err == nil && s.readers > 0
	if !s.ready {
		s.forget()
	}
	close(s.done)
	return s.ready
}

// leave is called once by each reader. The last one removes the file, or ends its writing.
func (s *shared) leave() error {
	s.exports.mu.Lock()
	s.readers--
	last, ready := s.readers == 0, s.ready
	if last {
		s.forget()
	}
	s.exports.mu.Unlock()
	if !last {
		return nil
	}
	s.cancel()
	if !ready {
		return nil // build sees that nobody is left.
	}
	err := s.remove()
	<-s.exports.slots
	return err
}

// forget makes room for another transfer of the group; under exports.mu.
func (s *shared) forget() {
	s.exports.all = slices.DeleteFunc(s.exports.all, func(other *shared) bool { return other == s })
}

func (s *shared) remove() error {
	return errors.Join(s.file.Close(), s.group.db.fs.Remove(s.path))
}

// Export is one reader's transfer of a group's state.
type Export struct {
	// Label is the value that identifies the snapshot; empty if there was none.
	Label []byte
	// Size is the exact number of bytes Read will give.
	Size int64

	shared  *shared
	unwatch func() bool // Ends the watch of the reader's context.

	mu    sync.Mutex // Guards the rest; held while bytes are read.
	off   int64
	ended bool
}

// Export returns a transfer of a snapshot of the group's state. label is a key whose
// value in the snapshot identifies it. A transfer that is under way is shared if usable
// accepts its label; usable must not block. Otherwise the call waits for its turn and
// until the file is written. The end of ctx ends the wait, and the reading too.
func (g *Group) Export(ctx context.Context, label []byte, usable func(label []byte) bool) (*Export, error) {
	assertPrefix(g.prefix, label)
	s, err := g.db.exports.join(g, label, usable)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, errors.Join(ErrExportEnded, ctx.Err(), s.leave())
	}
	if s.err != nil {
		return nil, errors.Join(s.err, s.leave())
	}
	x := &Export{Label: s.label, Size: s.size, shared: s}
	// No caller is left to get the error of a file that stays; the next start
	// clears staging.
	x.unwatch = context.AfterFunc(ctx, func() { _ = x.end() })
	return x, nil
}

func (x *Export) Read(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return 0, ErrExportEnded
	}
	if x.off == x.Size {
		return 0, io.EOF
	}
	n, err := x.shared.file.ReadAt(p[:min(int64(len(p)), x.Size-x.off)], x.off)
	x.off += int64(n)
	return n, err
}

// Close ends the reader's part in the transfer.
func (x *Export) Close() error {
	x.unwatch()
	return x.end()
}

func (x *Export) end() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return nil
	}
	x.ended = true
	return x.shared.leave()
}
