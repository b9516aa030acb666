package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// delaySlack is by how much a delayed sync may exceed a bare one and its delay, beside
// half of the delay: the hand-over to the process that delays, and a busy machine.
const delaySlack = 300 * time.Microsecond

// checkDelay measures a sync as the server will meet it, with and without the delay,
// in processes of their own. A delay that is not there, or another one, is an error.
func (l launcher) checkDelay() (bare, slow time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, fmt.Errorf("find this program: %w", err)
	}
	measure := func(argv []string) (time.Duration, error) {
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil {
			return 0, fmt.Errorf("measure a sync: %w", err)
		}
		us, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		return time.Duration(us) * time.Microsecond, err
	}
	argv := []string{self, "probe", l.dir}
	if bare, err = measure(argv); err != nil || l.delay == 0 {
		return bare, bare, err
	}
	if argv, err = l.wrap(nil, argv); err != nil {
		return bare, slow, err
	}
	if slow, err = measure(argv); err != nil {
		return bare, slow, err
	}
	return bare, slow, l.compare(bare, slow)
}

func (l launcher) compare(bare, slow time.Duration) error {
	if slow < l.delay || slow > l.delay+l.delay/2+2*bare+delaySlack {
		return fmt.Errorf("a sync takes %s, and %s with a delay of %s: that is not the delay", bare, slow, l.delay)
	}
	return nil
}

func readCounter(path string) (int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the counter of syncs: %w", err)
	}
	return int64(binary.NativeEndian.Uint64(raw)), nil
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
