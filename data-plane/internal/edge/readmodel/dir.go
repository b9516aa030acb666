package readmodel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const (
	// openMax files are open at a time; an open one takes up to three connections,
	// about 2 MB and six file handles.
	openMax = 48
	// queriesMax run at a time; more wait. It is less than openMax, so that there is
	// always an unused file to close.
	queriesMax = 16
	// queriesOfOne run at a time over one file, which has no more readers; the
	// namespace's other queries wait before they take a turn from other namespaces.
	queriesOfOne = readersMax
)

// Dir holds the read models of a node: a folder of files, of which the last used
// are open.
type Dir struct {
	dir     string
	logger  *slog.Logger
	max     int
	queries chan struct{}
	pace    *pace // Shared by all writers.

	mu    sync.Mutex // Guards the rest, and the opening and closing of files.
	open  map[job.Namespace]*file
	clock uint64
	shut  bool
	lines map[job.Namespace]*line
	// retired are deleted namespaces, which get no more files.
	retired map[job.Namespace]struct{}
}

// line is the queue of one namespace's queries.
type line struct {
	turns chan struct{}
	refs  int // Queries that wait or run. Guarded by the models.
}

var (
	errShut = errors.New("the read models are closed")
	// errRetired: the namespace was deleted.
	errRetired = errors.New("the namespace was deleted")
)

// OpenDir makes the folder if it is not there.
func OpenDir(dir string, logger *slog.Logger) (*Dir, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("open read models %s: %w", dir, err)
	}
	return &Dir{dir: dir, logger: logger, max: openMax, queries: make(chan struct{}, queriesMax), pace: newPace(), open: make(map[job.Namespace]*file), lines: make(map[job.Namespace]*line), retired: make(map[job.Namespace]struct{})}, nil
}

// Close closes every file. Nothing may use the models afterwards.
func (s *Dir) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	var errs []error
	for ns, f := range s.open {
		errs = append(errs, f.close())
		delete(s.open, ns)
	}
	return errors.Join(errs...)
}

func (s *Dir) path(ns job.Namespace) string { return filepath.Join(s.dir, ns.String()+".db") }

// take returns the open file of ns, made if it is not there. Give it back.
func (s *Dir) take(ctx context.Context, ns job.Namespace) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return nil, errShut
	}
	if _, retired := s.retired[ns]; retired {
		return nil, errRetired
	}
	f := s.open[ns]
	if f == nil {
		if err := s.makeRoom(); err != nil {
			s.logger.Warn("a read model was not closed well", "err", err)
		}
		var err error
		if f, err = openFile(ctx, ns, s.path(ns)); err != nil {
			return nil, err
		}
		s.open[ns] = f
	}
	s.clock++
	f.used = s.clock
	f.refs++
	return f, nil
}

func (s *Dir) giveBack(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.refs--
	if f.refs == 0 && s.open[f.ns] != f { // It was discarded meanwhile.
		if err := f.close(); err != nil {
			s.logger.Warn("a discarded read model was not closed well", "namespace", f.ns, "err", err)
		}
	}
}

// makeRoom closes the least recently used file.
func (s *Dir) makeRoom() error {
	for len(s.open) >= s.max {
		var oldest *file
		for _, f := range s.open {
			if f.refs == 0 && (oldest == nil || f.used < oldest.used) {
				oldest = f
			}
		}
		if oldest == nil {
			return nil // All are in use: bounded by queriesMax and the projectors.
		}
		delete(s.open, oldest.ns)
		if err := oldest.close(); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes the file of ns. Current users read the old one until they give it
// back.
func (s *Dir) discard(ns job.Namespace) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if f := s.open[ns]; f != nil {
		delete(s.open, ns)
		if f.refs == 0 {
			err = f.close()
		}
	}
	if err != nil {
		s.logger.Warn("a damaged read model was not closed well", "namespace", ns, "err", err)
	}
	return s.remove(ns)
}

// Retire removes the file of a deleted namespace for ever, and drops writes still under
// way.
func (s *Dir) Retire(ns job.Namespace) error {
	s.mu.Lock()
	_, twice := s.retired[ns]
	s.retired[ns] = struct{}{}
	s.mu.Unlock()
	if twice {
		return nil
	}
	return s.discard(ns)
}

func (s *Dir) isRetired(ns job.Namespace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, retired := s.retired[ns]
	return retired
}

// RemoveOthers removes the files of namespaces that are not wanted: they were deleted while
// this node was away. Removing one too many is harmless; it is rebuilt.
func (s *Dir) RemoveOthers(wanted func(job.Namespace) bool) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("list read models: %w", err)
	}
	var errs []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".db")
		ns, err := job.ParseNamespace(name)
		if ok && err == nil && !wanted(ns) {
			errs = append(errs, s.discard(ns))
		}
	}
	return errors.Join(errs...)
}

func (s *Dir) remove(ns job.Namespace) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(s.path(ns) + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete read model: %w", err)
		}
	}
	return nil
}

// query waits for its turn and runs f with a reader of a file.
func (s *Dir) query(ctx context.Context, ns job.Namespace, f func(*file) error) error {
	l := s.join(ns)
	defer s.leave(ns, l)
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turns }()
	select {
	case s.queries <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.queries }()
	file, err := s.take(ctx, ns)
	if err != nil {
		return err
	}
	defer s.giveBack(file)
	return f(file)
}

func (s *Dir) join(ns job.Namespace) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[ns]
	if l == nil {
		l = &line{turns: make(chan struct{}, queriesOfOne)}
		s.lines[ns] = l
	}
	l.refs++
	return l
}

func (s *Dir) leave(ns job.Namespace, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(s.lines, ns)
	}
}
