package queue

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// readAgain is for how long the same read by the same person is the one that is written down:
	// a page that shows a job reads it every few seconds.
	readAgain = 10 * time.Minute
	// readsMax bounds what is remembered of that. Beyond it reads are written down again.
	readsMax = 10_000
)

// readLog is which reads of payloads are in the audit log. The memory is this leader's.
type readLog struct {
	audits func(job.Namespace) bool

	mu    sync.Mutex
	noted map[notedRead]time.Time // Guarded by mu.
}

type notedRead struct {
	ns          job.Namespace
	who, target string
}

func newReadLog(audits func(job.Namespace) bool) *readLog {
	if audits == nil {
		audits = func(job.Namespace) bool { return false }
	}
	return &readLog{audits: audits, noted: make(map[notedRead]time.Time)}
}

func (l *readLog) isNoted(r notedRead, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.noted[r]
	return ok && now.Sub(at) < readAgain
}

func (l *readLog) note(r notedRead, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.noted) >= readsMax {
		clear(l.noted)
	}
	l.noted[r] = now
}

// payloadRead says whose payloads an answer has. Its zero value is none.
type payloadRead struct {
	kind, first, last string
	count             int
}

// readOf counts what of a list shows what its job or schedule carries.
func readOf[T any](list []T, shows func(*T) (id string, payload bool)) payloadRead {
	r := payloadRead{kind: "job"}
	for i := range list {
		id, payload := shows(&list[i])
		if !payload {
			continue
		}
		if r.count == 0 {
			r.first = id
		}
		if id != r.last || r.count == 0 {
			r.count++
		}
		r.last = id
	}
	return r
}

func readOfJobs(list []wire.Job) payloadRead {
	return readOf(list, func(v *wire.Job) (string, bool) { return v.ID, !v.Redacted })
}

func readOfSchedules(list []wire.Schedule) payloadRead {
	r := readOf(list, func(v *wire.Schedule) (string, bool) { return v.ID, !v.Redacted })
	r.kind = "schedule"
	return r
}

// act is one thing by its id, or how many there were from the first to the last.
func (r payloadRead) act() adminAct {
	const act = "payload.read"
	if r.count == 1 {
		return adminAct{act: act, kind: r.kind, target: r.first}
	}
	return adminAct{act: act, kind: r.kind + "s"}.with(r.kind+"s", strconv.Itoa(r.count)).with("first", r.first).with("last", r.last)
}

// noteRead writes down that a person reads payloads, where the tenant wants that, before they are
// shown: if it can't be written, they aren't.
func (s *Service) noteRead(ctx context.Context, c *Caller, r payloadRead) error {
	if r.count == 0 || !c.Person || !s.reads.audits(c.Namespace) {
		return nil
	}
	noted, now := notedRead{c.Namespace, c.Principal, strings.Join([]string{r.kind, strconv.Itoa(r.count), r.first, r.last}, " ")}, s.now()
	if s.reads.isNoted(noted, now) {
		return nil
	}
	res, err := s.one(ctx, r.act().said(*c, 0))
	if err == nil && res.Refusal != state.Accepted {
		err = fault.New(fault.NotFound, "NOT_FOUND", "the namespace was deleted")
	}
	if err != nil {
		return err
	}
	s.reads.note(noted, now)
	return nil
}
