package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	startMax = 30 * time.Second
	stopMax  = 10 * time.Second
)

// server is a peer's process.
type server struct {
	cmd    *exec.Cmd
	said   bytes.Buffer // Of both outputs; read when it has ended.
	exited chan struct{}
}

// start runs a program, as somebody else if as is there, until close, or until we die.
func (l launcher) start(cmd *exec.Cmd, as *syscall.Credential) (*server, error) {
	s := &server{cmd: cmd, exited: make(chan struct{})}
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, &s.said, &s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true, Credential: as}
	started := make(chan error, 1)
	go func() { // Ends with the server; Pdeathsig is tied to its thread.
		runtime.LockOSThread()
		defer close(s.exited)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // How it ended shows in what it was asked for.
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return s, nil
}

func (s *server) close() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // Gone already: the wait below ends.
	select {
	case <-s.exited:
	case <-time.After(stopMax):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // Gone already is what is wanted.
		<-s.exited
	}
}

// until waits for a server that was started to answer.
func (s *server) until(ctx context.Context, answers func() error) error {
	deadline := time.Now().Add(startMax)
	for {
		err := answers()
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the server ended: %s", s.said.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server did not answer within %s: %w", startMax, err)
		}
	}
}

// freePort is one that nobody listened on a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func programVersion(name string, args ...string) func() (string, error) {
	return func() (string, error) {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s (install the peers with `make peers`): %w", name, err)
		}
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return line, nil
	}
}
