package state

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// The first reason to take a job from its worker decides: a job that is being cancelled
// does not expire, and one that expired is not cancelled.
func TestExpire_TheFirstOfCancelAndTheEndOfTheTimeCounts(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour)
	ns, id := job.Namespace{1}, job.ID{1}
	at := epoch + hour
	cancel, expire := &command.Cancel{NS: ns, ID: id}, &command.Fire{Due: keys.Due{At: at, Kind: keys.DueExpire, NS: ns, ID: id}}
	letGo := map[string]func(p *trap) command.Command{
		"fails":    func(*trap) command.Command { return &command.Fail{NS: ns, ID: id, Error: "no"} },
		"releases": func(*trap) command.Command { return &command.Fail{NS: ns, ID: id, Release: true} },
		"is lost": func(p *trap) command.Command {
			due := p.audit(p.t)[id].Due
			p.now = due
			return &command.Fire{Due: keys.Due{At: due, Kind: keys.DueLease, NS: ns, ID: id}}
		},
	}
	for name, end := range letGo {
		for _, c := range []struct {
			first, second command.Command
			refused       Refusal // What the second one is answered.
			state         job.State
			reason        records.DeadReason
		}{{cancel, expire, WrongState, job.Cancelled, records.NotDead}, {expire, cancel, Accepted, job.Dead, records.DeadExpired}} {
			p := newTrap(t)
			p.enqueue(1, func(c *command.Enqueue) { c.ExpireAt = at })
			p.now = at
			p.fetch(id)
			if res := p.do(c.first); res.Refusal != Accepted {
				t.Fatalf("%T answered %d", c.first, res.Refusal)
			}
			if res := p.do(c.second); res.Refusal != c.refused || res.State != job.Cancelling {
				t.Errorf("%T after %T answered %d, the job is %s", c.second, c.first, res.Refusal, res.State)
			}
			p.do(end(p))
			if h := p.audit(t)[id]; h.State != c.state || h.Reason != c.reason {
				t.Errorf("%T, then %T, and the worker %s: the job is %s %s, want %s %s", c.first, c.second, name, h.State, h.Reason, c.state, c.reason)
			}
		}
	}
}
