package mail

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestAddress_OneFormOrARefusal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ada@example.com":            "ada@example.com",
		"  Ada.Lovelace@Example.COM": "ada.lovelace@example.com",
		"ada+corvo@example.com":      "ada+corvo@example.com",
		"o'hara@sub.example.co":      "o'hara@sub.example.co",
		"demo@localhost":             "demo@localhost",
	} {
		if got, err := Address(text); err != nil || got != want {
			t.Errorf("Address(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "ada", "@example.com", "ada@", "ada@example.com, eve@example.com", "Ada <ada@example.com>", "<ada@example.com>",
		"ada@example.com\r\nBcc: eve@example.com", "ada\x00@example.com", "ada@exam ple.com", "ada@[127.0.0.1]",
		`"a b"@example.com`, `"a@b"@example.com`, "ada@-example.com", "ada@example..com", "ada@example.com.", "ада@example.com", "ada@exаmple.com",
		"ada(comment)@example.com", strings.Repeat("a", 65) + "@example.com", "ada@" + strings.Repeat("a.", 130) + "com",
	} {
		if got, err := Address(text); err == nil {
			t.Errorf("Address(%q) = %q, want a refusal", text, got)
		}
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("ada@example.com")
	f.Add("a\r\nb@example.com")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Address(text)
		if err != nil {
			return
		}
		again, err := Address(a)
		if err != nil || again != a {
			t.Errorf("Address(%q) = %q, which is not its own form: %q, %v", text, a, again, err)
		}
		if strings.ContainsAny(a, "\r\n <>,;\"\x00") || strings.Count(a, "@") != 1 {
			t.Errorf("Address(%q) = %q", text, a)
		}
	})
}

func TestLetter_MarkupOfStrangersIsShownNotDone(t *testing.T) {
	t.Parallel()
	m, err := Invitation("ada@example.com", "acme", "viewer", `<img src=x>"@evil`, "https://c.example/invite#token=a&b", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(m.HTML, "<img") {
		t.Errorf("markup came through:\n%s", m.HTML)
	}
	if !strings.Contains(m.HTML, `href="https://c.example/invite#token=a&amp;b"`) {
		t.Errorf("the link is not whole:\n%s", m.HTML)
	}
	if !strings.Contains(m.Text, "https://c.example/invite#token=a&b") {
		t.Errorf("the link is not whole:\n%s", m.Text)
	}
	if _, err := Invitation("ada@example.com", "acme\r\nBcc: x@y", "viewer", "", "https://c.example/", time.Hour, time.Now()); err == nil {
		t.Error("a subject with a line break was composed")
	}
}

func TestKeyEnds_SaysHowMuchTimeIsLeft(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		14 * day: "14 days", 14*day - time.Minute: "14 days", 13*day + 20*time.Hour: "13 days", 2 * day: "2 days", day: "24 hours", day - time.Minute: "24 hours",
		time.Hour: "1 hour", 59 * time.Minute: "less than an hour",
	} {
		m, err := KeyEnds("ada@example.com", "acme", "https://c.example/", EndingKey{Name: "ci\r\nBcc: x@y", ID: "key_1", Prefix: "corvo_dp_1", Owner: "ada@example.com", Ends: now.Add(left)}, now)
		if err != nil || m.Subject != "API key ci  Bcc: x@y of acme expires in "+want {
			t.Errorf("%v before: %q, %v", left, m.Subject, err)
		}
	}
}

func TestParseURL_SaysWhatItWants(t *testing.T) {
	t.Parallel()
	o, err := ParseURL("smtp://user:p%40ss@mail.example:2525")
	if err != nil || o.Host != "mail.example" || o.Port != 2525 || o.Username != "user" || o.Password != "p@ss" || o.Security != SecurityDefault {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := ParseURL("smtps://mail.example"); err != nil || o.Security != SecurityTLS || o.Port != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{"", "mail.example:25", "http://mail.example", "smtp://", "smtp://mail.example/x", "smtp://mail.example?a=b", "smtp://mail.example:99999", "smtp://u:secret@%zz"} {
		_, err := ParseURL(bad)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL(%q): %v", bad, err)
		}
	}
}

