package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Impairment is what happens to the packets from one host to another. The kernel's netem would do
// it, where a kernel has it; here the packets take a way through this process.
type Impairment struct {
	// Delay is the longest that a packet waits. It waits at least half of that, so that packets
	// overtake each other.
	Delay time.Duration
	// Loss and Twice are the shares of packets that don't arrive, and that arrive twice.
	Loss, Twice float64
}

// Impair does that to what one host sends another, until it is mended. It may be undone in
// any order with others. Of two for the same direction, the older has its way.
func (n *Network) Impair(from, to *Host, by Impairment) (mend func()) {
	n.t.Helper()
	number := strconv.Itoa(n.impairments)
	n.impairments++
	entry, exit := "way"+number, "way"+number+"-end"
	n.run("ip", "link", "add", entry, "type", "veth", "peer", "name", exit)
	n.run("ip", "link", "set", entry, "up")
	n.run("ip", "link", "set", exit, "up")
	in, out := must(packets(exit, unix.ETH_P_ALL))(n.t), must(packets(to.port, 0))(n.t)
	var carrying sync.WaitGroup
	carrying.Go(func() { carry(in, out, by) })
	n.divert(from, to, number, entry)
	return func() {
		n.run("tc", "filter", "del", "dev", from.port, "ingress", "pref", number)
		_ = in.Close() // Ends carry; what is under way is lost.
		carrying.Wait()
		_ = out.Close()
		n.run("ip", "link", "del", entry)
	}
}

// carry takes packets from one device to another until the first is closed.
func carry(from, to *os.File, by Impairment) {
	// The largest packet of a sender whose device cuts it up, with its heads.
	buf := make([]byte, 128<<10)
	for {
		n, err := from.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil || !isIPv4(buf[:n]) || rand.Float64() < by.Loss {
			continue
		}
		times := 1
		if rand.Float64() < by.Twice {
			times = 2
		}
		packet := append([]byte(nil), buf[:n]...)
		for range times {
			// A packet that can't be written is one more that is lost.
			time.AfterFunc(by.Delay/2+time.Duration(rand.Float64()*float64(by.Delay)/2), func() { _, _ = to.Write(packet) })
		}
	}
}

const (
	// virtioHead is before each packet: which checksum is not there yet, and how to cut it up.
	// Senders on virtual devices leave both to them.
	virtioHead = 10
	// etherType is behind two addresses.
	etherType = virtioHead + 12
)

// isIPv4 leaves out what the kernel itself says on a new device.
func isIPv4(packet []byte) bool {
	return len(packet) > etherType+2 && binary.BigEndian.Uint16(packet[etherType:]) == unix.ETH_P_IP
}

// packets is a device as a file: each read and write is a packet behind a virtioHead. Protocol 0
// reads nothing.
func packets(device string, protocol uint16) (*os.File, error) {
	at, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", device, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open packets of %s: %w", device, err)
	}
	f := os.NewFile(uintptr(fd), device)
	network := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, protocol))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 16<<20),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: at.Index}),
	)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("bind to %s: %w", device, err)
	}
	return f, nil
}
