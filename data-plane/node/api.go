package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/callstream"
	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/server"
)

// serve answers on the API listener with h from now on.
func (n *Node) serve(h http.Handler) {
	n.handler.Store(&h)
	if n.http != nil {
		return
	}
	current := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*n.handler.Load()).ServeHTTP(w, r) })
	n.http = newHTTPServer(current, n.cfg.TLS, n.conns, n.logger)
	n.loops.Go(n.answer)
}

// answer serves until the server is closed, or the listener by its owner, who is ending. A node
// that answers no calls must not go on leading (R4b).
func (n *Node) answer() {
	serve, ln := n.http.Serve, connections.Patient(n.cfg.API, n.logger)
	if n.cfg.TLS != nil {
		serve = func(ln net.Listener) error { return n.http.ServeTLS(ln, "", "") }
	}
	if err := serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		n.end(fmt.Errorf("serve the API: %w", err))
	}
}

// outside is the API of a node without a cell: it can be formed into one, and says
// what it waits for.
func (n *Node) outside() http.Handler {
	path, form := n.newFormation()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, path):
			form.ServeHTTP(w, r)
		case r.URL.Path == "/healthz":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "{\"status\":\"ok\",\"reason\":%q}\n", n.waitsFor())
		default:
			server.WriteStatus(w, r, http.StatusServiceUnavailable, "NO_CELL", n.waitsFor())
		}
	})
}

// inside is the API of a node of a cell; calls that need a shard wait until it is open.
func (n *Node) inside() http.Handler {
	n.api = n.newServer()
	n.members.ServeAudit(n.readAudit)
	n.members.ServeReadings(n.readReadings)
	n.members.LeaveOut(n.quarantine, n.mux.Pace)
	n.members.ServeScrub(n.lastScrub)
	n.members.ServeAmple(n.ampleDisks)
	n.members.ServeReady(n.api.Ready)
	path, admin := cell.NewHandler(n.cell, n.members, n.cellPeers, n.signer)
	watches, clock := n.untilShutdown(admin), n.prover.Handler(n.cfg.Clock)
	formPath, form := n.newFormation()
	n.calls = callstream.NewServer(n.api, n.logger)
	calls := cell.SignedOnly(n.signer, n.calls)
	// No ServeMux: it would redirect paths that are not clean instead of refusing them.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, path):
			watches.ServeHTTP(w, r)
		case r.URL.Path == cellclock.Path:
			clock.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, formPath):
			form.ServeHTTP(w, r)
		case r.URL.Path == callstream.Path:
			calls.ServeHTTP(w, r)
		default:
			n.api.ServeHTTP(w, r)
		}
	})
}

// untilShutdown ends watches of the cell's state when the node shuts down; other
// calls of its administration end by themselves.
func (n *Node) untilShutdown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != cellv1connect.CellServiceWatchProcedure {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(n.watching, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Limits of the API listener. Streams live as long as their workers, so there is
// no write timeout; pings find peers that vanished (R28).
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 120 * time.Second
	headerBytesMax    = 32 << 10
	streamsPerConn    = 2048
	// frameBytesMax is the protocol's smallest. A Go peer keeps a buffer of this
	// size, up to 512 KiB, for every stream it has open: with the default of 1 MiB
	// a proxy's 10,000 idle worker streams take 5 GB.
	frameBytesMax = 16 << 10
	// All tenants' calls share a proxy's connection, so those whose bodies nobody reads yet,
	// as they wait for their turn, must not fill its window: it has room for all of them.
	windowPerStream = 64 << 10
	windowPerConn   = streamsPerConn * windowPerStream
	pingEvery       = 15 * time.Second
	pingTimeout     = 10 * time.Second
)

func newHTTPServer(h http.Handler, tls *tlsConfig, bound *connections.Bound, log *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: &protocols, TLSConfig: tls, ConnContext: bound.Context, ConnState: bound.State,
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerConn, SendPingTimeout: pingEvery, PingTimeout: pingTimeout,
			MaxReadFrameSize: frameBytesMax, MaxReceiveBufferPerStream: windowPerStream, MaxReceiveBufferPerConnection: windowPerConn,
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
