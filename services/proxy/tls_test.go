package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

func TestTLS_ServesBothVersionsOfHTTPAndTellsTheScheme(t *testing.T) {
	t.Parallel()
	cert, pool := selfSigned(t)
	r := startRig(t, rigOptions{options: func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}})
	r.base = strings.Replace(r.base, "http://", "https://", 1)
	for _, h2 := range []bool{false, true} {
		var protocols http.Protocols
		protocols.SetHTTP1(!h2)
		protocols.SetHTTP2(h2)
		tr := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "acme." + testDomain, MinVersion: tls.VersionTLS12}}
		t.Cleanup(tr.CloseIdleConnections)
		client := &http.Client{Transport: tr}
		got := r.ask(client, "POST", "/api/v1/enqueue", "body", func(req *http.Request) {
			withKey(r.acme.key)(req)
			req.Host = "acme." + testDomain
		})
		if got.status != 200 || got.seen.Body != "body" || got.seen.Identity.TenantURL != "https://acme."+testDomain {
			t.Errorf("h2 %v: %d %+v", h2, got.status, got.seen)
		}
		if !h2 {
			continue
		}
		signed := roundTripper(func(req *http.Request) (*http.Response, error) {
			withKey(r.acme.key)(req)
			return tr.RoundTrip(req)
		})
		s := corvov1connect.NewWorkerServiceClient(&http.Client{Transport: signed}, r.base, connect.WithGRPC()).StreamLifecycle(t.Context())
		say(t, s, 1)
		_ = s.CloseRequest()
		_ = s.CloseResponse()
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"*." + testDomain}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// What the proxy logs and answers, in good times and bad, never has a secret.
func TestSecrets_AreInNoLogAndNoResponse(t *testing.T) {
	t.Parallel()
	var logged syncBuffer
	r := startRig(t, rigOptions{options: func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}})
	stranger := generate(t)
	var answers bytes.Buffer
	collect := func(a answer) {
		answers.WriteString(a.body)
		_ = a.header.Write(&answers)
	}
	for _, k := range []apikey.Key{r.acme.key, stranger} {
		for _, path := range []string{"/api/v1/queues", "/t/beta/api/v1/queues", "/nowhere", "/api/v1/../x", "/api/v1/" + k.Reveal()} {
			collect(r.ask(r.http1, "GET", path, "", withKey(k)))
		}
		cut := k.Reveal()[:60]
		collect(r.ask(r.http1, "GET", "/api/v1/queues", "", func(req *http.Request) { req.Header.Set("X-API-Key", cut) }))
		_, err := r.worker(k).GetServerInfo(context.Background(), connect.NewRequest(&corvov1.GetServerInfoRequest{}))
		if err != nil {
			answers.WriteString(err.Error())
		}
	}
	// Bytes that are no request at all, with a key inside.
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("X-API-Key: " + r.acme.key.Reveal() + "\r\n\r\n"))
	conn.Close()
	r.up[0].kill()
	collect(r.ask(r.http1, "POST", "/api/v1/enqueue", "{}", withKey(r.acme.key)))
	all := answers.String() + logged.String()
	if len(all) < 1000 {
		t.Fatal("nothing was collected")
	}
	for _, k := range []apikey.Key{r.acme.key, stranger} {
		secret := k.Reveal()[len("corvo_dp_")+12:]
		// The mirror of the test names the path it was asked for.
		if strings.Contains(strings.ReplaceAll(all, `"Path":"/api/v1/`+k.Reveal(), ""), secret[:20]) {
			t.Error("a secret was written")
		}
	}
}

// Where something else ends TLS, clients must not be told an address in clear text: they
// would send their key to it.
func TestAddress_TheSchemeIsWhatATrustedProxySays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		trusted, says, want string
	}{
		"a trusted proxy":          {"127.0.0.1", "https", "https"},
		"a trusted proxy, garbage": {"127.0.0.1", "https://evil", "http"},
		"a trusted proxy, silent":  {"127.0.0.1", "", "http"},
		"somebody else":            {"192.0.2.1", "https", "http"},
		"nobody is trusted":        {"", "https", "http"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, rigOptions{options: func(o *Options) {
				if tc.trusted != "" {
					o.Proxies, _ = clientnet.ParseProxies([]string{tc.trusted})
				}
			}})
			said := func(req *http.Request) {
				req.Host = "jobs.example.com"
				req.Header.Set("X-Forwarded-Proto", tc.says)
				withKey(r.acme.key)(req)
			}
			got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", said)
			if want := tc.want + "://jobs.example.com/t/acme"; got.status != 200 || got.seen.Identity.TenantURL != want {
				t.Errorf("%d, %q, want %q", got.status, got.seen.Identity.TenantURL, want)
			}
		})
	}
}
