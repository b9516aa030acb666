package month_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

type meter struct {
	name, event, title string
	unit               int64
	told               bool // Clients know it exactly.
}

// meters as they are at Stripe: their events, and the units that they are sent in.
var meters = []meter{
	{bill.JobsEnqueued, "corvo_jobs_enqueued", "Jobs enqueued", 1, true},
	{bill.Executions, "corvo_executions", "Executions", 1, true},
	{bill.PayloadBytes, "corvo_payload_bytes", "Payload, KB", 1 << 10, true},
	{bill.StoredByteHours, "corvo_stored_byte_hours", "Stored, MB-hours", 1 << 20, false},
	{bill.EgressBytes, "corvo_egress_bytes", "Egress, KB", 1 << 10, false},
}

// ledger is what the ledger has of a tenant for a month.
type ledger struct {
	bill.Report
	hours map[int64]bill.Counts // The newest revision of each, all namespaces.
}

// ledgerOf exports a month of a tenant, and verifies the file.
func (w *world) ledgerOf(t *tenant, month bill.Period) (*ledger, error) {
	var text []byte
	for token := ""; ; {
		var part struct {
			Data []byte `json:"data"`
			Next string `json:"nextPageToken"`
		}
		in := map[string]any{"period": month.Start.Format(time.RFC3339), "pageToken": token}
		if err := w.asks(t, "UsageService/ExportUsage", in, &part); err != nil {
			return nil, fmt.Errorf("export of %s: %w", t.name, err)
		}
		text = append(text, part.Data...)
		if token = part.Next; token == "" {
			break
		}
	}
	l := &ledger{hours: make(map[int64]bill.Counts)}
	var err error
	if l.Report, err = bill.Verify(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	if !l.Valid() {
		return nil, fmt.Errorf("the export of %s doesn't add up: %v", t.name, l.Problems)
	}
	return l, l.readHours(text)
}

func (l *ledger) readHours(text []byte) error {
	newest := make(map[string]bill.Row)
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"kind":"hour"`)) {
			continue
		}
		row, err := parse[bill.Row](line)
		if err != nil {
			return err
		}
		key := row.Hour.String() + row.NamespaceID
		if had, is := newest[key]; !is || row.Revision > had.Revision {
			newest[key] = row
		}
	}
	for _, row := range newest {
		hour := row.Hour.Unix() / 3600
		l.hours[hour] = l.hours[hour].Plus(row.Counts)
	}
	return nil
}

// priced reports whether an hour is of a plan that costs something.
func (l *ledger) priced(hour int64) bool {
	at := time.Unix(hour*3600, 0)
	for _, s := range l.Header.Segments {
		if s.Holds(at) {
			return len(s.Prices) > 0
		}
	}
	return false
}

// comparison adds up what three sides say.
type comparison struct {
	*world
	told, ledger, sent, items map[string]int64 // By meter, all tenants.
	invoiced                  map[string]int64 // What is on invoices or items.
	differences               []string
	hours                     int
	ended                     map[string]time.Time // Subscriptions.
	invoices                  int
	ofLedger, ofInvoices      int64 // What those cost, in cents.
}

func (c *comparison) differs(format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, args...))
}

// compare looks at all tenants, of all months that the world has seen; the first has invoices.
func (w *world) compare(tenants []*tenant, months []bill.Period) (*comparison, error) {
	c := &comparison{world: w, told: map[string]int64{}, ledger: map[string]int64{}, sent: map[string]int64{}, items: map[string]int64{}, invoiced: map[string]int64{}}
	items, err := w.lateItems()
	if err != nil {
		return nil, err
	}
	c.ended = w.endings()
	for _, t := range tenants {
		all := make(map[int64]bill.Counts)
		paid := make(map[int64]bool)
		for i, month := range months {
			l, err := w.ledgerOf(t, month)
			if err != nil {
				return nil, err
			}
			for hour, n := range l.hours {
				all[hour] = n
				paid[hour] = l.priced(hour)
			}
			if i == 0 {
				c.invoice(t, l, items)
			}
		}
		c.clients(t, all)
		c.stripe(t, all, paid, items)
	}
	return c, nil
}

// clients compares what a client was told with the ledger, hour by hour.
func (c *comparison) clients(t *tenant, all map[int64]bill.Counts) {
	hours := maps.Clone(all)
	for hour := range t.told {
		hours[hour] = all[hour]
	}
	for hour, has := range hours {
		var told bill.Counts
		if t.told[hour] != nil {
			told = *t.told[hour]
			c.hours++
		}
		for _, m := range meters {
			c.ledger[m.name] += has.Of(m.name)
			c.told[m.name] += told.Of(m.name)
			if m.told && told.Of(m.name) != has.Of(m.name) {
				c.differs("%s of %s at %s: the client was told %d, the ledger has %d", m.name, t.name, hourText(hour), told.Of(m.name), has.Of(m.name))
			}
		}
	}
}

func hourText(hour int64) string { return time.Unix(hour*3600, 0).UTC().Format("2006-01-02 15h") }

// dayOf is what is too late for a meter event, by customer, meter and day.
type dayOf struct{ customer, meter, day string }

// stripe compares the ledger with the fake Stripe, day by day, and by hour where no item of an
// invoice stands for some of it.
func (c *comparison) stripe(t *tenant, all map[int64]bill.Counts, paid map[int64]bool, items map[dayOf]int64) {
	if t.customer == "" {
		return
	}
	for _, m := range meters {
		ledger, sent := make(map[string]int64), make(map[string]int64)
		for hour, has := range all {
			at := time.Unix(hour*3600, 0).UTC()
			if c.over(t, at) {
				continue
			}
			used := c.world.stripe.Used(m.event, t.customer, at)
			want := int64(0)
			if paid[hour] {
				want = has.Of(m.name) / m.unit
			}
			day := at.Format(time.DateOnly)
			ledger[day] += want
			sent[day] += used
			c.sent[m.name] += used
			if items[dayOf{t.customer, m.title, day}] == 0 && used != want {
				c.differs("%s of %s at %s: the ledger has %d, Stripe %d", m.name, t.name, hourText(hour), want, used)
			}
		}
		for day, want := range ledger {
			late := items[dayOf{t.customer, m.title, day}]
			c.items[m.name] += late
			if sent[day]+late != want {
				c.differs("%s of %s on %s: the ledger has %d, Stripe %d and %d of later items", m.name, t.name, day, want, sent[day], late)
			}
		}
	}
}

// adjusted begins the title of what an invoice lacked to the ledger.
const adjusted = "What your usage before "

var lateText = regexp.MustCompile(`^(.+) on (\d{4}-\d\d-\d\d), counted later: (\d+)$`)

// lateItems are the items of invoices that stand for usage.
func (w *world) lateItems() (map[dayOf]int64, error) {
	out := make(map[dayOf]int64)
	texts, customers, prorations := w.stripe.Show("invoiceitem", "description"), w.stripe.Show("invoiceitem", "customer"), w.stripe.Show("invoiceitem", "proration")
	for i, text := range texts {
		if prorations[i] == true || strings.HasPrefix(text.(string), adjusted) {
			continue // A base, or what makes the invoice's cents the ledger's: no usage.
		}
		found := lateText.FindStringSubmatch(text.(string))
		if found == nil {
			return nil, fmt.Errorf("an item of an invoice says %q", text)
		}
		n, err := strconv.ParseInt(found[3], 10, 64)
		if err != nil {
			return nil, err
		}
		out[dayOf{customers[i].(string), found[1], found[2]}] += n
	}
	return out, nil
}

// over reports whether an hour is after the last one that a tenant pays. What Stripe is sent of
// it before it has told of the end is on no invoice.
func (c *comparison) over(t *tenant, hour time.Time) bool {
	end, has := c.ended[t.subscription]
	return has && !hour.Before(bill.Hourly(end))
}

// invoice compares the invoice of a month, and the items that came after it, with the ledger,
// for a tenant that paid for one plan.
func (c *comparison) invoice(t *tenant, l *ledger, items map[dayOf]int64) {
	paid := slices.DeleteFunc(slices.Clone(l.Header.Segments), func(s bill.Segment) bool { return len(s.Prices) == 0 })
	invoice := c.world.stripe.InvoiceOf(t.subscription, l.Header.PeriodEnd)
	if _, ended := c.ended[t.subscription]; invoice == "" || ended || len(paid) != 1 || !paid[0].To.Equal(l.Header.PeriodEnd) {
		return
	}
	c.invoices++
	plan := paid[0]
	lines := make(map[string]stripetest.Line)
	for _, line := range c.world.stripe.Lines(invoice) {
		lines[strings.TrimPrefix(line.Price, fmt.Sprintf("corvo_%s_%d_", plan.Name, plan.Version))] = line
	}
	costs := make(map[string]int64)
	for _, line := range l.Lines {
		costs[line.Item] += line.Amount
	}
	// Stripe's periods are not ours where a plan began within the month: its base isn't compared.
	if whole := plan.From.Equal(l.Header.PeriodStart); whole && lines[bill.Base].Amount != costs[bill.Base] {
		c.differs("base of %s: the ledger has %d cents, the invoice %d", t.name, costs[bill.Base], lines[bill.Base].Amount)
	}
	for _, m := range meters {
		c.line(t, m, plan, l, lines[m.name], costs[m.name], items)
	}
}

// line compares one meter of an invoice. What is sent in larger units than it is counted in is
// rounded down each hour, so there the ledger's invoice may be a little more.
func (c *comparison) line(t *tenant, m meter, plan bill.Segment, l *ledger, line stripetest.Line, cost int64, items map[dayOf]int64) {
	price := plan.Prices[slices.IndexFunc(plan.Prices, func(p bill.Price) bool { return p.Meter == m.name })]
	var want, late int64
	for hour, n := range l.hours {
		if plan.Holds(time.Unix(hour*3600, 0)) {
			want += n.Of(m.name) / m.unit
		}
	}
	for at, n := range items {
		if at.customer == t.customer && at.meter == m.title && strings.HasPrefix(at.day, l.Header.PeriodStart.Format("2006-01")) {
			late += n
		}
	}
	if line.Quantity+late != want {
		c.differs("invoice of %s, %s: the ledger has %d, the invoice %d and later items %d", t.name, m.name, want, line.Quantity, late)
	}
	got := line.Amount + late*m.unit*price.Amount/price.Per
	c.ofInvoices, c.ofLedger = c.ofInvoices+got, c.ofLedger+cost
	if more := cost - got; more < 0 || m.unit == 1 && more > 0 || more > int64(len(l.hours)) {
		c.differs("invoice of %s, %s: the ledger has %d cents, the invoice and later items %d", t.name, m.name, cost, got)
	}
}

const shown = 10

// report prints the totals, and fails the test for differences.
func (c *comparison) report() {
	c.t.Helper()
	var b strings.Builder
	for _, m := range meters {
		told := strconv.FormatInt(c.told[m.name], 10)
		if !m.told {
			told = "-"
		}
		fmt.Fprintf(&b, "\n%-18s %14s %14d %14d %14d", m.name, told, c.ledger[m.name], c.sent[m.name], c.items[m.name])
	}
	c.t.Logf("%d hours of tenants in which clients worked\n%-18s %14s %14s %14s %14s%s", c.hours, "", "clients", "ledger", "Stripe's units", "late items", b.String())
	c.t.Logf("%d invoices of tenants with one plan: usage is %d cents in the ledger, %d on them and on later items", c.invoices, c.ofLedger, c.ofInvoices)
	slices.Sort(c.differences)
	for i, d := range c.differences {
		if i == shown {
			c.t.Errorf("... and %d more", len(c.differences)-i)
			break
		}
		c.t.Error(d)
	}
	c.t.Logf("differences: %d", len(c.differences))
}
