package cron

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // For machines without zone files; their own win.

	robfig "github.com/robfig/cron/v3"
)

// Limits of expressions.
const (
	ExpressionBytesMax = 256
	EveryMin           = time.Second
	EveryMax           = 366 * 24 * time.Hour
)

const (
	starBit  = 1 << 63 // How the parser marks a field that is * or ?.
	allHours = 1<<24 - 1
	allDows  = 1<<7 - 1
)

var (
	parser   = robfig.NewParser(robfig.SecondOptional | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow | robfig.Descriptor)
	monthEnd = [...]int{1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
	zones    sync.Map // Of *time.Location by name: loading one costs more than a run.
)

var errZone = errors.New("is no time zone; use a name of the IANA database such as Europe/Berlin, or UTC")

// Zone finds a time zone by its IANA name; "" is UTC.
func Zone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	// A name is a path to a file, of which there are endless spellings.
	if name != "" && !fs.ValidPath(name) {
		return nil, errZone
	}
	// These differ from machine to machine, or count leap seconds.
	if name == "Local" || name == "localtime" || strings.HasPrefix(name, "posix") || strings.HasPrefix(name, "right/") {
		return nil, errZone
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, errZone
	}
	zones.Store(name, z) // Bounded by the number of zone files.
	return z, nil
}

// Parse reads an expression of five fields, of six with seconds first, or a macro.
// Errors say what is wrong with the expression. "@every 90s" counts from anchor.
func Parse(expression string, zone *time.Location, anchor time.Time) (*Rule, error) {
	if len(expression) > ExpressionBytesMax {
		return nil, fmt.Errorf("is %d bytes long; at most %d are allowed", len(expression), ExpressionBytesMax)
	}
	text := strings.TrimSpace(expression)
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return nil, errors.New("must not name a time zone; that has a field of its own")
	}
	if every, ok := strings.CutPrefix(text, "@every"); ok {
		return parseEvery(strings.TrimSpace(every), zone, anchor)
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is no cron expression: %w", err)
	}
	fields, ok := parsed.(*robfig.SpecSchedule)
	if !ok {
		return nil, errors.New("is no cron expression")
	}
	return newRule(fields, zone)
}

func parseEvery(text string, zone *time.Location, anchor time.Time) (*Rule, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < EveryMin || d > EveryMax || d%time.Second != 0 {
		return nil, fmt.Errorf("must be @every with whole seconds between %s and %s, such as @every 90s", EveryMin, EveryMax)
	}
	return &Rule{zone: zone, every: int64(d / time.Second), anchor: anchor.Unix()}, nil
}

func newRule(f *robfig.SpecSchedule, zone *time.Location) (*Rule, error) {
	r := &Rule{
		second: f.Second &^ starBit, minute: f.Minute &^ starBit, hour: f.Hour &^ starBit,
		dom: f.Dom &^ starBit, month: f.Month &^ starBit, dow: f.Dow &^ starBit,
		bothDays: (f.Dom|f.Dow)&starBit != 0, zone: zone,
	}
	r.everyHour = r.hour == allHours
	for _, set := range []uint64{r.second, r.minute, r.hour, r.dom, r.month, r.dow} {
		if set == 0 {
			return nil, errors.New("is no cron expression: a field is empty")
		}
	}
	if !r.comes() {
		return nil, errors.New("never comes: no month that it names has such a day")
	}
	return r, nil
}

// comes reports whether the rule ever runs.
func (r *Rule) comes() bool {
	if !r.bothDays || r.dow != allDows {
		return true
	}
	first := bits.TrailingZeros64(r.dom)
	for m := 1; m <= 12; m++ {
		if r.month>>m&1 == 1 && first <= monthEnd[m] {
			return true
		}
	}
	return false
}
