package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

const (
	// lookEvery is how often the server is asked how late its lists are.
	lookEvery = 200 * time.Millisecond
	// burstPerSecond: what a short stall kept back is made up for in tenths of a second.
	burstPerSecond = 10
)

// steady adds jobs at a rate while as many handlers take them, as in a service that is
// not at its limit. The latency is that of the handlers' calls.
func (r *run) steady(ctx context.Context) (Phase, error) {
	producers, in, err := r.dial(ctx, r.opts.Protocol, r.opts.Connections, r.opts.Concurrency)
	if err != nil {
		return Phase{}, err
	}
	defer closeAll(producers)
	handlers, out, err := r.dial(ctx, r.opts.Protocol, r.opts.Connections, r.opts.Concurrency)
	if err != nil {
		return Phase{}, err
	}
	defer closeAll(handlers)
	adding := &phase{name: "enqueue", total: r.opts.Jobs, batch: r.opts.Batch, ledger: &r.ledger,
		pace: rate.NewLimiter(rate.Limit(r.opts.Rate), max(r.opts.Batch, r.opts.Rate/burstPerSecond))}
	taking := &phase{name: string(Steady), total: r.opts.Jobs, batch: r.opts.Batch, ledger: &r.ledger}
	produces := make(map[caller]bool, len(in))
	for _, c := range in {
		produces[c] = true
	}
	lag := r.watchLists(ctx)
	p, err := r.sampled(ctx, taking, func() error {
		return r.drive(ctx, taking, append(in, out...), func(ctx context.Context, c caller, p *phase) error {
			if produces[c] {
				return r.enqueueLoop(ctx, c, adding)
			}
			return r.workLoop(ctx, c, p)
		})
	})
	p.ReadModelLagMaxMS = lag()
	return p, err
}

// watchLists looks until it is asked how late lists were at worst: negative if the
// server did not say.
func (r *run) watchLists(ctx context.Context) (worst func() int64) {
	ctx, stop := context.WithCancel(ctx)
	seen := make(chan int64, 1)
	go func() { // Ends with the call of worst.
		most := int64(-1)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				seen <- most
				return
			case <-tick.C:
			}
			status := r.target.status(ctx, r.opts)
			if status == nil {
				continue
			}
			for _, g := range status.Groups {
				if g.ReadModelLagMS != nil {
					most = max(most, *g.ReadModelLagMS)
				}
			}
		}
	}()
	return func() int64 {
		stop()
		return <-seen
	}
}

// wait keeps to the rate of a phase that has one.
func (p *phase) wait(ctx context.Context, n int) error {
	if p.pace == nil {
		return nil
	}
	if err := p.pace.WaitN(ctx, n); err != nil {
		return fmt.Errorf("wait for the rate: %w", err)
	}
	return nil
}
