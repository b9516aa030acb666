package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/footprint"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/node"
)

// serverFlags are the flags of existing clients' servers that a node has today,
// and ours.
type serverFlags struct {
	bind            string
	dataDir         string
	nodeID          string
	durable         bool
	relaxed         bool
	acceptLoss      bool
	raftShards      int
	shutdownTimeout time.Duration
	maxPayloadSize  int
	syncDelay       time.Duration
	requireKey      bool
	envFile         string
	pprofBind       string
	keep            retention.Policy
}

// serverEvents is what a running node tells its caller.
type serverEvents struct {
	// ready is called once, with the base URL that clients use, and the first key
	// with the file it lies in when keys are asked for.
	ready func(url, key, keyFile string) error
}

func (s *session) serverVerb() verb {
	var f serverFlags
	return verb{
		root: "server", short: "Run a node",
		long: `Runs a single node with its own data directory. Everything it acknowledges is on disk.
Without --require-key, anyone who can reach the port has full access, so the node only
listens on this machine.

SIGTERM or Ctrl-C shuts down cleanly: running requests are answered and streams are told
to reconnect.`,
		example: `  corvo server
  corvo server --bind 127.0.0.1:9090 --data-dir /var/lib/corvo
  corvo server --bind 127.0.0.1:0 --env-file .env && . .env   # picks a free port`,
		flags: f.register,
		run:   func(c *cobra.Command, _ []string) error { return s.serve(c.Context(), f) },
	}
}

func (f *serverFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.bind, "bind", "127.0.0.1:8080", "`ADDRESS` for HTTP and RPC; port 0 picks a free one")
	fs.StringVar(&f.dataDir, "data-dir", "data", "data directory `DIR`")
	fs.StringVar(&f.nodeID, "node-id", "node-1", "`NAME` of this node; can't change once there is data")
	fs.IntVar(&f.raftShards, "raft-shards", 1, "number of shards; can't change once there is data")
	fs.DurationVar(&f.shutdownTimeout, "shutdown-timeout", 3*time.Second, "how long running requests can take after the node is told to stop")
	fs.IntVar(&f.maxPayloadSize, "max-payload-size", 256<<10, "largest payload in `BYTES`")
	fs.BoolVar(&f.requireKey, "require-key", false, "refuse requests without a valid API key")
	fs.BoolVar(&f.durable, "durable", true, "for existing scripts; the log is always synced")
	fs.BoolVar(&f.relaxed, "relaxed", false, "DANGER: don't sync the log; if the machine crashes, acknowledged jobs are lost")
	fs.BoolVar(&f.acceptLoss, "accept-loss", false, "start even though a crash in relaxed mode lost acknowledged jobs")
	fs.StringVar(&f.envFile, "env-file", "", "write CORVO_URL, and CORVO_API_KEY with --require-key, to `FILE` when ready")
	fs.StringVar(&f.pprofBind, "pprof", "", "serve the Go profiler on this loopback `ADDRESS`")
	fs.DurationVar(&f.syncDelay, "sync-delay", 0, "development only: add this delay to every sync of the log")
	age := func(name string, d *time.Duration, what string) {
		fs.Var((*retention.Age)(d), "retention-"+name, "how long "+what+" are kept, such as 12h or 7d")
	}
	age("completed", &f.keep.Completed, "completed jobs (default 7d)")
	age("dead", &f.keep.Dead, "dead jobs (default 30d)")
	age("cancelled", &f.keep.Cancelled, "cancelled jobs (default 30d)")
	age("events", &f.keep.Events, "events (default 7d)")
	age("usage", &f.keep.Usage, "recorded usage (default 400d)")
	fs.Int64Var(&f.keep.Max, "retention-finished-max", 0, "most finished jobs of a queue that are kept; 0 is no limit")
	fs.Int64Var(&f.keep.EventsBytes, "retention-events-bytes-max", 0, "most `BYTES` of events that are kept (default 64 MB)")
	c.SetFlagErrorFunc(explainServerFlag)
}

// olderFlags are flags of earlier servers that mean nothing here, with what to
// do instead. They are refused: a flag that is ignored is a promise not kept.
func olderFlags() map[string]string {
	const cluster = "clusters are run by `corvo-cloud node`"
	const always = "this is always on"
	const limits = "limits come from the tenant's plan"
	return map[string]string{
		"raft-bind": cluster, "raft-advertise": cluster, "bootstrap": cluster, "join": cluster, "discover": cluster, "discover-dns-name": cluster,
		"raft-store": "there is one log store", "apply-multi-mode": "there is one way to apply", "no-compression": always, "docs-enabled": always,
		"admin-password": "use --require-key and API keys", "license-key": "there are no licences", "license-public-key": "there are no licences",
		"rate-limit-enabled": limits, "rate-limit-read-rps": limits, "rate-limit-read-burst": limits, "rate-limit-write-rps": limits,
		"rate-limit-write-burst": limits, "stream-max-inflight": limits, "stream-max-open": limits, "stream-max-fps": limits,
		"fetch-poll-interval": "waiting calls are woken, not polled", "idle-fetch-sleep": "waiting calls are woken, not polled",
	}
}

func explainServerFlag(_ *cobra.Command, err error) error {
	name, found := strings.CutPrefix(err.Error(), "unknown flag: --")
	if why := olderFlags()[name]; found && why != "" {
		return &Failure{Exit: ExitUsage, Code: "USAGE", What: "--" + name + " isn't a flag of this server", Why: why, Fix: "leave it out"}
	}
	return usageOf(err)
}

