package flood

import (
	"context"
	"errors"
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

// quiet makes calls at a steady rate, whether or not those before are answered: enqueues,
// and half as often a fetch and its ack.
func quiet(tenant rig.Tenant, length time.Duration) *sample {
	out := &sample{}
	var mu sync.Mutex // Guards out.
	var all sync.WaitGroup
	held := make(chan rig.Job, 4*quietRate)
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * time.Second / quietRate)
		if due.Sub(began) >= length {
			break
		}
		time.Sleep(time.Until(due))
		all.Go(func() {
			err := quietCall(tenant, i, held)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			out.took = append(out.took, took)
			var refusal *rig.Refusal
			switch {
			case errors.As(err, &refusal):
				out.refused++
				out.last = err
			case err != nil:
				out.failed++
				out.last = err
			}
		})
	}
	all.Wait()
	slices.Sort(out.took)
	return out
}

func quietCall(tenant rig.Tenant, i int, held chan rig.Job) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
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
