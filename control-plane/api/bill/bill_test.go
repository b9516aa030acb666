package bill_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
)

var update = flag.Bool("update", false, "write the golden file")

func month(year int, m time.Month) bill.Period {
	return bill.Month(time.Date(year, m, 9, 12, 0, 0, 0, time.UTC))
}

var november = month(2026, time.November)

// team costs 2,900 and has prices for two meters.
func team() bill.Plan {
	return bill.Plan{Name: "team", Version: 1, Title: "Team", BaseAmount: 2900, Prices: []bill.Price{
		{Meter: bill.StoredByteHours, Included: 720_000, Per: 1000, Amount: 7},
		{Meter: bill.JobsEnqueued, Included: 1_000_000, Per: 1000, Amount: 3},
	}}
}

func business() bill.Plan {
	p := team()
	p.Name, p.Title, p.BaseAmount = "business", "Business", 9900
	p.Prices = []bill.Price{{Meter: bill.JobsEnqueued, Included: 10_000_000, Per: 1000, Amount: 2}}
	return p
}

func whole(p bill.Period, plan bill.Plan) []bill.Segment {
	return []bill.Segment{{From: p.Start, To: p.End, Plan: plan}}
}

func made(t testing.TB, p bill.Period, s []bill.Segment, c ...bill.Counts) bill.Invoice {
	t.Helper()
	inv, err := bill.Make(p, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestMake_ChargesBaseAndWhatExceedsTheIncludedAmount(t *testing.T) {
	t.Parallel()
	inv := made(t, november, whole(november, team()), bill.Counts{JobsEnqueued: 1_234_999, StoredByteHours: 720_000})
	if len(inv.Lines) != 3 {
		t.Fatalf("lines %+v", inv.Lines)
	}
	base, jobs, stored := inv.Lines[0], inv.Lines[1], inv.Lines[2]
	if base.Item != bill.Base || base.Amount != 2900 || base.Quantity != 720 {
		t.Errorf("base %+v", base)
	}
	// 234,999 × 3 / 1000 = 704.997
	if jobs.Item != bill.JobsEnqueued || jobs.Amount != 704 || jobs.Included != 1_000_000 || jobs.Quantity != 1_234_999 {
		t.Errorf("jobs %+v", jobs)
	}
	if stored.Item != bill.StoredByteHours || stored.Amount != 0 {
		t.Errorf("stored %+v", stored)
	}
	if inv.Total != 3604 {
		t.Errorf("total %d", inv.Total)
	}
}

// Each plan's part of the month is charged by its hours: base rounded down, included rounded up.
func TestMake_APlanChangeInTheMiddleOfAnHourBeginsWithTheNext(t *testing.T) {
	t.Parallel()
	at := bill.Hourly(time.Date(2026, 11, 10, 7, 30, 0, 1, time.UTC))
	if want := time.Date(2026, 11, 10, 8, 0, 0, 0, time.UTC); !at.Equal(want) {
		t.Fatalf("in force from %v, want %v", at, want)
	}
	segments := []bill.Segment{{From: november.Start, To: at, Plan: team()}, {From: at, To: november.End, Plan: business()}}
	inv := made(t, november, segments, bill.Counts{JobsEnqueued: 400_000}, bill.Counts{JobsEnqueued: 6_911_113})
	// 224 and 496 of 720 hours: 2900 × 224 / 720 = 902.2; 1,000,000 × 224 / 720 = 311,111.1;
	// 9900 × 496 / 720 = 6820; 10,000,000 × 496 / 720 = 6,888,888.9.
	var got []int64
	for _, l := range inv.Lines {
		got = append(got, l.Included, l.Amount)
	}
	want := []int64{0, 902, 311_112, 266, 224_000, 0, 0, 6820, 6_888_889, 44}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("included and amounts %v, want %v", got, want)
		}
	}
}

// A change to the same plan is none: with it, usage on one side would not find what the other
// side includes.
func TestJoined_NeighborsWithOnePlanAreOneSegment(t *testing.T) {
	t.Parallel()
	mid := november.Start.Add(100 * time.Hour)
	parts := []bill.Segment{
		{From: november.Start, To: mid, Plan: team()}, {From: mid, To: mid, Plan: business()}, {From: mid, To: november.End, Plan: team()},
	}
	joined := bill.Joined(parts)
	if len(joined) != 1 || !joined[0].From.Equal(november.Start) || !joined[0].To.Equal(november.End) {
		t.Fatalf("joined %+v", joined)
	}
	v2 := team()
	v2.Version = 2
	if other := bill.Joined([]bill.Segment{parts[0], {From: mid, To: november.End, Plan: v2}}); len(other) != 2 {
		t.Errorf("another version was joined: %+v", other)
	}
}

