package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SpaceLevel says what a node may still do with the room it has left.
type SpaceLevel int

// Levels, in order.
const (
	SpaceOK      SpaceLevel = iota
	SpaceTight              // At 90 %: refuse enqueues; acks, deletes and reads go on.
	SpaceExhaust            // At 97 %: step down, before the write-ahead log meets ENOSPC.
)

func (l SpaceLevel) String() string {
	switch l {
	case SpaceOK:
		return "ok"
	case SpaceTight:
		return "tight"
	case SpaceExhaust:
		return "exhausted"
	default:
		return fmt.Sprintf("level %d", int(l))
	}
}

const (
	tightPercent   = 90
	exhaustPercent = 97

	// roomyBytes free are enough whatever the percentage: 10 % of a large volume is
	// no emergency.
	roomyBytes = 16 << 30

	// tightBytes and exhaustBytes free are too few whatever the percentage: both stores may
	// write a full memtable (64 and 32 MiB) at any moment.
	tightBytes   = 128 << 20
	exhaustBytes = 64 << 20

	// A level ends this far below where it begins, so that a node at the edge does
	// not flap.
	hysteresisPercent = 2
	hysteresisBytes   = 32 << 20

	// spaceInterval: a small disk fills from 90 to 97 % in seconds, and asking costs
	// microseconds.
	spaceInterval = 250 * time.Millisecond
	// An ample volume, one with ampleBytes free, is asked less often by amplePart: to write what it
	// has more than a roomy one takes longer than a second.
	ampleBytes = roomyBytes + 4<<30
	amplePart  = 4
)

// SpaceOptions of a Space.
type SpaceOptions struct {
	Interval time.Duration // 0 means 250 ms; four times that while very much is free.

	// OnChange is called from the poller when the level changes, and before
	// NewSpace returns unless the level is SpaceOK. usedPercent is the share of the volume that
	// this process can't write to: blocks reserved for the superuser count as used.
	OnChange func(level SpaceLevel, usedPercent float64)

	Logger *slog.Logger // Nil means slog.Default().
}

// Space watches how full the volume under a directory is.
type Space struct {
	fs   vfs.FS
	dir  string
	opts SpaceOptions

	stop chan struct{} // Closed by Close.
	done chan struct{} // Closed when the poller ended.
	once sync.Once     // Guards the closing of stop.

	mu    sync.Mutex // Guards what follows.
	level SpaceLevel
	ample bool
}

// NewSpace measures once and then polls until Close.
func NewSpace(fs vfs.FS, dir string, opts SpaceOptions) (*Space, error) {
	if opts.Interval == 0 {
		opts.Interval = spaceInterval
	}
	if opts.OnChange == nil {
		opts.OnChange = func(SpaceLevel, float64) {}
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Space{fs: fs, dir: dir, opts: opts, stop: make(chan struct{}), done: make(chan struct{})}
	if err := s.measure(); err != nil {
		return nil, fmt.Errorf("measure space of %s: %w", dir, err)
	}
	go s.poll()
	return s, nil
}

// Level is the level at the last measurement.
func (s *Space) Level() SpaceLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// Ample reports whether so much was free at the last measurement that it takes a while
// until any level can begin.
func (s *Space) Ample() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ample
}

// Close stops the poller and waits for it.
func (s *Space) Close() {
	s.once.Do(func() { close(s.stop) })
	<-s.done
}

func (s *Space) poll() {
	defer close(s.done)
	next := time.NewTimer(s.interval())
	defer next.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-next.C:
			// Keep the last level: a failed measurement is no reason to lift it.
			if err := s.measure(); err != nil {
				s.opts.Logger.Error("disk space cannot be measured", "dir", s.dir, "error", err)
			}
			next.Reset(s.interval())
		}
	}
}

func (s *Space) interval() time.Duration {
	if s.Ample() {
		return amplePart * s.opts.Interval
	}
	return s.opts.Interval
}

func (s *Space) measure() error {
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return err
	}
	if usage.TotalBytes == 0 {
		return errors.New("volume reports no size")
	}
	used := 100 * (1 - float64(usage.AvailBytes)/float64(usage.TotalBytes))
	s.mu.Lock()
	before := s.level
	s.level, s.ample = nextLevel(before, used, usage.AvailBytes), usage.AvailBytes >= ampleBytes
	level := s.level
	s.mu.Unlock()
	if level != before {
		s.opts.Logger.Warn("disk space", "dir", s.dir, "level", level, "used_percent", used)
		s.opts.OnChange(level, used)
	}
	return nil
}

// nextLevel rises at once and falls only past the hysteresis.
func nextLevel(now SpaceLevel, usedPercent float64, availBytes uint64) SpaceLevel {
	switch reached := levelAt(usedPercent, availBytes); {
	case reached >= now:
		return reached
	default:
		return min(now, levelAt(usedPercent+hysteresisPercent, availBytes-min(availBytes, hysteresisBytes)))
	}
}

func levelAt(usedPercent float64, availBytes uint64) SpaceLevel {
	switch {
	case availBytes >= roomyBytes:
		return SpaceOK
	case usedPercent >= exhaustPercent || availBytes < exhaustBytes:
		return SpaceExhaust
	case usedPercent >= tightPercent || availBytes < tightBytes:
		return SpaceTight
	default:
		return SpaceOK
	}
}
