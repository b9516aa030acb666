package main

const (
	meterTake  = "internal/metering/take.go"
	meterClose = "internal/metering/close.go"
	billFile   = "bill/bill.go"
	billExport = "bill/export.go"
)

// ledgerMutations break how readings become a ledger.
var ledgerMutations = []mutation{
	{"the newest reading counts, not the largest", meterTake, "counts, seq := largest(row.Counts, r.Counts), max(row.Seq, r.Seq)", "counts, seq := r.Counts, r.Seq"},
	{"a decrease is no alarm", meterTake, "if r.Seq > row.Seq && less(r.Counts, row.Counts) ||", "if r.Seq > row.Seq && less(r.Counts, row.Counts) && r.Seq < 0 ||"},
	{"what can't be counts", meterTake, "case !possible(r.Counts):", "case !possible(r.Counts) && r.Seq < 0:"},
	{"a recovered shard is billed twice", meterTake, "base = largest(base, largest(first.Counts, row.Counts))", "base = largest(base, each(row.Counts, row.Counts, func(int64, int64) int64 { return 0 }))"},
	{"what a recovered shard has is billed again", meterTake, "base = largest(base, largest(first.Counts, row.Counts))", "base = largest(base, row.Counts)"},
	{"runs of a proxy replace each other", meterTake, "if !t.shard() {\n\t\treturn base\n", "if t.shard() && false {\n\t\treturn base\n"},
	{"an epoch that ended counts", meterTake, "return known.Ended, nil", "return known.Ended && false, nil"},
	{"late data is lost", meterTake, "late = append(late, key.UsageKey)", "_ = late"},
	{"a revision replaces nothing", meterTake, "row.Revision = was.Revision + 1", "row.Revision = was.Revision"},
	{"days forget revisions", meterTake, "minus(row.Counts, was.Counts)); err", "store.Counts{}); err"},
	{"the same is another revision", meterTake, "if row.Counts == was.Counts {", "if row.Counts == was.Counts && !has {"},
	{"peaks of proxies don't add up", meterTake, "total.StreamsPeak += p", "total.StreamsPeak = max(total.StreamsPeak, p)"},
	{"an old hour takes corrections for ever", meterTake, "case r.Hour < t.closing.Hour-horizon:", "case r.Hour < t.closing.Hour-horizon*1000:"},
	{"the position is lost", meterTake, "if err == nil && t.Position != nil {", "if err == nil && t.Position != nil && t.shard() == false {"},
	{"a shard that was never heard holds nothing", meterClose, "if told.Before(to) {", "if !told.IsZero() && told.Before(to) {"},
	{"a silent proxy holds every hour", meterClose, "now.Sub(s.HeardAt) < SilentFor && s.CompleteTo.Before(to)", "s.CompleteTo.Before(to)"},
	{"a slow proxy holds nothing", meterClose, "now.Sub(s.HeardAt) < SilentFor && s.CompleteTo.Before(to)", "now.Sub(s.HeardAt) < 0 && s.CompleteTo.Before(to)"},
	{"readings are deleted while they may be corrected", meterClose, "at.Hour-keptHours, deletedAtOnce", "at.Hour, deletedAtOnce"},
}

// billMutations break how an invoice follows from the ledger.
var billMutations = []mutation{
	{"an included amount is rounded down", billFile, "l.Included = scaled(r.Included, s.hours(), p.Hours(), true)", "l.Included = scaled(r.Included, s.hours(), p.Hours(), false)"},
	{"a base is rounded up", billFile, "base.Amount = scaled(s.BaseAmount, s.hours(), p.Hours(), false)", "base.Amount = scaled(s.BaseAmount, s.hours(), p.Hours(), true)"},
	{"a part of a month costs a whole one", billFile, "base.Amount = scaled(s.BaseAmount, s.hours(), p.Hours(), false)", "base.Amount = s.BaseAmount"},
	{"what is included is charged", billFile, "max(0, l.Quantity-l.Included)", "max(0, l.Quantity)"},
	{"a large product overflows", billFile, "if hi >= uint64(per) {", "if hi >= uint64(per) && lo == 0 {"},
	{"a plan is in force before it was chosen", billFile, "return hour.Add(time.Hour)", "return hour"},
	{"a change to the same plan divides the month", billFile, "out[n-1].To.Equal(s.From) && out[n-1].same(s.Plan)", "out[n-1].To.Equal(s.From) && out[n-1].same(s.Plan) && n > 5"},
	{"another version is the same plan", billFile, "s.Name == p.Name && s.Version == p.Version &&", "s.Name == p.Name &&"},
	{"every month has 30 days", billFile, "func (p Period) Hours() int64 { return int64(p.End.Sub(p.Start) / time.Hour) }", "func (p Period) Hours() int64 { return 720 }"},
	{"sums overflow", billFile, "if a > math.MaxInt64-b {", "if a > math.MaxInt64-b && b < 0 {"},
	{"an hour is counted once per revision", billExport, "\tif same {\n\t\ts.Superseded", "\tif false {\n\t\ts.Superseded"},
	{"a missing revision isn't noticed", billExport, "case !same && r.Revision != 0:", "case !same && r.Revision < 0:"},
	{"a file without its end is whole", billExport, "v.fail(\"the file has no footer: it isn't whole\")", "v.line++"},
	{"another total is as good", billExport, "differs(\"total\", f.Total, v.Total)", "_ = f.Total"},
	{"hours of another month count", billExport, "|| r.Hour.Before(v.period.Start) || !r.Hour.Before(v.period.End):", ":"},
}
