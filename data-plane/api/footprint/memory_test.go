package footprint

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestAvailable_IsTheLeastThatAnythingAllows(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:       16384 kB\nMemFree:         1 kB\n"
	for name, tc := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing is known": {nil, math.MaxInt64},
		"the machine":      {map[string]string{"proc/meminfo": machine}, 16 << 20},
		"version 2, own group": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/system.slice/corvo.service\n",
			"sys/fs/cgroup/system.slice/corvo.service/memory.max": "1048576\n", "sys/fs/cgroup/system.slice/memory.max": "max\n"}, 1 << 20},
		"version 2, a group above": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/system.slice/corvo.service\n",
			"sys/fs/cgroup/system.slice/corvo.service/memory.max": "max\n", "sys/fs/cgroup/system.slice/memory.max": "2097152\n"}, 2 << 20},
		"version 2, in a container": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"version 1": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "9:name=systemd:/x\n4:cpu,memory:/a/b\n0::/\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "8192\n"}, 8192},
		"version 1, the group can't be seen": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/docker/x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "12288\n"}, 12288},
		"version 1 without a limit": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16 << 20},
	} {
		root := fstest.MapFS{}
		for path, text := range tc.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := available(root); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestPositive_ReadsWhatTheKernelWrites(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"max": math.MaxInt64, "": math.MaxInt64, "0": math.MaxInt64, "-1": math.MaxInt64, "1024": 1024} {
		if got := positive(text, 1); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	if got := positive("9223372036854775807", 1<<10); got != math.MaxInt64 {
		t.Errorf("an overflow became %d", got)
	}
}

func TestQuiet_GivesBackOnceAfterABurst(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	var q quiet
	for i, step := range []struct {
		allocated uint64 // Since the start.
		want      bool
	}{
		{1 * mb, false},   // Nothing to give back.
		{300 * mb, false}, // In the middle of a burst.
		{301 * mb, true},
		{302 * mb, false}, // Given back.
		{312 * mb, false},
		{313 * mb, true}, // A quiet process's own garbage.
	} {
		if got := q.worth(step.allocated); got != step.want {
			t.Errorf("look %d, %d MB allocated: %v", i, step.allocated/mb, got)
		}
	}
}
