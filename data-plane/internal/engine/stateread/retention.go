package stateread

import (
	"errors"
	"maps"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// What ended is found without an index, which would cost every job a key: ids begin with
// the time at which they were made, and nothing ends before that. So whatever is to go
// stands at the beginning of its family, among what is still there.

// Retention finds what a namespace keeps no longer. It is memory of a leader; a new one
// begins again, which costs a walk over all.
type Retention struct {
	ns      job.Namespace
	policy  retention.Policy
	queues  map[string]retention.Finished // Those with settings of their own.
	surplus []surplus
	places  map[string]job.ID // Where the walk for the surplus of a queue goes on.

	jobs, batches, chains endedWalk
	usage                 int64 // When to look at the usage again.
	events                bool  // Look at them.
	late                  time.Duration
	again                 command.Command // See Again.
}

// surplus is how many finished jobs a queue has more than it may keep.
type surplus struct {
	queue string
	n     int64
}

// NewRetention remembers nothing of a namespace yet.
func NewRetention(ns job.Namespace) *Retention {
	return &Retention{ns: ns, places: make(map[string]job.ID), jobs: newEndedWalk(), batches: newEndedWalk(), chains: newEndedWalk()}
}

// Look reads the settings and the counters of the namespace's queues. What was remembered
// under other settings is forgotten.
func (r *Retention) Look(g *statedb.Group, policy retention.Policy) (err error) {
	v := g.View()
	defer func() { err = errors.Join(err, v.Close()) }()
	own, err := r.readSettings(v, keys.In(g.Prefix()), &policy)
	if err != nil {
		return err
	}
	if policy != r.policy || !maps.Equal(own, r.queues) {
		r.jobs, r.batches, r.chains, r.usage, r.again = newEndedWalk(), newEndedWalk(), newEndedWalk(), 0, nil
	}
	r.policy, r.queues, r.events = policy, own, true
	return r.readSurplus(v, keys.In(g.Prefix()))
}

func (r *Retention) readSettings(v Reader, space keys.Space, policy *retention.Policy) (map[string]retention.Finished, error) {
	var own map[string]retention.Finished
	from, to := space.Queues(r.ns, keys.QueueConfig)
	err := v.Scan(from, to, func(key, value []byte) (bool, error) {
		queue, err := space.QueueName(key)
		if err != nil {
			return false, err
		}
		q, err := records.DecodeQueueConfig(value)
		if err != nil {
			return false, err
		}
		if f := policy.Queue(retention.Finished(q.Retention)); f != policy.Finished {
			if own == nil {
				own = make(map[string]retention.Finished)
			}
			own[queue] = f
		}
		return true, nil
	})
	return own, err
}

// readSurplus finds the queues that have too many finished jobs.
func (r *Retention) readSurplus(v Reader, space keys.Space) error {
	r.surplus = r.surplus[:0]
	from, to := space.Queues(r.ns, keys.QueueCounts)
	return v.Scan(from, to, func(key, value []byte) (bool, error) {
		queue, err := space.QueueName(key)
		if err != nil {
			return false, err
		}
		c, err := records.DecodeCounts(value)
		if err != nil {
			return false, err
		}
		finished := c.Jobs[job.Completed] + c.Jobs[job.Dead] + c.Jobs[job.Cancelled]
		if most := r.of(queue).Max; most > 0 && finished > most {
			r.surplus = append(r.surplus, surplus{queue, finished - most})
		}
		return true, nil
	})
}

func (r *Retention) of(queue string) retention.Finished {
	if f, own := r.queues[queue]; own {
		return f
	}
	return r.policy.Finished
}

// shortest is how long every job of the namespace is kept.
func (r *Retention) shortest() time.Duration {
	d := r.policy.Shortest()
	for _, f := range r.queues { //corvo:sorted the least of all
		d = min(d, f.Shortest())
	}
	return d
}

// Next takes a step at a calendar time and returns what to propose, nil if the step found
// nothing. Busy is false once there is nothing to look at for now. The lists have read the
// events up to number read.
func (r *Retention) Next(g *statedb.Group, now int64, read uint64) (_ command.Command, busy bool, err error) {
	if c := r.again; c != nil {
		r.again = nil
		return c, true, nil
	}
	if r.events {
		r.events = false
		before, err := feed.Cut(g, r.ns, now, feed.Keep{Age: r.policy.Events, Bytes: uint64(r.policy.EventsBytes), Read: read})
		if err != nil || before != 0 {
			return &command.TrimEvents{NS: r.ns, Before: before}, true, err
		}
	}
	c := &command.DeleteEnded{NS: r.ns}
	r.late = 0
	switch {
	case r.jobs.ripe(now):
		err = r.nextJobs(g, c, now)
	case len(r.surplus) > 0:
		err = r.nextSurplus(g, c, now)
	case r.batches.ripe(now):
		err = r.nextBatches(g, c, now)
	case r.chains.ripe(now):
		err = r.nextChains(g, c, now)
	case r.usage <= now:
		err = r.nextUsage(g, c, now)
	default:
		return nil, false, nil
	}
	if err != nil || len(c.Jobs)+len(c.Batches)+len(c.Chains) == 0 && c.UsageBefore == 0 {
		return nil, true, err
	}
	return c, true, nil
}

// Again has the next step be for a command that Next returned and that was not taken, or perhaps not: the
// walks are past what it names, and would come to it when they look there again. Other settings
// forget it.
func (r *Retention) Again(c command.Command) { r.again = c }

// Late is by how much the jobs of the last step are kept longer than they should be.
func (r *Retention) Late() time.Duration { return r.late }

func (r *Retention) nextJobs(g *statedb.Group, c *command.DeleteEnded, now int64) error {
	shortest := r.shortest()
	return r.jobs.step(&looking{g, now, shortest, keys.In(g.Prefix()).HeadsBetween, r.ns}, func(id [16]byte, value []byte) (int64, error) {
		h, err := records.DecodeHead(value)
		if err != nil || !h.State.Terminal() {
			return goesAt(now, shortest), err
		}
		goes := goesAt(h.Finished, ageOf(r.of(h.Queue), h.State))
		if goes <= now {
			c.Jobs = append(c.Jobs, id)
			c.Before = max(c.Before, h.Finished)
			r.late = max(r.late, time.Duration(now-goes))
		}
		return goes, nil
	})
}

func ageOf(f retention.Finished, s job.State) time.Duration {
	switch s {
	case job.Completed:
		return f.Completed
	case job.Dead:
		return f.Dead
	default:
		return f.Cancelled
	}
}

func goesAt(ended int64, age time.Duration) int64 { return records.SaturatingAdd(ended, int64(age)) }

// nextSurplus walks on for a queue that has too many finished jobs: the oldest go first, by
// when they were made.
func (r *Retention) nextSurplus(g *statedb.Group, c *command.DeleteEnded, now int64) error {
	s := &r.surplus[len(r.surplus)-1]
	space := keys.In(g.Prefix())
	walked, more := 0, false
	from, to := space.Heads(r.ns, r.places[s.queue])
	err := g.Scan(from, to, func(key, value []byte) (bool, error) {
		if more = walked == HeadsWalked || len(c.Jobs) == command.EndedMax || s.n == 0; more {
			return false, nil
		}
		walked++
		id, err := space.HeadID(key)
		if err != nil {
			return false, err
		}
		r.places[s.queue] = id
		h, err := records.DecodeHead(value)
		if err == nil && h.Queue == s.queue && h.State.Terminal() {
			c.Jobs, s.n = append(c.Jobs, id), s.n-1
		}
		return true, err
	})
	c.Before = now
	if !more {
		delete(r.places, s.queue) // The next look begins at the oldest again.
	}
	if !more || s.n == 0 {
		r.surplus = r.surplus[:len(r.surplus)-1]
	}
	return err
}

// nextBatches: a batch is kept as long as any job of the namespace may be.
func (r *Retention) nextBatches(g *statedb.Group, c *command.DeleteEnded, now int64) error {
	age := r.policy.Longest()
	return r.batches.step(&looking{g, now, age, keys.In(g.Prefix()).BatchesBetween, r.ns}, func(id [16]byte, value []byte) (int64, error) {
		b, err := records.DecodeBatch(value)
		if err != nil || !b.Fired() {
			return goesAt(now, age), err
		}
		goes := goesAt(b.FinishedAt, age)
		if goes <= now {
			c.Batches = append(c.Batches, id)
			c.Before = max(c.Before, b.FinishedAt)
		}
		return goes, nil
	})
}

// nextChains: the same for chains.
func (r *Retention) nextChains(g *statedb.Group, c *command.DeleteEnded, now int64) error {
	age := r.policy.Longest()
	return r.chains.step(&looking{g, now, age, keys.In(g.Prefix()).ChainsBetween, r.ns}, func(id [16]byte, value []byte) (int64, error) {
		s, err := records.DecodeChainState(value)
		if err != nil || s.Status == records.ChainRunning {
			return goesAt(now, age), err
		}
		goes := goesAt(s.FinishedAt, age)
		if goes <= now {
			c.Chains = append(c.Chains, id)
			c.Before = max(c.Before, s.FinishedAt)
		}
		return goes, nil
	})
}

// nextUsage finds whether there is usage of hours that are too old, once an hour.
func (r *Retention) nextUsage(g *statedb.Group, c *command.DeleteEnded, now int64) error {
	r.usage = now + int64(time.Hour)
	first := records.HourOf(max(now-int64(r.policy.Usage), 0))
	from, to := keys.In(g.Prefix()).UsageBetween(r.ns, 0, first)
	return g.Scan(from, to, func(_, _ []byte) (bool, error) {
		c.UsageBefore = first
		return false, nil
	})
}
