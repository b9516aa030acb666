package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

const (
	// usedEvery is how exactly the last use of a key is known: what a busy key costs is
	// counted per key and this time, not per request.
	usedEvery = 5 * time.Minute
	// tellUsesEvery is how much of it is lost with the process.
	tellUsesEvery  = 5 * time.Second
	tellTimeout    = 2 * time.Second
	usesPerReport  = 5000
	lastTellBudget = time.Second
)

// use is when one secret of a key was last accepted.
type use struct {
	keyID  string
	digest []byte
	atNS   atomic.Int64
}

// uses are those that no node was told yet: each secret at most once, and once in usedEvery.
type uses struct {
	mu    sync.Mutex
	fresh map[*use]int64 // Unix nanoseconds. Guarded by mu.
}

func newUses() *uses { return &uses{fresh: make(map[*use]int64)} }

// note costs a request one load, as long as the key was used in the last minutes. Of no key: nil.
func (u *uses) note(of *use, now time.Time) {
	if of == nil {
		return
	}
	at, last := now.UnixNano(), of.atNS.Load()
	if at-last < int64(usedEvery) || !of.atNS.CompareAndSwap(last, at) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh[of] = at
}

func (u *uses) take() map[*use]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.fresh
	u.fresh = make(map[*use]int64)
	return taken
}

// back returns what could not be told.
func (u *uses) back(taken map[*use]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for of, at := range taken {
		u.fresh[of] = max(u.fresh[of], at)
	}
}

// tellUses tells the nodes which keys are in use, until ctx ends, and then once more.
func (p *Proxy) tellUses(ctx context.Context) {
	tick := time.NewTicker(tellUsesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTellBudget)
			defer cancel()
			p.tellUsesOnce(last)
			return
		case <-tick.C:
			p.calls.inUse(p.uses, p.now())
			p.tellUsesOnce(ctx)
		}
	}
}

func (p *Proxy) tellUsesOnce(ctx context.Context) {
	taken := p.uses.take()
	if len(taken) == 0 {
		return
	}
	if err := p.sayUses(ctx, taken); err != nil {
		p.log.Debug("can't tell a node which keys are used; trying again", "keys", len(taken), "err", err)
		p.uses.back(taken)
	}
}

// sayUses tells two nodes, so that what one forgets when it dies is not lost. One is enough.
func (p *Proxy) sayUses(ctx context.Context, taken map[*use]int64) error {
	all := make([]*cellv1.KeyUse, 0, len(taken))
	for of, at := range taken {
		all = append(all, &cellv1.KeyUse{KeyId: of.keyID, Digest: of.digest, AtNs: at})
	}
	err, told := errors.New("no node is known"), 0
	for _, base := range p.watchedFirst() {
		if err = p.sayUsesTo(ctx, base, all); err != nil {
			continue
		}
		if told++; told == watchers {
			break
		}
	}
	if told > 0 {
		return nil
	}
	return err
}

func (p *Proxy) sayUsesTo(ctx context.Context, base string, all []*cellv1.KeyUse) error {
	client := cellv1connect.NewCellServiceClient(p.cellClient, base)
	for from := 0; from < len(all); from += usesPerReport {
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		_, err := client.ReportSightings(ctx, connect.NewRequest(&cellv1.ReportSightingsRequest{Uses: all[from:min(from+usesPerReport, len(all))]}))
		cancel()
		if err != nil {
			return fmt.Errorf("node %s: %w", base, err)
		}
	}
	return nil
}
