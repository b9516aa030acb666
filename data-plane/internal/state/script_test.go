package state

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// The scripts in testdata say what the state machine does, one rule per file:
// commands in, answers, events and the decoded store out. Rewrite them with
//
//	go test ./internal/state -run TestScripts -rewrite
//
// and read the difference: it is the change of behaviour.
//
//	entry [at=+5s]     one log entry of all lines; a second after the last one unless said
//	each               one log entry per line, all in one transaction
//	timers at=+5s      one entry that fires everything due by then, as the leader does
//	restart            a fresh machine over the same store
//	feed after=N       what a reader with that cursor gets
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
		return s.entries(t, logEntry{now, cmds}), nil
	case "each":
		cmds, err := parseCommands(d.Input)
		if err != nil {
			return "", err
		}
		var log []logEntry
		for i, c := range cmds {
			log = append(log, logEntry{now + int64(i)*int64(time.Second), []command.Command{c}})
		}
		return s.entries(t, log...), nil
	case "timers":
		return s.timers(t, now), nil
	case "restart":
		s.r.machine = New(s.r.store, nil)
		return "", nil
	case "feed":
		var after uint64
		d.ScanArgs(t, "after", &after)
		return s.feed(after), nil
	case "dump":
		return dumpText(t, s.r.store), nil
	default:
		return "", fmt.Errorf("no directive %q", d.Cmd)
	}
}

func (s *script) timers(t *testing.T, now int64) string {
	rows, err := ReadDue(s.r.store, 0, now+1, 100)
	if err != nil {
		t.Fatalf("read due: %v", err)
	}
	e := logEntry{now: now}
	for _, d := range rows {
		e.cmds = append(e.cmds, &command.Fire{Due: d})
	}
	return s.entries(t, e)
}

// entries applies and tells the answers, what the leader's memory learns, and the events.
func (s *script) entries(t *testing.T, log ...logEntry) string {
	first := s.r.index + 1
	applied := s.r.apply(t, log...)
	var b strings.Builder
	for i, a := range applied {
		index := first + uint64(i)
		fmt.Fprintf(&b, "entry %d at %s\n", index, timeText(a.Now))
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
			l.fail("option %q means nothing here", k)
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

func (l *scriptLine) command() command.Command {
	switch l.verb {
	case "enqueue":
		return l.enqueue()
	case "fetch":
		return l.fetch()
	case "ack":
		return &command.Ack{NS: l.ns(), ID: l.id(), By: l.holder(), Result: l.bytes("result"), Checkpoint: l.bytes("checkpoint")}
	case "fail":
		return &command.Fail{NS: l.ns(), ID: l.id(), By: l.holder(), Error: l.text("error", ""), Backtrace: l.text("backtrace", "")}
	case "release":
		return &command.Fail{NS: l.ns(), ID: l.id(), By: l.holder(), Error: l.text("error", ""), Release: true}
	case "heartbeat":
		return &command.Heartbeat{NS: l.ns(), ID: l.id(), By: l.holder(), Progress: l.bytes("progress"), Checkpoint: l.bytes("checkpoint")}
	case "extend":
		return &command.Extend{NS: l.ns(), ID: l.id(), Epoch: l.position(l.text("epoch", "")), Until: l.time("until")}
	case "fire":
		return l.fire()
	case "pause", "resume":
		if len(l.names) != 1 {
			l.fail("names %v, want one queue", l.names)
			return nil
		}
		return &command.Pause{NS: l.ns(), Queue: l.names[0], Paused: l.verb == "pause"}
	case "cancel":
		return &command.Cancel{NS: l.ns(), ID: l.id()}
	case "retry":
		return &command.Retry{NS: l.ns(), ID: l.id()}
	case "delete":
		return &command.Delete{NS: l.ns(), ID: l.id()}
	case "trim":
		return &command.TrimFeed{Before: l.uint("before", 0)}
	default:
		l.fail("no command %q", l.verb)
		return nil
	}
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
	var ok bool
	if c.Priority, ok = job.ParsePriority(l.text("priority", "")); !ok {
		l.fail("priority")
	}
	if c.Retry.Backoff, ok = job.ParseBackoff(l.text("backoff", "")); !ok {
		l.fail("backoff")
	}
	if v := l.text("tag", ""); v != "" {
		k, v, _ := strings.Cut(v, ":")
		c.Tags = []command.Tag{{Key: k, Value: v}}
	}
	return c
}

func (l *scriptLine) fetch() command.Command {
	c := &command.Fetch{
		NS: l.ns(), Worker: l.text("worker", "w1"), Hostname: l.text("host", ""), Peer: l.uint("peer", 1),
		Lease: l.duration("lease", time.Minute),
	}
	for _, n := range l.names {
		c.Jobs = append(c.Jobs, idOf(n))
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
