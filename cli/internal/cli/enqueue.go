package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

const (
	// lineBytesMax bounds one line of a batch file: the largest payload a plan
	// may allow, with options around it.
	lineBytesMax = 16 << 20
	// chunkMax is the protocol's limit of jobs in one batch.
	chunkMax = 1000
	// chunkBytesMax keeps one request of large payloads at a reasonable size.
	chunkBytesMax = 8 << 20
)

// enqueueRequest has the chain as it was given: it may have members of a newer server.
type enqueueRequest struct {
	wire.EnqueueRequest
	Chain json.RawMessage `json:"chain,omitempty"`
}

type enqueueFlags struct {
	wire.EnqueueRequest
	scheduledAt, tagsJSON, payloadFile, chain string
	maxRetries                                int
	uniquePeriod, delay, expireAfter          time.Duration
	tags                                      []string
	agent                                     bool
	limits                                    wire.AgentConfig
	maxCost                                   float64
}

func (s *session) enqueueVerb() verb {
	var f enqueueFlags
	return verb{
		root: "enqueue", noun: "job enqueue", args: "QUEUE [PAYLOAD]", short: "Add a job and print its id",
		long: `Adds a job. When the command returns, the job is on disk. PAYLOAD is JSON: - reads it
from stdin, and the default is {}.

A request that gets no clear answer is repeated with the same idempotency key, so a
command never adds more than one job.`,
		example: `  {cmd} emails '{"to":"ada@example.com"}'
  {cmd} reports --delay 10m --priority high --tag customer:acme
  {cmd} sync '{"id":7}' --unique-key account-7     # one at a time
  {cmd} extract '{"doc":7}' --chain '{"steps":[{"queue":"extract"},{"queue":"summarize"}]}'
  jq -c . big.json | {cmd} imports -`,
		flags: f.register,
		run:   func(c *cobra.Command, args []string) error { return s.enqueue(c.Context(), args, f) },
	}
}

func (f *enqueueFlags) register(c *cobra.Command) {
	fs := c.Flags()
	wordFlag(c, &f.Priority, "priority", "%s (default normal; low means normal)", wire.Priorities())
	fs.IntVar(&f.maxRetries, "max-retries", -1, "total `ATTEMPTS` before the job is dead; -1 means the default")
	wordFlag(c, &f.RetryBackoff, "retry-backoff", "%s (default exponential)", wire.Backoffs())
	fs.StringVar(&f.RetryBaseDelay, "retry-base-delay", "", "`DURATION` before the first retry, such as 5s")
	fs.StringVar(&f.RetryMaxDelay, "retry-max-delay", "", "longest `DURATION` between retries, such as 10m")
	fs.StringVar(&f.scheduledAt, "scheduled-at", "", "don't start before this `TIME` (RFC 3339)")
	fs.DurationVar(&f.delay, "delay", 0, "don't start before this `DURATION` has passed")
	fs.StringArrayVar(&f.tags, "tag", nil, "tag `KEY:VALUE`; can be repeated")
	fs.StringVar(&f.tagsJSON, "tags", "", "tags as a JSON `OBJECT` of strings")
	fs.StringVar(&f.UniqueKey, "unique-key", "", "return the existing job while one with this `KEY` is unfinished in the queue")
	fs.DurationVar(&f.uniquePeriod, "unique-period", 0, "longest time that the unique key is held (default 1h)")
	fs.StringVar(&f.IdempotencyKey, "idempotency-key", "", "for a day, the same `KEY` returns the first job again")
	fs.StringVar(&f.payloadFile, "payload-file", "", "read the payload from `FILE`")
	fs.DurationVar(&f.expireAfter, "expire-after", 0, "the job becomes dead if it isn't finished within this `DURATION`")
	fs.StringSliceVar(&f.DependsOn, "depends-on", nil, "start only after these `JOBS` are completed")
	wordFlag(c, &f.OnDependencyFailed, "on-dependency-failed", "if one of them doesn't complete: %s (default fail)", wire.DependencyPolicies())
	fs.StringVar(&f.BatchID, "batch", "", "join this open `BATCH`")
	fs.StringVar(&f.chain, "chain", "", "the steps after this job, as a JSON `OBJECT`: {\"steps\":[…],\"on_failure\":…,\"on_exit\":…}")
	fs.StringVar(&f.ParentID, "parent-id", "", "the `JOB` that created this one")
	fs.BoolVar(&f.agent, "agent", false, "make it an agent job, which runs in iterations; the limits below imply it")
	fs.IntVar(&f.limits.MaxIterations, "agent-max-iterations", 0, "hold the job after `NUMBER` iterations")
	fs.Float64Var(&f.maxCost, "agent-max-cost-usd", 0, "hold the job once it has cost `DOLLARS`")
	fs.StringVar(&f.limits.IterationTimeout, "agent-iteration-timeout", "", "longest `DURATION` of an iteration")
}

