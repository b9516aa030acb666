package state

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/statedb"
)

// What models were used for is counted three times in the entry that reports it: for
// the job, for the hour, and for the day of budgets. The three always agree: each
// report becomes one difference, and that is what all of them add.

// Meter counts what models were used for.
type Meter struct {
	Input, Output, CacheCreation, CacheRead int64 // Tokens.
	Cost                                    int64 // Nano-dollars.
	Attempts                                int64 // That reported, each once per model.
}

func (m *Meter) fields() [6]*int64 {
	return [...]*int64{&m.Input, &m.Output, &m.CacheCreation, &m.CacheRead, &m.Cost, &m.Attempts}
}

// Plus is the sum of both; what does not fit stays at the end of the range.
func (m Meter) Plus(n Meter) Meter {
	to, from := m.fields(), n.fields()
	for i := range to {
		*to[i] = saturatingAdd(*to[i], *from[i])
	}
	return m
}

// minus is m without n, of which no field is negative.
func (m Meter) minus(n Meter) Meter {
	to, from := m.fields(), n.fields()
	for i := range to {
		*to[i] = saturatingAdd(*to[i], -*from[i])
	}
	return m
}

func saturatingAdd(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

func (m *Meter) write(w *codec.Writer) {
	for _, f := range m.fields() {
		w.Int(*f)
	}
}

func readMeter(r *codec.Reader) (m Meter) {
	for _, f := range m.fields() {
		*f = r.Int()
	}
	return m
}

func (m *Meter) encode() []byte {
	w := newRecord(32)
	m.write(&w)
	return w.Buf
}

func decodeMeter(v []byte) (Meter, error) {
	r, err := openRecord("usage", v)
	if err != nil {
		return Meter{}, err
	}
	m := readMeter(r)
	return m, closeRecord("usage", r)
}

// JobUsage is what a job reported, over all its attempts.
type JobUsage struct {
	Lines []UsageLine
	// Iteration is what the current iteration of an agent job reported, and Provider
	// and Model what it named last.
	Iteration       Meter
	Provider, Model string

	Lease keys.Position // Whose totals stand in the lines.
}

// UsageLine is what a job used one model for.
type UsageLine struct {
	Provider, Model string
	Sum             Meter
	total           Meter // Reported as a total by the lease of the record.
}

// usageLinesMax bounds the models that are told apart for one job. With one more the
// oldest two become one line without a name; what the hours count is not touched.
const usageLinesMax = 64

// Sum is what the job reported for all models.
func (u *JobUsage) Sum() (sum Meter) {
	for i := range u.Lines {
		sum = sum.Plus(u.Lines[i].Sum)
	}
	return sum
}

func (u *JobUsage) encode() []byte {
	w := newRecord(64 + 64*len(u.Lines))
	command.EncodePosition(&w, u.Lease)
	u.Iteration.write(&w)
	w.Text(u.Provider)
	w.Text(u.Model)
	w.Uint(uint64(len(u.Lines)))
	for i := range u.Lines {
		l := &u.Lines[i]
		w.Text(l.Provider)
		w.Text(l.Model)
		l.Sum.write(&w)
		l.total.write(&w)
	}
	return w.Buf
}

func decodeJobUsage(v []byte) (*JobUsage, error) {
	r, err := openRecord("job usage", v)
	if err != nil {
		return nil, err
	}
	u := &JobUsage{Lease: command.DecodePosition(r), Iteration: readMeter(r), Provider: r.Text(), Model: r.Text()}
	u.Lines = make([]UsageLine, r.Count(14))
	for i := range u.Lines {
		u.Lines[i] = UsageLine{Provider: r.Text(), Model: r.Text(), Sum: readMeter(r), total: readMeter(r)}
	}
	return u, closeRecord("job usage", r)
}

// add takes a report of a lease in and returns what is new in it. A total takes the
// place of the one that the lease gave before for the model (trap 112), so that a
// correction can be negative.
func (u *JobUsage) add(lease keys.Position, c *command.Usage) Meter {
	if u.Lease != lease {
		u.Lease = lease
		for i := range u.Lines {
			u.Lines[i].total = Meter{}
		}
	}
	l := u.line(c.Provider, c.Model)
	said := Meter{Input: c.Input, Output: c.Output, CacheCreation: c.CacheCreation, CacheRead: c.CacheRead, Cost: c.Cost, Attempts: 1}
	news := said
	if c.Total {
		news = said.minus(l.total)
		l.total = said
	} else {
		news.Attempts -= l.total.Attempts
		l.total = l.total.Plus(news)
	}
	l.Sum = l.Sum.Plus(news)
	u.Iteration = u.Iteration.Plus(news)
	u.Provider, u.Model = c.Provider, c.Model
	return news
}

func (u *JobUsage) line(provider, model string) *UsageLine {
	for i := range u.Lines {
		if l := &u.Lines[i]; l.Provider == provider && l.Model == model {
			return l
		}
	}
	if len(u.Lines) == usageLinesMax {
		u.Lines[1] = UsageLine{Sum: u.Lines[0].Sum.Plus(u.Lines[1].Sum)}
		u.Lines = u.Lines[1:]
	}
	u.Lines = append(u.Lines, UsageLine{Provider: provider, Model: model})
	return &u.Lines[len(u.Lines)-1]
}

// report counts what the holder of a job's lease reports; nil is nothing.
func (x *entry) report(ns job.Namespace, id job.ID, h *Head, c *command.Usage) error {
	if c == nil {
		return nil
	}
	u, err := x.jobUsage(ns, id, h)
	if err != nil {
		return err
	}
	news := u.add(h.Epoch, c)
	x.putJobUsage(ns, id, h, u)
	if news == (Meter{}) {
		return nil // Said before.
	}
	if err := x.addHour(ns, h.Queue, c, news); err != nil {
		return err
	}
	if err := x.spend(ns, id, h, news.Cost); err != nil {
		return err
	}
	return x.tellOverspent(ns, id, h)
}

// jobUsage reads what a job reported so far.
func (x *entry) jobUsage(ns job.Namespace, id job.ID, h *Head) (*JobUsage, error) {
	if !h.has(flagUsage) {
		return &JobUsage{}, nil
	}
	v, err := x.txn.Get(x.m.space.Job(ns, keys.JobUsage, id))
	if err != nil {
		return nil, fmt.Errorf("usage of job %s: %w", id, err)
	}
	return decodeJobUsage(v)
}

func (x *entry) putJobUsage(ns job.Namespace, id job.ID, h *Head, u *JobUsage) {
	h.flags |= flagUsage
	x.txn.Set(x.m.space.Job(ns, keys.JobUsage, id), u.encode())
}

func (x *entry) addHour(ns job.Namespace, queue string, c *command.Usage, news Meter) error {
	k := x.m.space.Usage(ns, hourOf(x.now), queue, c.Provider, c.Model)
	v, err := x.txn.Get(k)
	if err != nil && !errors.Is(err, statedb.ErrNotFound) {
		return err
	}
	if err == nil {
		sum, err := decodeMeter(v)
		if err != nil {
			return fmt.Errorf("usage of queue %q: %w", queue, err)
		}
		news = sum.Plus(news)
	}
	x.txn.Set(k, news.encode())
	return nil
}

const (
	hoursPerDay = 24
	// UsageKept is how long the usage of an hour is kept: a year, and time to bill it.
	UsageKept = 400 * hoursPerDay * time.Hour
)

// hourOf and dayOf number the UTC hours and days since 1970.
func hourOf(now int64) uint64 { return uint64(now / int64(time.Hour)) }
func dayOf(now int64) uint64  { return hourOf(now) / hoursPerDay }

// endOfDay is when the UTC day ends, beginOfDay when one begins.
func endOfDay(now int64) int64    { return beginOfDay(dayOf(now) + 1) }
func beginOfDay(day uint64) int64 { return int64(day) * int64(hoursPerDay*time.Hour) }
