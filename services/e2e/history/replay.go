package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// Limit is what a queue was limited to from before its first job until the end.
type Limit struct {
	Concurrency int // 0 is none.
	Starts      int // In a Window; 0 is none.
	Window      time.Duration
	// Backoff is between an attempt that failed and the next.
	Backoff time.Duration
	// Until is up to when the clocks of the nodes were right: starts are counted by calendar
	// time, which a clock that jumps squeezes or stretches. So is the backoff, for that matter.
	Until time.Time
}

// backoffSlack: it is a time of leases, which clocks of calendar time follow.
const backoffSlack = 100 * time.Millisecond

// throttleSlack: a start can count for a 32nd of its window longer, so never for less, and
// clocks tell nanoseconds.
const throttleSlack = time.Millisecond

// slewParts: throttles count lease time, which gains on calendar time by at most one part in so many, where it
// fell behind: with a leader that others don't trust, or that stood still.
const slewParts = 20

// Check compares what the events tell with what there is, and returns every breach. limits
// are those of queues that have some.
func (r *Record) Check(limits map[string]Limit) []string {
	p := &replay{
		record: r, limits: limits, states: map[string]wire.State{}, ended: map[string]uint64{}, made: map[string]uint64{}, active: map[string]int{},
		attempts: map[string]int{}, uneven: map[string]bool{}, failed: map[string]int64{},
		lines: map[line][]string{}, ready: map[string]int64{}, expired: map[string]int{}, starts: map[string][]int64{}, holders: map[uniqueKey]string{},
	}
	for i, e := range r.Events {
		if e.AtNS != p.last {
			p.overtaken()
		}
		p.number(i, e)
		if e.JobID != "" {
			p.step(e)
		}
	}
	p.overtaken()
	r.Full = p.full
	if r.Lost {
		p.say("INV-13: the service no longer has all events")
	}
	p.ends()
	p.rows()
	p.batches()
	p.chains()
	p.schedules()
	slices.Sort(p.faults)
	return p.faults
}

// replay is the state of a namespace as its events tell it.
type replay struct {
	record *Record
	limits map[string]Limit
	faults []string

	states   map[string]wire.State
	attempts map[string]int   // Starts, less those that do not count.
	uneven   map[string]bool  // Jobs whose attempts are counted in another way.
	failed   map[string]int64 // When the last attempt failed, by job.
	full     int
	made     map[string]uint64  // Number of the event that made a job.
	ended    map[string]uint64  // Number of the event that ended it; 0 if it goes on.
	active   map[string]int     // By queue.
	starts   map[string][]int64 // Calendar times, by queue.
	expired  map[string]int     // Leases that ran out, by job.
	lines    map[line][]string  // Jobs that are ready, in their order.
	ready    map[string]int64   // When a job became so last, by job.
	holders  map[uniqueKey]string
	passed   []overtaking // In the entry at hand.
	last     int64
}

// overtaking is a job that began while others were before it in line.
type overtaking struct {
	began  *wire.Event
	before []string
}

// line is a ready order.
type line struct {
	queue    string
	priority int
}

type uniqueKey struct{ queue, key string }

