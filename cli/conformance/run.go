package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
)

// Rule is one thing that must be true, whatever protocol it is asked in.
type Rule struct {
	Name string
	// Needs names the feature of the server that the rule is about, where a server may
	// be without it; Options.Without leaves such rules out.
	Needs string
	// Known is what is wrong on this day: a failure of the rule is shown and does not
	// count. Empty for all rules but those that wait for a repair.
	Known string
	// Once: the rule is about calls that only HTTP/JSON has, and runs there alone.
	Once bool
	// Whole: the rule stops the namespace for a moment or counts all of it, so it runs
	// when no other does, and only if Options.Whole allows it.
	Whole bool
	// Timed: the rule compares times of the server with those of this process, or counts
	// within a day. Such a rule runs again after a run that was disturbed.
	Timed bool
	// Run is handed a queue that nobody else has; T.Queue has more.
	Run func(t *T, q string)
}

// Subject is a list of rules about one thing.
type Subject struct {
	Name  string
	Rules []Rule
}

// Target is the server under test.
type Target struct {
	URL       string // Of the tenant, without a slash at the end.
	Key       string // "" for a server without keys.
	Namespace string // "" for the key's own.

	extra [2]string // One more header.
}

func (t Target) with(name, value string) Target {
	t.extra = [2]string{name, value}
	return t
}

func (t Target) identify(h http.Header) {
	if t.Key != "" {
		h.Set("X-API-Key", t.Key)
	}
	if t.Namespace != "" {
		h.Set("X-Corvo-Namespace", t.Namespace)
	}
	if t.extra[0] != "" {
		h.Set(t.extra[0], t.extra[1])
	}
}

// Protocols are the ways to speak the worker protocol, as Options name them.
var Protocols = []string{"http", "connect", "grpc", "stream"}

func dial(protocol string, target Target) Client {
	switch protocol {
	case "http":
		return newHTTP(target)
	case "connect":
		return newRPC(target)
	case "grpc":
		return newRPC(target, connect.WithGRPC())
	default:
		return newStream(target)
	}
}

const (
	parallelDefault = 16
	timeoutDefault  = time.Minute
)

// Options of a run. Zero values take the defaults.
type Options struct {
	Namespace string
	Protocols []string      // All.
	Only      string        // Rules whose subject or name contains this; all.
	Without   []string      // Features that the server does not have.
	Parallel  int           // 16
	Timeout   time.Duration // Of one rule: one minute.
	// Whole: nobody else uses the namespace, so that rules about all of it may run.
	Whole bool
}

// Outcome of a rule on one protocol.
type Outcome struct {
	Word string `json:"outcome"`       // ok, FAIL, known, n/a or - (not asked).
	Text string `json:"why,omitempty"` // Unless ok.
	// Disturbed are the failures of runs that did not count, because this machine, the
	// server or its disk stood still meanwhile, or a day ended.
	Disturbed []string `json:"disturbed,omitempty"`
}

// Row is one line of the table.
type Row struct {
	Subject  string             `json:"subject"`
	Rule     string             `json:"rule"`
	Outcomes map[string]Outcome `json:"protocols"`
}

// Report is the table of a run: rule by protocol.
type Report struct {
	Protocols []string `json:"protocols"`
	Rows      []Row    `json:"rules"`
}

// Check runs the rules against the tenant at a URL.
func Check(ctx context.Context, url, key string, o Options) *Report {
	o.Parallel = cmp.Or(o.Parallel, parallelDefault)
	o.Timeout = cmp.Or(o.Timeout, timeoutDefault)
	report := &Report{Protocols: o.Protocols}
	if len(report.Protocols) == 0 {
		report.Protocols = Protocols
	}
	target := Target{URL: strings.TrimSuffix(url, "/"), Key: key, Namespace: o.Namespace}
	name := "conformance-" + strings.ToLower(rand.Text()[:8])
	var running sync.WaitGroup
	var mu sync.Mutex  // Guards the outcomes of the report.
	var whole []func() // Runs of rules that want the namespace for themselves.
	slots := make(chan struct{}, o.Parallel)
	for _, s := range Subjects() {
		for i := range s.Rules {
			r := &s.Rules[i]
			if !strings.Contains(s.Name+": "+r.Name, o.Only) || slices.Contains(o.Without, r.Needs) && r.Needs != "" {
				continue
			}
			row := Row{Subject: s.Name, Rule: r.Name, Outcomes: make(map[string]Outcome)}
			report.Rows = append(report.Rows, row)
			for _, protocol := range report.Protocols {
				if r.Once && protocol != "http" || r.Whole && !o.Whole {
					mu.Lock()
					row.Outcomes[protocol] = Outcome{Word: "-"}
					mu.Unlock()
					continue
				}
				queues := fmt.Sprintf("%s-%d-%s", name, len(report.Rows), protocol)
				run := func() {
					out := r.on(ctx, protocol, target, queues, o.Timeout)
					mu.Lock()
					defer mu.Unlock()
					row.Outcomes[protocol] = out
				}
				if r.Whole {
					whole = append(whole, run)
					continue
				}
				slots <- struct{}{}
				running.Go(func() {
					defer func() { <-slots }()
					run()
				})
			}
		}
	}
	running.Wait()
	for _, run := range whole {
		run()
	}
	return report
}

