package bill

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Format is the version of the exported form, which the header names.
const Format = 1

// Kinds of lines.
const (
	KindHeader = "header"
	KindHour   = "hour"
	KindFooter = "footer"
)

// Header is the first line of an export.
type Header struct {
	Kind        string    `json:"kind"`
	Format      int       `json:"format"`
	TenantID    string    `json:"tenant_id"`
	Tenant      string    `json:"tenant"`
	PeriodStart time.Time `json:"period_start"`
	PeriodEnd   time.Time `json:"period_end"`
	// Hours that ended by then are in the file.
	ClosedTo time.Time `json:"closed_to"`
	Currency string    `json:"currency"`
	Segments []Segment `json:"segments"`
}

// Row is a row of the ledger. The highest revision of an hour of a namespace counts.
type Row struct {
	Kind        string    `json:"kind"`
	Hour        time.Time `json:"hour"`
	NamespaceID string    `json:"namespace_id"`
	Namespace   string    `json:"namespace"`
	Revision    int64     `json:"revision"`
	Counts
}

// Footer is the last line.
type Footer struct {
	Kind   string `json:"kind"`
	Rows   int64  `json:"rows"`
	Totals Counts `json:"totals"`
	// Superseded adds up the revisions that don't count, so that a change of one shows too. Older
	// files lack it.
	Superseded *Counts `json:"superseded,omitempty"`
	Lines      []Line  `json:"lines"`
	Total      int64   `json:"total"`
}

// Text is a line of an export, with its newline.
func Text(line any) ([]byte, error) {
	switch l := line.(type) {
	case Header:
		l.Kind, l.Format = KindHeader, Format
		line = l
	case Row:
		l.Kind = KindHour
		line = l
	case Footer:
		l.Kind = KindFooter
		line = l
	}
	b, err := json.Marshal(line)
	return append(b, '\n'), err
}

// Summer adds the rows of a ledger up, in their order: by hour, namespace and revision. The
// zero value is ready after Begin.
type Summer struct {
	Rows               int64
	Totals, Superseded Counts

	segments []Segment
	counts   []Counts
	last     Row // Whose counts wait for a higher revision.
	some     bool
}

// Begin sets the segments.
func (s *Summer) Begin(segments []Segment) {
	*s = Summer{segments: segments, counts: make([]Counts, len(segments))}
}

// Add counts a row. The error says why it can't stand where it does.
func (s *Summer) Add(r Row) error {
	s.Rows++
	same := s.some && r.Hour.Equal(s.last.Hour) && r.NamespaceID == s.last.NamespaceID
	var err error
	switch {
	case s.some && (r.Hour.Before(s.last.Hour) || r.Hour.Equal(s.last.Hour) && r.NamespaceID < s.last.NamespaceID):
		err = errors.New("it isn't in order: by hour, then namespace_id, then revision")
	case same && r.Revision != s.last.Revision+1:
		err = fmt.Errorf("it has revision %d, after revision %d of the same hour", r.Revision, s.last.Revision)
	case !same && r.Revision != 0:
		err = fmt.Errorf("it has revision %d, and those before it are missing", r.Revision)
	}
	if same {
		s.Superseded = s.Superseded.Plus(s.last.Counts)
	} else {
		s.settle()
	}
	s.last, s.some = r, true
	return err
}

// settle counts the highest revision of the last hour.
func (s *Summer) settle() {
	if !s.some {
		return
	}
	s.Totals = s.Totals.Then(s.last.Counts)
	for i, seg := range s.segments {
		if seg.Holds(s.last.Hour) {
			s.counts[i] = s.counts[i].Then(s.last.Counts)
		}
	}
	s.some = false
}

// End gives what was counted in each segment.
func (s *Summer) End() []Counts {
	s.settle()
	return s.counts
}

