package state

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// The scripts in testdata say what the state machine does, one rule per file:
// commands in, answers, events and the decoded store out. Rewrite them with
//
//	go test ./internal/engine/state -run TestScripts -rewrite
//
// and read the difference: it is the change of behaviour.
//
//	entry [at=+5s]     one log entry of all lines; a second after the last one unless said
//	each               one log entry per line, all in one transaction
//	timers at=+5s      one entry that fires everything due by then, as the leader does
//	sweeper            the entries by which the leader removes what deleted queues left
//	restart            a fresh machine over the same store
//	feed after=N       what a reader with that cursor gets
//	readings from=N    what is billed from the hour N on, counted until the last entry
//	dump               every row of the store
//
// A job is named by a letter, a token by attempt@index.ordinal, a time by its
// distance from the beginning of the log.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{r: newReplica(t)}
		defer s.r.close(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(t, d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			s.r.audit(t)
			return out
		})
	})
}

type script struct {
	r *replica
}

func (s *script) run(t *testing.T, d *datadriven.TestData) (string, error) {
	now := s.r.now + int64(time.Second)
	if d.HasArg("at") {
		var text string
		d.ScanArgs(t, "at", &text)
		at, err := parseTime(text)
		if err != nil {
			return "", err
		}
		now = at
	}
	switch d.Cmd {
	case "entry":
		cmds, err := parseCommands(d.Input)
		if err != nil {
			return "", err
		}
		return s.entries(t, logEntry{now: now, cmds: cmds}), nil
	case "each":
		cmds, err := parseCommands(d.Input)
		if err != nil {
			return "", err
		}
		var log []logEntry
		for i, c := range cmds {
			log = append(log, logEntry{now: now + int64(i)*int64(time.Second), cmds: []command.Command{c}})
		}
		return s.entries(t, log...), nil
	case "timers":
		return s.timers(t, now), nil
	case "sweeper":
		return s.sweeper(t, now), nil
	case "restart":
		s.r.machine = New(s.r.store, nil)
		return "", nil
	case "feed":
		var after uint64
		d.ScanArgs(t, "after", &after)
		return s.feed(after), nil
	case "readings":
		var from uint64
		d.ScanArgs(t, "from", &from)
		return s.readings(t, from), nil
	case "dump":
		return dumpText(t, s.r.store), nil
	default:
		return "", fmt.Errorf("no directive %q", d.Cmd)
	}
}

func (s *script) timers(t *testing.T, now int64) string {
	rows, err := bothDue(s.r.store, 0, now+1, 100)
	if err != nil {
		t.Fatalf("read due: %v", err)
	}
	e := logEntry{now: now}
	for _, d := range rows {
		e.cmds = append(e.cmds, &command.Fire{Due: d})
	}
	return s.entries(t, e)
}

// sweeper makes an entry of each command with which the leader sweeps.
func (s *script) sweeper(t *testing.T, now int64) string {
	var b strings.Builder
	for {
		queues, err := stateread.ReadSweeps(s.r.store)
		if err != nil {
			t.Fatalf("read sweeps: %v", err)
		}
		if len(queues) == 0 {
			return b.String()
		}
		for done := false; !done; {
			c, err := queues[0].Next(s.r.store)
			if err != nil {
				t.Fatalf("sweep: %v", err)
			}
			if c != nil {
				b.WriteString(s.entries(t, logEntry{now: now, cmds: []command.Command{c}}))
				done = c.Done != 0
			}
		}
	}
}

// entries applies and tells the answers, what the leader's memory learns, and the events.
func (s *script) entries(t *testing.T, log ...logEntry) string {
	first := s.r.index + 1
	applied := s.r.apply(t, log...)
	var b strings.Builder
	for i, a := range applied {
		index := first + uint64(i)
		fmt.Fprintf(&b, "entry %d at %s\n", index, timeText(a.Now.Calendar))
		for k, c := range log[i].cmds {
			fmt.Fprintf(&b, "  %s: %s\n", commandText(c), resultText(c, a.Results[k]))
		}
		appliedText(&b, a)
		eventsText(&b, t, s.r.store, index)
	}
	return b.String()
}

