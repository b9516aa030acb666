package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/health"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/storefiles"
)

const (
	defaultScrubEvery          = 24 * time.Hour
	defaultScrubBytesPerSecond = 8 << 20
	// firstScrub is the share of the interval after which the first one begins: a node that
	// is restarted often is scrubbed all the same.
	firstScrub = 24
	// damagedShown bounds the files that status and health name.
	damagedShown = 8
)

// scrubs is what the readings of the node's files have found.
type scrubs struct {
	last atomic.Pointer[cellv1.Scrub] // Nil before the first.
}

// scrub reads all files slowly, again and again: a flipped bit at rest is found before
// the file is needed.
func (n *Node) scrub() {
	if n.cfg.ScrubEvery < 0 {
		return
	}
	next := n.cfg.ScrubEvery / firstScrub
	for {
		select {
		case <-time.After(next):
		case <-n.loopCtx.Done():
			return
		}
		began := time.Now()
		if err := n.Scrub(n.loopCtx, n.cfg.ScrubBytesPerSecond); err != nil && n.loopCtx.Err() == nil {
			n.logger.Error("scrub the node's files", "err", err)
		}
		next = max(n.cfg.ScrubEvery-time.Since(began), n.cfg.ScrubEvery/firstScrub)
	}
}

// Scrub reads every file of the node once, at most so many bytes a second, and compares
// checksums. Damage in a store is a reason not to lead, until a scrub finds none: nothing
// wrong is served, because reading that part would end the process, and the others have
// what it has. A damaged read model is made again.
func (n *Node) Scrub(ctx context.Context, bytesPerSecond int64) error {
	pace := newPace(ctx, bytesPerSecond)
	var damaged, rebuilt []string
	var files int
	for _, dir := range []string{n.logDir(), filepath.Join(n.cfg.Dir, stateDir)} {
		count, err := storefiles.CheckOpen(n.cfg.FS, dir, storefiles.Pace{Wait: pace.wait}, func(d *storefiles.Damage) {
			damaged = append(damaged, d.Path)
			n.logger.Error("a file is damaged: this node should not lead, and its data must be replaced: see `corvo-cloud node repair`", "file", d.Path, "what", d.What)
		})
		if files += count; err != nil {
			return err
		}
	}
	count, err := n.models.Check(ctx, pace.wait, func(path string, err error) {
		rebuilt = append(rebuilt, path)
		n.logger.Error("a read model is damaged: it is made again", "file", path, "what", err)
	})
	if files += count; err != nil {
		return err
	}
	damaged, rebuilt = shown(damaged), shown(rebuilt)
	n.scrubs.last.Store(&cellv1.Scrub{
		EndedNs: time.Now().UnixNano(), Files: uint32(files), Bytes: pace.read, DamagedFiles: damaged, RebuiltFiles: rebuilt,
	})
	n.setIf(len(damaged) > 0, health.Damaged, strings.Join(damaged, ", "))
	return nil
}

// shown are the paths that status names.
func shown(paths []string) []string {
	slices.Sort(paths)
	return paths[:min(len(paths), damagedShown)]
}

// lastScrub is for status.
func (n *Node) lastScrub() *cellv1.Scrub { return n.scrubs.last.Load() }

// scrubStatus is lastScrub as HTTP shows it; nil before the first.
func (n *Node) scrubStatus() *wire.ScrubStatus {
	s := n.lastScrub()
	if s == nil {
		return nil
	}
	return &wire.ScrubStatus{
		EndedAt: time.Unix(0, s.GetEndedNs()).UTC(), Files: int(s.GetFiles()), Bytes: int64(s.GetBytes()),
		DamagedFiles: append([]string{}, s.GetDamagedFiles()...), RebuiltFiles: append([]string{}, s.GetRebuiltFiles()...),
	}
}

// pace spreads reading over time.
type pace struct {
	ctx  context.Context // Of the one scrub that it paces.
	rate int64
	next time.Time
	read uint64 // Bytes that were waited for.
}

func newPace(ctx context.Context, bytesPerSecond int64) *pace {
	return &pace{ctx: ctx, rate: bytesPerSecond, next: time.Now()}
}

// wait returns when so many bytes may be read.
func (p *pace) wait(bytes int) error {
	p.read += uint64(bytes)
	if p.rate > 0 {
		if now := time.Now(); p.next.Before(now) {
			p.next = now
		}
		ready := p.next
		p.next = p.next.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
		if early := time.Until(ready); early > 0 {
			select {
			case <-time.After(early):
			case <-p.ctx.Done():
			}
		}
	}
	if err := p.ctx.Err(); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	return nil
}
