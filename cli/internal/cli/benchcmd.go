package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/cli/internal/bench"
)

type benchFlags struct {
	options   bench.Options
	spawn     bool
	syncDelay time.Duration
	relaxed   bool
	nodes     int
	pprofURL  string
	dir       string
	suite     string
	quick     bool
	only      string
	peers     string
	commit    string
	echoFile  string
}

func (s *session) benchVerb() verb {
	f := benchFlags{options: bench.Default()}
	return verb{
		root: "bench", short: "Measure the throughput and latency of a server",
		long: `Puts a fixed amount of work through a server and reports throughput, percentiles, and
the CPU and memory of the server. Every job is accounted for: if one was lost or handed
out twice, or if the server was faster than its syncs allow, the run is INVALID and exits
with 1.

With --spawn it starts a server of its own in a temporary directory; --sync-delay
adds the latency of a real disk to every sync of its log, because the disk of a
development machine often answers before anything is safe. Without --spawn it
measures the server of --server, in queues of its own named bench-….

--suite aims first measures what this machine can do without a queue, and shows each
throughput as a share of the lowest limit that applies. With --peers, other durable
queues do the same work in the same run. A row that can't be measured is INVALID, and the
others stay.`,
		example: `  corvo bench --spawn                                   # 10 handlers on one stream
  corvo bench --spawn --sync-delay 0 --batch 64 --connections 10 --concurrency 1
  corvo bench --workload enqueue --protocol http --connections 50 --concurrency 1
  corvo bench --spawn --workload latency --jobs 1000
  corvo bench --spawn --workload steady --rate 2000     # also measures how far lists lag
  corvo bench --suite aims --quick                      # compares with the project's aims`,
		flags: f.register,
		run:   func(c *cobra.Command, _ []string) error { return s.bench(c, f) },
	}
}

func (f *benchFlags) register(c *cobra.Command) {
	fs := c.Flags()
	o := &f.options
	wordFlag(c, &o.Workload, "workload", "%s", bench.Workloads())
	wordFlag(c, &o.Protocol, "protocol", "%s", bench.Protocols())
	fs.IntVar(&o.Jobs, "jobs", o.Jobs, "number of jobs to measure")
	fs.IntVar(&o.Batch, "batch", o.Batch, "jobs per frame or call")
	fs.IntVar(&o.Connections, "connections", o.Connections, "connections, or streams")
	fs.IntVar(&o.Concurrency, "concurrency", o.Concurrency, "callers that share each connection")
	fs.IntVar(&o.PayloadBytes, "payload-bytes", o.PayloadBytes, "size of each payload")
	fs.IntVar(&o.Backlog, "backlog", 0, "lifecycle only: number of other jobs waiting in the queue")
	fs.IntVar(&o.Rate, "rate", 0, "steady only: jobs per second")
	fs.BoolVar(&f.spawn, "spawn", false, "start a server to measure")
	fs.DurationVar(&f.syncDelay, "sync-delay", time.Millisecond, "with --spawn: added to every sync of its log")
	fs.BoolVar(&f.relaxed, "relaxed", false, "with --spawn: do not sync the log at all")
	fs.IntVar(&f.nodes, "nodes", 1, "with --spawn: 1, 3 or 5 nodes; several run in corvo-cloud, which must be in the same directory as corvo")
	fs.StringVar(&f.dir, "data-dir", "", "with --spawn: the data directory; with --suite: the directory to put temporary ones in (default: a temporary directory)")
	fs.StringVar(&o.ProfileFile, "profile", "", "write a CPU profile of the server during the measured phase to `FILE`")
	fs.StringVar(&f.pprofURL, "pprof-url", "", "base `URL` of the profiler of a server that was not spawned")
	fs.StringVar(&f.suite, "suite", "", "aims: run the table of the design's aims, each on a fresh server")
	fs.BoolVar(&f.quick, "quick", false, "with --suite: a tenth of the work, and no large backlogs")
	fs.StringVar(&f.only, "only", "", "with --suite: only the rows of work whose name contains `TEXT`; if none does, the names are listed")
	fs.StringVar(&f.peers, "peers", "", "with --suite: also measure other queues, with the `PROGRAM` that make peers builds")
	fs.StringVar(&f.commit, "commit", "", "with --suite: the commit to name in the result")
	completeWords(c, "suite", "aims")
	// How the suite starts a server that only answers.
	fs.StringVar(&f.echoFile, "serve-echo", "", "answer without doing anything, and write CORVO_URL to `FILE`")
	_ = fs.MarkHidden("serve-echo") // It is there.
}

