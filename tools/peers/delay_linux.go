package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The delay of a Go program's syncs is three processes: the generator starts `peers delay`, which
// starts `peers enter`, which puts itself under a filter, hands the filter's
// listener back over descriptor 3, and becomes the server.

// delayThreads is how many syncs can wait at the same time.
const delayThreads = 8

// delayed runs a program whose syncs each take d more, and counts them in a file.
func delayed(d time.Duration, counter string, argv []string) error {
	count, err := openCounter(counter)
	if err != nil {
		return err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, append([]string{"enter", "--"}, argv...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is tied to the thread.
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	if err := theirs.Close(); err != nil {
		return fmt.Errorf("close the child's end: %w", err)
	}
	// A child that fails before it has a filter closes its end.
	listener, err := receiveListener(ours)
	if err != nil {
		return errors.Join(err, cmd.Wait())
	}
	for range delayThreads {
		go holdSyncs(listener, d, count) // Ends with the process.
	}
	passOn(cmd.Process)
	return cmd.Wait()
}

// passOn sends the server the signals that ask this process to end.
func passOn(to *os.Process) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	go func() { // Ends with the process.
		for s := range signals {
			_ = to.Signal(s) // Gone already: the wait below ends.
		}
	}()
}

func openCounter(path string) (*atomic.Int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the counter of syncs: %w", err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, counterBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the counter of syncs: %w", err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&mem[0])), nil // A mapping begins on a page.
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

// holdSyncs lets one thread after the other go on with its sync once it has waited.
func holdSyncs(listener int, d time.Duration, count *atomic.Int64) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "peers: sleep exactly:", err)
	}
	for {
		var n notification
		if err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) { // The thread is gone.
				continue
			}
			return // Nobody is left.
		}
		left := unix.NsecToTimespec(d.Nanoseconds())
		for unix.Nanosleep(&left, &left) == unix.EINTR {
		}
		count.Add(1)
		r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_ = control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // The thread may be gone.
	}
}

func control(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// listenerSocket is the descriptor that `peers delay` gives to `peers enter`.
const listenerSocket = 3

// enter puts this thread under the filter and becomes the program.
func enter(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find %s: %w", argv[0], err)
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
	return fmt.Errorf("run %s: %w", path, unix.Exec(path, argv, os.Environ()))
}

// archOf names the kernel's number of this processor.
func archOf() (uint32, error) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, nil
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, nil
	}
	return 0, errors.New("syncs can be delayed on amd64 and arm64 only, not on " + runtime.GOARCH)
}

// filterSyncs stops this thread, and every thread and process it starts, in a sync
// until the returned listener is answered.
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
	var errno unix.Errno
	// A kernel before 5.19 doesn't know the first: there a signal repeats the wait.
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER} {
		var fd uintptr
		fd, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		if errno == 0 {
			return int(fd), nil
		}
	}
	return 0, fmt.Errorf("install a seccomp filter: %w", errno)
}

func syncFilter(arch uint32) []unix.SockFilter {
	const numberAt, archAt = 0, 4 // In struct seccomp_data.
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
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(0x7fff0000)}, // SECCOMP_RET_ALLOW
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
}
