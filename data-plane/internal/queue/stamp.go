package queue

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/corvo-cloud/corvo/data-plane/internal/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
)

// idSource makes job ids: ULIDs, so that ids made later sort later, with 80 bits
// that nobody can guess.
type idSource struct {
	mu      sync.Mutex // Guards entropy.
	entropy *bufio.Reader
}

func newIDSource() *idSource { return &idSource{entropy: bufio.NewReader(rand.Reader)} }

func (s *idSource) next(now time.Time) job.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return job.ID(ulid.MustNew(ulid.Timestamp(now), s.entropy)) // Fails only without entropy.
}

// stampEnqueue decides everything that replicas may not: after it nothing about
// the job is open.
func (s *Service) stampEnqueue(c Caller, in *EnqueueInput) command.Command {
	now := s.now()
	priority, _ := job.ParsePriority(in.Priority) // Validated.
	cmd := &command.Enqueue{
		NS: c.Namespace, ID: s.ids.next(now), Queue: in.Queue,
		Payload: in.Payload, Checkpoint: in.Checkpoint, Priority: priority,
		Retry: retryPolicy(in), Tags: sortedTags(in.Tags),
		UniqueKey: in.UniqueKey, IdempotencyKey: in.IdempotencyKey, TraceParent: in.TraceParent,
	}
	if len(cmd.Payload) == 0 {
		cmd.Payload = emptyObject
	}
	if in.ScheduledAt.After(now) {
		cmd.ScheduledAt = in.ScheduledAt.UnixNano()
	}
	if in.UniqueKey != "" {
		cmd.UniqueFor = or(in.UniquePeriod, job.DefaultUniqueFor)
	}
	if in.IdempotencyKey != "" {
		cmd.IdempotencyFor = job.IdempotencyFor
	}
	return cmd
}

func retryPolicy(in *EnqueueInput) command.RetryPolicy {
	p := command.DefaultRetry()
	p.Backoff, _ = job.ParseBackoff(in.RetryBackoff) // Validated.
	if in.MaxRetries != nil {
		p.MaxRetries = uint32(*in.MaxRetries)
	}
	p.BaseDelay = or(in.RetryBaseDelay, p.BaseDelay)
	p.MaxDelay = or(in.RetryMaxDelay, p.MaxDelay)
	return p
}

func or(d *time.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return *d
}

// errToken is returned for text that FormatToken did not make.
var errToken = errors.New("malformed lease token")

// FormatToken writes a lease token for the wire.
func FormatToken(t command.Token) string {
	var w codec.Writer
	w.Uint(uint64(t.Attempt))
	command.EncodePosition(&w, t.Epoch)
	return base64.RawURLEncoding.EncodeToString(w.Buf)
}

// ParseToken reads a lease token; "" is the zero token of a caller that has none.
func ParseToken(s string) (command.Token, error) {
	if s == "" {
		return command.Token{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return command.Token{}, fmt.Errorf("%w: %w", errToken, err)
	}
	r := codec.NewReader(b)
	t := command.Token{Attempt: r.Uint32(), Epoch: command.DecodePosition(r)}
	if err := r.Close(); err != nil {
		return command.Token{}, fmt.Errorf("%w: %w", errToken, err)
	}
	if t.IsZero() {
		return command.Token{}, fmt.Errorf("%w: zero", errToken)
	}
	return t, nil
}
