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
	// tellEvery is how much of what was seen is lost with the process.
	tellEvery      = 5 * time.Second
	tellTimeout    = 2 * time.Second
	perReport      = 5000
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

// tellSightings tells the nodes which keys are in use and who was refused, until ctx ends, and
// then once more.
func (p *Proxy) tellSightings(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTellBudget)
			defer cancel()
			p.tellOnce(last)
			return
		case <-tick.C:
			p.calls.inUse(p.uses, p.now())
			p.tellOnce(ctx)
		}
	}
}

func (p *Proxy) tellOnce(ctx context.Context) {
	uses, refused := p.uses.take(), p.refusals.take()
	if len(uses)+len(refused) == 0 {
		return
	}
	if err := p.tell(ctx, uses, refused); err != nil {
		p.log.Debug("can't tell a node what was seen; trying again", "keys", len(uses), "refusals", len(refused), "err", err)
		p.uses.back(uses)
		p.refusals.back(refused)
	}
}

func (p *Proxy) tell(ctx context.Context, taken map[*use]int64, refused []*cellv1.Refusal) error {
	uses := make([]*cellv1.KeyUse, 0, len(taken))
	for of, at := range taken {
		uses = append(uses, &cellv1.KeyUse{KeyId: of.keyID, Digest: of.digest, AtNs: at})
	}
	return p.tellSome(func(base string) error { return p.tellNode(ctx, base, uses, refused) })
}

// tellSome tells two nodes, so that what one forgets when it dies is not lost. One is enough;
// the error is why no node was told.
func (p *Proxy) tellSome(tell func(base string) error) error {
	err, told := errors.New("no node is known"), 0
	for _, base := range p.watchedFirst() {
		if err = tell(base); err != nil {
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

func (p *Proxy) tellNode(ctx context.Context, base string, uses []*cellv1.KeyUse, refused []*cellv1.Refusal) error {
	client := cellv1connect.NewCellServiceClient(p.cellClient, base)
	for len(uses)+len(refused) > 0 {
		report := &cellv1.ReportSightingsRequest{Uses: uses[:min(len(uses), perReport)], Refusals: refused[:min(len(refused), perReport)]}
		uses, refused = uses[len(report.GetUses()):], refused[len(report.GetRefusals()):]
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		_, err := client.ReportSightings(ctx, connect.NewRequest(report))
		cancel()
		if err != nil {
			return fmt.Errorf("node %s: %w", base, err)
		}
	}
	return nil
}
