package mailbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a mailbox until the test ends.
func start(t *testing.T) *Mailbox {
	t.Helper()
	m, err := New(Options{Console: "http://localhost:8080/"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return m
}

func send(t *testing.T, m *Mailbox, to, email string) error {
	t.Helper()
	return smtp.SendMail(m.Addr(), nil, "no-reply@corvo.test", []string{to}, []byte(strings.ReplaceAll(email, "\n", "\r\n")))
}

func mustSend(t *testing.T, m *Mailbox, to, email string) {
	t.Helper()
	if err := send(t, m, to, email); err != nil {
		t.Fatal(err)
	}
}

// get asks the handler from this machine; edit may change the request.
func get(t *testing.T, m *Mailbox, path string, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, strings.Replace(path, "/mail", m.Path(), 1), nil)
	r.RemoteAddr, r.Host = "127.0.0.1:55555", "localhost:8080"
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	return w
}

const twoParts = `From: Corvo <no-reply@corvo.test>
To: ada@example.com
Subject: =?utf-8?q?Best=C3=A4tigen?=
Mime-Version: 1.0
Content-Type: multipart/alternative; boundary=b

--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Open http://localhost:8080/confirm#token=3Dabc_-1. Code: 123=
456
--b
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: base64

PHA+SGk8L3A+PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==
--b--
`

// A reverse proxy on this machine makes everybody a neighbour: what it carried is refused,
// and without the secret in the path there is nothing to be carried.
func TestHandler_NothingThatWasCarriedAndNothingWithoutTheSecret(t *testing.T) {
	t.Parallel()
	m := start(t)
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP"} {
		w := get(t, m, "/mail/messages", func(r *http.Request) { r.Header.Set(name, "127.0.0.1") })
		if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), m.Path()) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	other := start(t)
	for _, path := range []string{"/mail", "/mail/messages", "/", "//mail", other.Path(), m.Path()[:10] + "/mail", strings.ToLower(m.Path())} {
		w := get(t, m, "/", func(r *http.Request) { r.URL.Path = path })
		if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), m.Path()) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestMailbox_TakesALetterApart(t *testing.T) {
	t.Parallel()
	m := start(t)
	mustSend(t, m, "ada@example.com", twoParts)
	var list []Message
	w := get(t, m, "/mail/messages", nil)
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list) != 1 {
		t.Fatalf("%s: %v", w.Body, err)
	}
	got := list[0]
	if got.From != "no-reply@corvo.test" || len(got.To) != 1 || got.To[0] != "ada@example.com" || got.Subject != "Bestätigen" ||
		strings.TrimSpace(got.Text) != "Open http://localhost:8080/confirm#token=abc_-1. Code: 123456" ||
		got.HTML != "<p>Hi</p><script>alert(1)</script>" || time.Since(got.Date) > time.Minute {
		t.Errorf("got %+v", got)
	}
	one := get(t, m, "/mail/messages/"+got.ID, nil)
	var again Message
	if err := json.Unmarshal(one.Body.Bytes(), &again); err != nil || again.Text != got.Text {
		t.Errorf("alone: %s, %v", one.Body, err)
	}
	if w := get(t, m, "/mail/messages/msg_9", nil); w.Code != 404 {
		t.Errorf("unknown: %d", w.Code)
	}
}

func TestMailbox_WithoutLettersTheListIsAList(t *testing.T) {
	t.Parallel()
	m := start(t)
	if got := get(t, m, "/mail/messages", nil).Body.String(); got != "[]" {
		t.Errorf("got %s", got)
	}
	if got := get(t, m, "/mail", nil); got.Code != 200 || !strings.Contains(got.Body.String(), "No emails yet") {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}

func TestPage_LinksWorkAndNothingElseOfALetterDoes(t *testing.T) {
	t.Parallel()
	m := start(t)
	mustSend(t, m, "ada@example.com", "Subject: <script>alert(1)</script>\n\n<img src=x onerror=alert(2)> see http://localhost/a#token=T1, or javascript:alert(3)\n")
	mustSend(t, m, "bob@example.com", twoParts)
	w := get(t, m, "/mail", nil)
	body := w.Body.String()
	for _, want := range []string{
		`<a href="http://localhost/a#token=T1" rel="noreferrer">http://localhost/a#token=T1</a>, or javascript:alert(3)`,
		`<a href="http://localhost:8080/confirm#token=abc_-1" rel="noreferrer">`, "&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;img src=x",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s:\n%s", want, body)
		}
	}
	for _, bad := range []string{"<script>alert", "<img", "<p>Hi</p>", `href="javascript`} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if strings.Index(body, "bob@") > strings.Index(body, "ada@") {
		t.Error("the older email stands first")
	}
	csp := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", w.Header())
	}
	for path, kind := range map[string]string{"/mail/page.js": "text/javascript", "/mail/page.css": "text/css"} {
		if w := get(t, m, path, nil); w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
}

