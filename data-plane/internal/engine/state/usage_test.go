package state

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// usage reads usage=model:m,in:5,out:2,cost:0.1,delta: a total unless it says delta.
func (l *scriptLine) usage() *command.Usage {
	v := l.text("usage", "")
	if v == "" {
		return nil
	}
	u := &command.Usage{Total: true, Provider: "p"}
	for word := range strings.SplitSeq(v, ",") {
		name, value, _ := strings.Cut(word, ":")
		var err error
		switch name {
		case "model":
			u.Model = value
		case "in":
			u.Input, err = strconv.ParseInt(value, 10, 64)
		case "out":
			u.Output, err = strconv.ParseInt(value, 10, 64)
		case "cost":
			u.Cost, err = job.ParseDollars(value)
		case "delta":
			u.Total = false
		default:
			err = fmt.Errorf("no part %q", name)
		}
		if err != nil {
			l.fail("usage: %w", err)
		}
	}
	return u
}

func meterText(m records.Meter) string {
	return fmt.Sprintf("in %d out %d cost %s by %d", m.Input, m.Output, job.FormatDollars(m.Cost), m.Attempts)
}

// money shows rows of usage and budgets; false if the row is of another family.
func (d *dumper) money(family byte, k, v []byte) (bool, error) {
	switch family {
	case keys.JobUsage:
		u, err := records.DecodeJobUsage(v)
		if err != nil {
			return true, err
		}
		fmt.Fprintf(&d.b, "usage of %s: iteration %s\n", idText([16]byte(k)), meterText(u.Iteration))
		for _, l := range u.Lines {
			fmt.Fprintf(&d.b, "  %s/%s %s\n", l.Provider, l.Model, meterText(l.Sum))
		}
	case 'y':
		hour, queue, provider, model, err := d.space.UsageOf(append(append(make([]byte, 21), 'y'), k...))
		if err != nil {
			return true, err
		}
		m, err := records.DecodeMeter(v)
		fmt.Fprintf(&d.b, "hour %s %s %s/%s: %s\n", timeText(int64(hour)*int64(time.Hour)), queue, provider, model, meterText(m))
		return true, err
	case 'f':
		day, err := records.DecodeBudgetDay(v)
		fmt.Fprintf(&d.b, "day %s of %s: cost %s", time.Unix(int64(k[6])<<8*86400+int64(k[7])*86400, 0).UTC().Format(time.DateOnly), k[9:], job.FormatDollars(day.Cost))
		if day.Told {
			d.b.WriteString(" told")
		}
		d.b.WriteByte('\n')
		return true, err
	case 'z':
		b, err := records.DecodeBudget(v)
		fmt.Fprintf(&d.b, "budget of %s since %s: daily %s per job %s on %d\n", b.Target, timeText(b.CreatedAt), job.FormatDollars(b.Daily), job.FormatDollars(b.PerJob), b.On)
		return true, err
	case 'a':
		p, err := records.DecodePolicy(v)
		fmt.Fprintf(&d.b, "policy %s since %s: any %v queue %q tag %q=%q by %v within %s\n", p.Name, timeText(p.CreatedAt), p.Any, p.Queue, p.TagKey, p.TagValue, p.Approvers, p.Expires)
		return true, err
	case 't':
		it, err := records.DecodeIteration(uint32(k[19]), v)
		fmt.Fprintf(&d.b, "iteration %d of %s: status %d at %s checkpoint %s result %s reason %q %s/%s %s\n",
			it.Number, idText([16]byte(k[:16])), it.Status, timeText(it.At), it.Checkpoint, it.Result, it.HoldReason, it.Provider, it.Model, meterText(it.Usage))
		return true, err
	default:
		return false, nil
	}
	return true, nil
}

// spending audits the counters of money against each other.
type spending struct {
	hours map[string]int64 // Nano-dollars of the latest day, by namespace and queue.
	days  map[string]int64 // The same as the budget days tell it.
	day   map[job.Namespace]uint64
	rows  []stateread.HourUsage
	of    []job.Namespace
}

// row takes in a row of a namespace.
func (s *spending) row(space keys.Space, ns job.Namespace, family byte, k, v []byte) error {
	switch family {
	case 'y':
		var u stateread.HourUsage
		var err error
		if u.Hour, u.Queue, u.Provider, u.Model, err = space.UsageOf(k); err != nil {
			return err
		}
		u.Meter, err = records.DecodeMeter(v)
		s.rows, s.of = append(s.rows, u), append(s.of, ns)
		return err
	case 'f':
		if s.day == nil {
			s.day, s.days, s.hours = map[job.Namespace]uint64{}, map[string]int64{}, map[string]int64{}
		}
		day := uint64(k[28])<<8 | uint64(k[29])
		if was, ok := s.day[ns]; ok && was != day {
			return fmt.Errorf("%s counts day %d and day %d", ns, was, day)
		}
		s.day[ns] = day
		d, err := records.DecodeBudgetDay(v)
		if scope := command.BudgetScope(k[30]); scope != command.BudgetTag {
			s.days[fmt.Sprintf("%s %d %s", ns, scope, k[31:])] = d.Cost
		}
		return err
	}
	return nil
}

