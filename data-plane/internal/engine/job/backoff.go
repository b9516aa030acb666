package job

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// Backoff says how the delay between attempts grows.
type Backoff uint8

const (
	BackoffNone Backoff = iota
	BackoffFixed
	BackoffLinear
	BackoffExponential
)

var backoffNames = [...]string{"none", "fixed", "linear", "exponential"}

func (b Backoff) String() string {
	if int(b) < len(backoffNames) {
		return backoffNames[b]
	}
	return "unknown"
}

// ParseBackoff reads a backoff word; empty means exponential.
func ParseBackoff(s string) (Backoff, bool) {
	if s == "" {
		return BackoffExponential, true
	}
	for i, name := range backoffNames {
		if s == name {
			return Backoff(i), true
		}
	}
	return 0, false
}

// Defaults of a job that names none (contract, domain constants).
const (
	DefaultMaxRetries = 3
	DefaultBaseDelay  = 5 * time.Second
	DefaultMaxDelay   = 10 * time.Minute
	DefaultLease      = 60 * time.Second
	DefaultUniqueFor  = time.Hour
	IdempotencyFor    = 24 * time.Hour
)

// Delay is the pause after attempt (1 = the first) failed: none 0, fixed base,
// linear base*attempt, exponential base*2^(attempt-1), never above limit. The
// arithmetic saturates, so a high attempt can not wrap to an immediate retry.
func (b Backoff) Delay(attempt uint32, base, limit time.Duration) time.Duration {
	if base <= 0 || attempt == 0 {
		return 0
	}
	var d time.Duration
	switch b {
	case BackoffNone:
		return 0
	case BackoffFixed:
		d = base
	case BackoffLinear:
		d = saturatingMul(base, uint64(attempt))
	default:
		if attempt > 63 {
			d = limit
		} else {
			d = saturatingMul(base, 1<<(attempt-1))
		}
	}
	return min(d, limit)
}

func saturatingMul(d time.Duration, n uint64) time.Duration {
	hi, lo := bits.Mul64(uint64(d), n)
	if hi != 0 || lo > 1<<63-1 {
		return 1<<63 - 1
	}
	return time.Duration(lo)
}

// jitterParts: a delay is shortened by up to 1/jitterParts.
const jitterParts = 5

// Jitter shortens d by up to a fifth, by an amount derived from the job and the
// attempt alone: every replica computes the same, no two jobs the same.
func Jitter(d time.Duration, id ID, attempt uint32) time.Duration {
	if d < jitterParts {
		return d
	}
	x := binary.BigEndian.Uint64(id[8:]) ^ binary.BigEndian.Uint64(id[:8]) ^ uint64(attempt)*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return d - time.Duration(x%uint64(d/jitterParts))
}
