package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

type fetchFlags struct {
	count       int
	wait, lease time.Duration
	workerID    string
}

func (s *session) fetchVerb() verb {
	var f fetchFlags
	return verb{
		root: "fetch", noun: "job fetch", args: "QUEUE...", short: "Lease jobs, then complete them with ack or fail",
		long: `Leases up to --count jobs. If a job is neither acked nor failed before its lease ends,
it goes back to the queue; ` + "`corvo heartbeat`" + ` renews the lease. Exits with 3 if no job is
ready. ` + "`corvo work`" + ` does all of this in a loop.`,
		example: `  {cmd} emails --wait 30s
  {cmd} emails reports --count 10 --lease 5m -o jsonl
  job=$({cmd} emails -o json) && corvo ack --token "$(jq -r '.[0].lease_token' <<<"$job")" "$(jq -r '.[0].job_id' <<<"$job")"`,
		flags: func(c *cobra.Command) {
			c.Flags().IntVar(&f.count, "count", 1, "largest number of jobs to lease")
			c.Flags().DurationVar(&f.wait, "wait", 0, "how long to wait for the first job (at most 1m)")
			c.Flags().DurationVar(&f.lease, "lease", time.Minute, "how long the lease lasts")
			c.Flags().StringVar(&f.workerID, "worker-id", "", "`NAME` shown with its jobs (default corvo-cli@HOST)")
		},
		run: func(c *cobra.Command, queues []string) error { return s.fetch(c.Context(), queues, f) },
	}
}

func (s *session) fetch(ctx context.Context, queues []string, f fetchFlags) error {
	if f.count < 1 || f.wait < 0 || f.lease <= 0 {
		return usagef("--count and --lease must be more than zero, and --wait can't be negative")
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	rows, err := a.fetch(ctx, queues, f)
	if err != nil {
		return err
	}
	jobs, err := decodeAll[wire.FetchedJob](a, rows)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		s.exit = ExitNotFound
		if !s.machine() {
			s.talkf("no job is ready in %s", strings.Join(queues, ", "))
			return nil
		}
	}
	return s.emitAll(rows, func(w io.Writer) {
		collection[wire.FetchedJob]{
			header: []string{"JOB", "QUEUE", "ATTEMPT", "LEASE TOKEN", "PAYLOAD"},
			row: func(j *wire.FetchedJob) []any {
				return []any{j.JobID, j.Queue, attempts(j.Attempt, j.MaxRetries), j.LeaseToken, string(j.Payload)}
			},
		}.print(w, s, jobs)
	})
}

func (a *api) fetch(ctx context.Context, queues []string, f fetchFlags) ([]json.RawMessage, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	r, err := a.send(ctx, call{method: "POST", path: "/api/v1/fetch/batch", wait: f.wait, body: wire.FetchRequest{
		Queues: queues, Count: f.count, Lease: f.lease.String(), Wait: f.wait.String(), WorkerID: cmp.Or(f.workerID, "corvo-cli@"+host), Hostname: host,
	}})
	if err != nil || r.status == 204 {
		return nil, err
	}
	var batch struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	return batch.Jobs, a.decode(r, &batch)
}

// leaseFlags prove that a job is the caller's.
func leaseFlags(c *cobra.Command, token, workerID *string) {
	c.Flags().StringVar(token, "token", "", "lease `TOKEN` from the fetch; proves that you still hold the job")
	c.Flags().StringVar(workerID, "worker-id", "", "`NAME` given to fetch, for requests without a token")
}

// checkToken: one token belongs to one job.
func checkToken(token string, ids []string) error {
	if token != "" && len(ids) > 1 {
		return usagef("--token is for one job, but %d were given", len(ids))
	}
	return nil
}

// ackFlags are an ack. Usage goes out as it was given.
type ackFlags struct {
	wire.AckRequest
	Usage json.RawMessage `json:"usage,omitempty"`

	result, checkpoint, usage string
}

