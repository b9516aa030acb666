package cloud_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// A service for a team, behind a reverse proxy on the same machine: its links begin with
// the public address, its output holds no secret, and no stranger reads its emails,
// although to the service every stranger seems to be on this machine.
func TestUp_BehindAReverseProxyKeepsItsEmailsAndSecretsToItself(t *testing.T) {
	t.Parallel()
	ctx := ctxFor(t, 2*time.Minute)
	const public = "http://jobs.corvo.test"
	listen, env := rig.Addresses(t, 1)[0], filepath.Join(t.TempDir(), "env")
	p := rig.Start(t, "up", "up", "--data", t.TempDir(), "--listen", listen, "--env-file", env,
		"--public-url", public+"/", "--mailbox", "--trusted-proxies", "127.0.0.1")
	vars := rig.ReadEnv(p.WaitFile(env, time.Minute))
	if vars["CORVO_ENDPOINT"] != public || vars["CORVO_URL"] != public+"/t/demo" || !strings.HasPrefix(vars["CORVO_CONSOLE_URL"], public+"/") {
		t.Fatalf("addresses: %v", vars)
	}
	printed := p.Stdout() + p.Stderr()
	for _, name := range []string{"CORVO_API_KEY", "CORVO_TOKEN", "CORVO_CONSOLE_URL", "CORVO_MAILBOX_URL"} {
		if vars[name] == "" || strings.Contains(printed, vars[name]) {
			t.Errorf("%s is printed, or empty:\n%s", name, printed)
		}
	}

	// What the proxy carries for somebody elsewhere.
	carried := func(method, address, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "jobs.corvo.test"
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Forwarded-For", "203.0.113.9")
		return answerOf(t, req)
	}
	if status, body := carried(http.MethodPost, "http://"+listen+"/corvo.cloud.v1.SignupService/Start", `{"email":"ada@example.com","tenant":"acme"}`); status != 200 {
		t.Fatalf("sign-up: %d %s", status, body)
	}
	link, err := rig.LinkToken(ctx, vars["CORVO_MAILBOX_URL"], "ada@example.com")
	if err != nil || link == "" {
		t.Fatalf("the owner of the machine reads no mail: %v", err)
	}
	mails, err := rig.Mails(ctx, vars["CORVO_MAILBOX_URL"])
	if err != nil || !strings.Contains(mails[0].Text, public+"/") {
		t.Errorf("links of the mail: %v %v", mails, err)
	}
	mailbox := vars["CORVO_MAILBOX_URL"]
	origin := mailbox[:strings.Index(mailbox[len("http://"):], "/")+len("http://")]
	for _, address := range []string{
		"http://" + listen + "/mail", "http://" + listen + "/mail/messages", "http://" + listen + strings.TrimPrefix(mailbox, origin) + "/messages",
		mailbox, mailbox + "/messages", origin + "/mail/messages",
	} {
		if status, body := carried(http.MethodGet, address, ""); strings.Contains(body, link) || strings.Contains(body, "ada@example.com") {
			t.Errorf("%s: %d, a stranger reads the mail", address, status)
		}
	}
}

// Others can reach it, so it refuses to start with development settings.
func TestUp_InPublicWantsAMailServer(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--listen", "0.0.0.0:0"}, {"--public-url", "https://jobs.corvo.test"}, {"--public-url", "https://jobs.corvo.test", "--smtp", "localhost:1", "--mailbox"}} {
		p := rig.Start(t, "up", append([]string{"up", "--data", t.TempDir(), "--listen", "127.0.0.1:0"}, args...)...)
		if code := p.WaitExit(time.Minute); code != 2 || !strings.Contains(p.Stderr(), "--smtp") {
			t.Errorf("%v: ended with %d:\n%s", args, code, p.Stderr())
		}
	}
}

func answerOf(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
