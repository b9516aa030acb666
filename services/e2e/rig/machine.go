package rig

import (
	"net"
	"os/exec"
	"strconv"
	"testing"
)

// Machine is where a node runs. The zero value is this process's own: loopback and a
// temporary folder.
type Machine struct {
	// Host is the address on which the node listens; empty: loopback.
	Host string
	// Dir is where the node keeps its data; empty: a temporary folder.
	Dir string
	// Args are added to the node's command line.
	Args []string
	// Enter changes the commands that start the node's programs; the first of them is the
	// nearest to the program.
	Enter []Enter
}

// Enter changes a command so that its program runs elsewhere, or under something. What it
// returns, unless nil, is called once the command has been started.
type Enter func(cmd *exec.Cmd) (started func() error, err error)

// Ports of nodes on machines with an address of their own.
const (
	machineAPI  = 7400
	machineRaft = 7401
)

// addresses are those of a node's API and raft.
func (m Machine) addresses(t testing.TB) (api, raft string) {
	t.Helper()
	if m.Host == "" {
		both := Addresses(t, 2)
		return both[0], both[1]
	}
	return net.JoinHostPort(m.Host, strconv.Itoa(machineAPI)), net.JoinHostPort(m.Host, strconv.Itoa(machineRaft))
}

// start starts a command on the machine.
func (m Machine) start(cmd *exec.Cmd) error {
	var after []func() error
	for _, enter := range m.Enter {
		started, err := enter(cmd)
		if err != nil {
			return err
		}
		if started != nil {
			after = append(after, started)
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for _, started := range after {
		if err := started(); err != nil {
			_ = cmd.Process.Kill() // Ended already: then it is gone.
			return err
		}
	}
	return nil
}
