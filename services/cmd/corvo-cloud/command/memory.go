package command

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets a soft limit for the garbage collector where the environment
// has none (GOMEMLIMIT): share of what this process may use. The rest is for what
// lies outside Go's heap, such as the stores' block cache, and for other processes.
func (s *session) limitMemory(share float64) {
	if s.proc.Env("GOMEMLIMIT") != "" {
		return
	}
	if have := availableBytes(); have > 0 {
		debug.SetMemoryLimit(int64(float64(have) * share))
	}
}

// availableBytes is the smaller of the machine's memory and the control group's
// limit; 0 where neither is told (not Linux).
func availableBytes() int64 {
	have := int64(math.MaxInt64)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(path); err == nil {
			have = min(have, positive(strings.TrimSpace(string(text)), 1))
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		have = min(have, memTotal(string(text)))
	}
	if have == math.MaxInt64 {
		return 0
	}
	return have
}

func memTotal(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			return positive(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 1<<10)
		}
	}
	return math.MaxInt64
}

// positive reads a number of units; what is none ("max") does not limit.
func positive(text string, unit int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return math.MaxInt64
	}
	return n * unit
}
