package corvo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/sdks/go/internal/peertest"
)

// counted is a source of keys that are numbered.
type counted struct {
	life time.Duration // 0: the keys don't end.

	mu   sync.Mutex // Guards the rest.
	last int
	fail error
}

func (s *counted) Key(context.Context) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return "", time.Time{}, s.fail
	}
	s.last++
	var ends time.Time
	if s.life > 0 {
		ends = time.Now().Add(s.life)
	}
	return fmt.Sprintf("key-%d", s.last), ends, nil
}

func (s *counted) given() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *counted) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// used are the keys of all requests, each once, in order.
func used(s *peertest.Server) (keys []string) {
	for _, h := range s.Headers() {
		if key := h.Get("Authorization"); len(keys) == 0 || keys[len(keys)-1] != key {
			keys = append(keys, key)
		}
	}
	return keys
}

func sourceWorker(t *testing.T, s *peertest.Server, source KeySource, fn func(context.Context, *Job[sendEmail]) (receipt, error), opts ...WorkerOption) *running {
	t.Helper()
	w := NewWorker(newClient(t, s, WithKeySource(source)), append([]WorkerOption{Queue("emails", 2)}, opts...)...)
	Handle(w, fn)
	return start(t, w)
}

func TestKeySource_AWorkerKeepsItsJobsOverManyKeys(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]WorkerOption{"stream": nil, "polling": {Polling()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			source, enough := &counted{life: 400 * time.Millisecond}, make(chan struct{})
			r := sourceWorker(t, s, source, func(ctx context.Context, j *Job[sendEmail]) (receipt, error) {
				if j.Args.To == "long" {
					select {
					case <-enough:
					case <-ctx.Done():
						return receipt{}, context.Cause(ctx)
					}
				}
				return receipt{}, nil
			}, opts...)
			long := s.Add("emails", `{"to":"long"}`, nil)
			r.awaitRunning(s)
			var short []string
			for source.given() < 4 {
				short = append(short, s.Add("emails", `{}`, nil))
				s.AwaitState(short[len(short)-1], "completed")
			}
			close(enough)
			for _, id := range append(short, long) {
				if j := s.AwaitState(id, "completed"); j.Attempt != 1 {
					t.Errorf("%s was attempted %d times", id, j.Attempt)
				}
			}
			mustStop(t, r)
			keys := used(s)
			for i, key := range keys {
				if want := fmt.Sprintf("Bearer key-%d", i+1); key != want {
					t.Fatalf("requests came with %q", keys)
				}
			}
			if st := r.Stats(); st.Lost != 0 || st.Failed != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestKeySource_ARefusedKeyIsReplacedOnceAndThenTheWorkerEnds(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	source := &counted{}
	r := sourceWorker(t, s, source, ok)
	s.AwaitState(s.Add("emails", `{}`, nil), "completed")
	s.Set(peertest.Faults{Code: connect.CodeUnauthenticated})
	s.KillStreams()
	if err := r.wait(); !errors.Is(err, ErrUnauthorized) || source.given() > 2 {
		t.Errorf("Run: %v, after %d keys", err, source.given())
	}
}

func TestKeySource_ThatSaysNoEndsTheWorker(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	source := &counted{life: 200 * time.Millisecond}
	r := sourceWorker(t, s, source, ok)
	s.AwaitState(s.Add("emails", `{}`, nil), "completed")
	source.setFail(fmt.Errorf("%w: the trust is gone", ErrUnauthorized))
	if err := r.wait(); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("Run: %v", err)
	}
}

func TestKeySource_ThatFailsForAWhileDisturbsNothing(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	source := &counted{life: 200 * time.Millisecond}
	r := sourceWorker(t, s, source, ok)
	s.AwaitState(s.Add("emails", `{}`, nil), "completed")
	source.setFail(errors.New("the service can't be reached"))
	s.Await("it tries again without a key", func() bool { return r.Stats().Reconnects >= 2 })
	source.setFail(nil)
	s.AwaitState(s.Add("emails", `{}`, nil), "completed")
	mustStop(t, r)
}

// hanging is a source whose second answer takes until more is closed, or its question ends.
type hanging struct {
	counted
	asked atomic.Int64
	more  chan struct{}
}

func (s *hanging) Key(ctx context.Context) (string, time.Time, error) {
	if s.asked.Add(1) > 1 {
		select {
		case <-s.more:
		case <-ctx.Done():
			return "", time.Time{}, ctx.Err()
		}
	}
	return s.counted.Key(ctx)
}

func TestKeySource_ThatHangsStopsNothingWhileTheLastKeyWorks(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]WorkerOption{"stream": nil, "polling": {Polling()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			source := &hanging{counted: counted{life: 8 * time.Second}, more: make(chan struct{})}
			r := sourceWorker(t, s, source, ok, opts...)
			s.Await("it is asked for the second key", func() bool { return source.asked.Load() == 2 })
			before := r.Stats().Reconnects
			s.AwaitState(s.Add("emails", `{}`, nil), "completed")
			if keys := used(s); len(keys) != 1 || r.Stats().Reconnects != before {
				t.Errorf("keys %q, %d reconnects", keys, r.Stats().Reconnects-before)
			}
			close(source.more)
			s.Await("the second key is used", func() bool { return len(used(s)) == 2 })
			s.AwaitState(s.Add("emails", `{}`, nil), "completed")
			mustStop(t, r)
		})
	}
}

func TestKeySource_ThatHangsHoldsUpNoDrain(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]bool{"nothing is left to do": false, "a job is left": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := peertest.New(t, peertest.Options{})
			source := &hanging{counted: counted{life: 400 * time.Millisecond}, more: make(chan struct{})}
			release := make(chan struct{})
			r := sourceWorker(t, s, source, func(context.Context, *Job[sendEmail]) (receipt, error) {
				<-release
				return receipt{}, nil
			}, HardTimeout(50*time.Millisecond))
			s.Await("there is a stream", func() bool { open, _ := s.Streams(); return open == 1 })
			if hold {
				s.Add("emails", `{}`, nil)
				r.awaitRunning(s)
			}
			s.Await("there is no stream, for there is no key", func() bool { open, _ := s.Streams(); return open == 0 })
			close(release)
			began := time.Now()
			if err := r.stop(); (err != nil) != hold {
				t.Errorf("Run: %v", err)
			}
			if d := time.Since(began); d > settleGrace+3*time.Second {
				t.Errorf("the drain took %s", d)
			}
		})
	}
}

func TestKeySource_IsAskedOnceForManyCallsAndAgainAfterARefusal(t *testing.T) {
	t.Parallel()
	s := peertest.New(t, peertest.Options{})
	source := &counted{}
	c := newClient(t, s, WithKeySource(source))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := c.Enqueue(t.Context(), sendEmail{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := source.given(); n != 1 {
		t.Errorf("%d keys", n)
	}
	s.Set(peertest.Faults{Code: connect.CodeUnauthenticated})
	if _, err := c.Enqueue(t.Context(), sendEmail{}); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("refused: %v", err)
	}
	s.Set(peertest.Faults{})
	if _, err := c.Enqueue(t.Context(), sendEmail{}); err != nil || source.given() != 2 {
		t.Errorf("with the next key: %v, %d", err, source.given())
	}
}
