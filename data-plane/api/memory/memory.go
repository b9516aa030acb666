// Package memory owns how much memory a server process fills: a soft limit for Go's
// garbage collector, from what the machine or the process's control group has, and when
// it gives back what it no longer needs.
//
// It must not know what the memory is used for.
//
// Surprising: a control group without a limit is limited by those above it, so all are
// asked up to the root.
package memory

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Variable is the environment variable by which Go itself is told a limit.
const Variable = "GOMEMLIMIT"

const (
	// Alone is the share of a process that has its machine to itself. The rest is for what
	// lies outside Go's heap and for the system's cache of files.
	Alone = 0.7
	// Shared is the share of one that shares its machine, such as on a laptop.
	Shared = 0.5
)

// Manage lets this process fill a share of what it may use, unless its environment has a
// limit already; where nothing says what it may use (not Linux), nothing is limited. Until it is
// told to end, it gives back what a burst of work left, once the process is quiet.
func Manage(env func(string) string, share float64) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		releaseWhenQuiet(ctx)
	}()
	if env(Variable) == "" {
		if have := available(os.DirFS("/")); have < math.MaxInt64 {
			debug.SetMemoryLimit(int64(float64(have) * share))
		}
	}
	return func() { cancel(); <-ended }
}

// available is the least of the machine's memory and the limits of the process's control
// groups.
func available(root fs.FS) int64 {
	have := memTotal(read(root, "proc/meminfo"))
	for line := range strings.Lines(read(root, "proc/self/cgroup")) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case controllers == "":
			have = min(have, limitOf(root, "sys/fs/cgroup", group, "memory.max"))
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			have = min(have, limitOf(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
		}
	}
	return have
}

// limitOf is the least limit of a group and all above it. In a container the group's own
// folder may not be visible, and its limit is that of the root.
func limitOf(root fs.FS, mount, group, file string) int64 {
	have := int64(math.MaxInt64)
	for ; ; group = path.Dir(group) {
		have = min(have, positive(read(root, path.Join(mount, group, file)), 1))
		if group == "/" || group == "." {
			return have
		}
	}
}

// read is empty where there is no such file.
func read(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
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
