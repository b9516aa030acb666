package rig

import (
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what the process has used of a processor, and what it has in memory now, in bytes. The
// test is skipped where the system doesn't tell.
func (p *Process) Usage(t testing.TB) (cpu time.Duration, resident int64) {
	t.Helper()
	proc, err := procfs.NewProc(p.PID())
	if err != nil {
		t.Skipf("this system does not say what a process uses: %v", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), int64(stat.ResidentMemory())
}
