package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

const (
	// resultBytesMax is the protocol's limit of a result.
	resultBytesMax = 256 << 10
	// errorBytesMax is what the server keeps of an error; the end says most.
	errorBytesMax = 16 << 10
	// stopGrace is how long a command may take to end after SIGTERM.
	stopGrace = 10 * time.Second
	// workShutdown, stopGrace and giveBack fit into the 30 seconds that orchestrators leave
	// between asking a process to end and killing it.
	workShutdown = 15 * time.Second
	giveBack     = time.Second
)

// errQuit gives a job back whose command was ended by a second Ctrl-C.
var errQuit = corvo.Release("its worker was told to quit")

type workFlags struct {
	concurrency int
	lease       time.Duration
	workerID    string
	jobs        int
	jobTimeout  time.Duration
	shutdown    time.Duration
	exchange    bool
	token       exchangeFlags
}

func (s *session) workVerb() verb {
	var f workFlags
	return verb{
		root: "work", noun: "worker run", args: "QUEUE... -- COMMAND [ARG...]", short: "Run a command for each job",
		long: `Fetches jobs and runs COMMAND once for each, with the payload on stdin. Exit code 0
completes the job, with stdout as its result if that is JSON. Any other exit code fails
the attempt and stores the end of stderr as its error.

CORVO_JOB_ID, CORVO_QUEUE, CORVO_ATTEMPT and CORVO_MAX_RETRIES are set for
the command. If a job is cancelled, its command and what that started get SIGTERM, and
SIGKILL ` + duration(stopGrace) + ` later.

Ctrl-C or SIGTERM stops fetching and waits --shutdown-timeout for running commands. Those
that take longer are stopped like those of cancelled jobs, and their jobs are given back. A
second Ctrl-C kills running commands and gives their jobs back at once.

With --exchange it needs no API key: it exchanges the token of this pod or CI job for one,
as ` + "`corvo token exchange`" + ` does, and exchanges the token that it finds by then again before the
key ends. Running commands aren't disturbed. It ends when there is no new key and the last
one has ended, or when its key is revoked.`,
		example: `  {cmd} emails -- ./send-email.sh
  {cmd} thumbnails --concurrency 4 --job-timeout 2m -- convert-image
  {cmd} emails --jobs 1 -- jq .to                # one job, then exit
  {cmd} emails --exchange --tenant acme --token-file /var/run/secrets/corvo/token -- ./send-email.sh`,
		flags: func(c *cobra.Command) {
			c.Flags().IntVar(&f.concurrency, "concurrency", 1, "commands to run at the same time")
			c.Flags().DurationVar(&f.lease, "lease", corvo.DefaultLease, "how long the server waits for a heartbeat from this worker")
			c.Flags().StringVar(&f.workerID, "worker-id", "", "`NAME` shown with its jobs")
			c.Flags().IntVar(&f.jobs, "jobs", 0, "stop after this many jobs; 0 means run until Ctrl-C")
			c.Flags().DurationVar(&f.jobTimeout, "job-timeout", 0, "fail a job whose command takes longer; 0 means no limit")
			c.Flags().DurationVar(&f.shutdown, "shutdown-timeout", workShutdown, "how long running commands can take after Ctrl-C or SIGTERM; 0 means no limit")
			c.Flags().BoolVar(&f.exchange, "exchange", false, "use keys for the token of this pod or CI job instead of an API key")
			f.token.add(c)
		},
		run: func(c *cobra.Command, args []string) error {
			queues, command, err := splitWork(args, c.ArgsLenAtDash())
			if err != nil {
				return err
			}
			return s.work(c.Context(), queues, command, f)
		},
	}
}

func splitWork(args []string, dash int) (queues, command []string, err error) {
	if dash < 0 {
		return nil, nil, usagef("put -- between the queues and the command: corvo work emails -- ./send-email.sh")
	}
	queues, command = args[:dash], args[dash:]
	if len(queues) == 0 || len(command) == 0 {
		return nil, nil, usagef("give at least one queue before -- and a command after it")
	}
	return queues, command, nil
}

