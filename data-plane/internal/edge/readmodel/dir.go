package readmodel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// openMax files are open at a time; an open one takes up to three connections,
	// about 2 MB and six file handles.
	openMax = 48
	// unusedMax is how long a file that nobody uses stays open.
	unusedMax = time.Minute
	// queriesMax run at a time; more wait. It is less than openMax, so that there is
	// always an unused file to close.
	queriesMax = 16
	// queriesOfTenant run at a time for one tenant, over all its namespaces: no more than a
	// file has readers. Its other queries wait before they take a turn from other tenants.
	queriesOfTenant = readersMax
	// waitingMax queries of a tenant wait for their turn, each no longer than turnWait.
	waitingMax = 32
	turnWait   = 2 * time.Second
	// ordinaryTime is after how long a query begins no further step of its walk, and
	// operatorTime the same for people and keys that may operate.
	ordinaryTime = 250 * time.Millisecond
	operatorTime = queryMax
)

// Reader is for whom a query is.
type Reader struct {
	// Tenant is whose turns the query takes; "" is a tenant with this namespace alone.
	Tenant string
	// Operator gets operatorTime.
	Operator bool
	// Patient waits for its turn as long as its context allows: work that is bounded
	// elsewhere, and would have to begin anew.
	Patient bool
}

// Dir holds the read models of a node: a folder of files, of which the last used
// are open.
type Dir struct {
	dir     string
	logger  *slog.Logger
	max     int
	queries chan struct{}
	pace    *pace // Shared by all writers.
	// ordinary and operator are ordinaryTime and operatorTime, except in tests.
	ordinary, operator time.Duration
	// Likewise.
	turnWait, freshWait, mendWait time.Duration
	now                           func() time.Time

	mu    sync.Mutex // Guards the rest, and the opening and closing of files.
	open  map[job.Namespace]*file
	clock uint64
	shut  bool
	lines map[string]*line // By tenant.
	// unused goes off when a file may have to be closed; nil while all are in use.
	unused *time.Timer
	// retired are deleted namespaces, which get no more files.
	retired map[job.Namespace]struct{}
}

// line is the queue of one tenant's queries.
type line struct {
	turns chan struct{}
	// Guarded by the models:
	refs int           // Queries that wait or run.
	mean time.Duration // How long its queries took lately.
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
	return &Dir{
		dir: dir, logger: logger, max: openMax, queries: make(chan struct{}, queriesMax), pace: newPace(),
		now: time.Now, ordinary: ordinaryTime, operator: operatorTime, turnWait: turnWait, freshWait: freshWait, mendWait: mendWait,
		open: make(map[job.Namespace]*file), lines: make(map[string]*line), retired: make(map[job.Namespace]struct{}),
	}, nil
}

// Close closes every file. Nothing may use the models afterwards.
func (s *Dir) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	if s.unused != nil {
		s.unused.Stop()
	}
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
	if f.refs--; f.refs > 0 {
		return
	}
	if s.open[f.ns] != f { // It was discarded meanwhile.
		if err := f.close(); err != nil {
			s.logger.Warn("a discarded read model was not closed well", "namespace", f.ns, "err", err)
		}
		return
	}
	f.since = s.now()
	if s.unused == nil && !s.shut {
		s.unused = time.AfterFunc(unusedMax, s.closeUnused)
	}
}

// closeUnused closes the files that nobody has used for a while: each takes memory.
func (s *Dir) closeUnused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unused = nil; s.shut {
		return
	}
	next := time.Duration(0)
	for ns, f := range s.open {
		left := unusedMax - s.now().Sub(f.since)
		switch {
		case f.refs > 0:
		case left > 0:
			next = max(next, left)
		default:
			delete(s.open, ns)
			if err := f.close(); err != nil {
				s.logger.Warn("a read model was not closed well", "namespace", ns, "err", err)
			}
		}
	}
	if next > 0 {
		s.unused = time.AfterFunc(next, s.closeUnused)
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

// query waits for a turn of its tenant and then for one of the node, and runs f with a
// reader of a file.
func (s *Dir) query(ctx context.Context, ns job.Namespace, by Reader, f func(*file) error) error {
	tenant := cmp.Or(by.Tenant, ns.String())
	l, ok := s.join(tenant, by.Patient)
	if !ok {
		return s.busy(l)
	}
	defer s.leave(tenant, l)
	var enough <-chan time.Time
	if !by.Patient {
		t := time.NewTimer(s.turnWait)
		defer t.Stop()
		enough = t.C
	}
	for _, turns := range []chan struct{}{l.turns, s.queries} {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-enough:
			return s.busy(l)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	file, err := s.take(ctx, ns)
	if err != nil {
		return err
	}
	defer s.giveBack(file)
	defer s.took(l, time.Now())
	return f(file)
}

// join adds a query to the line of a tenant; ok is false if it is full.
func (s *Dir) join(tenant string, anyhow bool) (l *line, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.lines[tenant]
	if l == nil {
		l = &line{turns: make(chan struct{}, queriesOfTenant)}
		s.lines[tenant] = l
	}
	if l.refs >= queriesOfTenant+waitingMax && !anyhow {
		return l, false
	}
	l.refs++
	return l, true
}

func (s *Dir) leave(tenant string, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(s.lines, tenant)
	}
}

// took notes how long a query of the line took.
func (s *Dir) took(l *line, began time.Time) {
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.mean == 0 {
		l.mean = took
	}
	l.mean += (took - l.mean) / 8
}

// busy refuses a query, until those that wait now will have run.
func (s *Dir) busy(l *line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := fault.New(fault.Exhausted, "OVERLOADED",
		"%d lists and searches of this tenant run or wait on this node, of which %d run at a time; ask for fewer at a time", l.refs, queriesOfTenant)
	e.Limit = &fault.Limit{Name: "lists_max", Value: queriesOfTenant + waitingMax, Current: int64(l.refs)}
	e.RetryAfter = min(max(time.Duration(l.refs)*l.mean/queriesOfTenant, time.Second), 30*time.Second)
	return e
}

// timeOf is after how long a query begins no further step.
func (s *Dir) timeOf(by Reader) time.Duration {
	if by.Operator {
		return s.operator
	}
	return s.ordinary
}