func TestHandler_ForThisMachineUnderALocalNameOnly(t *testing.T) {
	t.Parallel()
	m := start(t)
	for name, c := range map[string]struct {
		remote, host string
		want         int
	}{
		"localhost":           {"127.0.0.1:5", "localhost:8080", 200},
		"below localhost":     {"127.0.0.1:5", "app.localhost", 200},
		"loopback":            {"127.0.0.1:5", "127.0.0.1:8080", 200},
		"IPv6":                {"[::1]:5", "[::1]:8080", 200},
		"another domain":      {"127.0.0.1:5", "app.corvo.test", 403},
		"another machine":     {"192.0.2.7:5", "localhost:8080", 403},
		"a stranger's name":   {"127.0.0.1:5", "evil.example:8080", 403},
		"looks like ours":     {"127.0.0.1:5", "evilcorvo.test", 403},
		"an address of a net": {"127.0.0.1:5", "192.0.2.7", 403},
		"no address":          {"", "localhost", 403},
	} {
		w := get(t, m, "/mail/messages", func(r *http.Request) { r.RemoteAddr, r.Host = c.remote, c.host })
		if w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, m.Path()+"/messages", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestMailbox_KeepsTheLastLetters(t *testing.T) {
	t.Parallel()
	m := start(t)
	for i := range messagesMax + 5 {
		m.keep(&Message{Subject: fmt.Sprint(i)})
	}
	list := m.Messages()
	if len(list) != messagesMax || list[0].Subject != fmt.Sprint(messagesMax+4) || list[messagesMax-1].Subject != "5" {
		t.Errorf("%d emails from %s to %s", len(list), list[0].Subject, list[len(list)-1].Subject)
	}
	for range 40 {
		m.keep(&Message{Text: strings.Repeat("a", messageBytesMax)})
	}
	if m.bytes > bytesMax || len(m.Messages()) == 0 {
		t.Errorf("%d bytes are kept", m.bytes)
	}
	if got := get(t, m, "/mail/messages?limit=1", nil).Body.Len(); got < messageBytesMax || got > messageBytesMax+1000 {
		t.Errorf("limit=1 gave %d bytes", got)
	}
	if got := get(t, m, "/mail/messages?limit=x", nil); got.Code != 400 {
		t.Errorf("limit=x: %d", got.Code)
	}
	if got := get(t, m, "/mail", nil).Body.Len(); got > shownMax*(shownBytesMax+2000) {
		t.Errorf("the page has %d bytes", got)
	}
}

func TestMailbox_TooLargeALetterIsRefused(t *testing.T) {
	t.Parallel()
	m := start(t)
	if err := send(t, m, "ada@example.com", "Subject: x\n\n"+strings.Repeat("0123456789abcde\n", messageBytesMax/16+1)); err == nil {
		t.Error("it was taken")
	}
	if got := m.Messages(); len(got) != 0 {
		t.Errorf("%d emails", len(got))
	}
}

func TestNew_OnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "nonsense"} {
		if m, err := New(Options{Addr: addr}); err == nil {
			_ = m.Close()
			t.Errorf("%s was accepted", addr)
		}
	}
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(m.Addr()); err != nil || host != "127.0.0.1" {
		t.Errorf("by default it listens on %s, %v", m.Addr(), err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestRun_EndsThoughAConnectionIsOpen(t *testing.T) {
	t.Parallel()
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	conn, err := net.Dial("tcp", m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 3)); err != nil { // The greeting.
		t.Fatal(err)
	}
	start := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 3*stopTimeout {
		t.Errorf("ended after %v", took)
	}
}

func TestMailbox_ConnectionsAreBoundedAndGivenBack(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.sessions.Store(sessionsMax)
	if err := send(t, m, "ada@example.com", "Subject: x\n\nx\n"); err == nil {
		t.Error("one too many was taken")
	}
	m.sessions.Store(0)
	mustSend(t, m, "ada@example.com", "Subject: x\n\nx\n")
	eventually.True(t, 5*time.Second, "no connection is counted", func() bool { return m.sessions.Load() == 0 })
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(twoParts))
	f.Add([]byte("Subject: =?x?q?=FF?=\n\n\xff"))
	f.Add([]byte("no email at all"))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=\"\"\n\n--\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		subject, text, html := parse(raw)
		msg := &Message{ID: "m", Subject: subject, Text: text, HTML: html}
		if _, err := json.Marshal(msg); err != nil {
			t.Fatal(err)
		}
		var joined strings.Builder
		for _, p := range pieces(text) {
			joined.WriteString(p.Text + p.Link)
		}
		if joined.String() != text {
			t.Fatalf("the pieces of %q are %q", text, joined.String())
		}
		if err := page.Execute(io.Discard, map[string]any{"Newest": "", "Total": 1, "Emails": []shown{show(msg)}}); err != nil {
			t.Fatal(err)
		}
	})
}