// State is what was added so far, to go on with later: see Resume.
func (s *Summer) State() []byte {
	b := binary.AppendVarint(nil, s.Rows)
	all := append([]Counts{s.Totals, s.Superseded}, s.counts...)
	if s.some {
		all = append(all, s.last.Counts)
	}
	for _, c := range all {
		for _, n := range c.all() {
			b = binary.AppendVarint(b, *n)
		}
	}
	if s.some {
		b = binary.AppendVarint(binary.AppendVarint(b, s.last.Hour.Unix()), s.last.Revision)
		b = append(b, s.last.NamespaceID...)
	}
	return b
}

var errState = errors.New("the state doesn't belong to these segments")

// Resume goes on from a state that was made with the same segments.
func (s *Summer) Resume(segments []Segment, state []byte) error {
	s.Begin(segments)
	at, bad := state, false
	next := func() (n int64) {
		n, size := binary.Varint(at)
		if size <= 0 {
			bad = true
			return 0
		}
		at = at[size:]
		return n
	}
	counts := func(c *Counts) {
		for _, n := range c.all() {
			*n = next()
		}
	}
	s.Rows = next()
	counts(&s.Totals)
	counts(&s.Superseded)
	for i := range s.counts {
		counts(&s.counts[i])
	}
	if s.some = len(at) > 0; s.some {
		counts(&s.last.Counts)
		s.last.Hour = time.Unix(next(), 0).UTC()
		s.last.Revision = next()
		s.last.NamespaceID = string(at)
	}
	if bad {
		return errState
	}
	return nil
}

// Report is what Verify found.
type Report struct {
	Header Header
	Rows   int64
	// Totals, Lines and Total are computed from header and rows alone.
	Totals   Counts
	Lines    []Line
	Total    int64
	Problems []string
}

// Valid reports that the file is whole, and that its footer says what follows from its rows.
func (r Report) Valid() bool { return len(r.Problems) == 0 }

const (
	lineMax = 1 << 20
	// problemsMax bounds what one file can be told.
	problemsMax = 100
)

// verifier reads an export line by line.
type verifier struct {
	Report
	period Period
	sums   Summer
	line   int
	begun  bool
	footer *Footer
}

// Verify reads an export and computes the invoice again. Only reading can fail; what is wrong
// with the file is in Problems.
func Verify(r io.Reader) (Report, error) {
	v := &verifier{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), lineMax)
	for lines.Scan() {
		v.line++
		v.read(lines.Bytes())
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		v.line++
		v.problem("it is longer than %d bytes", lineMax)
		err = nil
	}
	v.end()
	return v.Report, err
}

func (v *verifier) problem(format string, args ...any) {
	v.fail(fmt.Sprintf("line %d: ", v.line) + fmt.Sprintf(format, args...))
}

func (v *verifier) fail(text string) {
	if len(v.Problems) < problemsMax {
		v.Problems = append(v.Problems, text)
	}
}

func (v *verifier) read(text []byte) {
	var kind struct {
		Kind string `json:"kind"`
	}
	err := json.Unmarshal(text, &kind)
	switch {
	case err != nil:
		v.problem("it isn't a JSON object")
	case v.footer != nil:
		v.problem("it comes after the footer")
	case kind.Kind == KindHeader && v.line == 1:
		v.header(text)
	case !v.begun:
		v.problem("the file doesn't begin with a header")
		v.begun = true // Said once.
	case kind.Kind == KindHour:
		v.row(text)
	case kind.Kind == KindFooter:
		v.footer = new(Footer)
		v.decode(text, v.footer)
	default:
		v.problem("its kind %q isn't %s or %s", kind.Kind, KindHour, KindFooter)
	}
}

// decode is strict: a field that isn't known could change what the others mean.
func (v *verifier) decode(text []byte, into any) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		v.problem("%s", strings.TrimPrefix(err.Error(), "json: "))
		return false
	}
	return true
}