func TestCheck_RefusesWhatCantBe(t *testing.T) {
	t.Parallel()
	mid := november.Start.Add(100 * time.Hour)
	bad := team()
	bad.Prices = []bill.Price{{Meter: "jobs", Per: 1}}
	twice := team()
	twice.Prices = append(twice.Prices, twice.Prices[0])
	free := team()
	free.Prices = []bill.Price{{Meter: bill.JobsEnqueued, Per: 0}}
	minus := team()
	minus.BaseAmount = -1
	for what, segments := range map[string][]bill.Segment{
		"gap":         {{From: november.Start, To: mid, Plan: team()}, {From: mid.Add(time.Hour), To: november.End, Plan: team()}},
		"overlap":     {{From: november.Start, To: mid, Plan: team()}, {From: mid.Add(-time.Hour), To: november.End, Plan: team()}},
		"too early":   {{From: november.Start.Add(-time.Hour), To: mid, Plan: team()}},
		"too late":    {{From: mid, To: november.End.Add(time.Hour), Plan: team()}},
		"empty":       {{From: mid, To: mid, Plan: team()}},
		"half hour":   {{From: mid, To: mid.Add(30 * time.Minute), Plan: team()}},
		"meter":       whole(november, bad),
		"two prices":  whole(november, twice),
		"per nothing": whole(november, free),
		"base":        whole(november, minus),
	} {
		if err := bill.Check(november, segments); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if _, err := bill.Make(november, whole(november, team()), nil); err == nil {
		t.Error("no counts: accepted")
	}
}

// exact computes an amount in whole numbers of any size.
func exact(n, by, per int64, up bool) int64 {
	x := new(big.Int).Mul(big.NewInt(n), big.NewInt(by))
	if up {
		x.Add(x, big.NewInt(per-1))
	}
	x.Div(x, big.NewInt(per))
	if !x.IsInt64() {
		return math.MaxInt64
	}
	return x.Int64()
}

// anyNumber is small, middling or as large as there are.
func anyNumber(r *rand.Rand) int64 { return r.Int64() >> r.IntN(63) }

func TestMake_AmountsAreExactWhateverTheirSize(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		p := month(2024+r.IntN(5), time.Month(1+r.IntN(12))) // 28 to 31 days.
		from := p.Start.Add(time.Duration(r.Int64N(p.Hours())) * time.Hour)
		hours := 1 + r.Int64N(int64(p.End.Sub(from)/time.Hour))
		price := bill.Price{Meter: bill.Executions, Included: anyNumber(r), Per: 1 + anyNumber(r)>>1, Amount: anyNumber(r)}
		plan := bill.Plan{Name: "p", BaseAmount: anyNumber(r), Prices: []bill.Price{price}}
		q := anyNumber(r)
		inv := made(t, p, []bill.Segment{{From: from, To: from.Add(time.Duration(hours) * time.Hour), Plan: plan}}, bill.Counts{Executions: q})
		included := exact(price.Included, hours, p.Hours(), true)
		base, amount := exact(plan.BaseAmount, hours, p.Hours(), false), exact(max(0, q-included), price.Amount, price.Per, false)
		if l := inv.Lines[1]; inv.Lines[0].Amount != base || l.Included != included || l.Amount != amount {
			t.Fatalf("%d of %d hours of %+v, %d used: %+v, want base %d, included %d, amount %d", hours, p.Hours(), plan, q, inv.Lines, base, included, amount)
		}
		if inv.Total < 0 || inv.Total < max(base, amount) {
			t.Fatalf("total %d of %d and %d", inv.Total, base, amount)
		}
	}
}

// Cutting a month with even use into parts never costs more, wherever the cuts are.
func TestMake_SplittingNeverCostsMore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		p := month(2024+r.IntN(5), time.Month(1+r.IntN(12)))
		plan, hourly := team(), r.Int64N(100_000)
		plan.BaseAmount = r.Int64N(100_000)
		one := made(t, p, whole(p, plan), bill.Counts{JobsEnqueued: hourly * p.Hours()})
		var segments []bill.Segment
		var counts []bill.Counts
		for at := p.Start; at.Before(p.End); {
			hours := min(1+r.Int64N(p.Hours()), int64(p.End.Sub(at)/time.Hour))
			to := at.Add(time.Duration(hours) * time.Hour)
			segments, counts = append(segments, bill.Segment{From: at, To: to, Plan: plan}), append(counts, bill.Counts{JobsEnqueued: hourly * hours})
			at = to
		}
		if parts := made(t, p, segments, counts...); parts.Total > one.Total {
			t.Fatalf("%d parts cost %d, the whole %d", len(segments), parts.Total, one.Total)
		}
		if joined := bill.Joined(segments); len(joined) != 1 {
			t.Fatalf("joined %+v", joined)
		}
	}
}

