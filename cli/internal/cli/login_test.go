package cli

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/zalando/go-keyring"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

// keyringOnce puts the library's keyring in memory in the place of the machine's.
var keyringOnce = sync.OnceFunc(keyring.MockInit)

// consoleStub answers as a control plane whose person decides at once; services/e2e/cloud
// signs in at a real one.
type consoleStub struct {
	cloudv1connect.UnimplementedAuthServiceHandler
	cloudv1connect.UnimplementedNamespaceServiceHandler
	status  cloudv1.DeviceLoginStatus
	tenants []string
	url     string

	mu     sync.Mutex
	minted int      // Guarded by mu.
	shown  []string // Guarded by mu: what callers showed for who they are.
}

const stubToken = "corvo_cli_00000000000000000000000000000000000000000000000000000000000000ff"

func (c *consoleStub) StartDeviceLogin(context.Context, *connect.Request[cloudv1.StartDeviceLoginRequest]) (*connect.Response[cloudv1.StartDeviceLoginResponse], error) {
	return connect.NewResponse(&cloudv1.StartDeviceLoginResponse{
		DeviceCode: "corvo_device_1", UserCode: "WDJB-MJHT", VerificationUri: c.url + "/device", ExpiresAt: timestamppb.New(time.Now().Add(time.Minute)),
	}), nil
}

func (c *consoleStub) PollDeviceLogin(context.Context, *connect.Request[cloudv1.PollDeviceLoginRequest]) (*connect.Response[cloudv1.PollDeviceLoginResponse], error) {
	res := &cloudv1.PollDeviceLoginResponse{Status: c.status}
	if c.status == cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_APPROVED {
		res.Token, res.Email = stubToken, "ada@example.com"
	}
	return connect.NewResponse(res), nil
}

func (c *consoleStub) GetCurrentIdentity(_ context.Context, r *connect.Request[cloudv1.GetCurrentIdentityRequest]) (*connect.Response[cloudv1.GetCurrentIdentityResponse], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = append(c.shown, r.Header().Get("Authorization"))
	res := &cloudv1.GetCurrentIdentityResponse{User: &cloudv1.User{Id: "usr_1", Email: "ada@example.com"}}
	for _, name := range c.tenants {
		res.Tenants = append(res.Tenants, &cloudv1.TenantAccess{Tenant: name, TenantUrl: c.url + "/t/" + name})
	}
	return connect.NewResponse(res), nil
}

func (c *consoleStub) ListNamespaces(context.Context, *connect.Request[cloudv1.ListNamespacesRequest]) (*connect.Response[cloudv1.ListNamespacesResponse], error) {
	return connect.NewResponse(&cloudv1.ListNamespacesResponse{Namespaces: []*cloudv1.Namespace{{Name: "only"}}}), nil
}

func (c *consoleStub) MintToken(_ context.Context, r *connect.Request[cloudv1.MintTokenRequest]) (*connect.Response[cloudv1.MintTokenResponse], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.minted++
	token := strings.Repeat("i", c.minted) + " " + r.Msg.GetTenant() + "/" + r.Msg.GetNamespace()
	return connect.NewResponse(&cloudv1.MintTokenResponse{Token: token, ExpiresAt: timestamppb.New(time.Now().Add(5 * time.Minute))}), nil
}

// home is a person's folder, and the console that they sign in to.
type home struct {
	*consoleStub
	dir  string
	jobs http.HandlerFunc // At tenant URLs.
}

func newHome(t *testing.T, tenants ...string) *home {
	t.Helper()
	keyringOnce()
	h := &home{consoleStub: &consoleStub{status: cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_APPROVED, tenants: tenants}, dir: t.TempDir()}
	mux := http.NewServeMux()
	mux.Handle(cloudv1connect.NewAuthServiceHandler(h.consoleStub))
	mux.Handle(cloudv1connect.NewNamespaceServiceHandler(h.consoleStub))
	mux.HandleFunc("/t/", func(w http.ResponseWriter, r *http.Request) { h.jobs(w, r) })
	h.url = answer(t, mux.ServeHTTP)
	return h
}

func (h *home) run(t *testing.T, stdin string, env map[string]string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	exit := Main(t.Context(), args, Process{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Env: func(name string) string {
		if name == "HOME" {
			return h.dir
		}
		return env[name]
	}})
	return outcome{exit, stdout.String(), stderr.String()}
}

