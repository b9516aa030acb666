package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// billingFlags are those of the verbs about what was counted and what it costs.
type billingFlags struct {
	month, interval, plan string
	byNamespace           bool
}

func monthFlag(c *cobra.Command, month *string) {
	c.Flags().StringVar(month, "month", "", "the `MONTH`, such as 2026-11, in UTC (default: the current one)")
}

// monthOf reads the flag; nil is the current month.
func monthOf(text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse("2006-01", text)
	if err != nil {
		return nil, usage("--month", text, "a month such as 2026-11")
	}
	return timestamppb.New(t), nil
}

// countedVerbs stand beside corvo usage itself, which is about models.
func (s *session) countedVerbs() []verb {
	var show, export billingFlags
	return []verb{
		s.ofTenant(verb{
			noun: "usage show", short: "Show what was counted for billing: jobs, executions, bytes",
			long: `Shows what was counted in a month, by day. An hour is final when its row says so; the current
month has a forecast, if the last seven days go on.`,
			example: "  {cmd}\n  {cmd} --month 2026-11 --by-namespace\n  {cmd} --interval hour -o jsonl",
			flags: func(c *cobra.Command) {
				monthFlag(c, &show.month)
				c.Flags().BoolVar(&show.byNamespace, "by-namespace", false, "one row for each namespace")
				c.Flags().StringVar(&show.interval, "interval", "day", "day or hour")
				completeWords(c, "interval", "day", "hour")
			},
		}, func(t *tenantCall, _ []string) error { return t.showUsage(show) }),
		s.ofTenant(verb{
			noun: "usage export", short: "Write the hours from which a month's bill is made, as JSON lines",
			long: `Writes the rows of the ledger of a month, with the prices and the invoice that follow from
them. corvo usage verify computes the invoice again from the file, without a server.`,
			example: "  {cmd} > november.ndjson\n  {cmd} --month 2026-11 > november.ndjson",
			flags:   func(c *cobra.Command) { monthFlag(c, &export.month) },
		}, func(t *tenantCall, _ []string) error { return t.exportUsage(export) }),
		{
			noun: "usage verify", args: "FILE", short: "Compute the invoice of an exported month again",
			long: `Adds up the rows of a file that corvo usage export wrote, computes the invoice from them and the
prices, and compares it with what the file says. This needs no server. Exits with 1 and names
each difference if they don't agree. - reads stdin.`,
			example: "  {cmd} november.ndjson",
			run:     func(_ *cobra.Command, args []string) error { return s.verifyUsage(args[0]) },
		},
	}
}

func (t *tenantCall) showUsage(f billingFlags) error {
	month, err := monthOf(f.month)
	if err != nil {
		return err
	}
	r := &cloudv1.GetUsageRequest{Tenant: t.tenant, Interval: f.interval, ByNamespace: f.byNamespace}
	if month != nil {
		r.From, r.To = month, timestamppb.New(bill.Month(month.AsTime()).End)
	}
	res, err := tell(t, t.usage.GetUsage, r)
	if err != nil {
		return err
	}
	return t.s.emitMessage(res, func(w io.Writer) { t.s.printUsage(w, f, res) })
}

func (s *session) printUsage(w io.Writer, f billingFlags, res *cloudv1.GetUsageResponse) {
	layout := time.DateOnly
	if f.interval == "hour" {
		layout = "2006-01-02 15:04"
	}
	header := []string{"START (UTC)", "JOBS", "EXECUTIONS", "PAYLOADS", "STORED GB-HOURS", "SENT", "PEAK STREAMS", "FINAL"}
	if f.byNamespace {
		header = slices.Insert(header, 1, "NAMESPACE")
	}
	var rows [][]string
	add := func(start, namespace string, c *cloudv1.Counts, final string) {
		row := []string{start, grouped(c.GetJobsEnqueued()), grouped(c.GetExecutions()), size(c.GetPayloadBytes()), gigabyteHours(c.GetStoredByteHours()),
			size(c.GetEgressBytes()), grouped(c.GetStreamsPeak()), final}
		if f.byNamespace {
			row = slices.Insert(row, 1, namespace)
		}
		rows = append(rows, row)
	}
	for _, p := range res.GetPoints() {
		final := "no"
		if p.GetClosed() {
			final = "yes"
		}
		name := p.GetNamespace()
		if name == "" {
			name = p.GetNamespaceId()
		}
		add(p.GetStart().AsTime().Format(layout), name, p.GetCounts(), final)
	}
	add("total", "", res.GetTotal(), "-")
	if res.GetForecast() != nil {
		add("forecast", "", res.GetForecast(), "-")
	}
	s.table(w, header, rows)
}