func TestMonth_IsACalendarMonthInUTC(t *testing.T) {
	t.Parallel()
	newYork := time.FixedZone("", -5*3600)
	for _, tc := range []struct {
		at   time.Time
		from string
		h    int64
	}{
		{time.Date(2024, 2, 29, 23, 0, 0, 0, time.UTC), "2024-02-01", 696},
		{time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC), "2026-02-01", 672},
		{time.Date(2026, 11, 30, 20, 0, 0, 0, newYork), "2026-12-01", 744},
	} {
		if p := bill.Month(tc.at); p.Start.Format(time.DateOnly) != tc.from || p.Hours() != tc.h {
			t.Errorf("%v: %v, %d hours", tc.at, p.Start, p.Hours())
		}
	}
}

func TestCounts_SumsEndAtTheLargestNumber(t *testing.T) {
	t.Parallel()
	big := bill.Counts{JobsEnqueued: math.MaxInt64 - 1, StreamsPeak: 5}
	if c := big.Plus(bill.Counts{JobsEnqueued: 2, StreamsPeak: 3}); c.JobsEnqueued != math.MaxInt64 || c.StreamsPeak != 8 {
		t.Errorf("plus %+v", c)
	}
	if c := big.Then(bill.Counts{JobsEnqueued: 1, StreamsPeak: 3}); c.JobsEnqueued != math.MaxInt64 || c.StreamsPeak != 5 {
		t.Errorf("then %+v", c)
	}
	if big.Of(bill.StreamsPeak) != 5 || big.Of("x") != 0 || big.Zero() || !(bill.Counts{}).Zero() {
		t.Error("numbers by name")
	}
}

func TestForecast_GoesOnAsBefore(t *testing.T) {
	t.Parallel()
	got := bill.Forecast(bill.Counts{Executions: 100, StreamsPeak: 4}, bill.Counts{Executions: 169, StreamsPeak: 9}, 168, 10)
	if want := (bill.Counts{Executions: 110, StreamsPeak: 9}); got != want {
		t.Errorf("forecast %+v, want %+v", got, want)
	}
	if got := bill.Forecast(bill.Counts{Executions: 1}, bill.Counts{Executions: 9}, 0, 10); got.Executions != 1 {
		t.Errorf("without hours before: %+v", got)
	}
}

// exported is an export with two plans, a revision and two namespaces.
func exported(t testing.TB) []string {
	t.Helper()
	mid := november.Start.Add(224 * time.Hour)
	segments := []bill.Segment{{From: november.Start, To: mid, Plan: team()}, {From: mid, To: november.End, Plan: business()}}
	rows := []bill.Row{
		{Hour: november.Start.Add(3 * time.Hour), NamespaceID: "ns_1", Namespace: "prod", Counts: bill.Counts{JobsEnqueued: 300_000, Executions: 310_000, PayloadBytes: 1 << 30, StoredByteHours: 500_000, EgressBytes: 12, StreamsPeak: 4}},
		{Hour: november.Start.Add(3 * time.Hour), NamespaceID: "ns_1", Namespace: "prod", Revision: 1, Counts: bill.Counts{JobsEnqueued: 400_000, Executions: 410_000, PayloadBytes: 1 << 30, StoredByteHours: 500_000, EgressBytes: 12, StreamsPeak: 4}},
		{Hour: november.Start.Add(3 * time.Hour), NamespaceID: "ns_2", Namespace: "test", Counts: bill.Counts{StoredByteHours: 7}},
		{Hour: mid, NamespaceID: "ns_1", Namespace: "prod", Counts: bill.Counts{JobsEnqueued: 6_911_113, StreamsPeak: 2}},
	}
	lines := []string{text(t, bill.Header{TenantID: "tn_1", Tenant: "acme", PeriodStart: november.Start, PeriodEnd: november.End, ClosedTo: november.End, Currency: "usd", Segments: segments})}
	var sums bill.Summer
	sums.Begin(segments)
	for _, r := range rows {
		if err := sums.Add(r); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, text(t, r))
	}
	inv := made(t, november, segments, sums.End()...)
	return append(lines, text(t, bill.Footer{Rows: sums.Rows, Totals: sums.Totals, Superseded: &sums.Superseded, Lines: inv.Lines, Total: inv.Total}))
}