// audit checks that the hours of the day and the day's own counters are the same sums.
func (s *spending) audit(t tb) {
	for i, u := range s.rows {
		if day, ok := s.day[s.of[i]]; !ok || u.Hour/24 > day {
			t.Fatalf("hour %d of queue %q is of no day", u.Hour, u.Queue)
		} else if u.Hour/24 == day {
			s.hours[fmt.Sprintf("%s %d %s", s.of[i], command.BudgetQueue, u.Queue)] += u.Cost
			s.hours[fmt.Sprintf("%s %d %s", s.of[i], command.BudgetGlobal, records.AllTarget)] += u.Cost
		}
	}
	for k, cost := range s.days {
		if s.hours[k] != cost {
			t.Fatalf("%s: the day counts %d, its hours %d", k, cost, s.hours[k])
		}
		delete(s.hours, k)
	}
	for k, cost := range s.hours {
		t.Fatalf("%s: hours count %d, and no day", k, cost)
	}
}

func TestMeter_DoesNotWrapAround(t *testing.T) {
	t.Parallel()
	most, least := records.Meter{Cost: 1<<63 - 1, Input: -1 << 63}, records.Meter{Cost: 1, Input: -1}
	if sum := most.Plus(least); sum.Cost != most.Cost || sum.Input != most.Input {
		t.Fatalf("the sum is %+v", sum)
	}
}

// Workers of generation 1 send totals with each heartbeat and with the ack: they are
// counted once. Those who send what is new say so.
func TestTrap112_TotalsAreNotAddedToEachOther(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, a, b := job.Namespace{1}, idOf("A"), idOf("B")
	for _, id := range []job.ID{a, b} {
		r.do(t, r.now, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry()})
	}
	r.do(t, r.now, &command.Fetch{NS: ns, Jobs: []job.ID{a, b}, Worker: "w", Lease: time.Minute})
	say := func(id job.ID, total bool, cost int64) *command.Usage {
		return &command.Usage{Input: 10 * cost, Cost: cost, Provider: "p", Model: "m", Total: total}
	}
	for _, id := range []job.ID{a, b} {
		total := id == a
		r.do(t, r.now, &command.Heartbeat{NS: ns, ID: id, Usage: say(id, total, 3)})
		r.do(t, r.now, &command.Heartbeat{NS: ns, ID: id, Usage: say(id, total, 3)})
		r.do(t, r.now, &command.Ack{NS: ns, ID: id, Usage: say(id, total, 7)})
		// A repeated ack whose answer was lost counts nothing.
		r.do(t, r.now, &command.Ack{NS: ns, ID: id, Usage: say(id, total, 7)})
	}
	for id, want := range map[job.ID]int64{a: 7, b: 13} {
		u, err := stateread.ReadJobUsage(r.store, ns, id)
		if err != nil || u.Sum() != (records.Meter{Input: 10 * want, Cost: want, Attempts: 1}) {
			t.Errorf("job %s used %+v, %v, want %d", idText(id), u, err, want)
		}
	}
	r.audit(t)
}

// Whatever is reported, in whatever order and however entries are gathered: what the
// jobs tell, what the hours tell and what the days tell is the same to the last
// nano-dollar.
func TestUsage_JobsHoursAndDaysAddUpExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, gathered := newReplica(t), newReplica(t)
		defer r.close(t)
		defer gathered.close(t)
		ns := job.Namespace{1}
		var ids []job.ID
		for _, name := range []string{"A", "B", "C"} {
			ids = append(ids, idOf(name))
		}
		var log []logEntry
		add := func(c command.Command) {
			at := epoch + int64(len(log))*int64(7*time.Minute) // More than a day at the end.
			log = append(log, logEntry{now: at, cmds: []command.Command{c}})
		}
		for i, id := range ids {
			retry := command.RetryPolicy{MaxRetries: 1000}
			add(&command.Enqueue{NS: ns, ID: id, Queue: []string{"q", "r"}[i%2], Retry: retry})
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			id := rapid.SampledFrom(ids).Draw(t, "job")
			u := &command.Usage{
				Cost:  rapid.Int64Range(0, 1<<40).Draw(t, "cost"),
				Input: rapid.Int64Range(0, 1000).Draw(t, "tokens"), Total: rapid.Bool().Draw(t, "total"),
				Model: fmt.Sprint("m", rapid.IntRange(0, records.UsageLinesMax+6).Draw(t, "model")), Provider: "p",
			}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				add(&command.Fetch{NS: ns, Jobs: ids, Worker: "w", Lease: 24 * time.Hour})
			case 1:
				add(&command.Fail{NS: ns, ID: id, Release: rapid.Bool().Draw(t, "release"), Usage: u})
				add(&command.Retry{NS: ns, ID: id})
			case 2:
				add(&command.Ack{NS: ns, ID: id, Usage: u})
				add(&command.Retry{NS: ns, ID: id})
			default:
				add(&command.Heartbeat{NS: ns, ID: id, Usage: u})
			}
		}
		for _, e := range log {
			r.apply(t, e)
		}
		gathered.apply(t, log...)
		if r.digest != gathered.digest {
			t.Fatal("one by one and gathered are not the same")
		}
		r.audit(t)
		var jobs, hours records.Meter
		for _, id := range ids {
			u, err := stateread.ReadJobUsage(r.store, ns, id)
			if err != nil {
				t.Fatalf("usage of %s: %v", idText(id), err)
			}
			if u != nil {
				jobs = jobs.Plus(u.Sum())
				if len(u.Lines) > records.UsageLinesMax {
					t.Fatalf("job %s tells %d models apart", idText(id), len(u.Lines))
				}
			}
		}
		err := stateread.ReadUsage(r.store, ns, 0, 1<<62, func(u stateread.HourUsage) bool { hours = hours.Plus(u.Meter); return true })
		if err != nil || jobs != hours {
			t.Fatalf("the jobs used %+v, the hours tell %+v, %v", jobs, hours, err)
		}
	})
}