func (s *session) work(ctx context.Context, queues, command []string, f workFlags) error {
	if f.concurrency < 1 || f.jobs < 0 || f.jobTimeout < 0 || f.shutdown < 0 || f.lease < time.Second {
		return usagef("--concurrency must be at least 1, --lease at least 1s, and --jobs, --job-timeout and --shutdown-timeout can't be negative")
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return usagef("can't run %s: %s", command[0], rootCause(err))
	}
	client, err := s.workClient(ctx, f)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	quit, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	s.stopOnSignals(quit, finish, kill)
	h := &jobRunner{session: s, path: path, args: command[1:], limit: int64(f.jobs), timeout: f.jobTimeout, grace: stopGrace, finish: finish, quit: quit}
	slots := f.concurrency
	if f.jobs > 0 {
		slots = min(slots, f.jobs)
	}
	opts := []corvo.WorkerOption{corvo.Pool(slots, queues...), corvo.Lease(f.lease), corvo.OnHeld(s.tellHeld)}
	opts = append(opts, f.drain()...)
	if f.workerID != "" {
		opts = append(opts, corvo.WorkerID(f.workerID))
	}
	w := corvo.NewWorker(client, opts...)
	// The queue decides what is run here, whatever kind a producer gave the job.
	corvo.HandleRaw(w, corvo.AnyKind, h.handle)
	s.talkf("working on %s; press Ctrl-C to stop", strings.Join(queues, ", "))
	if err := w.Run(ctx); err != nil {
		return fromSDK(err)
	}
	if quit.Err() != nil {
		return interruption("running commands were killed and their jobs given back")
	}
	stats := w.Stats()
	s.talkf("%d completed, %d failed, %d given back", stats.Completed, stats.Failed, stats.Released)
	return nil
}

// drain is how long the worker waits once it stops. It gives leases back only when their
// commands are gone: no other worker gets a job that still runs here.
func (f *workFlags) drain() []corvo.WorkerOption {
	if f.shutdown == 0 {
		return []corvo.WorkerOption{corvo.SoftTimeout(math.MaxInt64), corvo.HardTimeout(math.MaxInt64)}
	}
	return []corvo.WorkerOption{corvo.SoftTimeout(f.shutdown), corvo.HardTimeout(f.shutdown + stopGrace + giveBack)}
}

// tellHeld says why no job comes, and when that is over.
func (s *session) tellHeld(h *corvo.Held) {
	switch {
	case h == nil:
		s.talkf("dispatch is held no longer")
	case h.OpensAt.IsZero():
		s.talkf("no job starts for now: %s", h.Message)
	default:
		s.talkf("no job starts until %s: %s", h.OpensAt.UTC().Format(time.RFC3339), h.Message)
	}
}

func (s *session) sdkClient() (*corvo.Client, error) {
	a, err := s.api()
	if err != nil {
		return nil, err
	}
	if a.person != nil && a.key == "" {
		return nil, &Failure{Exit: ExitAuth, Code: "NEEDS_KEY", What: "a worker needs an API key", Why: "a person's session makes tokens that last minutes",
			Fix: "create a key in the console, and set CORVO_API_KEY"}
	}
	return s.newClient(a.base.String(), corvo.WithAPIKey(a.key))
}

func (s *session) newClient(address string, key corvo.Option) (*corvo.Client, error) {
	opts := []corvo.Option{corvo.WithURL(address), key, corvo.WithUserAgent("corvo-cli/" + Version()), corvo.WithLogger(s.logger())}
	if namespace := cmp.Or(s.namespace, s.proc.Env("CORVO_NAMESPACE")); namespace != "" {
		opts = append(opts, corvo.WithNamespace(namespace))
	}
	client, err := corvo.New(opts...)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return client, nil
}