func text(t testing.TB, line any) string {
	t.Helper()
	b, err := bill.Text(line)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func verify(t testing.TB, lines []string) bill.Report {
	t.Helper()
	r, err := bill.Verify(strings.NewReader(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Files that customers keep for years must stay readable: these may only get company.
func TestVerify_GoldenFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "november-superseded.ndjson")
	now := strings.Join(exported(t), "")
	if *update {
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != now {
		t.Errorf("the exported form changed:\n%s", now)
	}
	for _, name := range []string{"november.ndjson", "november-superseded.ndjson"} {
		file, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := bill.Verify(bytes.NewReader(file))
		if err != nil || !r.Valid() {
			t.Fatalf("%s: %v %v", name, r.Problems, err)
		}
		if r.Total != 902+266+1932+6820+44 || r.Rows != 4 || r.Totals.JobsEnqueued != 7_311_113 || r.Totals.StreamsPeak != 4 {
			t.Errorf("%s: total %d of %d rows, %+v", name, r.Total, r.Rows, r.Totals)
		}
	}
}

func TestVerify_NamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := exported(t)
	edit := func(line int, from, to string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[line], from) {
				t.Errorf("line %d has no %s", line+1, from)
			}
			l[line] = strings.Replace(l[line], from, to, 1)
			return l
		}
	}
	cut := func(i, j int) func([]string) []string {
		return func(l []string) []string { return append(l[:i], l[j:]...) }
	}
	for what, tc := range map[string]struct {
		change func([]string) []string
		want   string
	}{
		"nothing":          {func([]string) []string { return nil }, "the file is empty"},
		"no header":        {cut(0, 1), "line 1: the file doesn't begin with a header"},
		"other format":     {edit(0, `"format":1`, `"format":2`), "use a newer one"},
		"no month":         {edit(0, `"period_end":"2026-12-01`, `"period_end":"2026-12-02`), "isn't a calendar month"},
		"other price":      {edit(0, `"amount":3`, `"amount":2`), "footer: line 2 (jobs_enqueued of team): unit_amount is 3, and 2 follows from the rows"},
		"other base":       {edit(0, `"base_amount":9900`, `"base_amount":9000`), "footer: total is 9964, and 9344 follows from the rows"},
		"impossible price": {edit(0, `"per":1000`, `"per":0`), "the price of stored_byte_hours isn't possible"},
		"fewer jobs":       {edit(2, `"jobs_enqueued":400000`, `"jobs_enqueued":399000`), "footer: totals.jobs_enqueued is 7311113, and 7310113 follows from the rows"},
		"old revision":     {edit(1, `"jobs_enqueued":300000`, `"jobs_enqueued":299000`), "footer: superseded.jobs_enqueued is 300000, and 299000 follows from the rows"},
		"row missing":      {cut(1, 2), "line 2: it has revision 1, and those before it are missing"},
		"revision missing": {cut(2, 3), "footer: rows is 4, and 3 follows from the rows"},
		"row twice":        {func(l []string) []string { return append(l[:2], l[1:]...) }, "line 3: it has revision 0, after revision 0 of the same hour"},
		"order":            {func(l []string) []string { l[3], l[4] = l[4], l[3]; return l }, "line 5: it isn't in order"},
		"other month":      {edit(4, `2026-11-10T08`, `2026-12-10T08`), "line 5: 2026-12-10T08:00:00Z isn't an hour of the period"},
		"half an hour":     {edit(4, `08:00:00Z`, `08:30:00Z`), "isn't an hour of the period"},
		"negative":         {edit(4, `"executions":0`, `"executions":-1`), "line 5: its executions is negative"},
		"no number":        {edit(4, `"executions":0`, `"executions":"x"`), "line 5: "},
		"unknown field":    {edit(4, `"executions":0`, `"executions":0,"discount":1`), `line 5: unknown field "discount"`},
		"unknown line":     {edit(4, `"hour"`, `"credit"`), `its kind "credit" isn't`},
		"no JSON":          {edit(4, `{`, ``), "line 5: it isn't a JSON object"},
		"not closed":       {edit(0, `"closed_to":"2026-12-01`, `"closed_to":"2026-11-09`), "line 5: 2026-11-10T08:00:00Z isn't closed"},
		"no footer":        {cut(5, 6), "the file has no footer"},
		"more":             {func(l []string) []string { return append(l, l[4]) }, "line 7: it comes after the footer"},
		"other line":       {edit(5, `"item":"base"`, `"item":"egress_bytes"`), "footer: line 1 is egress_bytes of team version 1, and base of team version 1 follows from the header"},
		"line missing":     {edit(5, `"lines":[`, `"lines":[],"x":[`), "line 6: unknown field"},
		"long line":        {func(l []string) []string { return append(l[:1], strings.Repeat(" ", 1<<20+1)) }, "is longer than"},
	} {
		r := verify(t, tc.change(append([]string{}, good...)))
		if r.Valid() || !strings.Contains(strings.Join(r.Problems, "\n"), tc.want) {
			t.Errorf("%s: %q, want %q", what, r.Problems, tc.want)
		}
	}
}