func (s *session) enqueue(ctx context.Context, args []string, f enqueueFlags) error {
	req, err := f.request(args[0])
	if err != nil {
		return err
	}
	if req.Payload, err = s.payload(args[1:], f.payloadFile); err != nil {
		return err
	}
	req.IdempotencyKey = cmp.Or(req.IdempotencyKey, newIdempotencyKey())
	done, raw, err := answerOf[wire.Enqueued](ctx, s, post("/api/v1/enqueue", req).again())
	if f := (*Failure)(nil); errors.As(err, &f) && f.Exit == ExitTimeout {
		f.Fix = "it may have taken effect: check before you repeat it, or repeat it with --idempotency-key " + req.IdempotencyKey
	}
	if err != nil {
		return err
	}
	if err := s.emit(raw, func(w io.Writer) { fmt.Fprintln(w, done.JobID) }); err != nil {
		return err
	}
	s.hintf("%s in %s; to see it: corvo inspect %s", done.Status, req.Queue, done.JobID)
	return nil
}

func newIdempotencyKey() string { return "cli-" + ulid.Make().String() }

func (f *enqueueFlags) request(queue string) (enqueueRequest, error) {
	req := enqueueRequest{EnqueueRequest: f.EnqueueRequest}
	req.Queue = queue
	if f.maxRetries != -1 {
		req.MaxRetries = &f.maxRetries
	}
	if f.uniquePeriod%time.Second != 0 || f.uniquePeriod < 0 {
		return req, usagef("--unique-period %s must be whole seconds", f.uniquePeriod)
	}
	req.UniquePeriod = int64(f.uniquePeriod / time.Second)
	if f.delay != 0 {
		if f.scheduledAt != "" || f.delay < 0 {
			return req, usagef("use --delay (more than zero) or --scheduled-at, not both")
		}
		req.Delay = f.delay.String()
	}
	if f.expireAfter < 0 {
		return req, usagef("--expire-after %s must be more than zero", f.expireAfter)
	}
	if f.expireAfter > 0 {
		req.ExpireAfter = f.expireAfter.String()
	}
	if f.maxCost != 0 {
		f.limits.MaxCostUSD = dollars(f.maxCost)
	}
	if f.agent || f.limits != (wire.AgentConfig{}) {
		req.Agent = &f.limits
	}
	var err error
	if f.scheduledAt != "" {
		if req.ScheduledAt, err = time.Parse(time.RFC3339, f.scheduledAt); err != nil {
			return req, usage("--scheduled-at", f.scheduledAt, "a time such as 2026-11-21T10:00:00Z")
		}
	}
	if f.chain != "" {
		if req.Chain, err = checkJSON("--chain", []byte(f.chain)); err != nil {
			return req, err
		}
	}
	req.Tags, err = parseTags(f.tagsJSON, f.tags)
	return req, err
}

