package processors

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Watch measures the whole machine, where clients and other nodes run too, and this
// process, which may be limited to less. The one with less idle time counts.
func Watch() Load {
	var last, lastAll, lastIdle = time.Now(), int64(0), int64(0)
	used := processTime()
	return func() (float64, float64, bool) {
		now, mine := time.Now(), processTime()
		all, free, ok := machineTicks()
		processors := float64(min(runtime.GOMAXPROCS(0), runtime.NumCPU())) // There may be more threads.
		idle := 1 - (mine-used).Seconds()/(now.Sub(last).Seconds()*processors)
		if ok && all > lastAll {
			idle = min(idle, float64(free-lastIdle)/float64(all-lastAll))
		}
		last, used, lastAll, lastIdle = now, mine, all, free
		return max(idle, 0), processors, true
	}
}

// processTime is what this process has used of the processors.
func processTime() time.Duration { return timeOf(syscall.RUSAGE_SELF) }

// ThreadTime is what the calling thread has used.
func ThreadTime() time.Duration { return timeOf(syscall.RUSAGE_THREAD) }

func timeOf(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machineTicks reads the first line of /proc/stat: user, nice, system, idle,
// iowait and so on, in ticks of all processors since the start (proc_stat(5)).
func machineTicks() (all, idle int64, ok bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		all += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return all, idle, true
}