// parseCommands reads one command per line: a verb, names, key=value options.
func parseCommands(text string) ([]command.Command, error) {
	var out []command.Command
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		l := &scriptLine{verb: words[0], opts: map[string]string{}}
		for _, w := range words[1:] {
			if k, v, ok := strings.Cut(w, "="); ok {
				l.opts[k] = v
			} else {
				l.names = append(l.names, w)
			}
		}
		c := l.command()
		for k := range l.opts {
			l.fail("option %q means nothing here; these do: %s", k, strings.Join(l.known, ", "))
		}
		if l.err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), l.err)
		}
		out = append(out, c)
	}
	return out, nil
}

// scriptLine takes options one by one, so that a misspelt one is noticed.
type scriptLine struct {
	verb  string
	names []string
	opts  map[string]string
	known []string // The options that were asked for.
	err   error
}

func (l *scriptLine) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

func (l *scriptLine) text(key, otherwise string) string {
	v, ok := l.opts[key]
	delete(l.opts, key)
	l.known = append(l.known, key)
	if !ok {
		return otherwise
	}
	return v
}

func (l *scriptLine) bytes(key string) []byte {
	if v := l.text(key, ""); v != "" {
		return []byte(v)
	}
	return nil
}

func (l *scriptLine) uint(key string, otherwise uint64) uint64 {
	v, err := strconv.ParseUint(l.text(key, strconv.FormatUint(otherwise, 10)), 10, 64)
	if err != nil {
		l.fail("%s: %w", key, err)
	}
	return v
}

func (l *scriptLine) duration(key string, otherwise time.Duration) time.Duration {
	v, err := time.ParseDuration(l.text(key, otherwise.String()))
	if err != nil {
		l.fail("%s: %w", key, err)
	}
	return v
}

func (l *scriptLine) time(key string) int64 {
	v := l.text(key, "")
	if v == "" {
		return 0
	}
	at, err := parseTime(v)
	if err != nil {
		l.fail("%s: %w", key, err)
	}
	return at
}

func (l *scriptLine) ns() job.Namespace {
	var ns job.Namespace
	copy(ns[:], l.text("ns", "n1"))
	return ns
}

func (l *scriptLine) id() job.ID {
	if len(l.names) != 1 {
		l.fail("names %v, want one job", l.names)
		return job.ID{}
	}
	return idOf(l.names[0])
}

func (l *scriptLine) holder() command.Holder {
	h := command.Holder{Worker: l.text("worker", ""), Peer: l.uint("peer", 0)}
	if v := l.text("token", ""); v != "" {
		attempt, epoch, _ := strings.Cut(v, "@")
		n, err := strconv.ParseUint(attempt, 10, 32)
		if err != nil {
			l.fail("token: %w", err)
		}
		h.Token = command.Token{Attempt: uint32(n), Epoch: l.position(epoch)}
	}
	return h
}

func (l *scriptLine) position(v string) keys.Position {
	index, ordinal, _ := strings.Cut(v, ".")
	i, err := strconv.ParseUint(index, 10, 64)
	if err != nil {
		l.fail("position %q: %w", v, err)
	}
	o, err := strconv.ParseUint(ordinal, 10, 32)
	if err != nil {
		l.fail("position %q: %w", v, err)
	}
	return keys.Position{Index: i, Ordinal: uint32(o)}
}

func (l *scriptLine) ack() command.Command {
	c := &command.Ack{NS: l.ns(), ID: l.id(), By: l.holder(), Result: l.bytes("result"), Checkpoint: l.bytes("checkpoint")}
	c.Usage, c.HoldReason, c.ExitReason = l.usage(), l.text("reason", ""), l.text("exit", "")
	if c.ExitReason != "" {
		c.Step = command.StepExit
	}
	switch status := l.text("status", ""); status {
	case "":
	case "continue":
		c.Agent = command.AgentContinue
	case "done":
		c.Agent = command.AgentDone
	case "hold":
		c.Agent = command.AgentHold
	default:
		l.fail("status %q", status)
	}
	return c
}

func (l *scriptLine) failCommand() command.Command {
	c := &command.Fail{
		NS: l.ns(), ID: l.id(), By: l.holder(), Error: l.text("error", ""), Backtrace: l.text("backtrace", ""), Release: l.verb == "release",
	}
	c.Terminal, c.Usage = l.text("terminal", "") == "true", l.usage()
	if _, ok := l.opts["delay"]; ok {
		delay := l.duration("delay", 0)
		c.Delay = &delay
	}
	return c
}

func (l *scriptLine) queue() string {
	if len(l.names) != 1 {
		l.fail("names %v, want one queue", l.names)
		return ""
	}
	return l.names[0]
}

