package main

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// launcher starts a server in its folder, with every sync delayed and counted.
type launcher struct {
	dir   string
	delay time.Duration
}

// syncs is what a server has synced so far.
type syncs struct {
	count int64
	took  time.Duration // With the delay; not known of a Go program.
}

// counterBytes is the size of the file in which syncs are counted: their number, and
// how many nanoseconds they took.
const counterBytes = 16

func newLauncher(dir string, delay time.Duration) (launcher, error) {
	l := launcher{dir, delay}
	if err := os.WriteFile(l.counter(), make([]byte, counterBytes), 0o600); err != nil {
		return l, fmt.Errorf("make a counter of syncs: %w", err)
	}
	return l, nil
}

func (l launcher) counter() string { return filepath.Join(l.dir, "syncs") }

func (l launcher) syncs() (syncs, error) {
	raw, err := os.ReadFile(l.counter())
	if err != nil {
		return syncs{}, fmt.Errorf("read the counter of syncs: %w", err)
	}
	return syncs{int64(binary.NativeEndian.Uint64(raw)), time.Duration(binary.NativeEndian.Uint64(raw[8:]))}, nil
}

//go:embed slowsync/slowsync.c
var slowSync string

// forC is a C program under the delay: a library stands before libc's syncs, so that
// the thread itself sleeps, as a node of ours does.
func (l launcher) forC(argv ...string) (*exec.Cmd, error) {
	library := filepath.Join(l.dir, "slowsync.so")
	cc := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, "-x", "c", "-")
	cc.Stdin = strings.NewReader(slowSync)
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the delay of syncs (install the peers with `make peers`): %w: %s", err, out)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, "CORVO_SYNC_COUNTER="+l.counter(), fmt.Sprintf("CORVO_SYNC_DELAY_NS=%d", l.delay.Nanoseconds()))
	return cmd, nil
}

// forGo is a Go program under the delay: it makes its system calls without libc, so the
// kernel stops them. Without a delay nothing is in its way, and nothing counted.
func (l launcher) forGo(argv ...string) (*exec.Cmd, error) {
	if l.delay > 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		argv = append([]string{self, "delay", l.delay.String(), l.counter(), "--"}, argv...)
	}
	return exec.Command(argv[0], argv[1:]...), nil
}
