package cli

import (
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

func (s *session) fetchCommand(use string) *cobra.Command {
	var f fetchFlags
	c := &cobra.Command{
		Use:   use + " QUEUE...",
		Short: "Lease jobs, then complete them with ack or fail",
		Long: `Leases up to --count jobs. If a job is neither acked nor failed before its lease ends,
it goes back to the queue; ` + "`corvo heartbeat`" + ` renews the lease. Exits with 3 if no job is
ready. ` + "`corvo work`" + ` does all of this in a loop.`,
		Example: `  {cmd} emails --wait 30s
  {cmd} emails reports --count 10 --lease 5m -o jsonl
  job=$({cmd} emails -o json) && corvo ack --token "$(jq -r '.[0].lease_token' <<<"$job")" "$(jq -r '.[0].job_id' <<<"$job")"`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeQueues,
		RunE:              func(c *cobra.Command, queues []string) error { return s.fetch(c.Context(), queues, f) },
	}
	c.Flags().IntVar(&f.count, "count", 1, "largest number of jobs to lease")
	c.Flags().DurationVar(&f.wait, "wait", 0, "how long to wait for the first job (at most 1m)")
	c.Flags().DurationVar(&f.lease, "lease", time.Minute, "how long the lease lasts")
	c.Flags().StringVar(&f.workerID, "worker-id", "", "`NAME` shown with its jobs (default corvo-cli@HOST)")
	return c
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
		Queues: queues, Count: f.count, Lease: f.lease.String(), Wait: f.wait.String(), WorkerID: first(f.workerID, "corvo-cli@"+host), Hostname: host,
	}})
	if err != nil || r.status == 204 {
		return nil, err
	}
	var batch struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	return batch.Jobs, a.decode(r, &batch)
}

type settleFlags struct {
	token, workerID                       string
	result, checkpoint, errText, backtrac string
	progress                              string
	release, terminal                     bool
	lease, delay                          time.Duration
	agent                                 wire.AgentStatus
	step                                  wire.StepStatus
	holdReason, exitReason                string
	usage                                 string
}

func (f *settleFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.token, "token", "", "lease `TOKEN` from the fetch; proves that you still hold the job")
	c.Flags().StringVar(&f.workerID, "worker-id", "", "`NAME` given to fetch, for requests without a token")
}

// checkTokens: one token belongs to one job.
func (f *settleFlags) checkTokens(ids []string) error {
	if f.token != "" && len(ids) > 1 {
		return usagef("--token is for one job, but %d were given", len(ids))
	}
	return nil
}

func (s *session) ackCommand(use string) *cobra.Command {
	var f settleFlags
	c := &cobra.Command{
		Use:   use + " JOB...",
		Short: "Complete leased jobs",
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --token TOKEN
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --result '{"rows":12}'
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --agent-status continue --checkpoint '{"page":2}'
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --step-status exit --exit-reason "nothing to do"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			body, err := f.ackBody(ids)
			if err != nil {
				return err
			}
			return s.settleJobs(c.Context(), ids, "/ack/%s", body)
		},
	}
	f.register(c)
	c.Flags().StringVar(&f.result, "result", "", "`JSON` stored with the job")
	c.Flags().StringVar(&f.checkpoint, "checkpoint", "", "`JSON` to store as the final checkpoint")
	wordFlag(c, &f.agent, "agent-status", "agent jobs only: %s", wire.AgentStatuses())
	c.Flags().StringVar(&f.holdReason, "hold-reason", "", "why the job needs approval, with --agent-status hold")
	wordFlag(c, &f.step, "step-status", "chain steps only: continue, or exit to skip the remaining steps", wire.StepStatuses())
	c.Flags().StringVar(&f.exitReason, "exit-reason", "", "why the remaining steps are skipped")
	usageFlag(c, &f.usage)
	return c
}

func (f *settleFlags) ackBody(ids []string) (map[string]any, error) {
	body := f.holder()
	for member, text := range map[string]string{
		"agent_status": string(f.agent), "hold_reason": f.holdReason, "step_status": string(f.step), "exit_reason": f.exitReason,
	} {
		if text != "" {
			body[member] = text
		}
	}
	return body, errors.Join(f.checkTokens(ids), putJSON(body, "result", f.result), putJSON(body, "checkpoint", f.checkpoint),
		putJSON(body, "usage", f.usage))
}

func usageFlag(c *cobra.Command, usage *string) {
	c.Flags().StringVar(usage, "usage", "", "model usage, as a JSON `OBJECT`: {\"model\":…,\"input_tokens\":…,\"cost_usd\":…}")
}

