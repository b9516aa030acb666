package shard

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// The worker was told that it has an hour. A new leader knows only what the log says.
func TestLease_ARenewalForLongerThanTheFetchOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	s := step(t, Options{})
	id := s.enqueue()
	g := s.fetch(shortLease)
	long := renew(g)
	long.Renew[0].Lease = time.Hour
	if rep := s.do(long); !rep.Renewals[0].Held {
		t.Fatal("the holder's renewal was refused")
	}
	s.nextTerm()
	s.step()
	s.until(s.began + 2*int64(shortLease))
	s.step()
	if h := s.head(id); h.State != job.Active || h.Epoch != g.Epoch {
		t.Fatalf("the holder has an hour; after a change of leader the job is %s after %s", h.State, shortLease)
	}
}
