package rig

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ControlOptions of Cell.StartControl.
type ControlOptions struct {
	// Database is a URL.
	Database string
	// Listen is a host:port of Addresses.
	Listen string
	// PublicURL is where browsers find the console.
	PublicURL string
	// SMTP is the mail server's host:port.
	SMTP string
	// Off is how far its wall clock is moved from the start, in a Cell with WallClocks.
	Off time.Duration
	// Args are added to the command line.
	Args []string
}

// CellControl is a slot for a control plane beside a Cell.
type CellControl struct{ Place }

// StartControl starts a control plane over the cell and returns when it serves.
func (c *Cell) StartControl(o ControlOptions) *CellControl {
	c.t.Helper()
	key := filepath.Join(c.t.TempDir(), "control.key")
	writeFile(c.t, key, strings.Repeat("5a", 32)+"\n")
	p := &CellControl{Place{URL: "http://" + o.Listen, t: c.t, name: "control"}}
	p.args = append([]string{"control", "--listen", o.Listen, "--database", o.Database, "--public-url", o.PublicURL,
		"--nodes", strings.Join(c.URLs(), ","), "--master-key-file", key, "--smtp", o.SMTP, "--mail-from", "corvo@corvo.test",
		"--allow-private-issuers", "--trusted-proxies", "127.0.0.1"}, c.flags("control")...)
	p.args = append(p.args, o.Args...)
	if c.wallClocks {
		p.WallClock = newWallClock(c.t)
		p.WallClock.Move(o.Off)
	}
	p.Start()
	p.WaitReady(startLimit)
	return p
}

// Run starts the control plane's command line with more flags; it is another process.
func (p *CellControl) Run(flags ...string) *Process {
	p.t.Helper()
	return Start(p.t, "control-command", append(slices.Clone(p.args), flags...)...)
}

// API speaks JSON to a control API, as curl would.
type API struct {
	URL string
	// Token is a management key; empty for calls that need none.
	Token string
	// From is the address that a proxy in front would tell; empty: none.
	From string

	client *http.Client
}

// NewAPI is a client with connections of its own.
func NewAPI(url, token string) API {
	return API{URL: url, Token: token, client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}}
}

// Call posts in to a procedure, "SignupService/Start", and decodes a 2xx answer into
// out. A refusal is a *Refusal.
func (a API) Call(ctx context.Context, procedure string, in, out any) error {
	header := http.Header{"Content-Type": {"application/json"}}
	if a.Token != "" {
		header.Set("Authorization", "Bearer "+a.Token)
	}
	if a.From != "" {
		header.Set("X-Forwarded-For", a.From)
	}
	_, err := exchange(ctx, a.client, http.MethodPost, a.URL+"/corvo.cloud.v1."+procedure, header, in, out)
	return err
}

// StartMailbox runs `corvo-cloud mailbox`: where it takes emails, and the page that shows them.
func StartMailbox(t testing.TB) (smtp, page string) {
	t.Helper()
	env := filepath.Join(t.TempDir(), "env")
	smtp = Addresses(t, 1)[0]
	p := Start(t, "mailbox", "mailbox", "--smtp", smtp, "--listen", "127.0.0.1:0", "--env-file", env)
	return smtp, ReadEnv(p.WaitFile(env, startLimit))["CORVO_MAILBOX_URL"]
}

// Mail is an email as the development mailbox shows it.
type Mail struct {
	ID      string   `json:"id"`
	To      []string `json:"to"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
}

// Mails lists what is in the mailbox whose page is at an address, newest first.
func Mails(ctx context.Context, mailbox string) ([]Mail, error) {
	var mails []Mail
	_, err := exchange(ctx, http.DefaultClient, http.MethodGet, mailbox+"/messages", nil, nil, &mails)
	return mails, err
}

// LinkToken waits for an email to an address and returns the token of its link.
func LinkToken(ctx context.Context, mailbox, address string) (string, error) {
	for {
		mails, err := Mails(ctx, mailbox)
		for _, m := range mails {
			if len(m.To) == 0 || m.To[0] != address {
				continue
			}
			if _, after, ok := strings.Cut(m.Text, "#token="); ok {
				return strings.Fields(after)[0], nil
			}
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("no mail to %s: %w", address, ctx.Err())
		}
		if err != nil {
			return "", err
		}
		time.Sleep(time.Millisecond) // Bounded by ctx.
	}
}

// SignedUp is the answer to a confirmed sign-up.
type SignedUp struct {
	Tenant      string `json:"tenant"`
	TenantURL   string `json:"tenantUrl"`
	Namespace   string `json:"namespace"`
	NamespaceID string `json:"namespaceId"`
	TenantID    string `json:"tenantId"`
	APIKey      string `json:"apiKey"`
	Token       string `json:"token"`
	Ready       bool   `json:"ready"`
}

// SignUp makes a tenant by the two calls and the email between them.
func (u *Up) SignUp(ctx context.Context, email, tenant string) (SignedUp, error) {
	return SignUp(ctx, u.API.URL, u.MailboxURL, email, tenant)
}

// SignUp makes a tenant at the control plane of an address, whose emails go to the mailbox.
func SignUp(ctx context.Context, url, mailbox, email, tenant string) (SignedUp, error) {
	return SignUpFrom(ctx, "", url, mailbox, email, tenant)
}

// SignUpFrom is SignUp from an address of the client's, as a proxy in front would tell it.
func SignUpFrom(ctx context.Context, from, url, mailbox, email, tenant string) (SignedUp, error) {
	var done SignedUp
	api := NewAPI(url, "")
	api.From = from
	if err := api.Call(ctx, "SignupService/Start", map[string]any{"email": email, "tenant": tenant}, nil); err != nil {
		return done, err
	}
	token, err := LinkToken(ctx, mailbox, email)
	if err != nil {
		return done, err
	}
	return done, api.Call(ctx, "SignupService/Confirm", map[string]any{"token": token}, &done)
}
