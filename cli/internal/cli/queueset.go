package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// off is how a limit is removed on the command line.
const off = "off"

// queue reads one queue; one that does not exist is a Failure with ExitNotFound.
func (a *api) queue(ctx context.Context, name string) (q wire.Queue, raw json.RawMessage, err error) {
	r, err := a.get(ctx, pathf("/queues/%s", name))
	if err != nil {
		if f := toFailure(err); f.Exit == ExitNotFound && f.Code == wire.CodeNotFound {
			f.Fix = "`corvo queues` lists them"
			return q, nil, f
		}
		return q, nil, err
	}
	return q, r.body, a.decode(r, &q)
}

func (s *session) printQueue(w io.Writer, q *wire.Queue, _ time.Time) {
	queueTable().print(w, s, []wire.Queue{*q})
}

// queueLimits is for example "3 at a time, 100/1m, 7 attempts".
func queueLimits(q *wire.Queue) string {
	var parts []string
	if q.MaxConcurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", q.MaxConcurrency))
	}
	if q.RateLimit > 0 {
		parts = append(parts, fmt.Sprintf("%d/%s", q.RateLimit, typed(time.Duration(q.RateWindowMS)*time.Millisecond)))
	}
	return strings.Join(append(parts, queueRetries(q)...), ", ")
}

// queueRetries says the retry defaults that the queue has.
func queueRetries(q *wire.Queue) []string {
	var parts []string
	if q.MaxRetries != nil {
		parts = append(parts, fmt.Sprintf("%d attempts", *q.MaxRetries))
	}
	var pauses []string
	for _, limit := range []struct {
		word string
		ms   *int64
	}{{"from", q.RetryBaseDelayMS}, {"up to", q.RetryMaxDelayMS}} {
		if limit.ms != nil {
			pauses = append(pauses, limit.word+" "+duration(time.Duration(*limit.ms)*time.Millisecond))
		}
	}
	if q.RetryBackoff != "" || len(pauses) > 0 {
		parts = append(parts, strings.Join(append([]string{strings.TrimSpace(string(q.RetryBackoff) + " pauses")}, pauses...), " "))
	}
	return parts
}

// retryFlags change the retry defaults of a queue.
type retryFlags struct {
	attempts, backoff string // Words of the API, and off.
	base, most        time.Duration
}

func (f *retryFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.attempts, "max-retries", "", "default total attempts of a job, or off")
	c.Flags().StringVar(&f.backoff, "retry-backoff", "", "default backoff: "+oneOf(wire.Backoffs())+", or off")
	c.Flags().DurationVar(&f.base, "retry-base-delay", 0, "default `DURATION` before the first retry, such as 5s; 0 resets it")
	c.Flags().DurationVar(&f.most, "retry-max-delay", 0, "default longest `DURATION` between retries, such as 10m; 0 resets it")
	completeWords(c, "retry-backoff", append(wire.Backoffs(), off)...)
}

// into changes what was given; off and 0 leave it to the defaults of the server.
func (f *retryFlags) into(c *cobra.Command, in *wire.QueueRequest) error {
	if c.Flags().Changed("max-retries") {
		n, err := readLimit("--max-retries", f.attempts)
		if err != nil {
			return usage("--max-retries", f.attempts, "a number of attempts, or off")
		}
		in.MaxRetries = orNone(n)
	}
	if c.Flags().Changed("retry-backoff") {
		in.RetryBackoff = wire.Backoff(f.backoff)
		if f.backoff == off {
			in.RetryBackoff = ""
		}
	}
	if c.Flags().Changed("retry-base-delay") {
		in.RetryBaseDelayMS = orNone(f.base.Milliseconds())
	}
	if c.Flags().Changed("retry-max-delay") {
		in.RetryMaxDelayMS = orNone(f.most.Milliseconds())
	}
	return nil
}

// orNone is n, or nothing for zero.
func orNone[N int | int64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}

// queueSettings is what the queue has now, as PUT takes it.
func queueSettings(q *wire.Queue) wire.QueueRequest {
	in := wire.QueueRequest{MaxConcurrency: q.MaxConcurrency, MaxRetries: q.MaxRetries, RetryBackoff: q.RetryBackoff,
		RetryBaseDelayMS: q.RetryBaseDelayMS, RetryMaxDelayMS: q.RetryMaxDelayMS}
	if q.RateLimit > 0 {
		in.Throttle = &wire.QueueThrottle{Limit: q.RateLimit, WindowMS: q.RateWindowMS}
	}
	return in
}