func parseTags(object string, pairs []string) (map[string]string, error) {
	var tags map[string]string
	if object != "" {
		if err := json.Unmarshal([]byte(object), &tags); err != nil {
			return nil, usagef("--tags must be a JSON object of text, such as '{\"customer\":\"acme\"}'")
		}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, ":")
		if !ok || key == "" {
			return nil, usagef("--tag %q must be KEY:VALUE", pair)
		}
		if tags == nil {
			tags = make(map[string]string)
		}
		tags[key] = value
	}
	return tags, nil
}

// payload takes the payload from the argument, a file or stdin. The server
// checks it again; here a shell-quoting mistake gets a better explanation.
func (s *session) payload(args []string, file string) (json.RawMessage, error) {
	var raw []byte
	var err error
	switch {
	case file != "" && len(args) > 0:
		return nil, usagef("use PAYLOAD or --payload-file, not both")
	case file != "":
		raw, err = os.ReadFile(file)
	case len(args) == 0:
		return nil, nil
	case args[0] == "-":
		raw, err = io.ReadAll(io.LimitReader(s.proc.Stdin, lineBytesMax))
	default:
		raw = []byte(args[0])
	}
	if err != nil {
		return nil, &Failure{Exit: ExitUsage, Code: "PAYLOAD", What: "can't read the payload", Why: err.Error()}
	}
	return checkJSON("the payload", raw)
}

func checkJSON(what string, raw []byte) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if json.Valid(raw) {
		return raw, nil
	}
	return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: what + " is not JSON",
		Fix: `use single quotes around it and double quotes inside: '{"to":"ada"}' or '"text"'`}
}

type batchFlags struct {
	queue    string
	payloads bool
	chunk    int
}

func (s *session) enqueueBatchVerb() verb {
	var f batchFlags
	return verb{
		root: "enqueue-batch", noun: "job enqueue-batch", args: "[FILE]", short: "Add many jobs from JSON lines and print their ids",
		long: `Adds one job per line of FILE, or of stdin. A line is an enqueue request such as
{"queue":"emails","payload":{"to":"ada"},"priority":"high"}; with --payloads it is
the payload alone. Each chunk is accepted whole or not at all. If a chunk is
refused, ids of the chunks before it have been printed, and the error names the
first line that was not accepted.

A chunk that gets no clear answer is repeated with the same idempotency key, so no
line adds two jobs. If it never gets one, the exit code is 7. Lines that have an
idempotency_key of their own can then be sent again.`,
		example: `  {cmd} jobs.jsonl
  {cmd} --queue emails --payloads < addresses.jsonl
  jq -c '.users[] | {queue:"welcome", payload:.}' dump.json | {cmd} -`,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&f.queue, "queue", "", "queue for lines that don't name one")
			c.Flags().BoolVar(&f.payloads, "payloads", false, "each line is a payload (requires --queue)")
			c.Flags().IntVar(&f.chunk, "chunk", 500, "jobs per request, at most 1000")
			completeFlag(c, "queue", s.completeQueues)
		},
		run: func(c *cobra.Command, args []string) error { return s.enqueueBatch(c.Context(), args, f) },
	}
}

func (s *session) enqueueBatch(ctx context.Context, args []string, f batchFlags) error {
	if f.chunk < 1 || f.chunk > chunkMax {
		return usagef("--chunk must be between 1 and %d", chunkMax)
	}
	if f.payloads && f.queue == "" {
		return usagef("--payloads needs --queue")
	}
	in, err := s.openLines(args)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, stop := interruptible(ctx)
	defer stop()
	b := batchSender{session: s, chunk: f.chunk}
	if err := b.sendLines(ctx, interruptibleReader{ctx, in}, f); err != nil {
		return b.explain(err)
	}
	s.talkf("%s added", count(b.accepted, "job"))
	return b.finish()
}

func (s *session) openLines(args []string) (io.ReadCloser, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(s.proc.Stdin), nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: "can't read " + args[0], Why: rootCause(err)}
	}
	return file, nil
}

// batchSender gathers lines into chunks and prints ids as chunks are accepted.
type batchSender struct {
	session   *session
	chunk     int
	jobs      []json.RawMessage
	bytes     int
	firstLine int // Of the gathered chunk.
	accepted  int
	ids       []json.RawMessage // Kept only for --output json, which is one array.
}

