package rig

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// Network is some hosts, each in a network namespace of its own, whose links can be cut
// one way. It has to be made in a private process (see RunPrivate), with whose end all of
// it is gone.
type Network struct {
	// Home is the host of this process.
	Home *Host

	t     testing.TB
	hosts int
	// The numbers of the next.
	cuts, impairments int
}

// Host is a place in the network.
type Host struct {
	IP string

	network *Network
	port    string    // Its end of the link on the bridge.
	holder  *exec.Cmd // Keeps the namespace; nil for this process's.
}

const (
	bridge = "bridge"
	// hole takes what doesn't arrive. Nobody has its address.
	hole, holeEnd = "hole", "hole-end"
	subnet        = "10.77.0."
	// firstCut is above 0, by which the kernel would choose a number. The lower number has its way:
	// what is cut and impaired is cut.
	firstCut, firstImpairment = 1, 1 << 14
)

// NewNetwork makes a network with this process in it.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	n := &Network{t: t, cuts: firstCut, impairments: firstImpairment}
	n.run("ip", "link", "set", "lo", "up")
	n.run("ip", "link", "add", bridge, "type", "bridge")
	n.run("ip", "link", "set", bridge, "up")
	n.run("ip", "link", "add", hole, "type", "veth", "peer", "name", holeEnd)
	n.run("ip", "link", "set", hole, "up")
	n.run("ip", "link", "set", holeEnd, "up")
	n.Home = n.link(nil)
	return n
}

// Host adds a host.
func (n *Network) Host() *Host {
	n.t.Helper()
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = dieWithParent()
	holder.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	check(n.t, holder.Start())
	n.t.Cleanup(func() {
		_ = holder.Process.Kill() // Ended already: then it is gone.
		_ = holder.Wait()         // Killed.
	})
	return n.link(holder)
}

// link connects a namespace with the bridge.
func (n *Network) link(holder *exec.Cmd) *Host {
	n.t.Helper()
	n.hosts++
	h := &Host{IP: subnet + strconv.Itoa(n.hosts), network: n, port: fmt.Sprint("port", n.hosts), holder: holder}
	end := fmt.Sprint("eth", n.hosts)
	n.run("ip", "link", "add", end, "type", "veth", "peer", "name", h.port)
	n.run("ip", "link", "set", h.port, "master", bridge, "up")
	n.run("tc", "qdisc", "add", "dev", h.port, "clsact")
	if holder != nil {
		n.run("ip", "link", "set", end, "netns", strconv.Itoa(holder.Process.Pid))
		n.run(h.inside("ip", "link", "set", "lo", "up")...)
	}
	n.run(h.inside("ip", "address", "add", h.IP+"/24", "dev", end)...)
	n.run(h.inside("ip", "link", "set", end, "up")...)
	return h
}

// inside is a command that runs another one on the host.
func (h *Host) inside(command ...string) []string {
	if h.holder == nil {
		return command
	}
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", h.holder.Process.Pid), "--"}, command...)
}

// Enter makes a command's program run on the host.
func (h *Host) Enter(cmd *exec.Cmd) (started func() error, err error) {
	args := h.inside(append([]string{cmd.Path}, cmd.Args[1:]...)...)
	cmd.Args = args
	cmd.Path, err = exec.LookPath(args[0])
	return nil, err
}

// Cut drops what one host sends another, without either being told. It may be undone in
// any order with others.
func (n *Network) Cut(from, to *Host) (mend func()) {
	n.t.Helper()
	number := strconv.Itoa(n.cuts)
	n.cuts++
	n.divert(from, to, number, hole)
	return func() { n.run("tc", "filter", "del", "dev", from.port, "ingress", "pref", number) }
}

// divert sends what one host sends another to a device.
func (n *Network) divert(from, to *Host, number, device string) {
	n.t.Helper()
	n.run("tc", "filter", "add", "dev", from.port, "ingress", "pref", number, "protocol", "ip",
		"u32", "match", "ip", "dst", to.IP+"/32", "action", "mirred", "egress", "redirect", "dev", device)
}

// Narrow lets only so many kilobits a second through to the host, in a queue of 300 ms.
func (h *Host) Narrow(kilobits int) (widen func()) {
	n := h.network
	n.t.Helper()
	n.run("tc", "qdisc", "add", "dev", h.port, "root", "tbf", "rate", fmt.Sprint(kilobits, "kbit"), "burst", "16kb", "latency", "300ms")
	return func() { n.run("tc", "qdisc", "del", "dev", h.port, "root") }
}

func (n *Network) run(command ...string) {
	n.t.Helper()
	check(n.t, try(command))
}
