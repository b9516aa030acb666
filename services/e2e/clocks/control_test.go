package clocks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
	"github.com/corvo-cloud/corvo/services/mailbox"
)

// The control plane's clock is hours ahead or behind, from its start and then suddenly the
// other way. New sign-ups get keys that work at once, the console's tokens are valid, and
// /readyz and the log report the clock.
func TestWallClocks_AControlPlaneWhoseClockIsOffLocksNobodyOut(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{hours, -hours} {
		t.Run(by.String(), func(t *testing.T) {
			ctx := ctxFor(t, 3*time.Minute)
			box, err := mailbox.New(mailbox.Options{})
			if err != nil {
				t.Fatal(err)
			}
			mails, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- box.Run(mails) }()
			t.Cleanup(func() {
				stop()
				if err := <-ended; err != nil {
					t.Errorf("mailbox: %v", err)
				}
			})
			listen := rig.Addresses(t, 1)[0]
			c := rig.StartCell(t, rig.CellOptions{WallClocks: []time.Duration{}, ProxyArgs: []string{"--control", "http://" + listen}})
			control := c.StartControl(rig.ControlOptions{
				Database: "sqlite:" + filepath.Join(t.TempDir(), "control.db"), Listen: listen, PublicURL: c.Proxies[0].URL, SMTP: box.Addr(), Off: by,
			})
			works := func(tenant string) {
				t.Helper()
				b, done := signUp(ctx, t, c.Proxies[0].URL, box, tenant)
				for what, header := range map[string][2]string{
					"the new key": {"X-API-Key", done.APIKey}, "a token of the console": {"Authorization", "Bearer " + b.token(ctx, t, tenant)},
				} {
					if got := get(t, c.Proxies[0].URL+"/t/"+tenant+"/api/v1/queues", header); !strings.HasPrefix(got, "200 ") {
						t.Errorf("%s of %s: %s", what, tenant, got)
					}
				}
			}
			works("from-the-start")
			if got := get(t, control.URL+"/readyz"); !strings.HasPrefix(got, "200 ok") || !strings.Contains(got, "wrong clock: the clock is 8h0m0s") ||
				!strings.Contains(got, "oldest_change_seconds 0\n") {
				t.Errorf("readyz: %s", got)
			}
			eventually.True(t, patience, "the log says so", func() bool { return strings.Contains(control.Stderr(), "this machine's clock is wrong") })
			control.WallClock.Move(-by)
			works("jumped")
			control.WallClock.Move(0)
			works("set-right")
			eventually.True(t, patience, "nothing is wrong", func() bool { return !strings.Contains(get(t, control.URL+"/readyz"), "wrong clock") })
			if n := strings.Count(control.Stderr(), "this machine's clock is wrong"); n > 2 {
				t.Errorf("the log says %d times that the clock is wrong", n)
			}
		})
	}
}

func get(t *testing.T, url string, headers ...[2]string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		req.Header.Set(h[0], h[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(res.StatusCode, " ", string(text))
}

// browser is a console.
type browser struct {
	base   string
	client *http.Client
}

// signUp signs up in a browser, which is signed in then.
func signUp(ctx context.Context, t *testing.T, base string, box *mailbox.Mailbox, tenant string) (*browser, rig.SignedUp) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{base: base, client: &http.Client{Jar: jar, Transport: &http.Transport{}}}
	email := tenant + "@example.com"
	b.call(ctx, t, "SignupService/Start", map[string]any{"email": email, "tenant": tenant}, nil)
	var link string
	eventually.True(t, patience, "the mail to "+email, func() bool {
		for _, m := range box.Messages() {
			if _, after, ok := strings.Cut(m.Text, "#token="); ok && strings.Contains(fmt.Sprint(m.To), email) {
				link = strings.Fields(after)[0]
			}
		}
		return link != ""
	})
	var done rig.SignedUp
	b.call(ctx, t, "SignupService/Confirm", map[string]any{"token": link}, &done)
	return b, done
}

func (b *browser) token(ctx context.Context, t *testing.T, tenant string) string {
	t.Helper()
	var minted struct {
		Token string `json:"token"`
	}
	b.call(ctx, t, "AuthService/MintToken", map[string]any{"tenant": tenant, "namespace": "default"}, &minted)
	return minted.Token
}

func (b *browser) call(ctx context.Context, t *testing.T, procedure string, in, out any) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/corvo.cloud.v1."+procedure, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", b.base)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", procedure, res.StatusCode, body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(body, out); err != nil {
		t.Fatal(err)
	}
}
