package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/oidctest"
	"github.com/corvo-cloud/corvo/control-plane/pgtest"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// goneMax is what we promise; it takes a quarter of a second, one on a busy machine.
const goneMax = time.Minute

// Three directories say, each in its own words, that somebody left. Whatever that person has
// open at this moment ends, and none of it comes back when they do: at two control planes,
// and at two proxies.
func TestDirectory_WhoeverLeavesIsGoneEverywhereWithinAMinute(t *testing.T) {
	t.Parallel()
	ctx := ctxFor(t, 4*time.Minute)
	company := startCompany(ctx, t)
	const patch = `"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"]`
	for _, d := range []struct{ name, method, leave, back string }{
		{"Entra", http.MethodPatch, `{` + patch + `,"Operations":[{"op":"Replace","path":"active","value":"False"}]}`,
			`{` + patch + `,"Operations":[{"op":"Replace","path":"active","value":"True"}]}`},
		{"Okta", http.MethodPatch, `{` + patch + `,"Operations":[{"op":"replace","value":{"active":false}}]}`,
			`{` + patch + `,"Operations":[{"op":"replace","value":{"active":true}}]}`},
		{"deletion", http.MethodDelete, "", ""},
	} {
		t.Run(d.name, func(t *testing.T) {
			email := strings.ToLower(d.name) + "@example.com"
			id := company.create(ctx, t, email)
			p := company.enter(ctx, t, email)
			watched := p.watchAll(ctx, t)
			left := time.Now()
			company.scim(ctx, t, d.method, "/Users/"+id, d.leave, nil)
			watched.report(t, left)
			p.wantJobsAreLeft(ctx, t)
			if _, err := company.signIn(ctx, t, email); err == nil {
				t.Error("a person who left signs in")
			}
			p.wantNothing(ctx, t)
			watched.cancel()

			if d.back == "" {
				company.create(ctx, t, email)
			} else {
				company.scim(ctx, t, d.method, "/Users/"+id, d.back, nil)
			}
			again := company.enter(ctx, t, email)
			p.wantNothing(ctx, t)
			again.watchAll(ctx, t).cancel() // Everything new works.
		})
	}
}

// company is a tenant with single sign-on and a directory, two replicas of the control plane,
// and two proxies.
type company struct {
	*split
	second   *rig.CellControl
	provider *oidctest.Provider
	name     string
	owner    rig.SignedUp
	token    string // Of the directory.
}

func startCompany(ctx context.Context, t *testing.T) *company {
	t.Helper()
	s := &split{mail: startMailbox(t)}
	listen := rig.Addresses(t, 2)
	s.Cell = rig.StartCell(t, rig.CellOptions{Proxies: 2, ProxyArgs: []string{"--control", "http://" + listen[0]}})
	o := rig.ControlOptions{Database: pgtest.Start(t), Listen: listen[0], PublicURL: s.Proxies[0].URL, SMTP: s.mail.Addr()}
	s.control = s.StartControl(o)
	o.Listen = listen[1]
	c := &company{split: s, second: s.StartControl(o), provider: oidctest.Start(t, ""), name: "globex"}
	c.owner = s.signUp(ctx, t, c.name)
	api := rig.NewAPI(s.control.URL, c.owner.Token)
	var made struct {
		Connection struct {
			ID string `json:"id"`
		} `json:"connection"`
	}
	in := map[string]any{"name": "company", "issuer": c.provider.URL, "clientId": oidctest.Client, "clientSecret": "secret", "defaultRole": "developer"}
	if err := api.Call(ctx, "SsoService/CreateSsoConnection", in, &made); err != nil {
		t.Fatal(err)
	}
	// The owner tries it, in a browser, before it is turned on.
	owner := newBrowser(t, c.Proxies[0].URL)
	if err := owner.call(ctx, "AuthService/StartLogin", map[string]any{"email": c.name + "@example.com"}, nil); err != nil {
		t.Fatal(err)
	}
	var link string
	eventually.NoError(t, patience, "the link to sign in", func() (err error) {
		if link, err = s.linkToken(ctx, c.name+"@example.com"); err == nil && !strings.HasPrefix(link, "corvo_login_") {
			err = errors.New("it is that of the sign-up")
		}
		return err
	})
	if err := owner.call(ctx, "AuthService/FinishLogin", map[string]any{"token": link}, nil); err != nil {
		t.Fatal(err)
	}
	c.provider.Become(c.name + "@example.com")
	var trial struct {
		URL string `json:"url"`
	}
	if err := api.Call(ctx, "SsoService/StartTestLogin", map[string]any{"connectionId": made.Connection.ID}, &trial); err != nil {
		t.Fatal(err)
	}
	if status, body := owner.open(ctx, t, trial.URL); status != http.StatusOK {
		t.Fatalf("test sign-in: %d %s", status, body)
	}
	if err := api.Call(ctx, "SsoService/UpdateSsoConnection", map[string]any{"connectionId": made.Connection.ID, "enabled": true, "updateMask": "enabled"}, nil); err != nil {
		t.Fatal(err)
	}
	var secret struct {
		Secret string `json:"secret"`
	}
	if err := api.Call(ctx, "DirectoryService/CreateScimToken", map[string]any{"connectionId": made.Connection.ID}, &secret); err != nil {
		t.Fatal(err)
	}
	c.token = secret.Secret
	return c
}

