package flood

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const quietRate = 100 // Calls a second.

// sample is what a quiet tenant saw.
type sample struct {
	took    []time.Duration // Sorted. From when a call was due.
	refused int
	failed  int
	last    error
}

func (s *sample) quantile(q float64) time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	return s.took[min(len(s.took)-1, int(q*float64(len(s.took))))]
}

// quiet makes calls at a steady rate: enqueues, and half as often a fetch and its ack.
func quiet(tenant rig.Tenant, length time.Duration) *sample {
	held := make(chan rig.Job, 4*quietRate)
	return steady(quietRate, length, func(ctx context.Context, i int) error { return quietCall(ctx, tenant, i, held) })
}

// steady makes calls at a rate per second, whether or not those before are answered.
func steady(rate int, length time.Duration, call func(ctx context.Context, i int) error) *sample {
	out := &sample{}
	var mu sync.Mutex // Guards out.
	var all sync.WaitGroup
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if due.Sub(began) >= length {
			break
		}
		time.Sleep(time.Until(due))
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			err := call(ctx, i)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			out.add(took, err)
		})
	}
	all.Wait()
	slices.Sort(out.took)
	return out
}

func (s *sample) add(took time.Duration, err error) {
	s.took = append(s.took, took)
	var refusal *rig.Refusal
	switch {
	case errors.As(err, &refusal):
		s.refused++
		s.last = err
	case err != nil:
		s.failed++
		s.last = err
	}
}

// nothing asks a proxy and then a node for their health: two calls without any work, which
// show what the machine itself makes a caller wait.
func nothing(c *rig.Cell, length time.Duration) *sample {
	return steady(quietRate/2, length, func(ctx context.Context, _ int) error {
		for _, url := range [...]string{c.Proxies[0].URL, c.Nodes[0].URL} {
			if err := health(ctx, url); err != nil {
				return err
			}
		}
		return nil
	})
}

func health(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("health of %s: status %d", url, resp.StatusCode)
	}
	return err
}

func quietCall(ctx context.Context, tenant rig.Tenant, i int, held chan rig.Job) error {
	switch i % 4 {
	case 1:
		j, ok, err := tenant.Fetch(ctx, "quiet", "quiet", 0)
		if ok {
			held <- j
		}
		return err
	case 3:
		select {
		case j := <-held:
			return tenant.Ack(ctx, j)
		default:
		}
	}
	_, err := tenant.Enqueue(ctx, "quiet", payload)
	return err
}