func (s *session) ackVerb() verb {
	var f ackFlags
	return verb{
		root: "ack", noun: "job ack", args: "JOB...", short: "Complete leased jobs",
		example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --token TOKEN
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --result '{"rows":12}'
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --agent-status continue --checkpoint '{"page":2}'
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --step-status exit --exit-reason "nothing to do"`,
		flags: func(c *cobra.Command) {
			leaseFlags(c, &f.LeaseToken, &f.WorkerID)
			c.Flags().StringVar(&f.result, "result", "", "`JSON` stored with the job")
			c.Flags().StringVar(&f.checkpoint, "checkpoint", "", "`JSON` to store as the final checkpoint")
			wordFlag(c, &f.AgentStatus, "agent-status", "agent jobs only: %s", wire.AgentStatuses())
			c.Flags().StringVar(&f.HoldReason, "hold-reason", "", "why the job needs approval, with --agent-status hold")
			wordFlag(c, &f.StepStatus, "step-status", "chain steps only: continue, or exit to skip the remaining steps", wire.StepStatuses())
			c.Flags().StringVar(&f.ExitReason, "exit-reason", "", "why the remaining steps are skipped")
			usageFlag(c, &f.usage)
		},
		run: func(c *cobra.Command, ids []string) error {
			err := errors.Join(checkToken(f.LeaseToken, ids),
				readJSON("result", f.result, &f.Result), readJSON("checkpoint", f.checkpoint, &f.Checkpoint), readJSON("usage", f.usage, &f.Usage))
			if err != nil {
				return err
			}
			return s.settleJobs(c.Context(), ids, "/ack/%s", f.LeaseToken, f)
		},
	}
}

func usageFlag(c *cobra.Command, usage *string) {
	c.Flags().StringVar(usage, "usage", "", "model usage, as a JSON `OBJECT`: {\"model\":…,\"input_tokens\":…,\"cost_usd\":…}")
}

// failFlags are a failure. Usage goes out as it was given.
type failFlags struct {
	wire.FailRequest
	DelayMS int64           `json:"delay_ms,omitempty"`
	Usage   json.RawMessage `json:"usage,omitempty"`

	delay time.Duration
	usage string
}

func (s *session) failVerb() verb {
	var f failFlags
	return verb{
		root: "fail", noun: "job fail", args: "JOB...", short: "Fail leased jobs, or give them back with --release",
		example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --error "smtp: connection refused"
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --error "slow down" --delay 90s
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --release      # doesn't use up an attempt`,
		flags: func(c *cobra.Command) {
			leaseFlags(c, &f.LeaseToken, &f.WorkerID)
			c.Flags().StringVar(&f.Error, "error", "", "what went wrong (required without --release)")
			c.Flags().StringVar(&f.Backtrace, "backtrace", "", "where it went wrong")
			c.Flags().BoolVar(&f.Release, "release", false, "give the job back without using up an attempt")
			c.Flags().BoolVar(&f.Terminal, "terminal", false, "don't retry: the job becomes dead")
			c.Flags().DurationVar(&f.delay, "delay", 0, "retry after this `DURATION` instead of the backoff")
			usageFlag(c, &f.usage)
		},
		run: func(c *cobra.Command, ids []string) error {
			if err := checkToken(f.LeaseToken, ids); err != nil {
				return err
			}
			if f.Error == "" && !f.Release {
				return usagef("--error is required, unless you use --release")
			}
			if err := readJSON("usage", f.usage, &f.Usage); err != nil {
				return err
			}
			f.Error, f.DelayMS = cmp.Or(f.Error, "released"), f.delay.Milliseconds()
			return s.settleJobs(c.Context(), ids, "/fail/%s", f.LeaseToken, f)
		},
	}
}

// readJSON reads a flag whose value is JSON; nothing was given for no text.
func readJSON(flag, text string, into *json.RawMessage) (err error) {
	if text != "" {
		*into, err = checkJSON("--"+flag, []byte(text))
	}
	return err
}

// settleJobs ends attempts. A settlement that carries its token answers the same when it
// is repeated.
func (s *session) settleJobs(ctx context.Context, ids []string, path, token string, body any) error {
	_, err := s.forEachJob(ctx, ids, func(id string) call {
		c := post(pathf(path, id), body)
		c.repeatable = token != ""
		return c
	})
	return err
}

// heartbeatJob is what a heartbeat says of each job. Usage goes out as it was given.
type heartbeatJob struct {
	wire.HeartbeatJob
	Usage json.RawMessage `json:"usage,omitempty"`
}

func (s *session) heartbeatVerb() verb {
	var job heartbeatJob
	var workerID, progress, checkpoint, usage string
	var lease time.Duration
	return verb{
		root: "heartbeat", noun: "job heartbeat", args: "JOB...", short: "Renew leases, and learn which jobs were cancelled or lost",
		long: `Renews leases, and stores progress or a checkpoint if given. Prints ok, cancel (stop
working on the job) or lost (you no longer hold the job; exit code 5).`,
		example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --token TOKEN
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --progress '{"done":40}' --lease 5m`,
		flags: func(c *cobra.Command) {
			leaseFlags(c, &job.LeaseToken, &workerID)
			c.Flags().StringVar(&progress, "progress", "", "`JSON` shown as progress")
			c.Flags().StringVar(&checkpoint, "checkpoint", "", "`JSON` that the next attempt starts from")
			c.Flags().DurationVar(&lease, "lease", 0, "new length of the lease (default: the one given to fetch)")
			usageFlag(c, &usage)
		},
		run: func(c *cobra.Command, ids []string) error {
			if err := checkToken(job.LeaseToken, ids); err != nil {
				return err
			}
			err := errors.Join(readJSON("progress", progress, &job.Progress), readJSON("checkpoint", checkpoint, &job.Checkpoint), readJSON("usage", usage, &job.Usage))
			if err != nil {
				return err
			}
			jobs := make(map[string]heartbeatJob, len(ids))
			for _, id := range ids {
				jobs[id] = job
			}
			body := map[string]any{"jobs": jobs}
			if workerID != "" {
				body["worker_id"] = workerID
			}
			if lease > 0 {
				body["lease"] = lease.String()
			}
			ask := post("/api/v1/heartbeat", body)
			ask.repeatable = usage == "" || usage == "null" // The server adds up what it is told.
			return s.heartbeat(c.Context(), ids, ask)
		},
	}
}

func (s *session) heartbeat(ctx context.Context, ids []string, ask call) error {
	answer, raw, err := answerOf[wire.HeartbeatResult](ctx, s, ask)
	if err != nil {
		return err
	}
	lost, status := 0, make([]wire.HeartbeatStatus, len(ids))
	for i, id := range ids {
		status[i] = answer.Jobs[id].Status
		// Without a token a lost lease is told as cancel there, and is named in unknown.
		if slices.Contains(answer.Unknown, id) || status[i] != wire.HeartbeatOK && status[i] != wire.HeartbeatCancel {
			status[i] = wire.HeartbeatLost
			lost++
		}
	}
	switch {
	case lost == len(ids):
		s.exit = ExitConflict
	case lost > 0:
		s.exit = ExitPartial
	}
	return s.emit(raw, func(w io.Writer) {
		for i, id := range ids {
			fmt.Fprintf(w, "%s  %s\n", id, status[i])
		}
	})
}
