package footprint

import (
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

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
