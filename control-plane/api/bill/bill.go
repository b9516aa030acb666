package bill

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Base is the item of what a plan costs whatever is used.
const Base = "base"

// Meters, in the order of Counts.
const (
	JobsEnqueued    = "jobs_enqueued"
	Executions      = "executions"
	PayloadBytes    = "payload_bytes"
	StoredByteHours = "stored_byte_hours"
	EgressBytes     = "egress_bytes"
	StreamsPeak     = "streams_peak"
)

// Counts are the numbers of all meters.
type Counts struct {
	JobsEnqueued    int64 `json:"jobs_enqueued"`
	Executions      int64 `json:"executions"`
	PayloadBytes    int64 `json:"payload_bytes"`
	StoredByteHours int64 `json:"stored_byte_hours"`
	EgressBytes     int64 `json:"egress_bytes"`
	StreamsPeak     int64 `json:"streams_peak"`
}

// Meters are the names of all meters, in their order.
func Meters() []string {
	return []string{JobsEnqueued, Executions, PayloadBytes, StoredByteHours, EgressBytes, StreamsPeak}
}

func (c *Counts) all() []*int64 {
	return []*int64{&c.JobsEnqueued, &c.Executions, &c.PayloadBytes, &c.StoredByteHours, &c.EgressBytes, &c.StreamsPeak}
}

// Of is the number of one meter; 0 for a name that is none.
func (c Counts) Of(meter string) int64 {
	if i := slices.Index(Meters(), meter); i >= 0 {
		return *c.all()[i]
	}
	return 0
}

// Zero reports that nothing was counted.
func (c Counts) Zero() bool { return c == Counts{} }

// Plus adds, streams_peak too. Sums end at the largest number there is.
func (c Counts) Plus(more Counts) Counts {
	for i, n := range more.all() {
		*c.all()[i] = sum(*c.all()[i], *n)
	}
	return c
}

// Then adds what was counted at another time: of streams_peak the larger one counts.
func (c Counts) Then(more Counts) Counts {
	peak := max(c.StreamsPeak, more.StreamsPeak)
	c = c.Plus(more)
	c.StreamsPeak = peak
	return c
}

// sum of two numbers that aren't negative.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// scaled is n × by / per, which are not negative, per not 0; rounded down, or up.
func scaled(n, by, per int64, up bool) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(by))
	if hi >= uint64(per) {
		return math.MaxInt64
	}
	q, rest := bits.Div64(hi, lo, uint64(per))
	if up && rest > 0 && q < math.MaxInt64 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}

// Price of what one meter counts in a billing period.
type Price struct {
	Meter string `json:"meter"`
	// So many cost nothing. Beyond, Per of them cost Amount.
	Included int64 `json:"included"`
	Per      int64 `json:"per"`
	Amount   int64 `json:"amount"`
}

// Plan is one version of a plan.
type Plan struct {
	Name    string `json:"plan"`
	Version int32  `json:"plan_version"`
	Title   string `json:"title,omitempty"`
	// Amount per billing period, whatever is used.
	BaseAmount int64   `json:"base_amount"`
	Prices     []Price `json:"prices"`
}

// Segment is the hours in which one plan was in force: those that begin from From to before To.
type Segment struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Plan
}

func (s Segment) hours() int64 { return int64(s.To.Sub(s.From) / time.Hour) }

// Holds reports whether an hour that begins at a time is the segment's.
func (s Segment) Holds(hour time.Time) bool { return !hour.Before(s.From) && hour.Before(s.To) }

// Period is a billing period: a calendar month, UTC.
type Period struct{ Start, End time.Time }

// Month is the billing period that a time is in.
func Month(t time.Time) Period {
	t = t.UTC()
	start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Period{start, start.AddDate(0, 1, 0)}
}

// Hours of the period.
func (p Period) Hours() int64 { return int64(p.End.Sub(p.Start) / time.Hour) }

