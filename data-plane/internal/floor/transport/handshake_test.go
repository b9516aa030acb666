package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

var (
	ours   = []byte("the secret of the cell, 32 bytes")
	theirs = []byte("a secret that nobody else has...")
	greets = hello{lane: laneRPC, group: testGroup, cell: "cell", from: "n1", to: "n2"}
)

// Dialers say hello, read the challenge and answer it with a proof.
func TestHandshake_AListenerRefusesADialerWithoutTheSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret []byte
		other  func(raw, nonce, said []byte) // Changes what the proof is about.
		want   error
	}{
		"the secret":         {ours, func(_, _, _ []byte) {}, nil},
		"another secret":     {theirs, func(_, _, _ []byte) {}, errBadProof},
		"another hello":      {ours, func(raw, _, _ []byte) { raw[len(raw)-nonceBytes-1]++ }, errBadProof},
		"another challenge":  {ours, func(_, nonce, _ []byte) { nonce[0]++ }, errBadProof},
		"another statement":  {ours, func(_, _, said []byte) { said[len(said)-1]++ }, errBadProof},
		"the listener's own": {nil, nil, errBadProof},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := net.Pipe()
			go func() {
				defer near.Close()
				raw, err := greets.encode()
				if err != nil {
					t.Error(err)
					return
				}
				challenge := make([]byte, nonceBytes+proofBytes)
				if _, err := near.Write(raw); err != nil {
					return
				}
				if _, err := io.ReadFull(near, challenge); err != nil {
					return
				}
				nonce := challenge[:nonceBytes]
				said := appendFrame(nil, Statement{Folder: "f"}.Encode())
				sent := bytes.Clone(said)
				mac := challenge[nonceBytes:]
				if c.secret != nil {
					c.other(raw, nonce, said)
					mac = proof(c.secret, dialerLabel, raw, nonce, said)
				}
				_, _ = near.Write(append(sent, mac...)) // The listener may be gone.
			}()
			_, s, _, answer, err := listenHandshake(far, cellsecret.Must(ours), everybody{})
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("the listener says %v, want %v", err, c.want)
			}
			if err != nil && (answer != nil || s.Folder != "") {
				t.Error("it believes something of a stranger")
			}
			far.Close()
		})
	}
}

// What a listener answers is proven too: whoever is between the two nodes can't make one leave.
func TestHandshake_ADialerBelievesNoVerdictWithoutTheSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(out []byte) []byte
		want   error
	}{
		"as it was sent":  {func(out []byte) []byte { return out }, nil},
		"another verdict": {func(out []byte) []byte { out[0] = byte(removed); return out }, errBadProof},
		"another reason":  {func(out []byte) []byte { out[4]++; return out }, errBadProof},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				out := &changed{Conn: far}
				_, _, _, answer, err := listenHandshake(out, cellsecret.Must(ours), everybody{})
				if err != nil {
					t.Error(err)
					return
				}
				out.change = c.change
				if err := answer(accepted, Statement{Folder: "f"}.Encode()); err != nil {
					t.Error(err)
				}
			}()
			err := dialHandshake(near, cellsecret.Must(ours), greets, everybody{})
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("the dialer says %v, want %v", err, c.want)
			}
			near.Close()
		})
	}
}

// changed changes what is written to a connection.
type changed struct {
	net.Conn
	change func([]byte) []byte
}

func (c *changed) Write(b []byte) (int, error) {
	if c.change != nil {
		b = c.change(bytes.Clone(b))
	}
	return c.Conn.Write(b)
}
