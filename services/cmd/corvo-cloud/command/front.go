package command

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/services/proxy"
)

const (
	controlReadHeader = 10 * time.Second
	// controlRead is for a whole request: a slow body must not hold its connection for ever
	// where no proxy of ours stands before this.
	controlRead    = time.Minute
	controlWrite   = 30 * time.Second // Without a byte that the client's connection takes.
	controlIdle    = 2 * time.Minute
	headerBytesMax = 32 << 10 // As the proxies'.
	// controlCut is for requests that were cut to notice it, before the database closes.
	controlCut  = time.Second
	controlPoll = 5 * time.Millisecond
)

// controlFront is the listener's server of a control plane.
type controlFront struct {
	*http.Server
	running atomic.Int64 // Requests under way.
}

func newControlFront(handler http.Handler, tls *tls.Config) *controlFront {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(tls == nil)
	protocols.SetHTTP2(tls != nil)
	clients := connections.New(connections.Default(), nil)
	f := &controlFront{}
	f.Server = &http.Server{Handler: proxy.Strict(proxy.EndStuck(f.counted(handler), 0)), TLSConfig: tls, Protocols: &protocols,
		ReadHeaderTimeout: controlReadHeader, ReadTimeout: controlRead, IdleTimeout: controlIdle, MaxHeaderBytes: headerBytesMax,
		// A stream that is ended says so on its connection, which must be read for that.
		HTTP2:       &http.HTTP2Config{WriteByteTimeout: controlWrite},
		ConnContext: clients.Context, ConnState: clients.State}
	return f
}

func (f *controlFront) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.running.Add(1)
		defer f.running.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// end lets running requests end until ctx does. Being out of time is no error, as at a proxy:
// what is left is cut, and gets a moment to notice.
func (f *controlFront) end(ctx context.Context) error {
	err := f.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = f.Close()
	for until := time.Now().Add(controlCut); f.running.Load() > 0 && time.Now().Before(until); {
		time.Sleep(controlPoll)
	}
	return err
}