func (s *session) failCommand(use string) *cobra.Command {
	var f settleFlags
	c := &cobra.Command{
		Use:   use + " JOB...",
		Short: "Fail leased jobs, or give them back with --release",
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --error "smtp: connection refused"
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --error "slow down" --delay 90s
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --release      # doesn't use up an attempt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			body, err := f.failBody(ids)
			if err != nil {
				return err
			}
			return s.settleJobs(c.Context(), ids, "/fail/%s", body)
		},
	}
	f.register(c)
	c.Flags().StringVar(&f.errText, "error", "", "what went wrong (required without --release)")
	c.Flags().StringVar(&f.backtrac, "backtrace", "", "where it went wrong")
	c.Flags().BoolVar(&f.release, "release", false, "give the job back without using up an attempt")
	c.Flags().BoolVar(&f.terminal, "terminal", false, "don't retry: the job becomes dead")
	c.Flags().DurationVar(&f.delay, "delay", 0, "retry after this `DURATION` instead of the backoff")
	usageFlag(c, &f.usage)
	return c
}

func (f *settleFlags) failBody(ids []string) (map[string]any, error) {
	if err := f.checkTokens(ids); err != nil {
		return nil, err
	}
	if f.errText == "" && !f.release {
		return nil, usagef("--error is required, unless you use --release")
	}
	body := f.holder()
	body["error"] = first(f.errText, "released")
	if f.backtrac != "" {
		body["backtrace"] = f.backtrac
	}
	if f.release {
		body["release"] = true
	}
	if f.terminal {
		body["terminal"] = true
	}
	if f.delay != 0 {
		body["delay_ms"] = f.delay.Milliseconds()
	}
	return body, putJSON(body, "usage", f.usage)
}

func (f *settleFlags) holder() map[string]any {
	body := map[string]any{}
	if f.token != "" {
		body["lease_token"] = f.token
	}
	if f.workerID != "" {
		body["worker_id"] = f.workerID
	}
	return body
}

func putJSON(body map[string]any, field, text string) error {
	if text == "" {
		return nil
	}
	raw, err := checkJSON("--"+field, []byte(text))
	if err != nil {
		return err
	}
	body[field] = raw
	return nil
}

func (s *session) settleJobs(ctx context.Context, ids []string, path string, body map[string]any) error {
	_, err := s.forEachJob(ctx, ids, func(id string) call {
		// A settlement that carries its token answers the same when repeated.
		_, proven := body["lease_token"]
		return call{method: "POST", path: pathf(path, id), body: body, repeatable: proven}
	})
	return err
}

func (s *session) heartbeatCommand(use string) *cobra.Command {
	var f settleFlags
	c := &cobra.Command{
		Use:   use + " JOB...",
		Short: "Renew leases, and learn which jobs were cancelled or lost",
		Long: `Renews leases, and stores progress or a checkpoint if given. Prints ok, cancel (stop
working on the job) or lost (you no longer hold the job; exit code 5).`,
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --token TOKEN
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB --progress '{"done":40}' --lease 5m`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error { return s.heartbeat(c.Context(), ids, f) },
	}
	f.register(c)
	c.Flags().StringVar(&f.progress, "progress", "", "`JSON` shown as progress")
	c.Flags().StringVar(&f.checkpoint, "checkpoint", "", "`JSON` that the next attempt starts from")
	c.Flags().DurationVar(&f.lease, "lease", 0, "new length of the lease (default: the one given to fetch)")
	usageFlag(c, &f.usage)
	return c
}

func (s *session) heartbeat(ctx context.Context, ids []string, f settleFlags) error {
	if err := f.checkTokens(ids); err != nil {
		return err
	}
	update := map[string]any{}
	if f.token != "" {
		update["lease_token"] = f.token
	}
	if err := errors.Join(putJSON(update, "progress", f.progress), putJSON(update, "checkpoint", f.checkpoint),
		putJSON(update, "usage", f.usage)); err != nil {
		return err
	}
	jobs := make(map[string]any, len(ids))
	for _, id := range ids {
		jobs[id] = update
	}
	body := map[string]any{"jobs": jobs}
	if f.workerID != "" {
		body["worker_id"] = f.workerID
	}
	if f.lease > 0 {
		body["lease"] = f.lease.String()
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	r, err := a.send(ctx, call{method: "POST", path: "/api/v1/heartbeat", body: body, repeatable: true})
	if err != nil {
		return err
	}
	return s.printHeartbeat(a, r, ids)
}

func (s *session) printHeartbeat(a *api, r *reply, ids []string) error {
	var answer wire.HeartbeatResult
	if err := a.decode(r, &answer); err != nil {
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
	return s.emit(r.body, func(w io.Writer) {
		for i, id := range ids {
			fmt.Fprintf(w, "%s  %s\n", id, status[i])
		}
	})
}
