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

// exportsMax is how many transfers a node has under way at a time, whatever the number
// of its groups. Each is a copy of a group's state on disk, keeps the tables that its
// picture needs while it is written, and then competes for the network. The next ones
// wait in the order in which they came.
const exportsMax = 2

// ErrExportEnded is returned for a transfer that was given up: its receiver did, the
// group's state was replaced, or the store closed.
var ErrExportEnded = errors.New("the state transfer was given up")

// exports are the transfers that are wanted, being written or being read.
type exports struct {
	slots chan struct{} // A token for each, from before its picture is taken until its file is removed.
	// ctx ends when the store closes.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // Of the writing goroutines.

	mu     sync.Mutex // Guards what follows and the marked fields of each transfer. Nothing is waited for under it.
	closed bool
	all    []*shared
	spans  map[uint32]*sync.RWMutex
}

// shared is one transfer and those who read it.
type shared struct {
	exports *exports
	group   *Group
	cancel  context.CancelFunc // Ends the wait for a slot and the writing.
	done    chan struct{}      // Closed when file or err is there.

	// Guarded by exports.mu.
	readers int
	label   []byte // Nil until the picture is taken.
	retired bool   // Nobody may join.
	ready   bool   // The file is written, and the last reader removes it.

	// Set before done is closed.
	err  error
	file vfs.File
	path string
	size int64
}

func newExports() *exports {
	e := &exports{slots: make(chan struct{}, exportsMax), spans: map[uint32]*sync.RWMutex{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// close ends the wait of everybody and the writing. What is ready can be read on.
func (e *exports) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.work.Wait()
}

// span is held for reading while a picture of the group is in use, for writing while
// its span is swapped: Pebble's snapshots do not stand an excise.
func (e *exports) span(group uint32) *sync.RWMutex {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spans[group] == nil {
		e.spans[group] = new(sync.RWMutex)
	}
	return e.spans[group]
}

// retire gives up what is being written for the group, and lets nobody join what is ready.
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

// build waits for a slot and writes the file. Readers who are left then own both.
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
		_ = s.remove() // Nobody is there to be told; the next start clears what is left.
	}
	<-e.slots
}

// write takes the picture and writes it out. It leaves no file if it fails.
func (s *shared) write(ctx context.Context, key []byte) (err error) {
	span := s.exports.span(s.group.id)
	span.RLock()
	defer span.RUnlock()
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

// settle tells the readers how it went, and returns whether the file is theirs.
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
	// Label is the value that names the picture; empty if there was none.
	Label []byte
	// Size is the exact number of bytes Read will give.
	Size int64

	shared  *shared
	unwatch func() bool // Ends the watch of the reader's context.

	mu    sync.Mutex // Guards the rest; held while bytes are read.
	off   int64
	ended bool
}

// Export gives a transfer of the group's state, of one moment. label is a key whose
// value of that moment tells which it was. A transfer that is under way is shared if
// usable, asked with its label, says so; usable must not wait. Otherwise the call waits
// for its turn and until the file is written. When ctx ends, so does the wait, and so
// does the transfer if it is being read.
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
	// Nobody is left to hear that a file stays; the next start clears staging.
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