// workClient has the worker's key, or what it exchanges for keys.
func (s *session) workClient(ctx context.Context, f workFlags) (*corvo.Client, error) {
	if !f.exchange {
		if f.token != (exchangeFlags{}) {
			return nil, usagef("--tenant, --trust, --audience, --token-env, --token-file and --endpoint need --exchange")
		}
		return s.sdkClient()
	}
	if f.token.tokenFile == "-" {
		return nil, usagef("a worker reads its token again before each key ends, and stdin can only be read once: name a file")
	}
	x, err := s.exchanger(f.token)
	if err != nil {
		return nil, err
	}
	if x.first, err = x.once(ctx); err != nil {
		return nil, err
	}
	return s.newClient(cmp.Or(s.server, s.proc.Env("CORVO_URL"), x.first.GetTenantUrl()), corvo.WithKeySource(x))
}

// stopOnSignals ends the taking of jobs at the first signal and running commands at the
// second. The third one finds the default action again and ends the process.
func (s *session) stopOnSignals(quit context.Context, finish, kill context.CancelFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	come := func() bool {
		select {
		case <-signals:
			return true
		case <-quit.Done():
			return false
		}
	}
	go func() { // Ends with quit, which kill cancels on every path.
		defer signal.Stop(signals)
		if !come() {
			return
		}
		s.talkf("finishing running jobs; press Ctrl-C again to quit now")
		finish()
		if come() {
			kill()
		}
	}()
}

// jobRunner runs one command per job.
type jobRunner struct {
	session *session
	path    string
	args    []string
	limit   int64 // Jobs to run in all, 0 for any number.
	timeout time.Duration
	grace   time.Duration // Between SIGTERM and SIGKILL.
	finish  context.CancelFunc
	quit    context.Context // Ends when running commands are to be killed at once.

	started atomic.Int64
	done    atomic.Int64
	mu      sync.Mutex // Guards stdout: one line per job.
}

func (h *jobRunner) handle(ctx context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
	if h.limit > 0 && h.started.Add(1) > h.limit {
		return nil, corvo.Release("enough jobs were done")
	}
	began := time.Now()
	result, err := h.run(ctx, j)
	h.tell(j, result, err, time.Since(began))
	if h.done.Add(1) == h.limit {
		h.finish()
	}
	return result, err
}

func (h *jobRunner) run(ctx context.Context, j *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
	if h.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.timeout, fmt.Errorf("took longer than %s", h.timeout))
		defer cancel()
	}
	stdout, stderr := &firstBytes{limit: resultBytesMax}, &lastBytes{limit: errorBytesMax}
	cmd := exec.CommandContext(ctx, h.path, h.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(j.Args), stdout, stderr
	cmd.Env = append(os.Environ(), "CORVO_JOB_ID="+j.ID, "CORVO_QUEUE="+j.Queue,
		"CORVO_ATTEMPT="+strconv.Itoa(j.Attempt), "CORVO_MAX_RETRIES="+strconv.Itoa(j.MaxRetries))
	err := h.runGroup(ctx, cmd)
	switch {
	case err != nil && h.quit.Err() != nil:
		return nil, errQuit
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, commandError(err, stderr)
	}
	return stdout.json(), nil
}

// runGroup runs a command. If it is stopped, so is all that it started: what ignores
// SIGTERM, or outlives the command, is killed.
func (h *jobRunner) runGroup(ctx context.Context, cmd *exec.Cmd) error {
	isolate(cmd)
	cmd.WaitDelay = h.grace
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(h.quit, func() { killGroup(cmd) })()
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil || h.quit.Err() != nil:
		killGroup(cmd)
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // It succeeded; what it left in the background keeps its output open.
	}
	return err
}