func (v *verifier) header(text []byte) {
	v.begun = true
	var form struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(text, &form) != nil || form.Format != Format {
		v.problem("the file has format %d, and this program reads format %d: use a newer one", form.Format, Format)
		return
	}
	if !v.decode(text, &v.Header) {
		return
	}
	h := v.Header
	v.period = Month(h.PeriodStart)
	if !v.period.Start.Equal(h.PeriodStart) || !v.period.End.Equal(h.PeriodEnd) {
		v.problem("%s to %s isn't a calendar month, UTC", stamp(h.PeriodStart), stamp(h.PeriodEnd))
		return
	}
	if err := Check(v.period, h.Segments); err != nil {
		v.problem("%v", err)
		return
	}
	v.sums.Begin(h.Segments)
}

func (v *verifier) row(text []byte) {
	var r Row
	if !v.decode(text, &r) {
		return
	}
	if err := v.sums.Add(r); err != nil {
		v.problem("%v", err)
	}
	switch {
	case !r.Hour.Equal(r.Hour.Truncate(time.Hour)) || r.Hour.Before(v.period.Start) || !r.Hour.Before(v.period.End):
		v.problem("%s isn't an hour of the period", stamp(r.Hour))
	case !r.Hour.Before(v.Header.ClosedTo):
		v.problem("%s isn't closed, by the header", stamp(r.Hour))
	case len(v.Header.Segments) > 0 && !slices.ContainsFunc(v.Header.Segments, func(s Segment) bool { return s.Holds(r.Hour) }):
		v.problem("no plan was in force at %s", stamp(r.Hour))
	}
	for i, n := range r.all() {
		if *n < 0 {
			v.problem("its %s is negative", Meters()[i])
		}
	}
}

// end compares what follows from the rows with the footer.
func (v *verifier) end() {
	if v.line == 0 {
		v.fail("the file is empty")
		return
	}
	if len(v.Problems) > 0 && v.Header.Segments == nil {
		return // Nothing can be computed.
	}
	counts := v.sums.End()
	v.Rows, v.Totals = v.sums.Rows, v.sums.Totals
	inv, err := Make(v.period, v.Header.Segments, counts)
	if err != nil {
		v.fail(err.Error())
		return
	}
	v.Lines, v.Total = inv.Lines, inv.Total
	if v.footer == nil {
		v.fail("the file has no footer: it isn't whole")
		return
	}
	v.compare(*v.footer)
}

func (v *verifier) compare(f Footer) {
	differs := func(what string, said, is int64) {
		if said != is {
			v.fail(fmt.Sprintf("footer: %s is %d, and %d follows from the rows", what, said, is))
		}
	}
	differs("rows", f.Rows, v.Rows)
	for i, m := range Meters() {
		differs("totals."+m, *f.Totals.all()[i], *v.Totals.all()[i])
		if f.Superseded != nil {
			differs("superseded."+m, *f.Superseded.all()[i], *v.sums.Superseded.all()[i])
		}
	}
	differs("the number of lines", int64(len(f.Lines)), int64(len(v.Lines)))
	for i := range min(len(f.Lines), len(v.Lines)) {
		said, is := f.Lines[i], v.Lines[i]
		name := fmt.Sprintf("line %d (%s of %s)", i+1, is.Item, is.Plan)
		for _, n := range []struct {
			what     string
			said, is int64
		}{
			{"quantity", said.Quantity, is.Quantity}, {"included", said.Included, is.Included}, {"per", said.Per, is.Per},
			{"unit_amount", said.UnitAmount, is.UnitAmount}, {"amount", said.Amount, is.Amount},
		} {
			differs(name+": "+n.what, n.said, n.is)
		}
		if said.Item != is.Item || said.Plan != is.Plan || said.PlanVersion != is.PlanVersion || !said.From.Equal(is.From) || !said.To.Equal(is.To) {
			v.fail(fmt.Sprintf("footer: line %d is %s of %s version %d, and %s of %s version %d follows from the header", i+1, said.Item, said.Plan, said.PlanVersion, is.Item, is.Plan, is.PlanVersion))
		}
	}
	differs("total", f.Total, v.Total)
}
