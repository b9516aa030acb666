// Package retention says how long, and how much of, what has ended is kept: which
// settings there are, their bounds, the cell's defaults, and which of several settings
// counts. It knows neither jobs nor what deletes them.
//
// There are three places, and the nearest that says something counts: the queue (finished
// jobs only), the namespace, the tenant's plan; then the cell's default. The plan also has
// a maximum for each, which counts however the others were set: a smaller plan needs no
// change of any queue.
package retention

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	day = 24 * time.Hour

	// AgeMin is how long whatever ended is kept at least. A worker whose answer was lost
	// repeats its call within this time and is told how the job ended.
	AgeMin = time.Minute
	// AgeMax is more than anybody keeps a record.
	AgeMax = 3660 * day
)

// Policy is what a namespace keeps.
type Policy struct {
	Finished
	// Events are kept this long, and this many bytes of them at most.
	Events      time.Duration
	EventsBytes int64
	Usage       time.Duration

	most Finished // Of a queue, whatever its settings are.
}

// Age is a duration as people type it: 12h, or 7d. It is a value of a flag.
type Age time.Duration

// ParseAge reads what ParseDuration reads, and whole days. What is not more than zero is none.
func ParseAge(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, found := strings.CutSuffix(text, "d"); found {
		var n int64
		n, err = strconv.ParseInt(days, 10, 16)
		d = time.Duration(n) * day
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q isn't a duration such as 12h or 7d", text)
	}
	return d, nil
}

// Set implements flag.Value.
func (a *Age) Set(text string) error {
	d, err := ParseAge(text)
	if err == nil && (d < AgeMin || d > AgeMax) {
		err = fmt.Errorf("%s isn't from 1m to %dd", text, AgeMax/day)
	}
	*a = Age(d)
	return err
}

// String implements flag.Value: empty if nothing is set.
func (a *Age) String() string {
	if a == nil || *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type is what help calls the value.
func (*Age) Type() string { return "AGE" }

// Finished is how long finished jobs of a queue are kept, by how long ago they ended, and
// how many at most. 0 is not set.
type Finished struct {
	Completed, Dead, Cancelled time.Duration
	Max                        int64
}

// Default is what a cell keeps of a namespace whose plan and owner say nothing. A Max of 0
// is no limit.
func Default() Policy {
	return Policy{
		Finished: Finished{Completed: 7 * day, Dead: 30 * day, Cancelled: 30 * day},
		Events:   7 * day, EventsBytes: 64 << 20, Usage: 400 * day,
	}
}

// Of is what a namespace of a tenant with these limits keeps.
func Of(l *cellv1.Limits, own *cellv1.Retention) Policy {
	return Resolve(Read(own), Read(l.GetRetention()), Read(l.GetRetentionMax()))
}

// Resolve is what a namespace keeps by its own settings, the plan's, and the plan's maximum.
func Resolve(own, plan, most Policy) Policy {
	p := own.or(plan).or(Default()).within(most)
	p.most = most.Finished
	return p
}

// Message is a policy as a cell is told it; nil if nothing is set.
func (p Policy) Message() *cellv1.Retention {
	if p == (Policy{}) {
		return nil
	}
	return &cellv1.Retention{
		CompletedNs: int64(p.Completed), DeadNs: int64(p.Dead), CancelledNs: int64(p.Cancelled), FinishedMax: p.Max,
		EventsNs: int64(p.Events), EventsBytes: p.EventsBytes, UsageNs: int64(p.Usage),
	}
}

// Queue is what is kept of a queue with settings of its own.
func (p *Policy) Queue(own Finished) Finished { return own.or(p.Finished).within(p.most) }

// QueueMax is the most that the plan keeps of a queue, whatever its settings are; 0 is no
// maximum.
func (p *Policy) QueueMax() Finished { return p.most }

// Longest is how long a job may be kept at most.
func (f Finished) Longest() time.Duration { return max(f.Completed, f.Dead, f.Cancelled) }

// Shortest is how long every job is kept at least.
func (f Finished) Shortest() time.Duration { return min(f.Completed, f.Dead, f.Cancelled) }

// Read is what a cell was told; the opposite of Message.
func Read(r *cellv1.Retention) Policy {
	return Policy{
		Finished: Finished{
			Completed: time.Duration(r.GetCompletedNs()), Dead: time.Duration(r.GetDeadNs()), Cancelled: time.Duration(r.GetCancelledNs()),
			Max: r.GetFinishedMax(),
		},
		Events: time.Duration(r.GetEventsNs()), EventsBytes: r.GetEventsBytes(), Usage: time.Duration(r.GetUsageNs()),
	}
}

func (p Policy) or(q Policy) Policy {
	return Policy{
		Finished: p.Finished.or(q.Finished),
		Events:   cmp.Or(p.Events, q.Events), EventsBytes: cmp.Or(p.EventsBytes, q.EventsBytes), Usage: cmp.Or(p.Usage, q.Usage),
	}
}

func (f Finished) or(g Finished) Finished {
	return Finished{
		Completed: cmp.Or(f.Completed, g.Completed), Dead: cmp.Or(f.Dead, g.Dead), Cancelled: cmp.Or(f.Cancelled, g.Cancelled),
		Max: cmp.Or(f.Max, g.Max),
	}
}

func (p Policy) within(most Policy) Policy {
	return Policy{
		Finished: p.Finished.within(most.Finished),
		Events:   least(p.Events, most.Events), EventsBytes: least(p.EventsBytes, most.EventsBytes), Usage: least(p.Usage, most.Usage),
	}
}

func (f Finished) within(most Finished) Finished {
	return Finished{
		Completed: least(f.Completed, most.Completed), Dead: least(f.Dead, most.Dead), Cancelled: least(f.Cancelled, most.Cancelled),
		Max: least(f.Max, most.Max),
	}
}

// least is the smaller of two limits, of which 0 is none.
func least[T int64 | time.Duration](a, b T) T {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}
