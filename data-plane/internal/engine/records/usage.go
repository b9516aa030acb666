package records

import (
	"math"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// Meter counts what models were used for.
type Meter struct {
	Input, Output, CacheCreation, CacheRead int64 // Tokens.
	Cost                                    int64 // Nano-dollars.
	Attempts                                int64 // That reported, each once per model.
}

func (m *Meter) numbers() [6]*int64 {
	return [...]*int64{&m.Input, &m.Output, &m.CacheCreation, &m.CacheRead, &m.Cost, &m.Attempts}
}

// Plus is the sum of both; what does not fit stays at the end of the range.
func (m Meter) Plus(n Meter) Meter {
	to, from := m.numbers(), n.numbers()
	for i := range to {
		*to[i] = SaturatingAdd(*to[i], *from[i])
	}
	return m
}

// Minus is m without n, of which no field is negative.
func (m Meter) Minus(n Meter) Meter {
	to, from := m.numbers(), n.numbers()
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

func (m *Meter) Fields(f *codec.Fields) {
	for _, n := range m.numbers() {
		f.Int(n)
	}
}

func (m *Meter) Encode() []byte { return encode(32, m) }

// DecodeMeter reads what Meter.Encode wrote.
func DecodeMeter(v []byte) (Meter, error) { return decode[Meter]("usage", v) }

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

func (u *JobUsage) Fields(f *codec.Fields) {
	command.Position(f, &u.Lease)
	u.Iteration.Fields(f)
	f.Text(&u.Provider)
	f.Text(&u.Model)
	for i := range codec.Items(f, &u.Lines, 14) {
		u.Lines[i].Fields(f)
	}
}

func (l *UsageLine) Fields(f *codec.Fields) {
	f.Text(&l.Provider)
	f.Text(&l.Model)
	l.Sum.Fields(f)
	l.total.Fields(f)
}

func (u *JobUsage) Encode() []byte { return encode(64+64*len(u.Lines), u) }

// DecodeJobUsage reads what JobUsage.Encode wrote.
func DecodeJobUsage(v []byte) (*JobUsage, error) {
	u, err := decode[JobUsage]("job usage", v)
	return &u, err
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