// An export goes on page by page, each time in another process.
func TestSummer_GoesOnFromItsState(t *testing.T) {
	t.Parallel()
	segments := whole(november, team())
	rows := []bill.Row{
		{Hour: november.Start, NamespaceID: "ns_1", Counts: bill.Counts{JobsEnqueued: 5, StreamsPeak: 3}},
		{Hour: november.Start, NamespaceID: "ns_1", Revision: 1, Counts: bill.Counts{JobsEnqueued: 6, EgressBytes: 1 << 60}},
		{Hour: november.Start, NamespaceID: "ns_2", Counts: bill.Counts{JobsEnqueued: 7}},
	}
	var whole bill.Summer
	whole.Begin(segments)
	var state []byte
	for i, r := range rows {
		var part bill.Summer
		part.Begin(segments)
		if i > 0 {
			if err := part.Resume(segments, state); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(part.Add(r), whole.Add(r)); err != nil {
			t.Fatal(err)
		}
		state = part.State()
	}
	var last bill.Summer
	if err := last.Resume(segments, state); err != nil {
		t.Fatal(err)
	}
	if got, want := last.End()[0], whole.End()[0]; got != want || want.JobsEnqueued != 13 || last.Rows != 3 || last.Totals != whole.Totals {
		t.Errorf("%+v of %d rows, want %+v", got, last.Rows, want)
	}
	if err := last.Resume(segments, state[:3]); err == nil {
		t.Error("half a state was taken")
	}
}

func TestVerify_ManyProblemsAreBounded(t *testing.T) {
	t.Parallel()
	lines := exported(t)[:1]
	for range 1000 {
		lines = append(lines, "x\n")
	}
	if r := verify(t, lines); len(r.Problems) > 101 {
		t.Errorf("%d problems", len(r.Problems))
	}
}

// A file is what somebody hands in: reading it ends in a verdict, and what is valid says what
// its rows say.
func FuzzVerify(f *testing.F) {
	good := exported(f)
	f.Add([]byte(strings.Join(good, "")))
	f.Add([]byte(good[0] + good[5]))
	f.Add([]byte(good[0] + `{"kind":"footer"}`))
	f.Add([]byte(`{"kind":"header","format":1}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := bill.Verify(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if !r.Valid() {
			return
		}
		var total int64
		for _, l := range r.Lines {
			if l.Amount < 0 || l.Included < 0 || l.Quantity < 0 {
				t.Errorf("line %+v", l)
			}
			if total += l.Amount; total < 0 {
				total = math.MaxInt64
			}
		}
		if total != r.Total {
			t.Errorf("total %d of lines that add up to %d", r.Total, total)
		}
	})
}

// The example of docs/billing.md is a file that adds up to what the page says.
func TestDocs_TheExampleAddsUp(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "billing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(page), "```json\n")
	file, _, _ = strings.Cut(file, "```")
	r, err := bill.Verify(strings.NewReader(file))
	if err != nil || !r.Valid() || r.Total != 5100 || r.Rows != 2 {
		t.Errorf("%d rows, total %d: %v, %v", r.Rows, r.Total, r.Problems, err)
	}
	if !strings.Contains(string(page), "$49.00 + $2.00 = $51.00") {
		t.Error("the page says another total")
	}
	for _, m := range bill.Meters() {
		if !strings.Contains(string(page), "| `"+m+"` |") {
			t.Errorf("the page doesn't say what %s counts", m)
		}
	}
}