func (b *batchSender) sendLines(ctx context.Context, in io.Reader, f batchFlags) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), lineBytesMax)
	number := 0
	for lines.Scan() && ctx.Err() == nil { // What was read last may be half a line.
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		job, err := batchLine(line, number, f)
		if err != nil {
			return err
		}
		if err := b.add(ctx, job, number); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return interruption("")
	}
	if err := lines.Err(); err != nil {
		return usagef("line %d: %v", number+1, err)
	}
	return b.flush(ctx)
}

// batchLine completes one line to an enqueue request, keeping fields it does not know.
func batchLine(line []byte, number int, f batchFlags) (json.RawMessage, error) {
	if f.payloads {
		if !json.Valid(line) {
			return nil, usagef("line %d isn't JSON", number)
		}
		return marshal(wire.EnqueueRequest{Queue: f.queue, Payload: line})
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		return nil, usagef("line %d isn't a JSON object; use --payloads if lines are payloads", number)
	}
	if _, named := fields["queue"]; !named {
		if f.queue == "" {
			return nil, usagef("line %d has no queue; add \"queue\" or use --queue", number)
		}
		fields["queue"], _ = marshal(f.queue) // Text always encodes.
	}
	return marshal(fields)
}

func (b *batchSender) add(ctx context.Context, job json.RawMessage, line int) error {
	if len(b.jobs) > 0 && b.bytes+len(job) > chunkBytesMax {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	if len(b.jobs) == 0 {
		b.firstLine = line
	}
	b.jobs = append(b.jobs, job)
	b.bytes += len(job)
	if len(b.jobs) < b.chunk {
		return nil
	}
	return b.flush(ctx)
}

func (b *batchSender) flush(ctx context.Context) error {
	if len(b.jobs) == 0 {
		return nil
	}
	done, _, err := answerOf[wire.EnqueuedBatch](ctx, b.session, post("/api/v1/enqueue/batch", map[string]any{"jobs": b.jobs}).keyed(newIdempotencyKey()))
	if err != nil {
		return err
	}
	if len(done.JobIDs) != len(b.jobs) {
		return &Failure{Exit: ExitFail, Code: "BAD_ANSWER", What: fmt.Sprintf("sent %d jobs, got %d ids", len(b.jobs), len(done.JobIDs))}
	}
	b.accepted += len(b.jobs)
	b.jobs, b.bytes = b.jobs[:0], 0
	return b.print(done.JobIDs)
}

func (b *batchSender) print(ids []string) error {
	for _, id := range ids {
		row, err := marshal(map[string]string{"job_id": id})
		if err != nil {
			return err
		}
		switch b.session.output {
		case outputJSON:
			b.ids = append(b.ids, row)
		case outputJSONL:
			err = b.session.writeJSON(row, "")
		default:
			err = b.session.writeText(func(w io.Writer) { fmt.Fprintln(w, id) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *batchSender) finish() error {
	if b.session.output != outputJSON {
		return nil
	}
	return b.session.emitAll(b.ids, nil)
}

// explain adds what was accepted before the trouble, so that a script can go on
// from there. Field names of a refusal are counted from the chunk's first line.
func (b *batchSender) explain(err error) error {
	var f *Failure
	if !errors.As(err, &f) {
		return err
	}
	if f.Exit == ExitTimeout {
		f.Fix = "its lines may have taken effect: check before you repeat them; those with an idempotency_key can be sent again"
	} else if b.accepted > 0 {
		f.Exit = ExitPartial
	}
	if b.accepted > 0 {
		f.Why = cmp.Or(f.Why, "the lines before were accepted")
	}
	if len(b.jobs) > 0 {
		f.What = fmt.Sprintf("%s (chunk from line %d; %s accepted before it)", f.What, b.firstLine, count(b.accepted, "job"))
	}
	if ferr := b.finish(); ferr != nil {
		return ferr
	}
	return f
}
