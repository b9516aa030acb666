package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	// Off is how far its wall clock is moved from the start, in a Cell with Walls.
	Off time.Duration
}

// CellControl is a place for a control plane beside a Cell.
type CellControl struct {
	*Process // The latest.
	URL      string
	Wall     *Wall // Nil unless the Cell has Walls.

	t    testing.TB
	args []string
}

// StartControl starts a control plane over the cell and returns when it serves.
func (c *Cell) StartControl(o ControlOptions) *CellControl {
	c.t.Helper()
	key := filepath.Join(c.t.TempDir(), "control.key")
	writeFile(c.t, key, strings.Repeat("5a", 32)+"\n")
	p := &CellControl{URL: "http://" + o.Listen, t: c.t}
	p.args = append([]string{"control", "--listen", o.Listen, "--database", o.Database, "--public-url", o.PublicURL,
		"--nodes", strings.Join(c.URLs(), ","), "--master-key-file", key, "--smtp", o.SMTP, "--mail-from", "corvo@corvo.test",
		"--allow-private-issuers", "--trusted-proxies", "127.0.0.1"}, c.flags("control")...)
	if c.walls {
		p.Wall = newWall(c.t)
		p.Wall.Move(o.Off)
	}
	p.Start()
	p.WaitReady(startLimit)
	return p
}

// Start starts the control plane's process, also again.
func (p *CellControl) Start() {
	p.t.Helper()
	p.Process = start(p.t, "control", "", p.Wall.env(), p.args...)
}

// Run starts the control plane's command line with more flags; it is another process.
func (p *CellControl) Run(flags ...string) *Process {
	p.t.Helper()
	return Start(p.t, "control-command", append(slices.Clone(p.args), flags...)...)
}

// WaitReady waits for the line that it prints when it serves.
func (p *CellControl) WaitReady(limit time.Duration) {
	p.t.Helper()
	p.waitFor("become ready", limit, func() bool { return strings.Contains(p.Stdout(), "ready: ") })
}

// API speaks JSON to a control API, as curl would.
type API struct {
	URL string
	// Token is a management key; empty for calls that ask for none.
	Token string

	client *http.Client
}

// NewAPI is a client with connections of its own.
func NewAPI(url, token string) API {
	return API{URL: url, Token: token, client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}}
}

// Call posts in to a procedure, "SignupService/Start", and decodes a 2xx answer into
// out. A refusal is a *Refusal.
func (a API) Call(ctx context.Context, procedure string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+"/corvo.cloud.v1."+procedure, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return &Refusal{Status: res.StatusCode, Body: string(body)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(body, out)
}

// Mail is a mail as the development mailbox shows it.
type Mail struct {
	ID      string   `json:"id"`
	To      []string `json:"to"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
}

// Mails lists what is in the mailbox whose page is at an address, newest first.
func Mails(ctx context.Context, mailbox string) ([]Mail, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, mailbox+"/messages", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var mails []Mail
	if err := json.NewDecoder(res.Body).Decode(&mails); err != nil {
		return nil, fmt.Errorf("read the mailbox: %w", err)
	}
	return mails, nil
}

// LinkToken waits for a mail to an address and returns the token of its link.
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

// SignUp makes a tenant by the two calls and the mail between them.
func (u *Up) SignUp(ctx context.Context, email, tenant string) (SignedUp, error) {
	var done SignedUp
	api := NewAPI(u.API.URL, "")
	if err := api.Call(ctx, "SignupService/Start", map[string]any{"email": email, "tenant": tenant}, nil); err != nil {
		return done, err
	}
	token, err := u.LinkToken(ctx, email)
	if err != nil {
		return done, err
	}
	return done, api.Call(ctx, "SignupService/Confirm", map[string]any{"token": token}, &done)
}
