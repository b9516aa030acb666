package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// requestKind is the prefix of a request's id.
const requestKind ids.Kind = "req_"

// contentPolicy lets the console load and call nothing but this origin.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// userAgentBytesMax bounds what a client says about itself, since it is stored.
const userAgentBytesMax = 256

// secured sets the headers that every answer has.
func secured(next http.Handler, secure bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		if secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// introduced gives each request an id and a caller of whom only the address is known.
// A client's own request id is ignored, because it could forge the log.
func introduced(next http.Handler, maker *ids.Maker, now func() time.Time, peer func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := access.Caller{
			RequestID: maker.New(requestKind, now()),
			Peer:      peer(r),
			UserAgent: clean(r.UserAgent()),
		}
		w.Header().Set("X-Request-Id", c.RequestID)
		next.ServeHTTP(w, r.WithContext(access.With(r.Context(), c)))
	})
}

// remoteAddress is the address that the connection came from.
func remoteAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func clean(userAgent string) string {
	s := strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return -1
		}
		return c
	}, strings.ToValidUTF8(userAgent, ""))
	if len(s) > userAgentBytesMax {
		s = strings.ToValidUTF8(s[:userAgentBytesMax], "")
	}
	return s
}

// recovered turns a panic into an answer with the request's id.
func recovered(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			switch p {
			case nil:
				return
			case http.ErrAbortHandler: // Not a mistake: the connection is to be cut.
				panic(p)
			}
			id := access.From(r.Context()).RequestID
			log.ErrorContext(r.Context(), "panic in a request", "path", r.URL.Path, "request_id", id,
				"panic", apikey.Redact(fmt.Sprint(p)), "stack", string(debug.Stack()))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprintf(w, `{"code":"internal","message":"something went wrong on our side; if it keeps happening, contact support with the request id %s"}`, id) // The client may be gone.
		}()
		next.ServeHTTP(w, r)
	})
}

// unstored keeps personal answers out of every cache.
func unstored(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