func (h *home) config(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, ".config", "corvo", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLogin_KeepsTheSessionInTheKeyringUnlessAskedNotTo(t *testing.T) {
	t.Parallel()
	h := newHome(t, "acme")
	if got := h.run(t, "", nil, "login", "--url", h.url); got.exit != ExitOK || !strings.Contains(got.stderr, "WDJB-MJHT") || strings.Contains(got.stderr, "Press Enter") {
		t.Fatalf("%+v", got)
	}
	if text := h.config(t); strings.Contains(text, stubToken) || !strings.Contains(text, `namespace = "only"`) {
		t.Errorf("the profile is\n%s", text)
	}
	if got := h.run(t, "", nil, "whoami"); got.exit != ExitOK || h.shown[len(h.shown)-1] != "Bearer "+stubToken {
		t.Errorf("%+v with %q", got, h.shown)
	}
	if got := h.run(t, stubToken+"\n", nil, "login", "--url", h.url, "--with-token", "--insecure-storage"); got.exit != ExitOK || !strings.Contains(got.stdout, "unencrypted") {
		t.Fatalf("%+v", got)
	}
	if text := h.config(t); !strings.Contains(text, stubToken) {
		t.Errorf("the profile is\n%s", text)
	}
}

func TestLogin_DeniedAndExpiredHaveTheirExitCodes(t *testing.T) {
	t.Parallel()
	for status, want := range map[cloudv1.DeviceLoginStatus]int{
		cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_DENIED:  ExitAuth,
		cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_EXPIRED: ExitTimeout,
	} {
		h := newHome(t, "acme")
		h.status = status
		if got := h.run(t, "", nil, "login", "--url", h.url); got.exit != want || !strings.Contains(got.stderr, "corvo login") {
			t.Errorf("%v: %+v", status, got)
		}
	}
	h := newHome(t)
	if got := h.run(t, "", nil, "login", "--url", h.url, "--with-token"); got.exit != ExitUsage {
		t.Errorf("no token: %+v", got)
	}
}

func TestProfile_SwitchesBetweenTenantsOfOneSession(t *testing.T) {
	t.Parallel()
	h := newHome(t, "acme", "beta")
	if got := h.run(t, "", nil, "login", "--url", h.url, "--tenant", "beta"); got.exit != ExitOK || !strings.Contains(got.stdout, "acme|beta") {
		t.Fatalf("%+v", got)
	}
	for _, c := range []struct{ use, current string }{{"acme", "acme"}, {"-", "beta"}, {"-", "acme"}} {
		if got := h.run(t, "", nil, "profile", "use", c.use); got.exit != ExitOK || got.stdout != c.current+"  in use\n" {
			t.Errorf("use %s: %+v", c.use, got)
		}
	}
	if got := h.run(t, "", nil, "profile", "use", "gone"); got.exit != ExitNotFound || !strings.Contains(got.stderr, "acme, beta") {
		t.Errorf("%+v", got)
	}
	if got := h.run(t, "", nil, "profile", "remove", "acme"); got.exit != ExitOK {
		t.Errorf("%+v", got)
	}
	if got := h.run(t, "", nil, "profile", "remove", "beta"); got.exit != ExitConflict || !strings.Contains(got.stderr, "corvo logout") {
		t.Errorf("the last profile of a session: %+v", got)
	}
}

// A token that was cut off is made anew, once; the environment goes before the session.
func TestJobs_UseThePersonsSession(t *testing.T) {
	t.Parallel()
	h := newHome(t, "acme")
	if got := h.run(t, "", nil, "login", "--url", h.url, "--insecure-storage"); got.exit != ExitOK {
		t.Fatalf("%+v", got)
	}
	var shown []string
	h.jobs = func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization")+r.Header.Get("X-API-Key"))
		if len(shown) == 2 {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(`{"job_id":"job_1","status":"pending"}`))
	}
	if got := h.run(t, "", nil, "enqueue", "q", "{}", "{}"); got.exit == ExitOK {
		t.Errorf("one argument too many: %+v", got)
	}
	if got := h.run(t, "", nil, "cancel", "job_1", "job_2"); got.exit != ExitOK {
		t.Errorf("%+v", got)
	}
	if want := "Bearer i acme/only,Bearer i acme/only,Bearer ii acme/only"; strings.Join(shown, ",") != want {
		t.Errorf("shown %q", shown)
	}
	shown = shown[:0]
	if got := h.run(t, "", map[string]string{"CORVO_API_KEY": "corvo_dp_x"}, "cancel", "job_1"); got.exit != ExitOK || shown[0] != "corvo_dp_x" {
		t.Errorf("%+v showed %q", got, shown)
	}
	if got := h.run(t, "", map[string]string{"CORVO_TOKEN": "corvo_mg_x"}, "whoami"); got.exit != ExitOK || h.shown[len(h.shown)-1] != "Bearer corvo_mg_x" {
		t.Errorf("%+v showed %q", got, h.shown)
	}
	if got := h.run(t, "", nil, "work", "q", "--", "true"); got.exit != ExitAuth || !strings.Contains(got.stderr, "CORVO_API_KEY") {
		t.Errorf("%+v", got)
	}
}

func TestWhoami_WithoutASessionExits4AndNamesTheWays(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, line := range []string{"whoami", "logout", "sessions list"} {
		got := h.run(t, "", nil, strings.Fields(line)...)
		if got.exit != ExitAuth || !strings.Contains(got.stderr, "corvo login") || !strings.Contains(got.stderr, "CORVO_TOKEN") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// keyStub answers whoever shows a management key.
type keyStub struct{ *consoleStub }

func (keyStub) GetCurrentIdentity(context.Context, *connect.Request[cloudv1.GetCurrentIdentityRequest]) (*connect.Response[cloudv1.GetCurrentIdentityResponse], error) {
	return connect.NewResponse(&cloudv1.GetCurrentIdentityResponse{Key: &cloudv1.KeyIdentity{Name: "deploy"}, Tenants: []*cloudv1.TenantAccess{{Tenant: "acme"}}}), nil
}

func TestLogin_SaysThatAManagementKeyIsInTheFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	mux := http.NewServeMux()
	mux.Handle(cloudv1connect.NewAuthServiceHandler(keyStub{h.consoleStub}))
	mux.Handle(cloudv1connect.NewNamespaceServiceHandler(h.consoleStub))
	url := answer(t, mux.ServeHTTP)
	got := h.run(t, "corvo_mg_1\n", nil, "login", "--url", url, "--with-token", "-o", "json")
	if got.exit != ExitOK || !strings.Contains(got.stdout, `"storage": "file"`) || !strings.Contains(h.config(t), "corvo_mg_1") {
		t.Errorf("%+v\n%s", got, h.config(t))
	}
	if got := h.run(t, "corvo_mg_1\n", nil, "login", "--url", url, "--with-token"); !strings.Contains(got.stdout, "The key is in this file, unencrypted") {
		t.Errorf("%+v", got)
	}
}