func (t *tenantCall) exportUsage(f billingFlags) error {
	month, err := monthOf(f.month)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(t.s.proc.Stdout)
	for r := (&cloudv1.ExportUsageRequest{Tenant: t.tenant, Period: month}); ; {
		res, err := tell(t, t.usage.ExportUsage, r)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		_, _ = w.Write(res.GetData()) // Flush tells.
		if r.PageToken = res.GetNextPageToken(); r.GetPageToken() == "" {
			break
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// verified is what corvo usage verify prints as JSON.
type verified struct {
	Valid    bool        `json:"valid"`
	Tenant   string      `json:"tenant"`
	Period   string      `json:"period"`
	Currency string      `json:"currency"`
	Rows     int64       `json:"rows"`
	Totals   bill.Counts `json:"totals"`
	Lines    []bill.Line `json:"lines"`
	Total    int64       `json:"total"`
	Problems []string    `json:"problems"`
}

func (s *session) verifyUsage(name string) (err error) {
	file := io.Reader(s.proc.Stdin)
	if name != "-" {
		opened, failed := os.Open(name)
		if failed != nil {
			return &Failure{Exit: ExitUsage, Code: "FILE", What: "can't read the file", Why: failed.Error()}
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		file = opened
	}
	r, err := bill.Verify(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v := verified{
		Valid: r.Valid(), Tenant: r.Header.Tenant, Period: r.Header.PeriodStart.Format("2006-01"), Currency: r.Header.Currency, Rows: r.Rows,
		Totals: r.Totals, Lines: append([]bill.Line{}, r.Lines...), Total: r.Total, Problems: append([]string{}, r.Problems...),
	}
	if err := s.emitValue(v, func(w io.Writer) { s.printVerified(w, v) }); err != nil {
		return err
	}
	if v.Valid {
		return nil
	}
	if name == "-" {
		name = "stdin"
	}
	return &Failure{Exit: ExitFail, Code: "USAGE_DIFFERS", What: name + " doesn't add up", Why: r.Problems[0], Fix: "export the month again, and ask us if it still differs"}
}

func (s *session) printVerified(w io.Writer, v verified) {
	if len(v.Lines) > 0 {
		fmt.Fprintf(w, "%s  %s  %s rows\n", v.Tenant, v.Period, grouped(v.Rows))
		var rows [][]string
		for _, l := range v.Lines {
			rows = append(rows, lineCells(l.Item, l.Plan, l.From, l.To, l.Quantity, l.Included, l.Amount, v.Currency))
		}
		s.table(w, lineHeader, append(rows, totalCells(v.Total, v.Currency)))
	}
	for _, p := range v.Problems {
		fmt.Fprintf(w, "differs  %s\n", p)
	}
	if v.Valid {
		fmt.Fprintln(w, "valid: the invoice follows from the rows")
	}
}

var lineHeader = []string{"ITEM", "PLAN", "FROM", "TO", "QUANTITY", "INCLUDED", "AMOUNT"}

func lineCells(item, plan string, from, to time.Time, quantity, included, cost int64, currency string) []string {
	const layout = "2006-01-02 15:04"
	return []string{item, plan, from.UTC().Format(layout), to.UTC().Format(layout), quantityText(item, quantity), quantityText(item, included), amount(cost, currency)}
}

// quantityText is a number of what a line is about, in its unit.
func quantityText(item string, n int64) string {
	switch item {
	case bill.Base:
		if n == 0 { // Nothing of it is included.
			return "-"
		}
		return grouped(n) + " h"
	case "payload_bytes", "egress_bytes":
		return size(n)
	case "stored_byte_hours":
		return gigabyteHours(n) + " GB-hours"
	}
	return grouped(n)
}

func totalCells(total int64, currency string) []string {
	return []string{"total", "", "", "", "", "", amount(total, currency)}
}

func (s *session) invoiceVerbs() []verb {
	var f billingFlags
	return []verb{s.ofTenant(verb{
		noun: "invoice preview", short: "Show the invoice of a month before it is made, from what was counted",
		long: `Shows what the month costs, from the hours that are final. For the current month, the forecast
says what it will cost if the last seven days go on. --plan shows what another plan would cost.`,
		example: "  {cmd}\n  {cmd} --month 2026-10 --plan business",
		flags: func(c *cobra.Command) {
			monthFlag(c, &f.month)
			c.Flags().StringVar(&f.plan, "plan", "", "as if the tenant had this `PLAN`")
		},
	}, func(t *tenantCall, _ []string) error { return t.previewInvoice(f) })}
}

func (t *tenantCall) previewInvoice(f billingFlags) error {
	month, err := monthOf(f.month)
	if err != nil {
		return err
	}
	res, err := tell(t, t.usage.PreviewInvoice, &cloudv1.PreviewInvoiceRequest{Tenant: t.tenant, Period: month, Plan: f.plan})
	if err != nil {
		return err
	}
	return t.s.emitMessage(res, func(w io.Writer) {
		inv := res.GetInvoice()
		var rows [][]string
		for _, l := range inv.GetLines() {
			rows = append(rows, lineCells(l.GetItem(), l.GetPlan(), l.GetFrom().AsTime(), l.GetTo().AsTime(), l.GetQuantity(), l.GetIncluded(), l.GetAmount(), inv.GetCurrency()))
		}
		rows = append(rows, totalCells(inv.GetTotal(), inv.GetCurrency()))
		if res.GetForecastTotal() > 0 {
			rows = append(rows, []string{"forecast", "", "", "", "", "", amount(res.GetForecastTotal(), inv.GetCurrency())})
		}
		t.s.table(w, lineHeader, rows)
		fmt.Fprintf(w, "%s, before tax\n", inv.GetState())
	})
}

func (s *session) spendLimitVerbs() []verb {
	var most, action string
	var alerts []int32
	return []verb{
		s.ofTenant(verb{noun: "spend-limit show", short: "Show the tenant's spend limit and what it has spent", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.usage.GetSpendLimit, &cloudv1.GetSpendLimitRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return s.emitMessage(res, func(w io.Writer) {
				s.printSpendLimit(w, res.GetLimit(), amount(res.GetSpent(), res.GetLimit().GetCurrency()))
			})
		}),
		s.ofTenant(verb{
			noun: "spend-limit set", short: "Limit what the tenant spends in a month",
			long: `Sets the most that the tenant wants to spend in a month. When it is reached, --action alert only
sends emails, hold starts no more attempts until the next month or a higher limit, and reject
also refuses new jobs. Nothing that was enqueued is lost. This replaces the limit.`,
			example: "  {cmd} --amount 200\n  {cmd} --amount 500.50 --action hold --alert-percent 50,80,100",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&most, "amount", "", "`MONEY` per month, such as 200 or 99.50")
				c.Flags().StringVar(&action, "action", "alert", "alert, hold or reject")
				completeWords(c, "action", "alert", "hold", "reject")
				c.Flags().Int32SliceVar(&alerts, "alert-percent", []int32{80, 100}, "send an email at these `PERCENTAGES`, at most five")
				_ = c.MarkFlagRequired("amount") // There is such a flag.
			},
		}, func(t *tenantCall, _ []string) error {
			cents, err := centsOf(most)
			if err != nil {
				return err
			}
			return t.setSpendLimit(&cloudv1.SpendLimit{Amount: cents, Action: action, AlertPercents: alerts})
		}),
		s.ofTenant(verb{noun: "spend-limit remove", short: "Remove the tenant's spend limit", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			return t.setSpendLimit(&cloudv1.SpendLimit{})
		}),
	}
}

func (t *tenantCall) setSpendLimit(l *cloudv1.SpendLimit) error {
	res, err := tell(t, t.usage.SetSpendLimit, &cloudv1.SetSpendLimitRequest{Tenant: t.tenant, Limit: l})
	if err != nil {
		return byFlags(err, map[string]string{"limit.amount": "--amount", "limit.action": "--action", "limit.alert_percents": "--alert-percent"})
	}
	return t.s.emitMessage(res.GetLimit(), func(w io.Writer) { t.s.printSpendLimit(w, res.GetLimit()) })
}

// printSpendLimit prints what was spent only if that was asked for.
func (s *session) printSpendLimit(w io.Writer, l *cloudv1.SpendLimit, spent ...string) {
	most, alerts := "none", make([]string, 0, len(l.GetAlertPercents()))
	if l.GetAmount() > 0 {
		most = amount(l.GetAmount(), l.GetCurrency())
	}
	for _, n := range l.GetAlertPercents() {
		alerts = append(alerts, fmt.Sprintf("%d %%", n))
	}
	header, row := []string{"LIMIT", "ACTION", "EMAILS AT"}, []string{most, l.GetAction(), orDash(strings.Join(alerts, ", "))}
	if l.GetAmount() == 0 {
		row = []string{most, "-", "-"}
	}
	if len(spent) > 0 {
		header = append(header, "SPENT")
	}
	s.table(w, header, [][]string{append(row, spent...)})
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// centsOf reads an amount of money exactly.
func centsOf(text string) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	for len(part) < 2 {
		part += "0"
	}
	n, err := strconv.ParseInt(whole+part, 10, 64)
	if err != nil || len(part) != 2 || n <= 0 || strings.HasPrefix(whole, "+") || whole == "" {
		return 0, usage("--amount", text, "an amount of money above 0, such as 200 or 99.50")
	}
	return n, nil
}

// grouped is a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// size is a number of bytes as people read it.
func size(n int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i, f := 0, float64(n)
	for f >= 1024 && i < len(units)-1 {
		i, f = i+1, f/1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// gigabyteHours rounds, but never something to nothing.
func gigabyteHours(n int64) string {
	gb := float64(n) / (1 << 30)
	if n > 0 && gb < 0.01 {
		return "< 0.01"
	}
	return strconv.FormatFloat(math.Round(gb*100)/100, 'f', 2, 64)
}
