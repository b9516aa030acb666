package flood

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// others measures what processes that have nothing to do with a run take of the
// processors, on Linux; elsewhere it is 0.
type others struct {
	pids  func() []int
	began time.Time
	busy  int64 // Ticks of the machine.
	own   int64 // Ticks of pids.
}

// ticksPerSecond of /proc, whatever the kernel's own is.
const ticksPerSecond = 100

func watchOthers(pids func() []int) *others {
	return &others{pids: pids, began: time.Now(), busy: machineTicks(), own: ticksOf(pids())}
}

// processors is how many the others have used on average.
func (o *others) processors() float64 {
	ticks := machineTicks() - o.busy - (ticksOf(o.pids()) - o.own)
	return max(0, float64(ticks)/ticksPerSecond/time.Since(o.began).Seconds())
}

// machineTicks is what all processors have worked since the machine started: user, nice,
// system, and interrupts (proc_stat(5)).
func machineTicks() int64 {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(line)
	var all int64
	for _, i := range [...]int{1, 2, 3, 6, 7} {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64) // Zero is what is not known.
			all += n
		}
	}
	return all
}

func ticksOf(pids []int) int64 {
	var all int64
	for _, pid := range pids {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(raw), ") ") // The name may have spaces.
		fields := strings.Fields(rest)
		for _, i := range [...]int{11, 12} { // utime, stime.
			if i < len(fields) {
				n, _ := strconv.ParseInt(fields[i], 10, 64)
				all += n
			}
		}
	}
	return all
}

func TestOthers_OwnWorkIsNotTheirs(t *testing.T) {
	t.Parallel()
	if machineTicks() == 0 {
		t.Skip("the system does not say")
	}
	// Not by the clock: a machine that is busy gives a process any part of it.
	before, began := ticksOf([]int{os.Getpid()}), time.Now()
	for ticksOf([]int{os.Getpid()})-before < 2 {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a process that works for ten seconds has not used two ticks")
		}
	}
}