// setQueue sets what stands there: paused=true max=3 throttle=5/1m draining=true
// retry=5,fixed,1s,- (parts that are - are not said) retention=1h,24h,-,100 (completed,
// dead, cancelled and how many; - is the namespace's).
func (l *scriptLine) setQueue() command.Command {
	c := &command.SetQueue{NS: l.ns(), Queue: l.queue()}
	if v := l.text("paused", ""); v != "" {
		c.Set, c.Paused = c.Set|command.SetPaused, v == "true"
	}
	if _, ok := l.opts["max"]; ok {
		c.Set, c.MaxConcurrency = c.Set|command.SetConcurrency, uint32(l.uint("max", 0))
	}
	if v := l.text("throttle", ""); v != "" {
		c.Set |= command.SetThrottle
		if limit, window, ok := strings.Cut(v, "/"); ok {
			n, err := strconv.ParseUint(limit, 10, 32)
			if err != nil {
				l.fail("throttle: %w", err)
			}
			c.Throttle.Limit = uint32(n)
			if c.Throttle.Window, err = time.ParseDuration(window); err != nil {
				l.fail("throttle: %w", err)
			}
		}
	}
	if v := l.text("draining", ""); v != "" {
		c.Set, c.Draining = c.Set|command.SetDraining, v == "true"
	}
	if v := l.text("retry", ""); v != "" {
		c.Set |= command.SetRetry
		c.Retry, c.RetrySet = l.retry(v)
	}
	if v := l.text("retention", ""); v != "" {
		c.Set, c.Retention = c.Set|command.SetRetention, l.retention(v)
	}
	return c
}

// retention reads completed,dead,cancelled,count; - is the namespace's.
func (l *scriptLine) retention(v string) (r command.QueueRetention) {
	parts := strings.Split(v, ",")
	if len(parts) != 4 {
		l.fail("retention %q", v)
		return r
	}
	var err [4]error
	for i, age := range []*time.Duration{&r.Completed, &r.Dead, &r.Cancelled} {
		if parts[i] != "-" {
			*age, err[i] = time.ParseDuration(parts[i])
		}
	}
	if parts[3] != "-" {
		r.Max, err[3] = strconv.ParseInt(parts[3], 10, 64)
	}
	if err := errors.Join(err[:]...); err != nil {
		l.fail("retention: %w", err)
	}
	return r
}

// retry reads attempts,backoff,base,max; - leaves a part open.
func (l *scriptLine) retry(v string) (p command.RetryPolicy, set command.RetryParts) {
	parts := strings.Split(v, ",")
	if len(parts) != 4 {
		l.fail("retry %q", v)
		return p, 0
	}
	for i, word := range parts {
		if word == "-" {
			continue
		}
		set |= 1 << i
		var err error
		switch i {
		case 0:
			var n uint64
			n, err = strconv.ParseUint(word, 10, 32)
			p.MaxRetries = uint32(n)
		case 1:
			p.Backoff, _ = job.ParseBackoff(word)
		case 2:
			p.BaseDelay, err = time.ParseDuration(word)
		default:
			p.MaxDelay, err = time.ParseDuration(word)
		}
		if err != nil {
			l.fail("retry: %w", err)
		}
	}
	return p, set
}

func (l *scriptLine) requeue() command.Command {
	c := &command.Requeue{NS: l.ns(), Queue: l.text("queue", "q")}
	for _, n := range l.names {
		c.Jobs = append(c.Jobs, idOf(n))
	}
	return c
}

func (l *scriptLine) sweep() command.Command {
	c := &command.Sweep{NS: l.ns(), Queue: l.queue(), Done: l.uint("done", 0)}
	for _, name := range l.list("jobs") {
		c.Jobs = append(c.Jobs, idOf(name))
	}
	c.Unique, c.Idempotency = l.list("unique"), l.list("idempotency")
	return c
}