func (f *serverFlags) check() error {
	if !f.durable {
		return &Failure{Exit: ExitUsage, Code: "USAGE", What: "--durable=false doesn't exist", Fix: "use --relaxed, and read its warning"}
	}
	if f.relaxed && f.syncDelay > 0 {
		return usagef("use --relaxed or --sync-delay, not both")
	}
	if f.raftShards < 1 || f.maxPayloadSize < 1 || f.shutdownTimeout <= 0 || f.syncDelay < 0 {
		return usagef("--raft-shards, --max-payload-size and --shutdown-timeout must be more than zero, and --sync-delay can't be negative")
	}
	if f.keep.Max < 0 || f.keep.EventsBytes < 0 {
		return usagef("--retention-finished-max and --retention-events-bytes-max can't be negative")
	}
	if !f.requireKey {
		if err := onLoopback(f.bind); err != nil {
			return &Failure{Exit: ExitUsage, Code: "USAGE", What: "refusing to listen on " + f.bind + " without keys", Why: err.Error(),
				Fix: "use --require-key, or --bind 127.0.0.1:8080"}
		}
	}
	if f.pprofBind != "" {
		if err := onLoopback(f.pprofBind); err != nil {
			return usagef("--pprof %s: %v", f.pprofBind, err)
		}
	}
	return nil
}

func onLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", address)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("other machines could reach it")
}

func (s *session) serve(ctx context.Context, f serverFlags) error {
	defer footprint.Manage(s.proc.Env, footprint.Shared)()
	if err := f.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	log := s.logger()
	s.announce(f)
	profiler, stopProfiler, err := serveProfiler(f.pprofBind, log)
	if err != nil {
		return &Failure{Exit: ExitFail, Code: "SERVER", What: "can't serve the profiler", Why: err.Error()}
	}
	defer stopProfiler()
	ready := func(url, key, keyFile string) error {
		s.talkf("ready on %s", url)
		s.hintf("next, in another terminal: corvo enqueue hello '{}' && corvo queues")
		if keyFile != "" {
			s.talkf("the API key is in %s; try: corvo queues --server %s --api-key-file %s", keyFile, url, keyFile)
		}
		return writeEnvFile(f.envFile, [][2]string{{"CORVO_URL", url}, {"CORVO_API_KEY", key}, {"CORVO_PPROF_URL", profiler}})
	}
	err = runServer(ctx, f, log, serverEvents{ready: ready})
	var failure *Failure
	if err != nil && !errors.As(err, &failure) {
		return nodeFailure(err)
	}
	return err
}

// nodeFailure explains why the node did not start or ended.
func nodeFailure(err error) *Failure {
	f := &Failure{Exit: ExitFail, Code: "SERVER", What: "the node stopped", Why: err.Error()}
	switch {
	case errors.Is(err, node.ErrStuck):
		f.Exit, f.Code, f.Fix = ExitStuck, "STUCK", "nothing that was acknowledged is lost; start it again"
	case errors.Is(err, node.ErrVersion):
		f.Exit, f.Code, f.Fix = ExitVersion, "CELL_VERSION", "the data is as it should be: start it with a version of corvo that is at least as new as the one that wrote it"
	case errors.Is(err, node.ErrStorage):
		f.Exit, f.Code, f.Fix = ExitStopped, "STORAGE", "don't restart it in a loop: copy the directory and check the disk"
	case errors.Is(err, node.ErrFolder):
		f.Exit, f.Code, f.Fix = ExitConflict, "DATA_DIR_FOREIGN", "use another directory with --data-dir"
	case errors.Is(err, node.ErrKeyFile):
		f.Exit, f.Code = ExitConflict, "KEY_FILE"
	}
	return f
}

// announce says aloud what an operator must not overlook.
func (s *session) announce(f serverFlags) {
	if f.relaxed {
		fmt.Fprintf(s.proc.Stderr, "%s --relaxed: the log is NOT synced. If the machine crashes, acknowledged jobs are lost.\n", s.paint(styleBad, "WARNING"))
	}
	if f.syncDelay > 0 {
		s.talkf("development: every sync of the log takes an extra %s", f.syncDelay)
	}
	if !f.requireKey {
		s.talkf("no API key is required, so the node only accepts connections from this machine (change both with --require-key)")
	}
}

// writeEnvFile writes variables for a shell, whole or not at all, readable by
// its owner only. Empty ones are left out.
func writeEnvFile(path string, vars [][2]string) error {
	if path == "" {
		return nil
	}
	text := ""
	for _, v := range vars {
		if v[1] != "" {
			text += v[0] + "=" + v[1] + "\n"
		}
	}
	if err := replaceFile(path, []byte(text)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// serveProfiler serves the Go profiler on a listener of its own, until stop; without an
// address it does nothing.
func serveProfiler(address string, log *slog.Logger) (url string, stop func(), err error) {
	if address == "" {
		return "", func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{}) // Closed when the server has ended.
	go func() {                 // stop waits for it.
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the profiler stopped", "err", err)
		}
	}()
	stop = func() {
		_ = server.Close() // Nothing that is profiled is lost.
		<-done
	}
	return "http://" + listener.Addr().String(), stop, nil
}
