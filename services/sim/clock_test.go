package sim

import (
	"sync"
	"time"
)

// clock is the clock of a host: the wall may jump and drift, the monotonic clock only
// drifts.
type clock struct {
	mu    sync.Mutex // Guards the rest.
	epoch time.Time
	wall  time.Duration // Ahead of the simulation's.
	mono  time.Duration // What it had counted at since.
	since time.Time
	rate  float64
	still time.Time // Where the wall stands; zero: it goes.
}

func newClock() *clock {
	now := time.Now()
	return &clock{epoch: now, since: now, rate: 1}
}

// Now implements node.Config.Clock.
func (c *clock) Now() (wall time.Time, monotonic time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono := c.monotonic()
	if !c.still.IsZero() {
		return c.still, mono
	}
	return c.epoch.Add(mono + c.wall).Round(0), mono
}

func (c *clock) monotonic() time.Duration {
	return c.mono + time.Duration(float64(time.Since(c.since))*c.rate)
}

// jump moves the wall.
func (c *clock) jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by
}

// stand stops the wall where it is.
func (c *clock) stand() {
	at, _ := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.still = at
}

// drift runs at this rate from now on.
func (c *clock) drift(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mono, c.since, c.rate = c.monotonic(), time.Now(), rate
}

// right is as a clock service leaves it: the simulation's time at its rate.
func (c *clock) right() {
	c.drift(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.still = time.Since(c.epoch)-c.monotonic(), time.Time{}
}
