package acceptance

import (
	"net"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is a DNS server on this machine that has TXT records and nothing else. It lives as
// long as the tests.
type zone struct {
	address string

	mu  sync.Mutex
	txt map[string]string // Guarded by mu.
}

func newZone() (*zone, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	z := &zone{address: conn.LocalAddr().String(), txt: map[string]string{}}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(z.reply(buffer[:n]), from) // Who gets no reply asks again.
		}
	}()
	return z, nil
}

func (z *zone) reply(question []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	q := m.Questions[0]
	value, known := z.txt[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	m = dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	if known {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.TXTResource{TXT: []string{value}},
		}}
	} else {
		m.RCode = dnsmessage.RCodeNameError
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// set gives a name its record; an empty one takes it away.
func (z *zone) set(name, value string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.txt[name] = value; value == "" {
		delete(z.txt, name)
	}
}
