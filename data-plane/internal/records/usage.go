package records

import (
	"math"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

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
		*to[i] = SaturatingAdd(*to[i], *from[i])
	}
	return m
}

// Minus is m without n, of which no field is negative.
func (m Meter) Minus(n Meter) Meter {
	to, from := m.fields(), n.fields()
	for i := range to {
		*to[i] = SaturatingAdd(*to[i], -*from[i])
	}
	return m
}

// SaturatingAdd is the sum; what does not fit stays at the end of the range.
func SaturatingAdd(a, b int64) int64 {
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

func (m *Meter) Encode() []byte {
	w := newRecord(32)
	m.write(&w)
	return w.Buf
}

func DecodeMeter(v []byte) (Meter, error) {
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

// UsageLinesMax bounds the models that are told apart for one job. With one more the
// oldest two become one line without a name; what the hours count is not touched.
const UsageLinesMax = 64

// Sum is what the job reported for all models.
func (u *JobUsage) Sum() (sum Meter) {
	for i := range u.Lines {
		sum = sum.Plus(u.Lines[i].Sum)
	}
	return sum
}

func (u *JobUsage) Encode() []byte {
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

func DecodeJobUsage(v []byte) (*JobUsage, error) {
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

// Add takes a report of a lease in and returns what is new in it. A total takes the
// place of the one that the lease gave before for the model (trap 112), so that a
// correction can be negative.
func (u *JobUsage) Add(lease keys.Position, c *command.Usage) Meter {
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
		news = said.Minus(l.total)
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
	if len(u.Lines) == UsageLinesMax {
		u.Lines[1] = UsageLine{Sum: u.Lines[0].Sum.Plus(u.Lines[1].Sum)}
		u.Lines = u.Lines[1:]
	}
	u.Lines = append(u.Lines, UsageLine{Provider: provider, Model: model})
	return &u.Lines[len(u.Lines)-1]
}
