package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Security is how the way to the SMTP server is protected.
type Security string

// Ways to protect it.
const (
	// SecurityDefault is STARTTLS, except to this machine itself.
	SecurityDefault Security = ""
	// SecuritySTARTTLS refuses to send if the server does not offer it.
	SecuritySTARTTLS Security = "starttls"
	// SecurityTLS speaks TLS from the first byte (port 465).
	SecurityTLS Security = "tls"
)

// sendTimeout bounds one delivery, so that a server that hangs does not hold the outbox.
const sendTimeout = 30 * time.Second

// ErrRefused says that the SMTP server will never take this email: trying again is
// useless.
var ErrRefused = errors.New("the mail server permanently refused the email")

// ErrLocked says that an email is sealed with a master key that this process was not given.
var ErrLocked = errors.New("the email can't be decrypted")

// Options is where emails go and whom they come from.
type Options struct {
	// From is the sender, for example "Corvo Cloud <no-reply@corvo.example>".
	From string
	Host string
	// Port is 587, or 465 with SecurityTLS, unless given.
	Port     int
	Security Security
	// Username and Password are for servers that ask for them; never sent in clear.
	Username, Password string
	// TLS is for tests with an authority of their own; nil: the system's.
	TLS *tls.Config
}

// ParseURL reads smtp://[user:password@]host[:port] (STARTTLS, except on loopback) or
// smtps://… (TLS from the first byte).
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Options{}, errors.New("mail server: not a URL; use smtp://host:port or smtps://host") // err would repeat the password.
	}
	o := Options{Host: u.Hostname(), Username: u.User.Username()}
	o.Password, _ = u.User.Password() // Whether one was given does not matter.
	switch u.Scheme {
	case "smtp":
	case "smtps":
		o.Security = SecurityTLS
	default:
		return Options{}, fmt.Errorf("mail server: scheme %q; use smtp:// or smtps://", u.Scheme)
	}
	if o.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return Options{}, errors.New("mail server: use smtp://host:port or smtps://host and nothing else")
	}
	if p := u.Port(); p != "" {
		if o.Port, err = strconv.Atoi(p); err != nil || o.Port < 1 || o.Port > 65535 {
			return Options{}, fmt.Errorf("mail server: port %q", p)
		}
	}
	return o, nil
}

// Sender delivers emails. It is safe for concurrent use.
type Sender struct {
	log  *slog.Logger
	box  *seal.Box
	now  func() time.Time
	from *mail.Address
	host string
	opts []gomail.Option
}

// NewSender makes a Sender; nothing is connected yet.
func NewSender(log *slog.Logger, box *seal.Box, now func() time.Time, o Options) (*Sender, error) {
	from, err := mail.ParseAddress(o.From)
	if err != nil || strings.ContainsFunc(from.Name, isControl) {
		return nil, fmt.Errorf("mail sender %q: use \"Name <address>\"", o.From)
	}
	if from.Address, err = Address(from.Address); err != nil {
		return nil, fmt.Errorf("mail sender: %w", err)
	}
	opts, err := o.client()
	if err != nil {
		return nil, err
	}
	if _, err := gomail.NewClient(o.Host, opts...); err != nil {
		return nil, fmt.Errorf("mail server %s: %w", o.Host, err)
	}
	return &Sender{log: log, box: box, now: now, from: from, host: o.Host, opts: opts}, nil
}

func (o Options) client() ([]gomail.Option, error) {
	port := o.Port
	opts := []gomail.Option{gomail.WithTimeout(sendTimeout)}
	switch o.Security {
	case SecurityTLS:
		opts = append(opts, gomail.WithSSL())
		port = cmp.Or(port, 465)
	case SecurityDefault:
		if isLoopback(o.Host) {
			opts = append(opts, gomail.WithTLSPolicy(gomail.NoTLS))
			break
		}
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case SecuritySTARTTLS:
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	default:
		return nil, fmt.Errorf("mail server: security %q; use starttls or tls", o.Security)
	}
	opts = append(opts, gomail.WithPort(cmp.Or(port, 587)))
	if o.TLS != nil {
		opts = append(opts, gomail.WithTLSConfig(o.TLS))
	}
	if o.Username != "" {
		opts = append(opts, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(o.Username), gomail.WithPassword(o.Password))
	}
	return opts, nil
}

// isLoopback goes by the text: a name that DNS resolves to this machine does not count.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// Deliver sends the email of an outbox row. nil: it is done with, sent or pointless by
// now. ErrRefused: never try again. Anything else: try later. A repeated email carries
// the same Message-ID, by which mailboxes recognise it.
func (s *Sender) Deliver(ctx context.Context, row store.Outbox) error {
	m, err := Take(s.box, row)
	if errors.Is(err, seal.ErrUnknownKey) { // It is sent once the master key is given again.
		return fmt.Errorf("%w: %w", ErrLocked, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if !m.ExpiresAt.IsZero() && s.now().After(m.ExpiresAt) {
		s.log.WarnContext(ctx, "email not sent: its link has expired", "outbox", row.ID, "subject", row.Subject, "attempts", row.Attempts)
		return nil
	}
	return s.send(ctx, row.ID, m)
}

func (s *Sender) send(ctx context.Context, id string, m Message) error {
	msg, err := s.message(id, m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	client, err := gomail.NewClient(s.host, s.opts...)
	if err != nil {
		return fmt.Errorf("mail server %s: %w", s.host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err = client.DialAndSendWithContext(ctx, msg)
	if err != nil && !msg.IsDelivered() { // An error after the email was accepted is harmless.
		return fmt.Errorf("send email %s: %w", id, classify(err))
	}
	return nil
}

func (s *Sender) message(id string, m Message) (*gomail.Msg, error) {
	to, err := Address(m.To)
	if err != nil {
		return nil, fmt.Errorf("email %s: recipient: %w", id, err)
	}
	if strings.ContainsFunc(m.Subject, isControl) {
		return nil, fmt.Errorf("email %s: the subject has control characters", id)
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(s.from)
	msg.ToMailAddress(&mail.Address{Address: to})
	msg.Subject(m.Subject)
	msg.SetDateWithValue(s.now())
	msg.SetMessageIDWithValue(id + "@" + s.from.Address[strings.LastIndexByte(s.from.Address, '@')+1:])
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no out-of-office answers.
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	return msg, nil
}

// classify tells what to do about a delivery that failed: only what the server said about
// this very email, with a code of 5xx, is for good. A refused sender or password is our
// own set-up, and somebody will mend it.
func classify(err error) error {
	var refusal *gomail.SendError
	if !errors.As(err, &refusal) || refusal.ErrorCode() < 500 {
		return err
	}
	switch refusal.Reason {
	case gomail.ErrSMTPRcptTo, gomail.ErrSMTPData, gomail.ErrSMTPDataClose:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
