package proxy

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// endEvent is the last event of a stream, in the form of the nodes. It has no number: a
// client resumes after the last event that has one.
type endEvent struct {
	Seq  uint64  `json:"seq"`
	Type string  `json:"type"`
	AtNS int64   `json:"at_ns"`
	Data endData `json:"data"`
}

type endData struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// sayWhy is deferred around an answer: a stream that the proxy itself ended gets a last event,
// or the end of an RPC, with the reason; other answers break off, as does a stream in the
// middle of an event or message.
func (g *guardedWriter) sayWhy(ctx context.Context) {
	broken := recover()
	if broken == nil {
		return
	}
	reason := endReason(context.Cause(ctx))
	if broken != http.ErrAbortHandler || reason == nil || g.cut {
		panic(broken)
	}
	text, ok := g.lastWords(reason)
	if !ok {
		panic(broken)
	}
	if _, err := g.Write(text); err != nil {
		panic(broken)
	}
}

// lastWords end an answer of which some was sent, if that is possible where it stands.
func (g *guardedWriter) lastWords(why *refusal) (_ []byte, ok bool) {
	kind := g.Header().Get("Content-Type")
	switch {
	case g.call.events:
		text, err := json.Marshal(endEvent{Type: "end", AtNS: g.now().UnixNano(), Data: endData{why.code, why.message}})
		between := g.tail == [2]byte{} || g.tail == [2]byte{'\n', '\n'}
		return fmt.Appendf(nil, "event: end\ndata: %s\n\n", text), between && err == nil
	case !g.call.stream.Load() || !g.at.between():
		return nil, false
	case strings.HasPrefix(kind, "application/connect+"):
		text, err := json.Marshal(connectEnd{connectError{why.rpc.String(), why.message}, map[string][]string{metaCode: {why.code}}})
		return enveloped(connectLast, text), err == nil
	case strings.HasPrefix(kind, "application/grpc-web"):
		return enveloped(grpcWebLast, fmt.Appendf(nil, "grpc-status: %d\r\ngrpc-message: %s\r\n%s: %s\r\n", why.rpc, escaped(why.message), strings.ToLower(metaCode), why.code)), true
	case strings.HasPrefix(kind, "application/grpc"):
		h := g.Header()
		h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(why.rpc)))
		h.Set(http.TrailerPrefix+"Grpc-Message", escaped(why.message))
		h.Set(http.TrailerPrefix+metaCode, why.code)
		return nil, true
	}
	return nil, false
}

// escaped is a text as gRPC carries it.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// connectEnd is the last message of a stream over Connect.
type connectEnd struct {
	Error    connectError        `json:"error"`
	Metadata map[string][]string `json:"metadata"`
}

type connectError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Flags of the messages that are a stream's last.
const (
	connectLast = 0x02
	grpcWebLast = 0x80
)

// enveloped is a message as streams carry it: flags, length, content.
func enveloped(flags byte, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text))), text...)
}

// envelope follows a stream of messages to tell where one ends.
type envelope struct {
	head [5]byte
	has  int    // Of head.
	left uint32 // Of the content.
}

func (e *envelope) between() bool { return e.has == 0 && e.left == 0 }

func (e *envelope) wrote(p []byte) {
	for len(p) > 0 {
		if e.left > 0 {
			n := min(uint32(len(p)), e.left)
			e.left, p = e.left-n, p[n:]
			continue
		}
		n := copy(e.head[e.has:], p)
		if e.has, p = e.has+n, p[n:]; e.has == len(e.head) {
			e.has, e.left = 0, binary.BigEndian.Uint32(e.head[1:])
		}
	}
}
