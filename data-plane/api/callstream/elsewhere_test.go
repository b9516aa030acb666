package callstream

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What a connection for calls can't carry goes over the other transport.
func TestElsewhere_WhatIsNotCarried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server  func(*rig, *Options)
		request func(*http.Request)
	}{
		"large body":          {request: func(q *http.Request) { setBody(q, strings.Repeat("x", bodyMax+1)) }},
		"body not here":       {request: func(q *http.Request) { setBody(q, "x"); q.GetBody = nil }},
		"large headers":       {request: func(q *http.Request) { q.Header.Set("X", strings.Repeat("x", headMax)) }},
		"TLS that isn't set":  {server: func(r *rig, _ *Options) { r.http.TLS = &tls.Config{} }},
		"stream":              {server: func(_ *rig, o *Options) { o.Carries = func(*http.Request) bool { return false } }},
		"server of old":       {server: func(r *rig, _ *Options) { r.http.Config.Handler = http.NotFoundHandler() }},
		"server that refuses": {server: func(r *rig, _ *Options) { r.http.Config.Handler = http.HandlerFunc(refuse) }},
		"server of HTTP/2": {server: func(r *rig, _ *Options) {
			r.http.Config.Protocols = new(http.Protocols)
			r.http.Config.Protocols.SetUnencryptedHTTP2(true)
			r.http.Config.ReadHeaderTimeout = 100 * time.Millisecond
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was carried") }, append([]func(*rig, *Options){}, orNone(c.server))...)
			for range 2 {
				q := r.request(t.Context(), "POST", "/", "")
				if c.request != nil {
					c.request(q)
				}
				if resp, err := r.transport.RoundTrip(q); err != nil || resp.StatusCode != http.StatusTeapot {
					t.Errorf("%v, %v", resp, err)
				}
			}
			if n := len(r.ends); n > 1 {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

func orNone(f func(*rig, *Options)) func(*rig, *Options) {
	if f == nil {
		return func(*rig, *Options) {}
	}
	return f
}

func refuse(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "you are none of us", http.StatusUnauthorized)
}

func setBody(q *http.Request, body string) {
	q.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	q.Body, _ = q.GetBody()
	q.ContentLength = int64(len(body))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }, func(r *rig, _ *Options) {
		r.http.TLS = &tls.Config{}
	})
	roots := x509.NewCertPool()
	roots.AddCert(r.http.Certificate())
	r.transport.opts.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	if got := text(t, r.do("GET", "/", "")); got != "secret" {
		t.Errorf("got %q", got)
	}
}

// The request for the upgrade is signed, and bad ones are told what is missing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(http.ResponseWriter, *http.Request) {})
	upgrade := r.http.Config.Handler
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Upgrade") == protocol && q.Header.Get("Signature") != "good" {
			t.Error("not signed")
		}
		upgrade.ServeHTTP(w, q)
	})
	r.do("GET", "/", "")
	resp, err := http.Get(r.http.URL + Path)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Upgrade") != protocol {
		t.Errorf("without an upgrade: %v", resp)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}
