package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
)

const (
	// headersMax and headerListBytesMax bound what a client may say about a request.
	// Nodes take 32 KiB, counted as HTTP/2 counts, and the proxy adds its own.
	headersMax         = 200
	headerListBytesMax = 20 << 10
	// headerOverhead is what a header counts beyond its text (RFC 9113 6.5.2).
	headerOverhead = 32
	// resetsMax requests that the client gives up within resetsWithin end the
	// connection: each has cost a goroutine and a call to a node.
	resetsMax    = 2000
	resetsWithin = 10 * time.Second
)

var refuseHeaders = refuse(431, "HEADERS_TOO_LARGE", "the request has more than 200 headers, or more than 20 KiB of them")

// Strict is in front of everything on a public listener: it refuses requests with too many
// headers, and keeps browsers from guessing an answer's type. After a body in chunks an
// HTTP/1 connection is closed: net/http does not tell whether it came with a length, too,
// and a request that two readers could split differently must be the last one (RFC 9112
// 6.1).
// The end of every answer is bounded, too (lastWrite).
func Strict(next http.Handler) http.Handler { return strict(next, stuckAfter) }

func strict(next http.Handler, stuckAfter time.Duration) http.Handler {
	errs := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer lastWrite(w, r, stuckAfter)()
		w.Header()["X-Content-Type-Options"] = nosniff
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
			if r.ProtoAtLeast(1, 1) {
				// Otherwise a refusal would wait for the rest of a body that is not
				// read.
				_ = http.NewResponseController(w).EnableFullDuplex() // Without support, nothing waits.
			}
		}
		if tooManyHeaders(r.Header) {
			w.Header().Set(headerRequestID, NewRequestID())
			writeRefusal(w, r, errs, strings.HasPrefix(r.URL.Path, prefixRPC), refuseHeaders)
			return
		}
		if c, ok := r.Context().Value(resetsKey{}).(*resets); ok && r.ProtoMajor >= 2 {
			if r.Context().Err() != nil {
				c.note(time.Now())
				return
			}
			defer func() {
				if errors.Is(r.Context().Err(), context.Canceled) {
					c.note(time.Now())
				}
			}()
		}
		next.ServeHTTP(w, r)
	})
}

func tooManyHeaders(h http.Header) bool {
	n, bytes := 0, 0
	for name, values := range h {
		n += len(values)
		for _, v := range values {
			bytes += len(name) + len(v) + headerOverhead
		}
	}
	return n > headersMax || bytes > headerListBytesMax
}

// resets counts the requests of one connection that the client gave up.
type resets struct {
	conn  net.Conn
	since atomic.Int64 // Unix nanoseconds; when the count began.
	n     atomic.Int64
}

type resetsKey struct{}

// countResets is the ConnContext of a listener whose handler is Strict.
func countResets(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, resetsKey{}, &resets{conn: conn})
}

// note counts one, and ends a connection with too many.
func (c *resets) note(now time.Time) {
	since := c.since.Load()
	if now.UnixNano()-since > int64(resetsWithin) && c.since.CompareAndSwap(since, now.UnixNano()) {
		c.n.Store(0)
	}
	if c.n.Add(1) > resetsMax {
		_ = c.conn.Close() // It may be closed already.
	}
}
