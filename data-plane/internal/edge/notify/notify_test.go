package notify

import (
	"sync"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

var busy, quiet = job.Namespace{1}, job.Namespace{2}

func TestHub_NotifiesItsNamespaceAloneAndNeverBlocks(t *testing.T) {
	t.Parallel()
	b := New()
	for range 3 {
		b.Notify(busy) // Nobody listens.
	}
	l, other := b.Listen(busy), b.Listen(quiet)
	for range 3 {
		b.Notify(busy)
	}
	select {
	case <-l.C:
	default:
		t.Fatal("the listener heard nothing")
	}
	for name, c := range map[string]<-chan struct{}{"again": l.C, "of another": other.C} {
		select {
		case <-c:
			t.Fatalf("the hub rang %s", name)
		default:
		}
	}
	<-b.Any()
	l.Stop()
	other.Stop()
	b.Notify(busy)
	select {
	case <-l.C:
		t.Fatal("a stopped listener heard the hub")
	default:
	}
	if len(b.listeners) != 0 {
		t.Fatalf("%d namespaces are kept without listeners", len(b.listeners))
	}
}

func TestHub_ManyMayListenAndLeaveMeanwhile(t *testing.T) {
	t.Parallel()
	b := New()
	var all sync.WaitGroup
	end := make(chan struct{})
	all.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				b.Notify(busy)
			}
		}
	})
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 200 {
				l := b.Listen(busy)
				<-l.C
				l.Stop()
			}
		})
	}
	readers.Wait()
	close(end)
	all.Wait()
}