func (s *session) bench(c *cobra.Command, f benchFlags) error {
	// The generator is allowed to keep garbage: collecting it would be paid by the server.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if f.echoFile != "" {
		return serveEcho(ctx, f.echoFile)
	}
	if f.suite != "" {
		return s.benchSuite(ctx, c, f)
	}
	if err := f.check(c); err != nil {
		return err
	}
	o, err := s.benchOptions(f)
	if err != nil {
		return err
	}
	report, err := s.benchRun(ctx, o, f)
	s.clearProgress()
	if ctx.Err() != nil {
		return &Failure{Exit: ExitFail, Code: "INTERRUPTED", What: "interrupted", Why: "the run didn't finish"}
	}
	if err != nil {
		return &Failure{Exit: ExitFail, Code: "BENCH", What: "the benchmark couldn't run", Why: err.Error()}
	}
	if err := s.emitValue(report, report.WriteText); err != nil {
		return err
	}
	if !report.Valid {
		s.exit = ExitFail
	}
	return nil
}

// check refuses flags that would otherwise do nothing.
func (f *benchFlags) check(c *cobra.Command) error {
	for _, flag := range []string{"sync-delay", "relaxed", "data-dir", "nodes"} {
		if !f.spawn && c.Flags().Changed(flag) {
			return usagef("--%s only works with --spawn", flag)
		}
	}
	for _, flag := range []string{"server", "pprof-url"} {
		if f.spawn && c.Flags().Changed(flag) {
			return usagef("use --spawn or --%s, not both", flag)
		}
	}
	for _, flag := range []string{"quick", "only", "peers", "commit"} {
		if c.Flags().Changed(flag) {
			return usagef("--%s only works with --suite", flag)
		}
	}
	if f.nodes != 1 && f.nodes != 3 && f.nodes != 5 {
		return usagef("--nodes must be 1, 3 or 5, not %d", f.nodes)
	}
	if f.nodes > 1 && (f.relaxed || f.options.ProfileFile != "") {
		return usagef("--relaxed and --profile need --nodes 1")
	}
	for _, flag := range []string{"batch", "connections", "concurrency"} {
		if f.options.Workload.Alone() && c.Flags().Changed(flag) {
			return usagef("--workload %s is one caller with one job at a time: leave out --%s", f.options.Workload, flag)
		}
	}
	if f.options.Backlog != 0 && f.options.Workload != bench.Lifecycle {
		return usagef("--backlog only works with --workload lifecycle")
	}
	return nil
}

func (s *session) benchOptions(f benchFlags) (bench.Options, error) {
	o := f.options
	o.Progress = s.progress()
	// A server on loopback that we start is open; our key is none of its business.
	if !f.spawn {
		var err error
		if o.APIKey, err = s.key(); err != nil {
			return o, err
		}
		o.Namespace = cmp.Or(s.namespace, s.proc.Env("CORVO_NAMESPACE"))
		if o.Server, err = s.serverURL(); err != nil {
			return o, err
		}
	} else {
		o.Server = &url.URL{Scheme: "http", Host: "spawned"}
	}
	if err := o.Validate(); err != nil {
		return o, usagef("%v", err)
	}
	return o, nil
}

func (s *session) benchRun(ctx context.Context, o bench.Options, f benchFlags) (report *bench.Report, err error) {
	target, err := s.benchTarget(ctx, o, f)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := target.Close(); err == nil {
			err = cerr
		}
	}()
	return bench.Run(ctx, o, target)
}

func (s *session) benchTarget(ctx context.Context, o bench.Options, f benchFlags) (*bench.Target, error) {
	if !f.spawn {
		var admin *url.URL
		if f.pprofURL != "" {
			var err error
			if admin, err = url.Parse(f.pprofURL); err != nil {
				return nil, fmt.Errorf("read --pprof-url: %w", err)
			}
		}
		return bench.Running(o.Server, admin), nil
	}
	binary, cloud, err := programs()
	if err != nil {
		return nil, err
	}
	spawn := bench.SpawnOptions{Binary: binary, Dir: f.dir, SyncDelay: f.syncDelay, Relaxed: f.relaxed, Profiler: o.ProfileFile != ""}
	if f.nodes > 1 {
		if spawn.Binary, spawn.Nodes = cloud, f.nodes; cloud == "" {
			return nil, errors.New("--nodes needs the program corvo-cloud beside this one")
		}
	}
	return bench.Spawn(ctx, spawn)
}

