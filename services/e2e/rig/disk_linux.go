package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program's calls to its disk stop in a filter until this process answers: the test starts
// its own binary again, which puts itself under the filter, hands the filter's listener back,
// and becomes the program (see tools/peers, which delays the syncs of other queues so).

// filterVariable tells a test's binary to become the program of its arguments.
const filterVariable = "CORVO_E2E_FILTER"

// Calls are kinds of calls to a disk.
type Calls uint8

// What a program asks of a disk. Reads come from the kernel's memory, and writes go there,
// but a file system may report what its disk did at any of them.
const (
	Syncs Calls = 1 << iota
	Reads
	Writes
)

// Disk decides what the calls of a node's programs do: they are the disk's own, take
// longer, don't end, or fail. One without a fault lets them be.
type Disk struct {
	// Dir is where the files are whose reads and writes it decides.
	Dir string

	mu     sync.Mutex // Guards the rest.
	fault  *diskFault
	failed int // How many calls have failed since the latest Fail.
}

// diskFault is what happens to calls; one of its fields besides calls is set.
type diskFault struct {
	calls Calls
	most  time.Duration
	share float64       // Of the calls, which fail.
	over  chan struct{} // Closed when a stall ends.
}

// Slow makes each call take up to most longer.
func (d *Disk) Slow(calls Calls, most time.Duration) (undo func()) {
	return d.set(&diskFault{calls: calls, most: most})
}

// Stall lets no call end.
func (d *Disk) Stall(calls Calls) (undo func()) {
	f := &diskFault{calls: calls, over: make(chan struct{})}
	mend := d.set(f)
	return func() {
		mend()
		close(f.over)
	}
}

// Fail makes a share of the calls, from 0 to 1, fail without being done.
func (d *Disk) Fail(calls Calls, share float64) (undo func()) {
	return d.set(&diskFault{calls: calls, share: share})
}

// Failed is how many calls the latest Fail has met.
func (d *Disk) Failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *Disk) set(f *diskFault) (undo func()) {
	change := func(f *diskFault) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.fault = f
		if f != nil {
			d.failed = 0
		}
	}
	change(f)
	return func() { change(nil) }
}

// meets is the fault that a call meets; nil without one.
func (d *Disk) meets(n notification) *diskFault {
	d.mu.Lock()
	f := d.fault
	d.mu.Unlock()
	if f == nil || f.calls&kinds[n.nr] == 0 || kinds[n.nr] != Syncs && !d.holds(n) {
		return nil
	}
	return f
}

// holds reports whether a call is about one of the files.
func (d *Disk) holds(n notification) bool {
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.pid, n.args[0]))
	return err == nil && strings.HasPrefix(file, d.Dir+"/") // After an error the thread is gone.
}

// hold holds one call up, and says how it ends.
func (d *Disk) hold(f *diskFault) unix.Errno {
	if f.over != nil {
		<-f.over
	}
	if f.most > 0 {
		time.Sleep(rand.N(f.most)) // It is the fault.
	}
	if rand.Float64() >= f.share {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed++
	return unix.EIO
}

// Enter puts a command under the filter.
func (d *Disk) Enter(cmd *exec.Cmd) (started func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{self, cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Env, cmd.ExtraFiles = self, append(cmd.Env, filterVariable+"=1"), []*os.File{theirs}
	return func() error {
		defer ours.Close()
		if err := theirs.Close(); err != nil {
			return fmt.Errorf("close the child's end: %w", err)
		}
		listener, err := receiveListener(ours)
		if err == nil {
			go d.serve(listener) // Ends with the process.
		}
		return err
	}, nil
}

// serve answers until the program has ended.
func (d *Disk) serve(listener int) {
	defer unix.Close(listener)
	for {
		waiting := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		_, err := unix.Poll(waiting, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || waiting[0].Revents&unix.POLLIN == 0 {
			return // Nobody is left.
		}
		var n notification
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			continue // The thread is gone.
		}
		if f := d.meets(n); f != nil {
			go func() { answer(listener, n.id, d.hold(f)) }() // Ends with the fault.
		} else {
			answer(listener, n.id, 0)
		}
	}
}

// answer lets one call go on, or fail.
func answer(listener int, id uint64, failure unix.Errno) {
	r := response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if failure != 0 {
		r.err, r.flags = -int32(failure), 0
	}
	_ = control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // The thread may be gone.
}

func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	file := os.NewFile(uintptr(fds[0]), "listener")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, nil, fmt.Errorf("use a socket pair: %w", err)
	}
	return conn.(*net.UnixConn), os.NewFile(uintptr(fds[1]), "listener"), nil
}

func receiveListener(from *net.UnixConn) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := from.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return 0, fmt.Errorf("receive the filter's listener: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("the program ended before it was under a filter (%d messages, %v)", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("read the filter's listener: %d descriptors, %v", len(fds), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// notification and response are struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

func control(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// listenerSocket is the first descriptor that a child inherits.
const listenerSocket = 3

// becomeProgram is the test's binary if Enter started it; otherwise it does nothing.
func becomeProgram() error {
	if os.Getenv(filterVariable) == "" {
		return nil
	}
	if err := os.Unsetenv(filterVariable); err != nil {
		return err
	}
	runtime.LockOSThread() // The filter is the thread's, and what it executes inherits it.
	listener, err := filterCalls()
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(listenerSocket, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("hand over the filter's listener: %w", err)
	}
	unix.CloseOnExec(listenerSocket)
	unix.CloseOnExec(listener)
	return fmt.Errorf("run %s: %w", os.Args[1], unix.Exec(os.Args[1], os.Args[1:], os.Environ()))
}

// kinds of the calls that stop in the filter, by their numbers. The first argument of each is
// a file. The kernel can't tell files from connections there, so all of these calls stop.
var kinds = map[int32]Calls{
	unix.SYS_FSYNC: Syncs, unix.SYS_FDATASYNC: Syncs, unix.SYS_SYNCFS: Syncs,
	unix.SYS_READ: Reads, unix.SYS_PREAD64: Reads,
	unix.SYS_WRITE: Writes, unix.SYS_PWRITE64: Writes,
}

// archOf names the kernel's number of this processor.
func archOf() (uint32, error) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, nil
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, nil
	}
	return 0, errors.New("calls can be held up on amd64 and arm64 only, not on " + runtime.GOARCH)
}

// filterCalls stops this thread, and every thread it starts, in each call to a disk until the
// returned listener is answered. A signal doesn't repeat the wait (which needs Linux 5.19).
func filterCalls() (listener int, err error) {
	arch, err := archOf()
	if err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("give up new privileges: %w", err)
	}
	program := callFilter(arch)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, fmt.Errorf("install a seccomp filter: %w", errno)
	}
	return int(fd), nil
}

func callFilter(arch uint32) []unix.SockFilter {
	const (
		numberAt, archAt = 0, 4 // In struct seccomp_data.
		allow            = 0x7fff0000
	)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: archAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jf: uint8(len(kinds) + 1)},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: numberAt},
	}
	left := len(kinds)
	for nr := range kinds {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jt: uint8(left)})
		left--
	}
	return append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: allow},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
}
