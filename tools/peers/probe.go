package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	probeSyncs = 101
	probeBytes = 4 << 10
)

func medianSync(f *os.File) (time.Duration, error) {
	block := make([]byte, probeBytes)
	took := make([]time.Duration, probeSyncs)
	for i := range took {
		if _, err := f.Write(block); err != nil {
			return 0, fmt.Errorf("write %s: %w", f.Name(), err)
		}
		began := time.Now()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, fmt.Errorf("sync %s: %w", f.Name(), err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// probeDelay is the median sync of a Go program under the delay, which is checked.
func (l launcher) probeDelay() (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	cmd, err := l.forGo(self, "probe", l.dir)
	if err != nil {
		return 0, err
	}
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("measure a sync: %w", err)
	}
	us, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	took := time.Duration(us) * time.Microsecond
	if err == nil && took < l.delay {
		err = fmt.Errorf("a sync takes %s with a delay of %s: it was not delayed", took, l.delay)
	}
	return took, err
}

// probe prints how long a sync takes, in microseconds: the median of some, each of
// 4 KB appended to a file in dir.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return fmt.Errorf("make a file to sync: %w", err)
	}
	took, err := medianSync(f)
	if err := errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return err
	}
	fmt.Println(took.Microseconds())
	return nil
}