func commandError(err error, stderr *lastBytes) error {
	text := strings.TrimSpace(stderr.String())
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// tell prints one line per attempt.
func (h *jobRunner) tell(j *corvo.Job[json.RawMessage], result json.RawMessage, err error, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.session
	outcome, reason := "done", ""
	switch {
	case errors.Is(err, errQuit), errors.Is(err, corvo.ErrShutdown):
		outcome, reason = "given back", err.Error()
	case err != nil:
		outcome, reason = "failed", err.Error()
	}
	if !s.machine() {
		line := fmt.Sprintf("%s  %s  attempt %d of %d  %s", j.ID, outcome, j.Attempt, j.MaxRetries, duration(took))
		if reason != "" {
			line += "  " + strings.ReplaceAll(reason, "\n", " | ")
		}
		_ = s.writeText(func(w io.Writer) { fmt.Fprintln(w, line) }) // A closed stdout must not fail the job.
		return
	}
	row, merr := marshal(struct {
		JobID   string          `json:"job_id"`
		Queue   string          `json:"queue"`
		Attempt int             `json:"attempt"`
		Outcome string          `json:"outcome"`
		Error   string          `json:"error,omitempty"`
		Result  json.RawMessage `json:"result,omitempty"`
		Seconds float64         `json:"seconds"`
	}{j.ID, j.Queue, j.Attempt, outcome, reason, result, took.Seconds()})
	if merr == nil {
		_ = s.writeJSON(row, "") // A closed stdout must not fail the job.
	}
}

// firstBytes keeps the beginning of an output, up to its limit.
type firstBytes struct {
	bytes.Buffer
	limit int
	over  bool
}

func (b *firstBytes) Write(p []byte) (int, error) {
	room := b.limit - b.Len()
	b.over = b.over || len(p) > room
	b.Buffer.Write(p[:min(len(p), room)])
	return len(p), nil
}

// json is the output when it is one JSON value within the limit, else nothing. json.Valid
// lets text pass that isn't UTF-8, which would fail the attempt.
func (b *firstBytes) json() json.RawMessage {
	text := bytes.TrimSpace(b.Bytes())
	if b.over || len(text) == 0 || !json.Valid(text) || !utf8.Valid(text) {
		return nil
	}
	return text
}

// lastBytes keeps the end of an output.
type lastBytes struct {
	kept  []byte
	limit int
}

func (b *lastBytes) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	if over := len(b.kept) - b.limit; over > 0 {
		b.kept = append(b.kept[:0], b.kept[over:]...)
	}
	return len(p), nil
}

func (b *lastBytes) String() string { return string(b.kept) }

// fromSDK words an error of the SDK like one of ours.
func fromSDK(err error) error {
	var ours *Failure // Of a key source.
	if errors.As(err, &ours) {
		return ours
	}
	var e *corvo.Error
	if !errors.As(err, &e) {
		return &Failure{Exit: ExitFail, Code: "WORKER", What: "the worker stopped", Why: err.Error()}
	}
	f := &Failure{Exit: sdkExit(e.Code), Code: cmp.Or(e.Reason, wire.Code(strings.ToUpper(string(e.Code)))), What: e.Message, RequestID: e.RequestID}
	for _, field := range e.Fields {
		f.Fields = append(f.Fields, wire.ProblemField{Field: field.Name, Message: field.Message})
	}
	if f.Exit == ExitAuth {
		f.Fix = "set CORVO_API_KEY or use --api-key-file"
	}
	return f
}

func sdkExit(code corvo.Code) int {
	switch code {
	case corvo.CodeInvalid, corvo.CodeTooLarge:
		return ExitUsage
	case corvo.CodeNotFound:
		return ExitNotFound
	case corvo.CodeUnauthorized, corvo.CodeForbidden:
		return ExitAuth
	case corvo.CodeConflict, corvo.CodeLeaseLost:
		return ExitConflict
	case corvo.CodeExhausted:
		return ExitRate
	case corvo.CodeUnknownOutcome:
		return ExitTimeout
	}
	return ExitFail
}