func (p *replay) say(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// overtaken: of those that are ready, the first in line begin, and of several lines of a queue those in that
// of the best priority (INV-8). An entry, whose events are of one time, hands out to several at once, in
// whatever order.
func (p *replay) overtaken() {
	for _, o := range p.passed {
		if i := slices.IndexFunc(o.before, func(id string) bool { return p.states[id] == wire.Pending }); i >= 0 {
			p.say("INV-8: event %d starts %s of %s, which is behind %s", o.began.Seq, o.began.JobID, o.began.Queue, o.before[i])
		}
	}
	p.passed = p.passed[:0]
}

// number: events are numbered from 1 without gaps (INV-13), and time never goes back (INV-19).
func (p *replay) number(i int, e *wire.Event) {
	if e.Seq != uint64(i)+1 {
		p.say("INV-13: event %d comes in place %d", e.Seq, i+1)
	}
	if e.AtNS < p.last {
		p.say("INV-19: event %d (%s) is of %d, the one before it of %d", e.Seq, e.Type, e.AtNS, p.last)
	}
	p.last = e.AtNS
}

// step is one change of one job.
func (p *replay) step(e *wire.Event) {
	job, before := p.record.Jobs[e.JobID], p.states[e.JobID]
	if job == nil {
		if e.Type != wire.EventDeleted {
			p.say("INV-1: event %d (%s) is of %s, which is not there", e.Seq, e.Type, e.JobID)
		}
		return
	}
	if e.Data == nil {
		return
	}
	switch {
	case before == "" && e.Data.From != "":
		p.say("INV-4: the first event of %s, %d (%s), has it %s before", e.JobID, e.Seq, e.Type, e.Data.From)
	case e.Data.From != "" && e.Data.From != before:
		p.say("INV-4: event %d (%s) has %s %s before, earlier ones %s", e.Seq, e.Type, e.JobID, e.Data.From, before)
	case before != "" && e.Data.From == "" && e.Data.State != "" && e.Data.State != before:
		p.say("INV-4: event %d (%s) has %s %s without a change from %s", e.Seq, e.Type, e.JobID, e.Data.State, before)
	}
	p.way(e, before)
	if before == "" {
		p.made[e.JobID] = e.Seq
		p.lock(job, e)
	}
	if before == "" || e.Data.From != "" {
		p.move(job, before, e)
	}
	if e.Type == wire.EventLeaseExpired {
		p.expired[e.JobID]++
	}
	p.attempt(e)
	p.due(job, before, e)
}

// attempt: each start is the next attempt, but after one that was given back, which does not count (INV-4).
func (p *replay) attempt(e *wire.Event) {
	switch e.Type {
	case wire.EventStarted:
		if p.attempts[e.JobID]++; e.Data.Attempt != p.attempts[e.JobID] && !p.uneven[e.JobID] {
			p.say("INV-4: event %d starts attempt %d of %s, which is its %d.", e.Seq, e.Data.Attempt, e.JobID, p.attempts[e.JobID])
		}
	case wire.EventReleased:
		p.attempts[e.JobID]--
	case wire.EventContinued, wire.EventRetried: // They may begin again.
		p.uneven[e.JobID] = true
	}
}

// due: nothing is ready before its time, neither a delayed job, nor a tick, nor what is tried again.
func (p *replay) due(job *corvo.JobInfo, before wire.State, e *wire.Event) {
	first := before == "" && job.ScheduleID != ""
	if (first || before == wire.Scheduled && e.Type == wire.EventPromoted) && e.AtNS < job.ScheduledAt.UnixNano() {
		p.say("INV-12: event %d makes %s ready, %s before its time", e.Seq, job.ID, time.Duration(job.ScheduledAt.UnixNano()-e.AtNS))
	}
	switch limit := p.limits[job.Queue]; {
	case e.Type == wire.EventFailed:
		p.failed[job.ID] = e.AtNS
	case e.Type == wire.EventPromoted && before == wire.Retrying && limit.Backoff > 0 && e.AtNS < limit.Until.UnixNano():
		if pause := time.Duration(e.AtNS - p.failed[job.ID]); pause < limit.Backoff-backoffSlack {
			p.say("INV-4: event %d has %s tried again %s after it failed, want %s", e.Seq, job.ID, pause, limit.Backoff)
		}
	}
}

// change is a job's way from one state into another. A new job was in none before.
type change struct{ from, to wire.State }

// changes are the ways that each type of event tells of, as state/DESIGN.md and the events in docs/api.md
// have them: a job leaves active by what ends a lease alone (INV-4), and what has ended by a retry alone.
var changes = map[wire.EventType][]change{
	wire.EventEnqueued:        {{"", wire.Pending}, {"", wire.Held}},
	wire.EventScheduled:       {{"", wire.Scheduled}},
	wire.EventPromoted:        {{wire.Scheduled, wire.Pending}, {wire.Retrying, wire.Pending}},
	wire.EventStarted:         {{wire.Pending, wire.Active}},
	wire.EventCompleted:       {{wire.Active, wire.Completed}, {wire.Cancelling, wire.Completed}},
	wire.EventFailed:          {{wire.Active, wire.Retrying}, {wire.Active, wire.Dead}},
	wire.EventReleased:        {{wire.Active, wire.Pending}, {wire.Active, wire.Retrying}},
	wire.EventContinued:       {{wire.Active, wire.Pending}},
	wire.EventLeaseExpired:    {{wire.Active, wire.Pending}, {wire.Active, wire.Dead}},
	wire.EventCancelRequested: {{wire.Active, wire.Cancelling}},
	wire.EventCancelled:       into(wire.Cancelled, wire.Pending, wire.Scheduled, wire.Retrying, wire.Held, wire.Cancelling),
	wire.EventExpired:         into(wire.Dead, wire.Pending, wire.Scheduled, wire.Retrying, wire.Held),
	wire.EventDead:            into(wire.Dead, wire.Pending, wire.Scheduled, wire.Held, wire.Active, wire.Cancelling),
	wire.EventRetried:         into(wire.Pending, wire.Completed, wire.Dead, wire.Cancelled, wire.Scheduled, wire.Retrying),
	wire.EventUnblocked:       {{wire.Pending, wire.Pending}},
	wire.EventHeld:            into(wire.Held, wire.Pending, wire.Scheduled, wire.Retrying, wire.Active, wire.Cancelling),
	wire.EventApproved:        {{wire.Held, wire.Pending}},
	wire.EventRejected:        {{wire.Held, wire.Dead}},
}

// way: each change is one that its type of event may tell of.
func (p *replay) way(e *wire.Event, before wire.State) {
	if e.Data.From == "" && before != "" && !slices.Contains(always, e.Type) {
		return // The second event of a change, or none about the state.
	}
	if isNew := before == ""; isNew != (e.Data.From == "") || !slices.Contains(changes[e.Type], change{e.Data.From, e.Data.State}) {
		p.say("%s: %s is %q, and event %d (%s) takes it from %q to %q", invariantOf(e.Type), e.JobID, before, e.Seq, e.Type, e.Data.From, e.Data.State)
	}
}

func into(to wire.State, states ...wire.State) (out []change) {
	for _, s := range states {
		out = append(out, change{s, to})
	}
	return out
}

// always are the types that never come as the second event of a change: each is a change itself.
var always = []wire.EventType{
	wire.EventEnqueued, wire.EventScheduled, wire.EventPromoted, wire.EventStarted, wire.EventCompleted, wire.EventReleased, wire.EventContinued,
	wire.EventCancelRequested, wire.EventCancelled, wire.EventRetried, wire.EventApproved, wire.EventRejected,
}

// invariantOf is what a change breaks that must not be: one completion (INV-3), or else a cause for every run.
func invariantOf(t wire.EventType) string {
	if t == wire.EventCompleted {
		return "INV-3"
	}
	return "INV-4"
}

// lock: a unique key has one holder that goes on (INV-5).
func (p *replay) lock(job *corvo.JobInfo, e *wire.Event) {
	if job.UniqueKey == "" {
		return
	}
	k := uniqueKey{job.Queue, job.UniqueKey}
	if holder := p.holders[k]; holder != "" && p.ended[holder] == 0 {
		p.say("INV-5: event %d makes %s with the unique key %s, which %s holds: it is %s", e.Seq, job.ID, job.UniqueKey, holder, p.states[holder])
	}
	p.holders[k] = job.ID
}

// move is a job's way from one state into another.
func (p *replay) move(job *corvo.JobInfo, from wire.State, e *wire.Event) {
	to, at := e.Data.State, line{job.Queue, job.Priority}
	p.states[job.ID] = to
	if p.ended[job.ID] = 0; to.Ended() {
		p.ended[job.ID] = e.Seq
	}
	if from == wire.Pending {
		i := slices.Index(p.lines[at], job.ID)
		if e.Type == wire.EventStarted {
			p.passed = append(p.passed, overtaking{e, append(p.better(at, e.AtNS), p.lines[at][:max(i, 0)]...)})
		}
		if i >= 0 {
			p.lines[at] = slices.Delete(p.lines[at], i, i+1)
		}
	}
	if to == wire.Pending {
		p.lines[at] = append(p.lines[at], job.ID)
		p.ready[job.ID] = e.AtNS
	}
	if leased(from) != leased(to) {
		if !leased(to) {
			p.active[job.Queue]--
			return
		}
		p.active[job.Queue]++
		p.started(job, e)
	}
}

// better are the jobs of the line's queue that have a better priority and were ready before an entry: what
// comes with it may come after what it hands out.
func (p *replay) better(than line, entry int64) (ids []string) {
	for priority := range than.priority {
		for _, id := range p.lines[line{than.queue, priority}] {
			if p.ready[id] < entry {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func leased(s wire.State) bool { return s == wire.Active || s == wire.Cancelling }

// started: no more leases than the queue's limit (INV-6), no more starts in a window than its throttle (INV-7).
func (p *replay) started(job *corvo.JobInfo, e *wire.Event) {
	limit := p.limits[job.Queue]
	if n := p.active[job.Queue]; limit.Concurrency > 0 && n > limit.Concurrency {
		p.say("INV-6: event %d starts %s, the %d. at a time in %s, whose limit is %d", e.Seq, job.ID, n, job.Queue, limit.Concurrency)
	}
	if limit.Starts == 0 || e.AtNS >= limit.Until.UnixNano() {
		return
	}
	starts := append(p.starts[job.Queue], e.AtNS)
	p.starts[job.Queue] = starts
	if n := len(starts) - limit.Starts; n >= 0 && time.Duration(e.AtNS-starts[n]) < limit.Window {
		p.full++
	}
	if n := len(starts) - 1 - limit.Starts; n >= 0 {
		if took := time.Duration(e.AtNS - starts[n]); took < limit.Window-limit.Window/slewParts-throttleSlack {
			p.say("INV-7: event %d starts %s, the %d. in %s in %s, whose throttle is %d in %s", e.Seq, job.ID, limit.Starts+1, job.Queue, took, limit.Starts, limit.Window)
		}
	}
}

// ends: what the events tell last is what there is (INV-9), and a job's record has every lease that ran out (INV-4).
func (p *replay) ends() {
	for id, job := range p.record.Jobs {
		if p.states[id] != job.State {
			p.say("INV-9: %s is %s, and by its events %s", id, job.State, p.states[id])
		}
		if p.expired[id] != job.Crashes {
			p.say("INV-4: %s has %d crashes, and by its events %d leases ran out", id, job.Crashes, p.expired[id])
		}
		if p.attempts[id] != job.Attempt && !p.uneven[id] {
			p.say("INV-4: %s is in attempt %d, and by its events in %d", id, job.Attempt, p.attempts[id])
		}
	}
}

// rows: the lists show every job, and each as it is (INV-15).
func (p *replay) rows() {
	for _, id := range p.record.Twice {
		p.say("INV-15: the lists show %s more than once", id)
	}
	for id, row := range p.record.Rows {
		if p.record.Jobs[id] == nil {
			p.say("INV-15: the lists show %s (%s), which is not there", id, row.State)
		}
	}
	for id, job := range p.record.Jobs {
		row, ok := p.record.Rows[id]
		if !ok {
			p.say("INV-15: the lists do not show %s", id)
			continue
		}
		have := summary{row.Queue, row.State, row.Priority, row.Attempt, row.MaxRetries, row.Crashes, row.DeadReason, row.CreatedAt.UnixNano(), row.CompletedAt.UnixNano(), row.FailedAt.UnixNano()}
		want := summary{job.Queue, job.State, job.Priority, job.Attempt, job.MaxRetries, job.Crashes, job.DeadReason, job.CreatedAt.UnixNano(), job.CompletedAt.UnixNano(), job.FailedAt.UnixNano()}
		if have != want {
			p.say("INV-15: the lists show %s as %+v, it is %+v", id, have, want)
		}
	}
}

// summary is what a list and a job both tell.
type summary struct {
	Queue                                  string
	State                                  wire.State
	Priority, Attempt, MaxRetries, Crashes int
	DeadReason                             wire.DeadReason
	Created, Completed, Failed             int64
}

// batches: each that has ended has one callback, made after the last of its jobs ended (INV-10).
func (p *replay) batches() {
	members, callbacks := map[string][]string{}, map[string][]string{}
	for id, job := range p.record.Jobs {
		if job.BatchID != "" {
			members[job.BatchID] = append(members[job.BatchID], id)
		}
		var told struct {
			BatchID string `json:"batch_id"`
		}
		if json.Unmarshal(job.Payload, &told) == nil && told.BatchID != "" {
			callbacks[told.BatchID] = append(callbacks[told.BatchID], id)
		}
	}
	for _, b := range p.record.Batches {
		of := members[b.ID]
		delete(members, b.ID)
		var last uint64
		open := 0
		for _, id := range of {
			if p.ended[id] == 0 {
				open++
			}
			last = max(last, p.ended[id])
		}
		switch made := callbacks[b.ID]; {
		case int64(len(of)) != b.Total || int64(open) != b.Open:
			p.say("INV-10: batch %s has %d jobs, %d of them open; there are %d and %d", b.ID, b.Total, b.Open, len(of), open)
		case open > 0 && len(made) > 0:
			p.say("INV-10: batch %s called back with %d jobs open", b.ID, open)
		case open == 0 && len(made) != 1:
			p.say("INV-10: batch %s has ended and called back %d times", b.ID, len(made))
		case open == 0 && p.made[made[0]] < last:
			p.say("INV-10: batch %s called back in event %d, its last job ended in %d", b.ID, p.made[made[0]], last)
		}
		delete(callbacks, b.ID)
	}
	for id, of := range members {
		p.say("INV-10: %v are jobs of the batch %s, which is not there", of, id)
	}
	for id, made := range callbacks {
		p.say("INV-10: %v are callbacks of the batch %s, which is not there", made, id)
	}
}

// Steps of a chain that are not in its row.
const (
	onExit    = -1
	onFailure = -2
)

// place is a job's in a chain.
type place struct {
	chain string
	step  int
}

// chains: a step exists once the one before it has completed, and once only (INV-11). The
// number of steps is in each job's payload, as the load made it.
func (p *replay) chains() {
	steps := map[place]string{}
	for id, job := range p.record.Jobs {
		if job.ChainID == "" || job.ChainStep == nil {
			continue
		}
		at := place{job.ChainID, *job.ChainStep}
		if other := steps[at]; other != "" {
			p.say("INV-11: step %d of chain %s is two jobs, %s and %s", at.step, at.chain, other, id)
		}
		steps[at] = id
	}
	for at, id := range steps {
		var told struct {
			Steps int `json:"steps"`
		}
		if err := json.Unmarshal(p.record.Jobs[id].Payload, &told); err != nil || told.Steps == 0 {
			p.say("INV-11: step %d of chain %s does not tell how many there are: %s", at.step, at.chain, p.record.Jobs[id].Payload)
			continue
		}
		switch at.step {
		case 0:
		case onExit:
			p.follows(steps, at, place{at.chain, told.Steps - 1})
		case onFailure:
			p.followsDeath(steps, at, told.Steps)
		default:
			p.follows(steps, at, place{at.chain, at.step - 1})
		}
		if at.step >= 0 {
			p.goesOn(steps, at, told.Steps)
		}
	}
}

// follows: a job of a chain was made after the step before it had completed.
func (p *replay) follows(steps map[place]string, at, earlier place) {
	id, before := steps[at], steps[earlier]
	switch {
	case before == "":
		p.say("INV-11: chain %s has step %d and not the one before", at.chain, at.step)
	case p.record.Jobs[before].State != wire.Completed || p.ended[before] > p.made[id]:
		p.say("INV-11: step %d of chain %s was made in event %d; %s before it is %s since %d", at.step, at.chain, p.made[id], before, p.record.Jobs[before].State, p.ended[before])
	}
}

// followsDeath: the job for a failure was made after a step had died.
func (p *replay) followsDeath(steps map[place]string, at place, all int) {
	id := steps[at]
	for step := range all {
		if dead := steps[place{at.chain, step}]; dead != "" && p.record.Jobs[dead].State == wire.Dead && p.ended[dead] < p.made[id] {
			return
		}
	}
	p.say("INV-11: %s is for a failure of chain %s, none of whose steps had died", id, at.chain)
}

// goesOn: what follows on a step that has ended exists.
func (p *replay) goesOn(steps map[place]string, at place, all int) {
	id := steps[at]
	job, next := p.record.Jobs[id], place{at.chain, at.step + 1}
	if next.step == all {
		next.step = onExit
	}
	if job.State == wire.Dead {
		next.step = onFailure
	}
	if p.ended[id] > 0 && steps[next] == "" {
		p.say("INV-11: step %d of chain %s is %s and there is no step %d", at.step, at.chain, job.State, next.step)
	}
}

// tickSlack is how long a tick may be late: an election, and whoever leads then makes the missed ones good.
const tickSlack = 15 * time.Second

// schedules: of one that ticks every second, each tick has one job or was missed (INV-12), from when it was
// made until it was paused.
func (p *replay) schedules() {
	for _, s := range p.record.Schedules {
		ticks := map[int64]string{}
		var first, last int64
		for id, job := range p.record.Jobs {
			if job.ScheduleID != s.ID {
				continue
			}
			at := job.ScheduledAt.Unix()
			if other := ticks[at]; other != "" {
				p.say("INV-12: the tick of %s at %d has two jobs, %s and %s", s.Name, at, other, id)
			}
			if ticks[at] = id; first == 0 || at < first {
				first = at
			}
			last = max(last, at)
		}
		made, until := s.CreatedAt, p.tickedUntil(s)
		switch all := last - first + 1; { // Both included.
		case until.Sub(made) < tickSlack && len(ticks) == 0:
		case len(ticks) == 0:
			p.say("INV-12: %s never ticked from %s until %s", s.Name, made, until)
		case time.Unix(first, 0).Sub(made) > tickSlack:
			p.say("INV-12: %s was made at %s, and ticked first at %s", s.Name, made, time.Unix(first, 0))
		case until.Sub(time.Unix(last, 0)) > tickSlack:
			p.say("INV-12: %s ticked last at %s, and was to tick until %s", s.Name, time.Unix(last, 0), until)
		case all != int64(len(ticks))+int64(s.Missed):
			p.say("INV-12: %s ticked %d times, has %d jobs and says that it missed %d", s.Name, all, len(ticks), s.Missed)
		}
		if all, lazy := last-first+1, p.lazy(first, last, ticks); all >= ticksJudged && 2*lazy > all {
			p.say("INV-12: of %d ticks %s has %d jobs, and missed %d while others were served", all, s.Name, len(ticks), lazy)
		}
	}
}

// ticksJudged are so many that most can't have been missed for good reasons alone.
const ticksJudged = 20

// lazy is how many ticks have no job although the service did something else within a second of them. A disk that is
// full, and clocks that jump, have some skipped.
func (p *replay) lazy(first, last int64, ticks map[int64]string) (n int64) {
	busy := map[int64]bool{}
	for _, e := range p.record.Events {
		busy[time.Unix(0, e.AtNS).Unix()] = true
	}
	for at := first; at <= last; at++ {
		if ticks[at] == "" && busy[at-1] && busy[at] && busy[at+1] {
			n++
		}
	}
	return n
}

// tickedUntil is when a schedule was paused, or else the last that happened: both by the calendar of the log.
func (p *replay) tickedUntil(s wire.Schedule) time.Time {
	if s.Paused {
		return s.UpdatedAt
	}
	return time.Unix(0, p.last)
}
