package cli

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

// otherService is a profile of a tenant that has the same name elsewhere.
const otherService = `current = "acme"
[profile.acme]
url = "https://acme.elsewhere.example"
tenant = "acme"
namespace = "production"
api_key = "corvo_dp_only_copy"
endpoint = "https://elsewhere.example"
token = "corvo_mg_only_copy"
`

func (h *home) setConfig(t *testing.T, text string) {
	t.Helper()
	dir := filepath.Join(h.dir, ".config", "corvo")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func keepsOtherService(t *testing.T, config string) {
	t.Helper()
	for _, part := range []string{"corvo_dp_only_copy", "corvo_mg_only_copy", "https://elsewhere.example", "[profile.acme-2]", `current = "acme-2"`} {
		if !strings.Contains(config, part) {
			t.Errorf("%q isn't in the profiles:\n%s", part, config)
		}
	}
}

func TestLogin_ATenantOfTheSameNameElsewhereKeepsItsKeys(t *testing.T) {
	t.Parallel()
	h := newHome(t, "acme")
	h.setConfig(t, otherService)
	for range 2 { // The second time finds the profile that the first one made.
		got := h.run(t, "", nil, "login", "--url", h.url)
		if got.exit != ExitOK || !strings.Contains(got.stdout, "profile  acme-2 ") || !strings.Contains(got.stderr, "acme is a tenant of https://elsewhere.example") {
			t.Errorf("%+v", got)
		}
	}
	keepsOtherService(t, h.config(t))
	if strings.Contains(h.config(t), "acme-3") {
		t.Errorf("a third profile:\n%s", h.config(t))
	}
}

type signupStub struct {
	cloudv1connect.UnimplementedSignupServiceHandler
}

func (signupStub) Confirm(context.Context, *connect.Request[cloudv1.ConfirmRequest]) (*connect.Response[cloudv1.ConfirmResponse], error) {
	return connect.NewResponse(&cloudv1.ConfirmResponse{Tenant: "acme", ApiKey: "corvo_dp_new", Token: "corvo_mg_new", TenantUrl: "https://acme.here.example"}), nil
}

func TestSignup_ATenantOfTheSameNameElsewhereKeepsItsKeys(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.setConfig(t, otherService)
	mux := http.NewServeMux()
	mux.Handle(cloudv1connect.NewSignupServiceHandler(signupStub{}))
	got := h.run(t, "", nil, "signup", "--endpoint", answer(t, mux.ServeHTTP), "--signup-id", "sgn_1", "--code", "123456")
	if got.exit != ExitOK || !strings.Contains(got.stderr, "acme is a tenant of https://elsewhere.example") {
		t.Errorf("%+v", got)
	}
	keepsOtherService(t, h.config(t))
	if !strings.Contains(h.config(t), "corvo_dp_new") {
		t.Errorf("the new key isn't in\n%s", h.config(t))
	}
}
