package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program's syncs stop in a filter until this process answers: the test starts its own
// binary again, which puts itself under the filter, hands the filter's listener back,
// and becomes the program (see tools/peers, which delays the syncs of other queues so).

// filterVariable tells a test's binary to become the program of its arguments.
const filterVariable = "CORVO_E2E_FILTER"

// Syncs decides what the syncs of a node's programs do: they are the disk's own, take
// longer, don't end, or fail. The zero value lets them be.
type Syncs struct {
	mu      sync.Mutex // Guards the rest.
	most    time.Duration
	failure unix.Errno
	failed  int           // How many have failed.
	stall   chan struct{} // Closed when the stall ends; nil without one.
}

// Slow makes each sync take up to most longer.
func (s *Syncs) Slow(most time.Duration) (undo func()) {
	s.set(func() { s.most = most })
	return func() { s.set(func() { s.most = 0 }) }
}

// Stall lets no sync end.
func (s *Syncs) Stall() (undo func()) {
	over := make(chan struct{})
	s.set(func() { s.stall = over })
	return func() {
		s.set(func() { s.stall = nil })
		close(over)
	}
}

// Fail makes each sync fail without being done.
func (s *Syncs) Fail() (undo func()) {
	s.set(func() { s.failure, s.failed = unix.EIO, 0 })
	return func() { s.set(func() { s.failure = 0 }) }
}

// Failed is how many syncs the latest Fail has met.
func (s *Syncs) Failed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *Syncs) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// wait holds one sync up, and says how it ends.
func (s *Syncs) wait() unix.Errno {
	s.mu.Lock()
	most, stall := s.most, s.stall
	s.mu.Unlock()
	if stall != nil {
		<-stall
	}
	if most > 0 {
		time.Sleep(rand.N(most)) // It is the fault.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != 0 {
		s.failed++
	}
	return s.failure
}

// Enter puts a command under the filter.
func (s *Syncs) Enter(cmd *exec.Cmd) (started func() error, err error) {
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
			go s.serve(listener) // Ends with the process.
		}
		return err
	}, nil
}

// serve answers until the program has ended.
func (s *Syncs) serve(listener int) {
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
		go s.answer(listener, n.id)
	}
}

// answer lets one sync go on, or fail.
func (s *Syncs) answer(listener int, id uint64) {
	r := response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if failure := s.wait(); failure != 0 {
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
	listener, err := filterSyncs()
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

// archOf names the kernel's number of this processor.
func archOf() (uint32, error) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, nil
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, nil
	}
	return 0, errors.New("syncs can be held up on amd64 and arm64 only, not on " + runtime.GOARCH)
}

// filterSyncs stops this thread, and every thread it starts, in a sync until the returned
// listener is answered. A signal doesn't repeat the wait (which needs Linux 5.19).
func filterSyncs() (listener int, err error) {
	arch, err := archOf()
	if err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("give up new privileges: %w", err)
	}
	program := syncFilter(arch)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, fmt.Errorf("install a seccomp filter: %w", errno)
	}
	return int(fd), nil
}

func syncFilter(arch uint32) []unix.SockFilter {
	const (
		numberAt, archAt = 0, 4 // In struct seccomp_data.
		allow            = 0x7fff0000
	)
	syncs := []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: archAt},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jf: uint8(len(syncs) + 1)},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: numberAt},
	}
	for i, nr := range syncs {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: uint8(len(syncs) - i)})
	}
	return append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: allow},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
}
