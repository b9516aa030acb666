package queue

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// idSource makes job ids: ULIDs, so that ids made later sort later. Within a millisecond,
// each id is larger than the last by 48 random bits.
type idSource struct {
	mu      sync.Mutex // Guards the rest.
	entropy *ulid.MonotonicEntropy
	last    uint64 // Milliseconds; ids do not get smaller when the clock is set back.
}

// stepMax bounds how much larger an id is than the last. One more and the library reads 56
// bits for it, and throws away all but one of 256.
const stepMax = 1<<48 - 1

func newIDSource() *idSource {
	return &idSource{entropy: ulid.Monotonic(bufio.NewReader(rand.Reader), stepMax)}
}

func (s *idSource) next(now time.Time) job.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, ulid.Timestamp(now))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil { // No larger ids are left in this millisecond.
		s.last++
		id = ulid.MustNew(s.last, s.entropy) // Fails only without entropy.
	}
	return job.ID(id)
}

// stampEnqueue decides everything that replicas may not. After it nothing about the
// job is undetermined.
func (s *Service) stampEnqueue(c Caller, in *EnqueueInput) command.Command {
	now := s.now()
	priority, _ := job.ParsePriority(string(in.Priority)) // Validated.
	cmd := &command.Enqueue{
		NS: c.Namespace, ID: s.ids.next(now), Queue: in.Queue,
		Payload: said(in.Payload), Checkpoint: said(in.Checkpoint), Priority: priority,
		Tags:      sortedTags(in.Tags),
		UniqueKey: in.UniqueKey, IdempotencyKey: in.IdempotencyKey, TraceParent: in.TraceParent,
	}
	cmd.Agent = in.Agent.command()
	cmd.Parent, _ = parentID(in.ParentID) // Validated.
	if in.ExpireAfter != nil {
		cmd.ExpireAt = now.Add(*in.ExpireAfter).UnixNano()
	}
	s.stampGroups(in, cmd)
	if len(cmd.Payload) == 0 {
		cmd.Payload = emptyObject
	}
	cmd.Retry, cmd.RetryOpen = retryPolicy(in.retrySettings())
	if cmd.RetryOpen == command.RetryAll {
		cmd.RetryOpen = 0 // A policy of zeros says so already.
	}
	if at := in.due(now); at.After(now) {
		cmd.ScheduledAt = at.UnixNano()
	}
	if in.UniqueKey != "" {
		cmd.UniqueFor = cmp.Or(or(in.UniquePeriod, 0), job.DefaultUniqueFor)
	}
	if in.IdempotencyKey != "" {
		cmd.IdempotencyFor = job.IdempotencyFor
	}
	return cmd
}

// due is the time before which the job is not to run.
func (in *EnqueueInput) due(now time.Time) time.Time {
	if in.Delay != nil {
		return now.Add(*in.Delay)
	}
	return in.ScheduledAt
}

// said treats null, which clients write for a value that was not given, as none, on
// every protocol.
func said(v json.RawMessage) json.RawMessage {
	v = bytes.TrimSpace(v)
	if len(v) == 0 || string(v) == "null" {
		return nil
	}
	return v
}

// retryPolicy is the retry settings that were given, and which were left open.
func retryPolicy(in *RetrySettings) (p command.RetryPolicy, open command.RetryParts) {
	open = command.RetryAll
	if in.MaxRetries != nil {
		p.MaxRetries = uint32(*in.MaxRetries)
		open &^= command.RetryMax
	}
	if in.Backoff != "" {
		p.Backoff, _ = job.ParseBackoff(string(in.Backoff)) // Validated.
		open &^= command.RetryBackoff
	}
	if in.BaseDelay != nil {
		p.BaseDelay = *in.BaseDelay
		open &^= command.RetryBaseDelay
	}
	if in.MaxDelay != nil {
		p.MaxDelay = *in.MaxDelay
		open &^= command.RetryMaxDelay
	}
	return p, open
}

func or(d *time.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return *d
}

// errToken is returned for text that is no lease token.
var errToken = errors.New("malformed lease token")

// FormatToken writes a lease token for the wire.
func FormatToken(t command.Token) string {
	f := codec.Writing(codec.Writer{})
	t.Fields(&f)
	return base64.RawURLEncoding.EncodeToString(f.Written())
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
	f := codec.Reading(b)
	var t command.Token
	t.Fields(&f)
	if err := f.Reader().Close(); err != nil {
		return command.Token{}, fmt.Errorf("%w: %w", errToken, err)
	}
	if t.IsZero() {
		return command.Token{}, fmt.Errorf("%w: zero", errToken)
	}
	return t, nil
}
