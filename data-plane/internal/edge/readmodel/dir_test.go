package readmodel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// However many slow searches one tenant runs, in however many namespaces, another's list
// does not wait for them, and what waits too long is told when to come back.
func TestDir_OneTenantDoesNotTakeEverybodysTurns(t *testing.T) {
	t.Parallel()
	s, err := OpenDir(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.turnWait = time.Millisecond
	slow, other := Reader{Tenant: "slow", Patient: true}, Reader{Tenant: "other"}
	var running, most atomic.Int32
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	free := make(chan struct{})
	var all sync.WaitGroup
	for i := range queriesOfTenant + waitingMax {
		all.Go(func() {
			err := s.query(ctx, job.Namespace{1, byte(i)}, slow, func(*file) error {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-free
				running.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	eventually.NoError(t, 20*time.Second, "all slow queries run or wait", func() error {
		if n, running := s.waiting("slow"), running.Load(); n < queriesOfTenant+waitingMax || running < queriesOfTenant {
			return fmt.Errorf("%d came, %d run", n, running)
		}
		return nil
	})
	var busy *fault.Error
	err = s.query(ctx, job.Namespace{1}, Reader{Tenant: "slow"}, func(*file) error { return nil })
	if !errors.As(err, &busy) || busy.Code != fault.Exhausted || busy.RetryAfter < time.Second {
		t.Errorf("one more than may wait: %v", err)
	}
	brief, end := context.WithTimeout(ctx, 5*time.Second)
	if err := s.query(brief, job.Namespace{2}, other, func(*file) error { return nil }); err != nil {
		t.Errorf("another namespace's query: %v", err)
	}
	end()
	gone, end := context.WithCancel(ctx)
	end()
	if err := s.query(gone, job.Namespace{1}, slow, func(*file) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a query whose caller is gone: %v", err)
	}
	close(free)
	all.Wait()
	if n := most.Load(); n != queriesOfTenant {
		t.Errorf("%d queries of a tenant ran at the same time, want %d", n, queriesOfTenant)
	}
	if n := len(s.lines); n != 0 {
		t.Errorf("%d lines are left", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A query waits for its turn for a while only.
func TestDir_WaitingForATurnIsBounded(t *testing.T) {
	t.Parallel()
	s, err := OpenDir(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.turnWait = time.Millisecond
	by := Reader{Tenant: "one"}
	l, _ := s.join("one", true)
	l.mean = 3 * time.Second
	for range queriesOfTenant {
		l.turns <- struct{}{}
	}
	// Two in the line, two at a time, three seconds each.
	err = s.query(t.Context(), job.Namespace{1}, by, func(*file) error { return errors.New("it ran") })
	if busy := fault.As(err); busy == nil || busy.Reason != "OVERLOADED" || busy.RetryAfter != 3*time.Second {
		t.Errorf("a query that waits in vain: %v", err)
	}
	for range queriesOfTenant {
		<-l.turns
	}
	if err := s.query(t.Context(), job.Namespace{1}, by, func(*file) error { return nil }); err != nil {
		t.Error(err)
	}
}

func (s *Dir) waiting(tenant string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[tenant]; l != nil {
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
