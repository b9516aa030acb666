package cron

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := Zone(name)
	if err != nil {
		t.Fatalf("zone %q %v", name, err)
	}
	return z
}

func mustParse(t testing.TB, expression, zone string) *Rule {
	t.Helper()
	r, err := Parse(expression, mustZone(t, zone), time.Time{})
	if err != nil {
		t.Fatalf("%q %v", expression, err)
	}
	return r
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The days on which clocks change, in zones that do it in different ways.
var changes = []struct{ zone, around string }{
	{"Europe/Berlin", "2026-03-29T01:00:00Z"}, {"Europe/Berlin", "2026-10-25T01:00:00Z"},
	{"America/New_York", "2026-03-08T07:00:00Z"}, {"America/New_York", "2026-11-01T06:00:00Z"},
	{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"}, {"Australia/Lord_Howe", "2026-10-03T15:30:00Z"}, // Half an hour.
	{"America/Sao_Paulo", "2018-02-18T02:00:00Z"}, {"America/Sao_Paulo", "2018-11-04T03:00:00Z"}, // At midnight.
	{"Asia/Beirut", "2026-03-28T22:00:00Z"}, {"Africa/Cairo", "2026-04-23T22:00:00Z"},
	{"Africa/Casablanca", "2026-02-15T02:00:00Z"}, {"Africa/Casablanca", "2026-03-22T02:00:00Z"}, // Ramadan.
	{"Antarctica/Troll", "2026-03-29T01:00:00Z"}, {"Antarctica/Troll", "2026-10-25T01:00:00Z"}, // Two hours.
	{"Europe/Dublin", "2026-03-29T01:00:00Z"}, {"Europe/Dublin", "2026-10-25T01:00:00Z"}, // Winter is the exception.
	{"Pacific/Apia", "2011-12-30T10:00:00Z"}, // A whole day is skipped.
	{"Asia/Kathmandu", "2026-01-01T00:00:00Z"}, {"UTC", "2026-02-28T12:00:00Z"},
}

// naive lists the runs in [from, to) by looking at every minute: what the clock on
// the wall shows, whether it has shown it before, and what it never showed.
func naive(r *Rule, from, to time.Time) []time.Time {
	var out []time.Time
	shown := map[string]bool{}
	wall := func(t time.Time) string { return t.Format("2006-01-02 15:04") }
	_, before := from.Add(-49 * time.Hour).In(r.zone).Zone()
	for u := from.Add(-48 * time.Hour); u.Before(to); u = u.Add(time.Minute) {
		local := u.In(r.zone)
		_, offset := local.Zone()
		again := shown[wall(local)]
		shown[wall(local)] = true
		run := naiveMatch(r, local) && (r.everyHour || !again)
		for skipped := offset - before; skipped > 0 && !r.everyHour; skipped -= 60 {
			fake := u.Add(time.Duration(offset-skipped) * time.Second).UTC()
			run = run || naiveMatch(r, fake)
		}
		if before = offset; run && !u.Before(from) {
			out = append(out, u)
		}
	}
	return out
}

func naiveMatch(r *Rule, t time.Time) bool {
	has := func(set uint64, n int) bool { return set&(1<<n) != 0 }
	dom, dow := has(r.dom, t.Day()), has(r.dow, int(t.Weekday()))
	days := dom || dow
	if r.bothDays {
		days = dom && dow
	}
	return days && has(r.hour, t.Hour()) && has(r.minute, t.Minute()) && has(r.month, int(t.Month()))
}

// R-T5: whatever the expression, the runs over a change of the clocks are those that
// looking at every minute finds.
func TestRule_RunsAreThoseOfEveryMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(changes).Draw(t, "change")
		text := drawExpression(t)
		z, err := Zone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse(text, z, time.Time{})
		if err != nil {
			t.Skip(err.Error()) // 31 February.
		}
		middle, err := time.Parse(time.RFC3339, c.around)
		if err != nil {
			t.Fatal(err)
		}
		from := middle.Add(-time.Duration(rapid.IntRange(0, 40*60).Draw(t, "minutes before")) * time.Minute)
		to := middle.Add(time.Duration(rapid.IntRange(1, 40*60).Draw(t, "minutes after")) * time.Minute)
		want := naive(r, from, to)

		var got []time.Time
		for run := r.Next(from.Add(-time.Nanosecond)); !run.IsZero() && run.Before(to); run = r.Next(run) {
			got = append(got, run)
		}
		same(t, fmt.Sprintf("%q in %s", text, c.zone), got, want)
		start, end := from.Add(-time.Second), to.Add(-time.Second)
		if n := r.Count(start, end); n != int64(len(want)) {
			t.Fatalf("%q in %s: counts %d runs, there are %d", text, c.zone, n, len(want))
		}
		limit := rapid.IntRange(1, 150).Draw(t, "limit")
		same(t, "the latest of "+text, r.Between(start, end, limit), want[max(len(want)-limit, 0):])
	})
}