// A rule about time means nothing while the server, the disk or this process stands
// still for longer than the times it speaks of; one about days, while a day ends. So a
// failure of such a rule counts only of a run in which every call was answered within stall
// and no UTC day ended, or of the last of several runs. No other rule runs again, unless its
// events ended with the term of a leader. The report says which did.
const (
	stall   = 300 * time.Millisecond
	runsMax = 4
)

// on runs the rule on one protocol.
func (r *Rule) on(ctx context.Context, protocol string, target Target, queues string, limit time.Duration) Outcome {
	var disturbed []string
	for n := 1; ; n++ {
		began := time.Now()
		t := r.once(ctx, protocol, target, fmt.Sprintf("%s-%d", queues, n), limit)
		if t.failure != "" && n < runsMax && (t.cut.Load() || r.Timed && (t.stalled() || !sameDay(began, time.Now()))) {
			disturbed = append(disturbed, t.failure)
			continue
		}
		out := r.outcome(t)
		out.Disturbed = disturbed
		return out
	}
}

func (r *Rule) outcome(t *T) Outcome {
	switch {
	case t.failure != "" && r.Known != "":
		return Outcome{Word: "known", Text: r.Known}
	case t.failure != "":
		return Outcome{Word: "FAIL", Text: t.failure}
	case t.unable != "":
		return Outcome{Word: "n/a", Text: t.unable}
	default:
		return Outcome{Word: "ok"}
	}
}

func (r *Rule) once(ctx context.Context, protocol string, target Target, queues string, limit time.Duration) *T {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &T{Context: ctx, Protocol: protocol, admin: newHTTP(target), queues: queues}
	t.Client = &timed{Client: dial(protocol, target), watch: &t.watch}
	var done sync.WaitGroup
	done.Go(func() { r.Run(t, t.Queue()) }) // Of its own, so that Fatalf can end it.
	done.Wait()
	t.end()
	return t
}

// TB is what Run needs of a testing.T.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Context() context.Context
}

// Run runs the rules within a test and fails it with each that does not hold.
func Run(t TB, url, key string, o Options) *Report {
	t.Helper()
	report := Check(t.Context(), url, key, o)
	var table strings.Builder
	if err := report.Write(&table); err != nil {
		t.Errorf("write the table: %v", err)
	}
	for _, failure := range report.Failures() { // Before the table: a cut log shows its beginning.
		t.Errorf("%s", failure)
	}
	t.Logf("%s\n%s", url, table.String())
	if len(report.Rows) == 0 {
		t.Errorf("no rule is called like %q", o.Only)
	}
	return report
}

// Failures are the rules that do not hold, with the protocol and the reason.
func (r *Report) Failures() []string { return r.of("FAIL") }

func (r *Report) of(word string) []string {
	return r.texts(func(o Outcome) []string {
		if o.Word != word {
			return nil
		}
		return []string{o.Text}
	})
}

// Repeated are the runs that were repeated, with what failed in them.
func (r *Report) Repeated() []string {
	return r.texts(func(o Outcome) []string { return o.Disturbed })
}

func (r *Report) texts(of func(Outcome) []string) (out []string) {
	for _, row := range r.Rows {
		for _, p := range r.Protocols {
			for _, text := range of(row.Outcomes[p]) {
				out = append(out, fmt.Sprintf("%s: %s, over %s: %s", row.Subject, row.Rule, p, text))
			}
		}
	}
	return out
}

// Write prints the table, and below it why a word is not ok.
func (r *Report) Write(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(tab, strings.Join(cells, "\t")) } // Flush tells.
	line(append([]string{"SUBJECT", "RULE"}, r.Protocols...)...)
	counts := make(map[string]int)
	for _, row := range r.Rows {
		cells := []string{row.Subject, row.Rule}
		for _, p := range r.Protocols {
			cells = append(cells, row.Outcomes[p].Word)
			counts[row.Outcomes[p].Word]++
		}
		line(cells...)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, word := range []string{"n/a", "known", "FAIL"} {
		for _, text := range r.of(word) {
			if _, err := fmt.Fprintf(w, "%s  %s\n", word, oneLine(text)); err != nil {
				return err
			}
		}
	}
	repeated := r.Repeated()
	for _, text := range repeated {
		if _, err := fmt.Fprintf(w, "repeated  %s\n", oneLine(text)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d rules: %d ok, %d failed, %d known, %d that a protocol has no words for; %d runs repeated because the machine stood still\n",
		len(r.Rows), counts["ok"], counts["FAIL"], counts["known"], counts["n/a"], len(repeated))
	return err
}

// textMax keeps a line of the report readable.
const textMax = 400

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > textMax {
		cut := textMax
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return s
}