func TestSender_LetterArrivesAsTextAndHTML(t *testing.T) {
	t.Parallel()
	b := newBundle(t, nil, false)
	row := b.row(t, "ada@example.com", time.Hour)
	if err := b.sender.Deliver(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	got := b.server.only(t)
	if got.from != "no-reply@corvo.example" || len(got.to) != 1 || got.to[0] != "ada@example.com" {
		t.Errorf("envelope from %q to %q", got.from, got.to)
	}
	msg, err := mail.ReadMessage(bytes.NewReader(got.data))
	if err != nil {
		t.Fatal(err)
	}
	if id := msg.Header.Get("Message-ID"); id != "<"+row.ID+"@corvo.example>" {
		t.Errorf("Message-ID %q: a repeated email would look like a second one", id)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject"))
	if err != nil || subject != "Confirm your sign-up for acme: 123456" {
		t.Errorf("subject %q, %v", subject, err)
	}
	parts := parts(t, msg)
	for _, kind := range []string{"text/plain", "text/html"} {
		if !strings.Contains(parts[kind], "https://c.example/signup/confirm#token=abcdefghij") || !strings.Contains(parts[kind], "123456") {
			t.Errorf("%s lacks link or code:\n%s", kind, parts[kind])
		}
	}
	if strings.Contains(row.Payload, "abcdefghij") {
		t.Error("the outbox row shows the link")
	}
}

func TestSender_ExpiredLetterIsDropped(t *testing.T) {
	t.Parallel()
	b := newBundle(t, nil, false)
	if err := b.sender.Deliver(t.Context(), b.row(t, "ada@example.com", -time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := b.server.count(); n != 0 {
		t.Errorf("%d emails arrived", n)
	}
}

func TestSender_OnlyTheServersLastWordIsForGood(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code int
		good bool
	}{{550, true}, {450, false}} {
		b := newBundle(t, nil, false)
		b.server.refuse = &smtp.SMTPError{Code: tc.code, EnhancedCode: smtp.EnhancedCode{tc.code / 100, 1, 1}, Message: "no"}
		err := b.sender.Deliver(t.Context(), b.row(t, "ada@example.com", time.Hour))
		if err == nil || errors.Is(err, ErrRefused) != tc.good {
			t.Errorf("code %d: %v; for good: want %t", tc.code, err, tc.good)
		}
	}
}

func TestSender_HeadersCannotBeInjected(t *testing.T) {
	t.Parallel()
	b := newBundle(t, nil, false)
	for _, m := range []Message{
		{To: "ada@example.com\r\nBcc: eve@example.com", Subject: "x"},
		{To: "ada@example.com, eve@example.com", Subject: "x"},
		{To: "ada@example.com", Subject: "x\r\nBcc: eve@example.com"},
	} {
		if err := b.sender.send(t.Context(), "out_1", m); !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if n := b.server.count(); n != 0 {
		t.Errorf("%d emails arrived", n)
	}
}

func TestSender_NothingLeavesInClear(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(o *Options) { o.Security = SecuritySTARTTLS }, false)
	if err := b.sender.Deliver(t.Context(), b.row(t, "ada@example.com", time.Hour)); err == nil || errors.Is(err, ErrRefused) {
		t.Fatalf("a server without STARTTLS: %v, want an error to try again", err)
	}
	if n := b.server.count(); n != 0 {
		t.Errorf("%d emails arrived", n)
	}
	s, err := NewSender(discard(), b.box, time.Now, Options{From: "no-reply@corvo.example", Host: "mail.example"})
	if err != nil {
		t.Fatal(err)
	}
	if s == nil || isLoopback("localhost.example") || isLoopback("mail.example") || !isLoopback("::1") {
		t.Error("what counts as this machine is wrong")
	}
}

func TestSender_SpeaksTLSAndSignsIn(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(o *Options) {
		o.Security, o.Username, o.Password = SecuritySTARTTLS, "corvo", "secret"
	}, true)
	if err := b.sender.Deliver(t.Context(), b.row(t, "ada@example.com", time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := b.server.only(t); !got.tls || got.user != "corvo" {
		t.Errorf("tls %t, user %q", got.tls, got.user)
	}
}

type bundle struct {
	box    *seal.Box
	sender *Sender
	server *mailServer
}

func newBundle(t *testing.T, change func(*Options), withTLS bool) *bundle {
	t.Helper()
	server := startServer(t, withTLS)
	box, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{From: "Corvo Cloud <no-reply@corvo.example>", Host: "127.0.0.1", Port: server.port, TLS: server.clientTLS}
	if change != nil {
		change(&o)
	}
	sender, err := NewSender(discard(), box, time.Now, o)
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{box: box, sender: sender, server: server}
}

// row is the outbox row of a sign-up's email whose link expires after life.
func (b *bundle) row(t *testing.T, to string, life time.Duration) store.Outbox {
	t.Helper()
	m, err := Signup(to, "acme", "https://c.example/signup/confirm#token=abcdefghij", "123456", 30*time.Minute, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m.ExpiresAt = time.Now().Add(life)
	row, err := seals(b.box, m)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func parts(t *testing.T, msg *mail.Message) map[string]string {
	t.Helper()
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	r := multipart.NewReader(msg.Body, params["boundary"])
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = string(body)
	}
}

// mailServer is somebody else's SMTP server, in process.
type mailServer struct {
	port      int
	clientTLS *tls.Config
	refuse    error // Set before the first email.
	mu        sync.Mutex
	received  []received // Guarded by mu.
}

type received struct {
	from string
	to   []string
	data []byte
	tls  bool
	user string
}

func startServer(t *testing.T, withTLS bool) *mailServer {
	t.Helper()
	m := &mailServer{}
	s := smtp.NewServer(m)
	s.AllowInsecureAuth = false
	if withTLS {
		s.TLSConfig, m.clientTLS = certificates(t)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.port = l.Addr().(*net.TCPAddr).Port
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		// Serve may not have seen the listener yet, in which case Close leaves it open.
		if err := errors.Join(l.Close(), s.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return m
}

func (m *mailServer) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.received)
}

func (m *mailServer) only(t *testing.T) received {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.received) != 1 {
		t.Fatalf("%d emails arrived, want 1", len(m.received))
	}
	return m.received[0]
}

func (m *mailServer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &mailSession{server: m, conn: c}, nil
}

type mailSession struct {
	server  *mailServer
	conn    *smtp.Conn
	current received
	user    string
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "corvo" || password != "secret" {
			return errors.New("wrong password")
		}
		s.user = user
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error { s.current.from = from; return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.server.refuse != nil {
		return s.server.refuse
	}
	s.current.to = append(s.current.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, s.current.tls = s.conn.TLSConnectionState()
	s.current.data, s.current.user = data, s.user
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.received = append(s.server.received, s.current)
	return nil
}

func (s *mailSession) Reset()        { s.current = received{} }
func (s *mailSession) Logout() error { return nil }

func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		&tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// seals makes the row that Put writes, without a database.
func seals(box *seal.Box, m Message) (store.Outbox, error) {
	row, err := newRow(box, m)
	row.ID = "out_01JD00000000000000000000AA"
	return row, err
}
