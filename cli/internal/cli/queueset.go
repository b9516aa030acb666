package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// off is how a limit is removed on the command line.
const off = "off"

// queue reads one queue; one that does not exist is a Failure with ExitNotFound.
func (s *session) queue(ctx context.Context, name string) (q wire.Queue, raw json.RawMessage, err error) {
	q, raw, err = answerOf[wire.Queue](ctx, s, get(pathf("/queues/%s", name)))
	var f *Failure
	if errors.As(err, &f) && f.Exit == ExitNotFound && f.Code == wire.CodeNotFound {
		f.Fix = "`corvo queues` lists them"
	}
	return q, raw, err
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
	return strings.Join(slices.Concat(parts, queueRetries(q), queueRetention(q)), ", ")
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
		RetryBaseDelayMS: q.RetryBaseDelayMS, RetryMaxDelayMS: q.RetryMaxDelayMS, Retention: q.Retention}
	if q.RateLimit > 0 {
		in.Throttle = &wire.QueueThrottle{Limit: q.RateLimit, WindowMS: q.RateWindowMS}
	}
	return in
}

func (s *session) queueSetVerb() verb {
	var paused bool
	var limit, rate string
	var retry retryFlags
	var keep retentionFlags
	return verb{
		noun: "queue set", args: "QUEUE", short: "Make a queue, or change its settings",
		long: "Changes the settings that you give and keeps the others. Creates the queue if it doesn't exist.",
		example: `  {cmd} emails --max-concurrency 10
  {cmd} emails --throttle 100/1m --paused=false
  {cmd} emails --max-concurrency off
  {cmd} emails --max-retries 7 --retry-backoff linear
  {cmd} emails --retention-completed 24h --retention-dead 90d`,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&limit, "max-concurrency", "", "most jobs that can be active at the same time, or off")
			c.Flags().StringVar(&rate, "throttle", "", "most jobs that can start in a period, such as 100/1m, or off")
			retry.register(c)
			keep.register(c)
			c.Flags().BoolVar(&paused, "paused", false, "pause the queue; --paused=false resumes it")
		},
		run: func(c *cobra.Command, args []string) error {
			return s.setQueue(c.Context(), args[0], func(in *wire.QueueRequest) (err error) {
				if c.Flags().Changed("paused") {
					in.Paused = &paused
				}
				if c.Flags().Changed("max-concurrency") {
					if in.MaxConcurrency, err = readLimit("--max-concurrency", limit); err != nil {
						return err
					}
				}
				if c.Flags().Changed("throttle") {
					if in.Throttle, err = readThrottle("--throttle", rate); err != nil {
						return err
					}
				}
				if err := retry.into(c, in); err != nil {
					return err
				}
				return keep.into(c, in)
			})
		},
	}
}

// setQueue reads what the queue has and puts it back changed.
func (s *session) setQueue(ctx context.Context, name string, change func(*wire.QueueRequest) error) error {
	var in wire.QueueRequest
	if err := change(&in); err != nil { // Before anything is asked.
		return err
	}
	q, _, err := s.queue(ctx, name)
	if err != nil && toFailure(err).Exit != ExitNotFound {
		return err
	}
	in = queueSettings(&q)
	if err := change(&in); err != nil {
		return err
	}
	return show(ctx, s, call{method: "PUT", path: pathf("/queues/%s", name), body: in, repeatable: true}, queueTable().printOne(s))
}

func (s *session) queueLimitVerb() verb {
	return verb{
		noun: "queue limit", args: "QUEUE MAX", short: "Limit how many jobs of a queue workers hold at a time",
		long:    "Limits how many jobs can be active at the same time. MAX off removes the limit.",
		example: "  {cmd} emails 10\n  {cmd} emails off",
		run: func(c *cobra.Command, args []string) error {
			n, err := readLimit("MAX", args[1])
			if err != nil {
				return err
			}
			return s.changeQueue(c.Context(), args[0], post(pathf("/queues/%s/concurrency", args[0]), map[string]int{"max": n}).again())
		},
	}
}

func (s *session) queueThrottleVerb() verb {
	return verb{
		noun: "queue throttle", args: "QUEUE RATE", short: "Limit how many jobs of a queue start in a period",
		long:    "Limits how many jobs can start in a period. RATE is a number and a duration: with 100/1m, at most\n100 jobs start in any window of one minute. RATE off removes the limit.",
		example: "  {cmd} emails 100/1m\n  {cmd} emails off",
		run: func(c *cobra.Command, args []string) error {
			t, err := readThrottle("RATE", args[1])
			if err != nil {
				return err
			}
			path := pathf("/queues/%s/throttle", args[0])
			if t == nil {
				return s.changeQueue(c.Context(), args[0], del(path).again())
			}
			return s.changeQueue(c.Context(), args[0], post(path, map[string]int64{"rate": int64(t.Limit), "window_ms": t.WindowMS}).again())
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

func (s *session) queueDeleteVerb() verb {
	var yes bool
	return verb{
		root: "destroy", noun: "queue delete", args: "QUEUE...", short: "Permanently delete queues and all their jobs",
		long: "Deletes the queue and every job in it, including active ones, whose workers are told to stop.\n" +
			"You can reuse the name right away. This can't be undone.",
		example: "  {cmd} emails --yes",
		flags: func(c *cobra.Command) {
			yesFlag(c, &yes)
			c.Flags().BoolVar(&yes, "confirm", false, "same as --yes")
		},
		run: func(c *cobra.Command, names []string) error {
			question := fmt.Sprintf("Permanently delete %s and all its jobs?", strings.Join(names, ", "))
			if err := s.mustConfirm(yes, question, "deleting a queue deletes all its jobs"); err != nil {
				return err
			}
			_, err := s.forEachNamed(c.Context(), "queue", names, func(name string) call { return del(pathf("/queues/%s", name) + "?confirm=true") })
			return err
		},
	}
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
