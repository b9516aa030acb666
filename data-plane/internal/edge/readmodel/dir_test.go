package readmodel

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// However many slow searches one namespace runs, another's list does not wait for
// them.
func TestDir_OneNamespaceDoesNotTakeEverybodysTurns(t *testing.T) {
	t.Parallel()
	s, err := OpenDir(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	slow, other := job.Namespace{1}, job.Namespace{2}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	free := make(chan struct{})
	var running sync.WaitGroup
	for range 2 * queriesMax {
		running.Go(func() {
			if err := s.query(ctx, slow, func(*file) error { <-free; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	for s.waiting(slow) < 2*queriesMax {
		if ctx.Err() != nil {
			t.Fatal("the slow queries did not come")
		}
		time.Sleep(time.Millisecond)
	}
	brief, end := context.WithTimeout(ctx, 5*time.Second)
	if err := s.query(brief, other, func(*file) error { return nil }); err != nil {
		t.Errorf("another namespace's query: %v", err)
	}
	end()
	gone, end := context.WithCancel(ctx)
	end()
	if err := s.query(gone, slow, func(*file) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a query whose caller is gone: %v", err)
	}
	close(free)
	running.Wait()
	if n := len(s.lines); n != 0 {
		t.Errorf("%d lines are left", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func (s *Dir) waiting(ns job.Namespace) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[ns]; l != nil {
		return l.refs
	}
	return 0
}

// The file of a deleted namespace is removed, and late events do not create another one;
// an unknown file is removed at the next start.
func TestRetire_ADeletedNamespaceHasNoFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	r.enqueue(nsA, "q")
	r.enqueue(nsB, "q")
	r.settled(nsA)
	r.settled(nsB)
	r.stop()
	r.enqueue(nsA, "q") // Not projected yet.
	last := r.enqueue(nsB, "q")
	if err := r.models.Retire(nsA); err != nil {
		t.Fatal(err)
	}
	there := func(ns job.Namespace) bool { _, err := os.Stat(r.models.path(ns)); return err == nil }
	r.run()
	r.settled(nsB)
	if rows := r.page(nsB, Filter{}).Rows; len(rows) != 2 || rows[0].ID != last || there(nsA) || !there(nsB) {
		t.Fatalf("%d rows of the neighbour, files %v and %v", len(rows), there(nsA), there(nsB))
	}
	r.stop()
	if err := r.models.RemoveOthers(func(ns job.Namespace) bool { return ns != nsB }); err != nil || there(nsB) {
		t.Fatalf("a file that nobody knows is there: %v, %v", there(nsB), err)
	}
}
