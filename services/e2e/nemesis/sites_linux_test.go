package nemesis

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// sitesVariable marks the process of TestSites.
const sitesVariable = "CORVO_NEMESIS_SITES"

// A storm whose faults do nothing finds nothing.
func TestSites_LinksAndDisksBreakAsTheyAreTold(t *testing.T) {
	if os.Getenv(sitesVariable) == "" {
		if out, exit := rig.RunPrivate(t, t.Name(), sitesVariable+"=1"); exit != 0 {
			t.Errorf("exit code %d\n%s", exit, out)
		}
		return
	}
	network := rig.NewNetwork(t)
	c := &check{T: t, network: network, host: network.Host(), disk: &rig.Disk{Dir: t.TempDir()}}
	c.links()
	c.impairments()
	c.calls()
}

type check struct {
	*testing.T
	network *rig.Network
	host    *rig.Host
	disk    *rig.Disk
}

// links: each direction is cut by itself, and comes back.
func (c *check) links() {
	c.Helper()
	want := func(what string, heard, answered bool) {
		c.Helper()
		if h, a := c.heard(), c.answered(); h != heard || a != answered {
			c.Errorf("%s: heard %v, answered %v; want %v, %v", what, h, a, heard, answered)
		}
	}
	want("before", true, true)
	mendTo := c.network.Cut(c.network.Home, c.host)
	want("nothing gets to the host", true, false)
	mendFrom := c.network.Cut(c.host, c.network.Home)
	mendTo()
	want("nothing gets from the host", false, false)
	mendFrom()
	want("after", true, true)
}

// impairments: packets come late, in another order, twice, or not at all, and a connection gets
// everything through all the same.
func (c *check) impairments() {
	c.Helper()
	if took := c.opens(); took > soon/10 {
		c.Errorf("a connection took %s before", took)
	}
	const delay = 200 * time.Millisecond
	mend := c.network.Impair(c.network.Home, c.host, rig.Impairment{Delay: delay})
	if took := c.opens(); took < delay/2 {
		c.Errorf("over a link that takes %s at least, a connection took %s", delay/2, took)
	}
	mend()
	mend = c.network.Impair(c.host, c.network.Home, rig.Impairment{Loss: 1})
	if c.heard() {
		c.Error("heard although everything is lost")
	}
	mend()
	mend = c.network.Impair(c.host, c.network.Home, rig.Impairment{Delay: 20 * time.Millisecond, Loss: 0.05, Twice: 0.1})
	c.transfer(1 << 20)
	mend()
	if took := c.opens(); took > soon/10 {
		c.Errorf("a connection took %s after", took)
	}
}

// opens is how long the host takes to open a connection to here.
func (c *check) opens() time.Duration {
	c.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(c.network.Home.IP, "0"))
	if err != nil {
		c.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	if err := c.run("bash", "-c", fmt.Sprintf("echo > /dev/tcp/%s/%d", c.network.Home.IP, l.Addr().(*net.TCPAddr).Port)); err != nil {
		c.Fatal(err)
	}
	return time.Since(began)
}

// transfer has the host send so many bytes to here, and compares them.
func (c *check) transfer(size int) {
	c.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(c.network.Home.IP, "0"))
	if err != nil {
		c.Fatal(err)
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() {
		sent <- c.run("bash", "-c", fmt.Sprintf("seq 1 1000000 | head -c %d > /dev/tcp/%s/%d", size, c.network.Home.IP, l.Addr().(*net.TCPAddr).Port))
	}()
	conn, err := l.Accept()
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-sent); err != nil {
		c.Fatal(err)
	}
	var want []byte
	for i := 1; len(want) < size; i++ {
		want = fmt.Appendln(want, i)
	}
	if !bytes.Equal(got, want[:size]) {
		c.Errorf("%d bytes came, which are not the %d that were sent", len(got), size)
	}
}

// soon is how long a packet may take that arrives.
const soon = 2 * time.Second

// heard reports whether a datagram of the host arrives here.
func (c *check) heard() bool {
	c.Helper()
	l, err := net.ListenPacket("udp", net.JoinHostPort(c.network.Home.IP, "0"))
	if err != nil {
		c.Fatal(err)
	}
	defer l.Close()
	if err := c.run("bash", "-c", fmt.Sprintf("echo > /dev/udp/%s/%d", c.network.Home.IP, l.LocalAddr().(*net.UDPAddr).Port)); err != nil {
		c.Fatal(err)
	}
	if err := l.SetReadDeadline(time.Now().Add(soon)); err != nil {
		c.Fatal(err)
	}
	_, _, err = l.ReadFrom(make([]byte, 1))
	return err == nil
}

// answered reports whether the host can open a connection to here.
func (c *check) answered() bool {
	c.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(c.network.Home.IP, "0"))
	if err != nil {
		c.Fatal(err)
	}
	defer l.Close()
	script := fmt.Sprintf("echo > /dev/tcp/%s/%d", c.network.Home.IP, l.Addr().(*net.TCPAddr).Port)
	return c.run("timeout", soon.String(), "bash", "-c", script) == nil
}

// calls to the disk fail, are slow, and do what they do: those of a kind, and on files of the
// disk.
func (c *check) calls() {
	c.Helper()
	file, other := filepath.Join(c.disk.Dir, "file"), filepath.Join(c.TempDir(), "other")
	for _, name := range []string{file, other} {
		if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
			c.Fatal(err)
		}
	}
	asks := map[rig.Calls][]string{rig.Syncs: {"sync", file}, rig.Reads: {"cat", file}, rig.Writes: {"bash", "-c", "echo more >>" + file}}
	for kind, ask := range asks {
		mend := c.disk.Fail(kind, 1)
		for of, ask := range asks {
			if err := c.run(ask[0], ask[1:]...); (err != nil) != (of == kind) {
				c.Errorf("while calls of kind %d fail: %q: %v", kind, ask, err)
			}
		}
		if c.disk.Failed() == 0 {
			c.Errorf("no call of kind %d has failed", kind)
		}
		if err := c.run("bash", "-c", "cat "+other+" && echo more >"+other); err != nil {
			c.Errorf("while calls of kind %d fail: another disk: %v", kind, err)
		}
		mend()
		release := c.disk.Stall(kind)
		time.AfterFunc(soon, release)
		began := time.Now()
		if err := c.run(ask[0], ask[1:]...); err != nil || time.Since(began) < soon {
			c.Errorf("a stalled call of kind %d: %v after %s", kind, err, time.Since(began))
		}
	}
}

// run runs a command on the host, under the filter.
func (c *check) run(name string, args ...string) error {
	c.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = os.Environ()
	started, err := c.disk.Enter(cmd)
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.host.Enter(cmd); err != nil {
		c.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	if err := started(); err != nil {
		c.Fatal(err)
	}
	return cmd.Wait()
}
