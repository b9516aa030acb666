package domains

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is a DNS server on this machine that has TXT records and nothing else.
type zone struct {
	Address string

	t     testing.TB
	mu    sync.Mutex
	txt   map[string][]string // Guarded by mu, as is all that follows.
	fails bool                // It answers that it can't.
	mute  bool                // It doesn't answer.
	asked []string
	byTCP int
}

const udpMax = 512

func newZone(t testing.TB) *zone {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{t: t, Address: tcp.Addr().String(), txt: map[string][]string{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply := z.reply(buffer[:n], udpMax); reply != nil {
				_, _ = udp.WriteTo(reply, from)
			}
		}
	})
	serving.Go(func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { z.stream(conn) })
		}
	})
	t.Cleanup(func() {
		if err := errors.Join(udp.Close(), tcp.Close()); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return z
}

func (z *zone) stream(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return
	}
	z.mu.Lock()
	z.byTCP++
	z.mu.Unlock()
	if reply := z.reply(question, 65535); reply != nil {
		_, _ = conn.Write(binary.BigEndian.AppendUint16(nil, uint16(len(reply))))
		_, _ = conn.Write(reply)
	}
}

func (z *zone) reply(question []byte, limit int) []byte {
	var asked dnsmessage.Message
	if err := asked.Unpack(question); err != nil || len(asked.Questions) != 1 {
		z.t.Errorf("a question that is none: %v", err)
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	q := asked.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	z.asked = append(z.asked, name)
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: asked.ID, Response: true, RecursionAvailable: true}, Questions: asked.Questions}
	values, known := z.txt[name]
	switch {
	case z.mute:
		return nil
	case z.fails:
		out.RCode = dnsmessage.RCodeServerFailure
	case !known:
		out.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeTXT:
		for _, v := range values {
			body := &dnsmessage.TXTResource{}
			for len(v) > 255 {
				body.TXT, v = append(body.TXT, v[:255]), v[255:]
			}
			body.TXT = append(body.TXT, v)
			out.Answers = append(out.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: body})
		}
	}
	packed, err := out.Pack()
	if err == nil && len(packed) > limit {
		out.Answers, out.Truncated = nil, true
		packed, err = out.Pack()
	}
	if err != nil {
		z.t.Error(err)
		return nil
	}
	return packed
}

// set gives a name its records; none takes the name away.
func (z *zone) set(name string, values ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.txt[name] = values; len(values) == 0 {
		delete(z.txt, name)
	}
}

func (z *zone) broken(fails, mute bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.fails, z.mute = fails, mute
}

func (z *zone) resolver() Resolver {
	z.t.Helper()
	r, err := NewResolver(z.Address)
	if err != nil {
		z.t.Fatal(err)
	}
	return r
}