func same(t *rapid.T, what string, got, want []time.Time) {
	t.Helper()
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Fatalf("%s runs\n%v\nwant\n%v", what, got, want)
	}
}

func drawExpression(t *rapid.T) string {
	field := func(name string, lo, hi int) string {
		a := rapid.IntRange(lo, hi).Draw(t, name)
		b := rapid.IntRange(a, hi).Draw(t, name+" to")
		return rapid.SampledFrom([]string{
			"*", "*", fmt.Sprint(a), fmt.Sprintf("%d,%d", a, b), fmt.Sprintf("%d-%d", a, b),
			fmt.Sprintf("*/%d", a+1), fmt.Sprintf("%d/%d", a, b+1),
		}).Draw(t, name+" form")
	}
	return strings.Join([]string{
		field("minute", 0, 59), field("hour", 0, 23), field("dom", 1, 31), field("month", 1, 12), field("dow", 0, 6),
	}, " ")
}

// R-T5, said in examples.
func TestRule_RT5(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, expression, zone, after string
		want                          []string
	}{
		{"a run in the skipped hour comes at its end", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"several runs in the skipped hour are one", "*/10 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"and one with the run at its end", "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"a doubled hour runs the first time", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"every hour runs through both passes", "30 * * * *", "Europe/Berlin", "2026-10-24T23:00:00Z",
			[]string{"2026-10-25T01:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"}},
		{"every hour has nothing to make good", "30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"}},
		{"midnight does not exist", "@daily", "Asia/Beirut", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"}},
		{"a day does not exist", "0 9 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z",
			[]string{"2011-12-31T00:00:00+14:00", "2012-12-30T09:00:00+14:00"}},
		{"half an hour is skipped", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"seconds", "*/20 59 23 31 12 ?", "UTC", "2026-12-31T23:59:10Z",
			[]string{"2026-12-31T23:59:20Z", "2026-12-31T23:59:40Z", "2027-12-31T23:59:00Z"}},
		{"29 February waits eight years", "0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"the last day of a leap year is a day", "0 12 31 12 *", "Australia/Lord_Howe", "2040-12-30T00:00:00Z",
			[]string{"2040-12-31T12:00:00+11:00", "2041-12-31T12:00:00+11:00"}},
		{"one of both days is enough", "0 0 13 * fri", "UTC", "2026-11-11T00:00:00Z",
			[]string{"2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, next := mustParse(t, c.expression, c.zone), at(t, c.after)
			for _, want := range c.want {
				if next = r.Next(next); !next.Equal(at(t, want)) {
					t.Fatalf("%q in %s runs at %s, want %s", c.expression, c.zone, next, want)
				}
			}
		})
	}
}