func (s *session) queueSetCommand(use string) *cobra.Command {
	var paused bool
	var limit, rate string
	var retry retryFlags
	c := &cobra.Command{
		Use:   use + " QUEUE",
		Short: "Make a queue, or change its settings",
		Long:  "Changes the settings that you give and keeps the others. Creates the queue if it doesn't exist.",
		Example: `  {cmd} emails --max-concurrency 10
  {cmd} emails --throttle 100/1m --paused=false
  {cmd} emails --max-concurrency off
  {cmd} emails --max-retries 7 --retry-backoff linear`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeFirstQueue,
		RunE: func(c *cobra.Command, args []string) error {
			return s.setQueue(c.Context(), args[0], func(in *wire.QueueRequest) error {
				if c.Flags().Changed("paused") {
					in.Paused = &paused
				}
				if c.Flags().Changed("max-concurrency") {
					n, err := readLimit("--max-concurrency", limit)
					if err != nil {
						return err
					}
					in.MaxConcurrency = n
				}
				if c.Flags().Changed("throttle") {
					t, err := readThrottle("--throttle", rate)
					if err != nil {
						return err
					}
					in.Throttle = t
				}
				return retry.into(c, in)
			})
		},
	}
	c.Flags().StringVar(&limit, "max-concurrency", "", "most jobs that can be active at the same time, or off")
	c.Flags().StringVar(&rate, "throttle", "", "most jobs that can start in a period, such as 100/1m, or off")
	retry.register(c)
	c.Flags().BoolVar(&paused, "paused", false, "pause the queue; --paused=false resumes it")
	return c
}

// setQueue reads what the queue has and puts it back changed.
func (s *session) setQueue(ctx context.Context, name string, change func(*wire.QueueRequest) error) error {
	var in wire.QueueRequest
	if err := change(&in); err != nil { // Before anything is asked.
		return err
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	q, _, err := a.queue(ctx, name)
	if err != nil && toFailure(err).Exit != ExitNotFound {
		return err
	}
	in = queueSettings(&q)
	if err := change(&in); err != nil {
		return err
	}
	return show(ctx, s, call{method: "PUT", path: pathf("/queues/%s", name), body: in, repeatable: true}, s.printQueue)
}

func (s *session) queueLimitCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:               use + " QUEUE MAX",
		Short:             "Limit how many jobs of a queue workers hold at a time",
		Long:              "Limits how many jobs can be active at the same time. MAX off removes the limit.",
		Example:           "  {cmd} emails 10\n  {cmd} emails off",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.completeFirstQueue,
		RunE: func(c *cobra.Command, args []string) error {
			n, err := readLimit("MAX", args[1])
			if err != nil {
				return err
			}
			ask := call{method: "POST", path: pathf("/queues/%s/concurrency", args[0]), body: map[string]int{"max": n}, repeatable: true}
			return s.changeQueue(c.Context(), args[0], ask)
		},
	}
}

func (s *session) queueThrottleCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:               use + " QUEUE RATE",
		Short:             "Limit how many jobs of a queue start in a period",
		Long:              "Limits how many jobs can start in a period. RATE is a number and a duration: with 100/1m, at most\n100 jobs start in any window of one minute. RATE off removes the limit.",
		Example:           "  {cmd} emails 100/1m\n  {cmd} emails off",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.completeFirstQueue,
		RunE: func(c *cobra.Command, args []string) error {
			t, err := readThrottle("RATE", args[1])
			if err != nil {
				return err
			}
			ask := call{method: "DELETE", path: pathf("/queues/%s/throttle", args[0]), repeatable: true}
			if t != nil {
				ask.method, ask.body = "POST", map[string]int64{"rate": int64(t.Limit), "window_ms": t.WindowMS}
			}
			return s.changeQueue(c.Context(), args[0], ask)
		},
	}
}

// changeQueue makes a call that changes a queue and shows what it is then.
func (s *session) changeQueue(ctx context.Context, name string, ask call) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	if _, err := a.send(ctx, ask); err != nil {
		return err
	}
	return s.getQueue(ctx, name)
}

func (s *session) queueDeleteCommand(use string) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   use + " QUEUE...",
		Short: "Permanently delete queues and all their jobs",
		Long: "Deletes the queue and every job in it, including active ones, whose workers are told to stop.\n" +
			"You can reuse the name right away. This can't be undone.",
		Example:           "  {cmd} emails --yes",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeQueues,
		RunE: func(c *cobra.Command, names []string) error {
			question := fmt.Sprintf("Permanently delete %s and all its jobs?", strings.Join(names, ", "))
			if err := s.mustConfirm(yes, question, "deleting a queue deletes all its jobs"); err != nil {
				return err
			}
			_, err := s.forEachQueue(c.Context(), names, func(name string) call {
				return call{method: "DELETE", path: pathf("/queues/%s", name) + "?confirm=true"}
			})
			return err
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask for confirmation")
	c.Flags().BoolVar(&yes, "confirm", false, "same as --yes")
	return c
}

// readLimit reads a number of jobs; off is 0.
func readLimit(what, text string) (int, error) {
	if text == off {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, usage(what, text, "a number of jobs, or off")
	}
	return n, nil
}

// readThrottle reads 100/1m; off is nil.
func readThrottle(what, text string) (*wire.QueueThrottle, error) {
	if text == off {
		return nil, nil
	}
	count, window, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(count)
	d, werr := time.ParseDuration(window)
	if werr != nil {
		d, werr = time.ParseDuration("1" + window) // 100/m.
	}
	if !ok || err != nil || n < 1 || werr != nil || d < time.Millisecond {
		return nil, usage(what, text, "jobs and a time such as 100/1m, or off")
	}
	return &wire.QueueThrottle{Limit: n, WindowMS: d.Milliseconds()}, nil
}

func usage(what, text, want string) *Failure {
	return &Failure{Exit: ExitUsage, Code: "USAGE", What: fmt.Sprintf("%s %q isn't %s", what, text, want)}
}
