package mailbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/corvo-cloud/corvo/data-plane/api/connections"
)

const (
	// messagesMax and bytesMax bound what is kept; the oldest goes first.
	messagesMax = 200
	bytesMax    = 64 << 20
	// messageBytesMax of one email as it is sent.
	messageBytesMax = 2 << 20
	recipientsMax   = 50
	sessionsMax     = 64
	ioTimeout       = 30 * time.Second
	stopTimeout     = time.Second
)

// Message is one email.
type Message struct {
	ID string `json:"id"`
	// From and To are those of the envelope: to whom it would have been delivered.
	From    string    `json:"from"`
	To      []string  `json:"to"`
	Subject string    `json:"subject"`
	Date    time.Time `json:"date"` // Of its arrival.
	Text    string    `json:"text"`
	HTML    string    `json:"html"`
}

func (m *Message) size() int {
	n := len(m.From) + len(m.Subject) + len(m.Text) + len(m.HTML)
	for _, to := range m.To {
		n += len(to)
	}
	return n
}

// Options of a Mailbox.
type Options struct {
	// Addr is where mail is taken, a loopback address; a free port by default.
	Addr string
	// Console is where the page links to; empty: nowhere.
	Console string
	Logger  *slog.Logger
	// Now replaces the clock in tests.
	Now func() time.Time
}

// Mailbox keeps the last emails. It is safe for concurrent use.
type Mailbox struct {
	listener net.Listener
	server   *smtp.Server
	secret   string // Part of the page's path.
	console  string
	log      *slog.Logger
	now      func() time.Time
	sessions atomic.Int64

	mu sync.Mutex
	// Guarded by mu.
	messages []*Message // Oldest first; an email never changes.
	bytes    int
	taken    int // Emails ever; makes ids.
}

// New begins to listen. Run serves; without it, nothing is taken.
func New(o Options) (*Mailbox, error) {
	o.Addr = cmp.Or(o.Addr, "127.0.0.1:0")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("mailbox: listen on %s: %w", o.Addr, err)
	}
	if addr, ok := ln.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("mailbox: %s isn't a loopback address: the development mailbox only accepts email from this machine", o.Addr), ln.Close())
	}
	m := &Mailbox{listener: ln, secret: rand.Text(), console: o.Console, log: o.Logger, now: o.Now}
	m.server = smtp.NewServer(smtp.BackendFunc(m.session))
	m.server.Domain = "localhost"
	m.server.MaxMessageBytes = messageBytesMax
	m.server.MaxRecipients = recipientsMax
	m.server.EnableSMTPUTF8 = true
	m.server.ReadTimeout, m.server.WriteTimeout = ioTimeout, ioTimeout
	m.server.ErrorLog = slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	return m, nil
}

// Addr is where mail is taken, host:port.
func (m *Mailbox) Addr() string { return m.listener.Addr().String() }

// Path is where the page is below the address at which Handler is served. It is a secret.
func (m *Mailbox) Path() string { return "/" + m.secret + "/mail" }

// Run takes mail until ctx ends, and then returns nil.
func (m *Mailbox) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- m.server.Serve(connections.Patient(m.listener, m.log)) }() // Ends with Shutdown or Close.
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("mailbox: serve %s: %w", m.Addr(), err), m.Close())
	case <-ctx.Done():
	}
	// Emails under way may be finished; whoever only holds a connection is cut.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_ = m.server.Shutdown(late) // Late: Close cuts what is left.
	err := m.Close()
	<-served
	return err
}

// Close ends everything at once; for a Mailbox whose Run was never called, or as
// well.
func (m *Mailbox) Close() error {
	err := m.server.Close()
	if errors.Is(err, smtp.ErrServerClosed) {
		err = nil
	}
	if lnErr := m.listener.Close(); !errors.Is(lnErr, net.ErrClosed) {
		err = errors.Join(err, lnErr)
	}
	return err
}

// Messages lists the emails, the newest first. They must not be changed.
func (m *Mailbox) Messages() []*Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := append([]*Message{}, m.messages...) // Never nil: it is a list in JSON, too.
	slices.Reverse(out)
	return out
}

func (m *Mailbox) find(id string) *Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, msg := range m.messages {
		if msg.ID == id {
			return msg
		}
	}
	return nil
}

func (m *Mailbox) keep(msg *Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken++
	msg.ID = "msg_" + strconv.Itoa(m.taken)
	m.messages = append(m.messages, msg)
	m.bytes += msg.size()
	for len(m.messages) > messagesMax || m.bytes > bytesMax && len(m.messages) > 1 {
		m.bytes -= m.messages[0].size()
		m.messages = slices.Delete(m.messages, 0, 1)
	}
}

var errTooManySessions = &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "too many connections"}

func (m *Mailbox) session(*smtp.Conn) (smtp.Session, error) {
	if m.sessions.Add(1) > sessionsMax {
		m.sessions.Add(-1)
		return nil, errTooManySessions
	}
	return &session{box: m}, nil
}

// session is one SMTP connection.
type session struct {
	box  *Mailbox
	from string
	to   []string
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.from = from; return nil }

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error { s.to = append(s.to, to); return nil }

// Reset implements smtp.Session.
func (s *session) Reset() { s.from, s.to = "", nil }

// Logout implements smtp.Session.
func (s *session) Logout() error { s.box.sessions.Add(-1); return nil }

// Data implements smtp.Session.
func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r) // Bounded by the server.
	if err != nil {
		return fmt.Errorf("read email: %w", err)
	}
	msg := &Message{From: s.from, To: s.to, Date: s.box.now().UTC()}
	msg.Subject, msg.Text, msg.HTML = parse(raw)
	s.box.keep(msg)
	// Nothing of the email, not even its subject: it may hold what signs somebody in.
	s.box.log.Info("email received", "id", msg.ID)
	return nil
}