// scim is a request of the directory, to the second replica.
func (c *company) scim(ctx context.Context, t *testing.T, method, path, in string, out any) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.second.URL+"/scim/v2"+path, strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/scim+json")
	status, body := answerOf(t, req)
	if status >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(body), out); err != nil {
		t.Fatal(err)
	}
}

func (c *company) create(ctx context.Context, t *testing.T, email string) (id string) {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	c.scim(ctx, t, http.MethodPost, "/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"`+email+`","externalId":"`+email+`","active":true,
		"emails":[{"value":"`+email+`","type":"work","primary":true}],"name":{"givenName":"Ada","familyName":"Lovelace"}}`, &made)
	return made.ID
}

func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{base: base, client: &http.Client{Jar: jar, Transport: &http.Transport{}}}
}

// open goes to an address and follows where it leads.
func (b *browser) open(ctx context.Context, t *testing.T, address string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.client.Do(req)
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

// signIn signs a person in by single sign-on, in a new browser.
func (c *company) signIn(ctx context.Context, t *testing.T, email string) (*browser, error) {
	t.Helper()
	c.provider.Become(email)
	b := newBrowser(t, c.Proxies[0].URL)
	_, body := b.open(ctx, t, b.base+"/auth/oidc/start?tenant="+c.name+"&next=/auth/style.css")
	if err := b.call(ctx, "AuthService/GetCurrentIdentity", map[string]any{}, nil); err != nil {
		return nil, fmt.Errorf("%w: %s", err, body)
	}
	return b, nil
}

// person is somebody with every credential that a person can have.
type person struct {
	c          *company
	browser    *browser
	token      string // For jobs, of the browser.
	cli        string // A session of the command line.
	cliToken   string // For jobs, of the command line.
	key        string // Personal.
	queue      string
	credential map[string]func(context.Context) error
}

func (c *company) enter(ctx context.Context, t *testing.T, email string) *person {
	t.Helper()
	b, err := c.signIn(ctx, t, email)
	if err != nil {
		t.Fatalf("%s signs in: %v", email, err)
	}
	p := &person{c: c, browser: b, queue: "of-" + strings.ReplaceAll(email, "@", "-")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", email, err)
		}
	}
	var minted struct {
		Token string `json:"token"`
	}
	mint := map[string]any{"tenant": c.name, "namespace": "default"}
	must(b.call(ctx, "AuthService/MintToken", mint, &minted))
	p.token = minted.Token

	anybody := rig.NewAPI(c.second.URL, "")
	var device struct{ DeviceCode, UserCode, Token string }
	must(anybody.Call(ctx, "AuthService/StartDeviceLogin", map[string]any{"clientName": "corvo on a laptop"}, &device))
	must(b.call(ctx, "AuthService/ApproveDeviceLogin", map[string]any{"userCode": device.UserCode}, nil))
	must(anybody.Call(ctx, "AuthService/PollDeviceLogin", map[string]any{"deviceCode": device.DeviceCode}, &device))
	p.cli = device.Token
	must(rig.NewAPI(c.second.URL, p.cli).Call(ctx, "AuthService/MintToken", mint, &minted))
	p.cliToken = minted.Token

	var key keyAnswer
	must(b.call(ctx, "ApiKeyService/CreateApiKey", map[string]any{
		"tenant": c.name, "requestId": uuid(), "name": "mine", "kind": "KEY_KIND_PERSONAL", "owner": "me",
	}, &key))
	p.key = key.Secret

	elsewhere := *b
	elsewhere.replica = c.second.URL
	p.credential = map[string]func(context.Context) error{
		"console session": func(ctx context.Context) error {
			return b.call(ctx, "TenantService/GetTenant", map[string]any{"tenant": c.name}, nil)
		},
		"console session, other replica": func(ctx context.Context) error {
			return elsewhere.call(ctx, "TenantService/GetTenant", map[string]any{"tenant": c.name}, nil)
		},
		"session of the command line":        p.identity(c.control.URL, p.cli),
		"the same at the other replica":      p.identity(c.second.URL, p.cli),
		"personal key at the control API":    p.identity(c.control.URL, p.key),
		"personal key, other replica":        p.identity(c.second.URL, p.key),
		"personal key at proxy 1":            p.jobs(0, "X-Api-Key", p.key),
		"personal key at proxy 2":            p.jobs(1, "X-Api-Key", p.key),
		"browser token at proxy 1":           p.jobs(0, "Authorization", "Bearer "+p.token),
		"browser token at proxy 2":           p.jobs(1, "Authorization", "Bearer "+p.token),
		"token of the command line, proxy 1": p.jobs(0, "Authorization", "Bearer "+p.cliToken),
		"token of the command line, proxy 2": p.jobs(1, "Authorization", "Bearer "+p.cliToken),
	}
	for name, use := range p.credential {
		eventually.NoError(t, patience, name+" of "+email, func() error { return use(ctx) })
	}
	return p
}

func (p *person) identity(replica, token string) func(context.Context) error {
	api := rig.NewAPI(replica, token)
	return func(ctx context.Context) error {
		return api.Call(ctx, "TenantService/GetTenant", map[string]any{"tenant": p.c.name}, nil)
	}
}

func (p *person) request(ctx context.Context, proxy int, method, path, header, value string, in any) (*http.Response, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.c.Proxies[proxy].URL+"/t/"+p.c.name+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set(header, value)
	req.Header.Set("X-Corvo-Namespace", "default")
	return http.DefaultClient.Do(req)
}

func (p *person) jobs(proxy int, header, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		res, err := p.request(ctx, proxy, http.MethodGet, "/api/v1/queues", header, value, nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return notZero(res.Status)
		}
		return nil
	}
}

// wantNothing: every credential is refused.
func (p *person) wantNothing(ctx context.Context, t *testing.T) {
	t.Helper()
	for name, use := range p.credential {
		if err := use(ctx); err == nil {
			t.Errorf("%s works", name)
		}
	}
}

// wantJobsAreLeft: nothing of the person waits for jobs any more, so others get them.
func (p *person) wantJobsAreLeft(ctx context.Context, t *testing.T) {
	t.Helper()
	others := rig.NewTenant(p.c.Proxies[0].URL+"/t/"+p.c.name, p.c.owner.APIKey)
	for _, queue := range []string{p.queue, p.queue + "-stream"} {
		id, err := others.Enqueue(ctx, queue, map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		if job, ok, err := others.Fetch(ctx, queue, "others", 10*time.Second); err != nil || !ok || job.JobID != id {
			t.Errorf("a job of %s went to nobody else: %v %v %+v", queue, ok, err, job)
		}
	}
}

// watched is everything that a person has open, and when each ended.
type watched struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu    sync.Mutex // Guards the rest.
	ended map[string]time.Time
	how   map[string]string
	want  int
}

// watchAll opens what a person can have open, and uses the rest again and again.
func (p *person) watchAll(ctx context.Context, t *testing.T) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	w := &watched{cancel: cancel, ended: map[string]time.Time{}, how: map[string]string{}}
	watch := func(name string, until func() string) {
		w.want++
		w.all.Go(func() {
			how := until()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended[name], w.how[name] = time.Now(), how
		})
	}
	for name, use := range p.credential {
		watch(name, func() string {
			for ctx.Err() == nil {
				if err := use(ctx); err != nil {
					return err.Error()
				}
				time.Sleep(20 * time.Millisecond) // How exactly it is measured.
			}
			return "the test ended"
		})
	}
	for proxy := range p.c.Proxies {
		for name, credential := range map[string][2]string{
			"browser token":             {"Authorization", "Bearer " + p.token},
			"token of the command line": {"Authorization", "Bearer " + p.cliToken},
			"personal key":              {"X-Api-Key", p.key},
		} {
			res, err := p.request(ctx, proxy, http.MethodGet, "/api/v1/events", credential[0], credential[1], nil)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("event stream by %s: %v %v", name, res, err)
			}
			watch(fmt.Sprintf("event stream by %s, proxy %d", name, proxy+1), func() string {
				defer res.Body.Close()
				raw, err := io.ReadAll(res.Body)
				return fmt.Sprintf("%v %s", err, bytes.TrimSpace(raw[max(0, len(raw)-120):]))
			})
			watch(fmt.Sprintf("waiting fetch by %s, proxy %d", name, proxy+1), func() string {
				res, err := p.request(ctx, proxy, http.MethodPost, "/api/v1/fetch", credential[0], credential[1],
					map[string]any{"queues": []string{p.queue}, "worker_id": name, "wait": "60s", "lease": "60s"})
				if err != nil {
					return err.Error()
				}
				defer res.Body.Close()
				raw, err := io.ReadAll(res.Body)
				if res.StatusCode < http.StatusBadRequest {
					t.Errorf("a waiting fetch by %s is answered with %s %s", name, res.Status, raw)
				}
				return fmt.Sprint(res.Status, " ", string(raw), err)
			})
		}
	}
	client, err := corvo.New(corvo.WithURL(p.c.Proxies[1].URL+"/t/"+p.c.name), corvo.WithAPIKey(p.key), corvo.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan struct{})
	worker := corvo.NewWorker(client, corvo.Queue(p.queue+"-stream", 2))
	corvo.HandleRaw(worker, p.queue+"-stream", func(context.Context, *corvo.Job[json.RawMessage]) (json.RawMessage, error) {
		close(running)
		return json.RawMessage(`{}`), nil
	})
	ran := make(chan error, 1)
	go func() { ran <- worker.Run(ctx) }()
	watch("worker by personal key", func() string {
		err := <-ran
		if !errors.Is(err, corvo.ErrUnauthorized) && ctx.Err() == nil {
			t.Errorf("the worker ended with %v", err)
		}
		return fmt.Sprint(err)
	})
	if _, err := client.EnqueueRaw(ctx, p.queue+"-stream", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-running:
	case <-ctx.Done():
		t.Fatal("the worker got no job")
	}
	return w
}

// report waits for the end of everything, and says how long each took.
func (w *watched) report(t *testing.T, since time.Time) {
	t.Helper()
	done := make(chan struct{})
	go func() { w.all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(goneMax - time.Since(since)):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.ended)) {
		took := w.ended[name].Sub(since)
		if took < -100*time.Millisecond {
			t.Errorf("%s ended before the person left: %s", name, w.how[name])
		}
		t.Logf("%6d ms  %s: %.110s", took.Milliseconds(), name, w.how[name])
	}
	if len(w.ended) != w.want {
		t.Errorf("%d of %d ended within %s", len(w.ended), w.want, goneMax)
	}
}