// list is the values of a key, between commas.
func (l *scriptLine) list(key string) []string {
	if v := l.text(key, ""); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

func (l *scriptLine) deleteEnded() command.Command {
	c := &command.DeleteEnded{NS: l.ns(), Before: l.time("before")}
	for _, name := range l.list("jobs") {
		c.Jobs = append(c.Jobs, idOf(name))
	}
	for _, name := range l.list("batches") {
		c.Batches = append(c.Batches, job.BatchID(idOf(name)))
	}
	for _, name := range l.list("chains") {
		c.Chains = append(c.Chains, job.ChainID(idOf(name)))
	}
	return c
}

func (l *scriptLine) enqueue() command.Command {
	c := &command.Enqueue{
		NS: l.ns(), ID: l.id(), Queue: l.text("queue", "q"), Payload: []byte(l.text("payload", "{}")), Checkpoint: l.bytes("checkpoint"),
		ScheduledAt: l.time("scheduled"), UniqueKey: l.text("unique", ""), UniqueFor: l.duration("unique-for", time.Hour),
		IdempotencyKey: l.text("idempotency", ""), IdempotencyFor: l.duration("idempotency-for", 24*time.Hour),
		Retry: command.RetryPolicy{
			MaxRetries: uint32(l.uint("retries", 3)),
			BaseDelay:  l.duration("base", 5*time.Second), MaxDelay: l.duration("max", 10*time.Minute),
		},
	}
	c.Agent = l.agent()
	var ok bool
	if c.Priority, ok = job.ParsePriority(l.text("priority", "")); !ok {
		l.fail("priority")
	}
	if c.Retry.Backoff, ok = job.ParseBackoff(l.text("backoff", "")); !ok {
		l.fail("backoff")
	}
	if v := l.text("retry", ""); v == "open" {
		c.Retry = command.RetryPolicy{}
	} else if v != "" {
		var said command.RetryParts
		c.Retry, said = l.retry(v)
		c.RetryOpen = command.RetryAll &^ said
	}
	c.ExpireAt = l.time("expire")
	if v := l.text("tag", ""); v != "" {
		k, v, _ := strings.Cut(v, ":")
		c.Tags = []command.Tag{{Key: k, Value: v}}
	}
	l.ties(c)
	return c
}

// agent reads agent=iterations:3,cost:0.5,timeout:30s.
func (l *scriptLine) agent() *command.AgentLimits {
	v := l.text("agent", "")
	if v == "" {
		return nil
	}
	a := new(command.AgentLimits)
	for word := range strings.SplitSeq(v, ",") {
		name, value, _ := strings.Cut(word, ":")
		var n uint64
		var err error
		switch name {
		case "iterations":
			n, err = strconv.ParseUint(value, 10, 32)
			a.MaxIterations = uint32(n)
		case "cost":
			a.MaxCost, err = job.ParseDollars(value)
		case "timeout":
			a.IterationTimeout, err = time.ParseDuration(value)
		case "none":
		default:
			err = fmt.Errorf("no part %q", name)
		}
		if err != nil {
			l.fail("agent: %w", err)
		}
	}
	return a
}

func (l *scriptLine) fetch() command.Command {
	c := &command.Fetch{
		NS: l.ns(), Worker: l.text("worker", "w1"), Hostname: l.text("host", ""), Peer: l.uint("peer", 1),
		Lease: l.duration("lease", time.Minute),
	}
	for _, n := range l.names {
		c.Jobs = append(c.Jobs, idOf(n))
	}
	if v := l.text("queues", ""); v != "" {
		c.Queues = strings.Split(v, ",")
	}
	if v := l.text("floor", ""); v != "" { // queue/priority/position
		parts := strings.Split(v, "/")
		if len(parts) != 3 {
			l.fail("floor %q", v)
			return c
		}
		p, ok := job.ParsePriority(parts[1])
		if !ok {
			l.fail("floor %q", v)
		}
		c.Floors = []command.Floor{{Queue: parts[0], Priority: p, Pos: l.position(parts[2])}}
	}
	return c
}

func (l *scriptLine) fire() command.Command {
	d := keys.Due{At: l.time("at"), NS: l.ns()}
	if len(l.names) != 2 {
		l.fail("names %v, want a kind and a job", l.names)
		return nil
	}
	for k, name := range dueNames {
		if name == l.names[0] {
			d.Kind = k
		}
	}
	d.ID = idOf(l.names[1])
	return &command.Fire{Due: d}
}

func idOf(name string) (id job.ID) {
	if digits, ok := strings.CutPrefix(name, "#"); ok {
		name = ""
		if b, err := hex.DecodeString(digits); err == nil {
			name = string(b)
		}
	}
	copy(id[:], name)
	return id
}

func parseTime(v string) (int64, error) {
	if v == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(strings.TrimPrefix(v, "+"))
	return epoch + int64(d), err
}
