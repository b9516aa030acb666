package server

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/repeat"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// An answer is in memory until its client has read it, and a client that asks and doesn't
// read may do so as often as it may call.

const (
	// UnreadBytesMax is what all answers that are counted may hold until they are written.
	// Tenants share it by weight (see fair.Budget); one that has more than its share is
	// refused with OVERLOADED.
	UnreadBytesMax = 256 << 20
	// answerSmallMax is the largest answer that is not counted: a call with a small one takes
	// no lock for it. How many calls there may be bounds these.
	answerSmallMax = 64 << 10
	// unreadRetry is when a refused client may ask again: proxies cut off who doesn't read
	// for half a minute, all others are done much earlier.
	unreadRetry = time.Second
)

// takeUnread counts n bytes of an answer as the tenant's, until giveUnread is told what was
// taken.
func (s *Server) takeUnread(tenant string, n int) (taken int64, err error) {
	if n <= answerSmallMax {
		return 0, nil
	}
	if !s.unread.Take(tenant, int64(n)) {
		return 0, &fault.Error{
			Code: fault.Exhausted, Reason: "OVERLOADED", RetryAfter: unreadRetry,
			Message: "too many large answers to this tenant wait to be read; read them, or ask for less at a time, and try again",
		}
	}
	return int64(n), nil
}

// takeJobs is takeUnread for jobs that were fetched. They are in memory twice: encoded, and as
// they are, because they may have to be given back.
func (s *Server) takeJobs(tenant string, grants []wire.FetchedJob) (taken int64, err error) {
	n := 0
	for i := range grants {
		g := &grants[i]
		n += len(g.Payload) + len(g.Checkpoint)
		for name, value := range g.Tags {
			n += len(name) + len(value)
		}
	}
	return s.takeUnread(tenant, 2*n)
}

func (s *Server) giveUnread(tenant string, taken int64) {
	if taken > 0 {
		s.unread.Give(tenant, taken)
	}
}

// tenant is by whom the call's answer is counted; empty for calls without a credential.
func (c *call) tenant() string {
	if c.who == nil {
		return ""
	}
	return c.who.Identity.TenantID
}

// takeAnswer counts an encoded answer of n bytes until the call ends. Only what a call has read
// is refused: OVERLOADED says that nothing was done. What it did is answered in any case, and
// is a line for each thing, of which BatchMax bounds the number.
func (c *call) takeAnswer(n int) error {
	taken, err := c.s.takeUnread(c.tenant(), n)
	if err != nil && !repeat.Safe(c.r.Method, c.r.URL.Path, "", nil, nil) { // Whatever it carried.
		return nil
	}
	c.unread += taken
	return err
}