// Line of an invoice.
type Line struct {
	// Base or a meter.
	Item        string    `json:"item"`
	Plan        string    `json:"plan"`
	PlanVersion int32     `json:"plan_version"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	// Hours of base, otherwise what the meter counted.
	Quantity int64 `json:"quantity"`
	Included int64 `json:"included"`
	// Per of the quantity cost UnitAmount.
	Per        int64 `json:"per"`
	UnitAmount int64 `json:"unit_amount"`
	Amount     int64 `json:"amount"`
}

// Invoice is what a period costs.
type Invoice struct {
	Lines []Line
	Total int64
}

// Hourly rounds a change to the hour in which a plan begins to be in force: an hour belongs to
// the plan at its beginning.
func Hourly(at time.Time) time.Time {
	at = at.UTC()
	if hour := at.Truncate(time.Hour); !hour.Equal(at) {
		return hour.Add(time.Hour)
	}
	return at
}

// Joined makes neighbors with the same plan one, and leaves out what has no hours: a change
// that changes nothing costs nothing.
func Joined(segments []Segment) (out []Segment) {
	for _, s := range segments {
		if s.hours() <= 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].To.Equal(s.From) && out[n-1].same(s.Plan) {
			out[n-1].To = s.To
			continue
		}
		out = append(out, s)
	}
	return out
}

func (s Segment) same(p Plan) bool {
	return s.Name == p.Name && s.Version == p.Version && s.BaseAmount == p.BaseAmount && slices.Equal(s.Prices, p.Prices)
}

// Check refuses segments that aren't a part of the period, in order, or whose prices can't be.
func Check(p Period, segments []Segment) error {
	at := p.Start
	for i, s := range segments {
		switch {
		case s.From.Before(at) || i > 0 && !s.From.Equal(at):
			return fmt.Errorf("segment %d begins at %s, after one that ends at %s", i+1, stamp(s.From), stamp(at))
		case !s.From.Before(s.To) || s.To.After(p.End):
			return fmt.Errorf("segment %d ends at %s, which isn't after its beginning and in the period", i+1, stamp(s.To))
		case !s.From.Equal(s.From.Truncate(time.Hour)) || !s.To.Equal(s.To.Truncate(time.Hour)):
			return fmt.Errorf("segment %d isn't of whole hours", i+1)
		case s.BaseAmount < 0:
			return fmt.Errorf("segment %d: its base amount is negative", i+1)
		}
		if err := checkPrices(s.Prices); err != nil {
			return fmt.Errorf("segment %d: %w", i+1, err)
		}
		at = s.To
	}
	return nil
}

func checkPrices(prices []Price) error {
	seen := make(map[string]bool)
	for _, r := range prices {
		switch {
		case !slices.Contains(Meters(), r.Meter):
			return fmt.Errorf("there is no meter %q", r.Meter)
		case seen[r.Meter]:
			return fmt.Errorf("%s has two prices", r.Meter)
		case r.Included < 0 || r.Amount < 0 || r.Per <= 0:
			return fmt.Errorf("the price of %s isn't possible", r.Meter)
		}
		seen[r.Meter] = true
	}
	return nil
}

// errCounts: counts go with segments.
var errCounts = errors.New("there must be counts for every segment")

// Make computes an invoice. counts are those of the hours of each segment.
func Make(p Period, segments []Segment, counts []Counts) (Invoice, error) {
	if len(segments) != len(counts) {
		return Invoice{}, errCounts
	}
	if err := Check(p, segments); err != nil {
		return Invoice{}, err
	}
	inv := Invoice{Lines: []Line{}}
	for i, s := range segments {
		for _, l := range lines(p, s, counts[i]) {
			inv.Lines = append(inv.Lines, l)
			inv.Total = sum(inv.Total, l.Amount)
		}
	}
	return inv, nil
}

// lines of one segment: base first, then meters in their order.
func lines(p Period, s Segment, c Counts) []Line {
	of := func(item string) Line {
		return Line{Item: item, Plan: s.Name, PlanVersion: s.Version, From: s.From, To: s.To}
	}
	base := of(Base)
	base.Quantity, base.Per, base.UnitAmount = s.hours(), p.Hours(), s.BaseAmount
	base.Amount = scaled(s.BaseAmount, s.hours(), p.Hours(), false)
	out := []Line{base}
	prices := slices.Clone(s.Prices)
	slices.SortFunc(prices, func(a, b Price) int {
		return cmp.Compare(slices.Index(Meters(), a.Meter), slices.Index(Meters(), b.Meter))
	})
	for _, r := range prices {
		l := of(r.Meter)
		l.Quantity, l.Per, l.UnitAmount = c.Of(r.Meter), r.Per, r.Amount
		l.Included = scaled(r.Included, s.hours(), p.Hours(), true)
		l.Amount = scaled(max(0, l.Quantity-l.Included), r.Amount, r.Per, false)
		out = append(out, l)
	}
	return out
}

// Forecast is what a whole segment will count, if what was counted in so many hours before
// goes on for the hours that are left; rounded down.
func Forecast(soFar, before Counts, in, left int64) Counts {
	if in <= 0 || left <= 0 {
		return soFar
	}
	out := soFar
	for i, n := range before.all() {
		*out.all()[i] = sum(*out.all()[i], scaled(*n, left, in, false))
	}
	out.StreamsPeak = max(soFar.StreamsPeak, before.StreamsPeak)
	return out
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