func TestRule_EveryCountsFromItsAnchor(t *testing.T) {
	t.Parallel()
	anchor := at(t, "2026-10-24T12:00:07Z")
	r, err := Parse("@every 90s", time.UTC, anchor.Add(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"2026-10-24T12:01:37Z", "2026-10-24T12:03:07Z", "2026-10-24T12:04:37Z"} {
		after := anchor.Add(time.Duration(i) * 90 * time.Second)
		if next := r.Next(after); !next.Equal(at(t, want)) {
			t.Errorf("after %s it runs at %s, want %s", after, next, want)
		}
	}
	hour := anchor.Add(time.Hour)
	if n := r.Count(anchor, hour); n != 40 {
		t.Errorf("%d runs in an hour, want 40", n)
	}
	if runs := r.Between(anchor.Add(-time.Hour), hour, 2); len(runs) != 2 || !runs[1].Equal(hour) {
		t.Errorf("the latest two are %v", runs)
	}
}

// A year of seconds is counted, not walked through.
func TestRule_CountsLongSpansAtOnce(t *testing.T) {
	t.Parallel()
	r := mustParse(t, "* * * * * *", "Europe/Berlin")
	from, to := at(t, "2026-01-01T00:00:00Z"), at(t, "2027-01-01T00:00:00Z")
	if n := r.Count(from, to); n != 365*24*3600 {
		t.Errorf("counts %d seconds", n)
	}
	if runs := r.Between(from, to, 3); len(runs) != 3 || !runs[0].Equal(to.Add(-2*time.Second)) {
		t.Errorf("the latest three are %v", runs)
	}
}

func TestParse_RefusesByName(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"":                            "is no cron expression",
		"* * *":                       "expected 5 to 6 fields",
		"* * * * * * *":               "expected 5 to 6 fields",
		"60 * * * *":                  "above maximum",
		"*/0 * * * *":                 "positive number",
		"5-1 * * * *":                 "beyond end",
		", * * * *":                   "a field is empty",
		"0 0 L * *":                   "is no cron expression",
		"0 0 30 2 *":                  "never comes",
		"0 0 31 4,6,9,11 ?":           "never comes",
		"@reboot":                     "unrecognized descriptor",
		"@every 1.5s":                 "whole seconds",
		"@every 0s":                   "whole seconds",
		"@every -5m":                  "whole seconds",
		"@every":                      "whole seconds",
		"@every 9000h":                "whole seconds",
		"TZ=":                         "must not name a time zone",
		"CRON_TZ=UTC 0 0 * * *":       "must not name a time zone",
		strings.Repeat("*", 300):      "at most 256",
		"0 0 * * mon\x00":             "is no cron expression",
		"99999999999999999999 * * * ": "is no cron expression",
	} {
		if r, err := Parse(expression, time.UTC, time.Time{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error with %q", expression, r, err, want)
		}
	}
}

func TestZone_RefusesWhatDiffersFromMachineToMachine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Local", "right/Europe/Berlin", "posix/Europe/Berlin", "posixrules", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe", "UTC+1", "Europe/Berlin\x00", "Europe//Berlin", "./Europe/Berlin", "Europe/./Berlin", "./right/UTC", "Europe/Berlin/", "localtime"} {
		if z, err := Zone(name); err == nil {
			t.Errorf("%q is %v", name, z)
		}
	}
	for _, name := range []string{"", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"} {
		if _, err := Zone(name); err != nil {
			t.Errorf("%q %v", name, err)
		}
	}
}

// F22: no expression panics, and what is taken has runs that grow, are counted
// rightly and are found in bounded time.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 2 29 2 *", "0 9 * * mon-fri", "*/20 * * * * *", "@daily", "@every 90s", "TZ=", "TZ= ", ",", "1,,2 * * * ?", "?/2 1-9/3 * jan sun", "0/9223372036854775807 * * * *"} {
		for i := range changes {
			f.Add(s, changes[i].zone)
		}
	}
	f.Fuzz(func(t *testing.T, expression, zone string) {
		z, err := Zone(zone)
		if err != nil {
			z = time.UTC
		}
		began := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		r, err := Parse(expression, z, began)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		last := began
		for i := range 50 {
			next := r.Next(last)
			if next.IsZero() {
				t.Fatalf("%q has no run after %s", expression, last)
			}
			if !next.After(last) || next.Nanosecond() != 0 || i > 0 && r.Count(last, next) != 1 {
				t.Fatalf("%q runs at %s after %s", expression, next, last)
			}
			last = next
		}
		if n := r.Count(began, last); n != 50 {
			t.Fatalf("%q runs 50 times until %s, counts %d", expression, last, n)
		}
		if runs := r.Between(began, last, 10); len(runs) != 10 || !runs[9].Equal(last) {
			t.Fatalf("%q: the latest ten are %v", expression, runs)
		}
	})
}

// The sets are those of the library, as far as it can be asked.
func TestRule_AgreesWithTheLibraryWhereClocksAreNotChanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := drawExpression(t)
		r, err := Parse(text, time.UTC, time.Time{})
		if err != nil {
			t.Skip(err.Error())
		}
		theirs, err := robfig.ParseStandard("TZ=UTC " + text)
		if err != nil {
			t.Fatal(err)
		}
		after := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "after"), 0).UTC()
		want := theirs.Next(after)
		if want.IsZero() {
			t.Skip("further away than the library looks")
		}
		if got := r.Next(after); !got.Equal(want) {
			t.Fatalf("%q after %s runs at %s, the library says %s", text, after, got, want)
		}
	})
}