// programs finds this program and, if it lies beside it, corvo-cloud.
func programs() (corvo, cloud string, err error) {
	if corvo, err = os.Executable(); err != nil {
		return "", "", fmt.Errorf("find this program: %w", err)
	}
	cloud = filepath.Join(filepath.Dir(corvo), "corvo-cloud")
	if _, err := os.Stat(cloud); err != nil {
		return corvo, "", nil
	}
	return corvo, cloud, nil
}

func (s *session) benchSuite(ctx context.Context, c *cobra.Command, f benchFlags) error {
	if f.suite != "aims" {
		return usagef("--suite %q isn't a suite: use aims", f.suite)
	}
	for _, flag := range []string{"workload", "protocol", "jobs", "batch", "connections", "concurrency", "backlog", "rate", "spawn", "sync-delay", "relaxed",
		"nodes", "profile", "pprof-url", "server", "payload-bytes"} {
		if c.Flags().Changed(flag) {
			return usagef("--suite sets --%s itself", flag)
		}
	}
	binary, cloud, err := programs()
	if err != nil {
		return err
	}
	suite := bench.Suite{Binary: binary, Cloud: cloud, Peers: f.peers, Dir: f.dir, Commit: f.commit, Quick: f.quick, Only: f.only, Progress: s.progress(), RowDone: func(r bench.Row) {
		s.clearProgress()
		s.talkf("%s", r)
	}}
	result, err := suite.Run(ctx)
	s.clearProgress()
	return s.suiteDone(ctx, result, err)
}

// suiteDone shows what there is, also of a suite that didn't finish.
func (s *session) suiteDone(ctx context.Context, result *bench.SuiteResult, err error) error {
	if result != nil {
		if err := s.emitSuite(result); err != nil {
			return err
		}
		if !result.Valid {
			s.exit = ExitFail
		}
	}
	switch {
	case ctx.Err() != nil:
		return &Failure{Exit: ExitFail, Code: "INTERRUPTED", What: "interrupted", Why: "the suite didn't finish"}
	case errors.Is(err, bench.ErrNoWork):
		return usagef("%v", err)
	case err != nil:
		return &Failure{Exit: ExitFail, Code: "BENCH", What: "the suite didn't finish", Why: err.Error()}
	}
	return nil
}

func (s *session) emitSuite(result *bench.SuiteResult) error {
	if s.output == outputJSONL { // Rows alone.
		for _, skipped := range result.Skipped {
			s.talkf("skipped: %s: %s", skipped.Name, skipped.Why)
		}
		rows := make([]json.RawMessage, len(result.Rows))
		for i, row := range result.Rows {
			raw, err := marshal(row)
			if err != nil {
				return err
			}
			rows[i] = raw
		}
		return s.emitAll(rows, nil)
	}
	return s.emitValue(result, func(w io.Writer) {
		rows := make([][]string, len(result.Rows))
		for i, row := range result.Rows {
			rows[i] = row.Cells()
		}
		s.table(w, bench.LimitHeader(), result.Calibration.Cells())
		fmt.Fprintln(w)
		s.table(w, bench.RowHeader(), rows)
		fmt.Fprintln(w)
		for _, note := range result.Notes() {
			fmt.Fprintln(w, note)
		}
	})
}

// serveEcho is a process of its own, so that its processor time is not the generator's.
func serveEcho(ctx context.Context, envFile string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := writeEnvFile(envFile, [][2]string{{"CORVO_URL", "http://" + l.Addr().String()}}); err != nil {
		return errors.Join(err, l.Close())
	}
	return bench.ServeEcho(ctx, l)
}

// progress shows one line on a terminal that is overwritten, and nothing elsewhere.
func (s *session) progress() func(phase string, done, total int) {
	if !isTerminal(s.proc.Stderr) {
		return nil
	}
	return func(phase string, done, total int) {
		fmt.Fprintf(s.proc.Stderr, "\r\x1b[K%s %d of %d (%d %%)", phase, done, total, 100*done/max(1, total))
	}
}

func (s *session) clearProgress() {
	if isTerminal(s.proc.Stderr) {
		fmt.Fprint(s.proc.Stderr, "\r\x1b[K")
	}
}
