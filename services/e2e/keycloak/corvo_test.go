package keycloak_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// corvo is a tenant of the service, whose owner's browser can run test sign-ins.
type corvo struct {
	t     *testing.T
	name  string
	id    string
	base  string
	api   rig.API
	owner *browser
}

// redirectURI is where the tenant's OpenID provider sends people back to.
func (c *corvo) redirectURI() string { return c.base + "/auth/oidc/" + c.id + "/callback" }

func newTenant(t *testing.T, up *rig.Up) *corvo {
	t.Helper()
	name := fmt.Sprintf("t%d", time.Now().UnixNano())
	owner := name + "@example.com"
	done, err := up.SignUp(t.Context(), owner, name)
	check(t, err)
	c := &corvo{t: t, name: name, id: done.TenantID, base: up.API.URL, api: rig.NewAPI(up.API.URL, done.Token), owner: newBrowser(t)}
	check(t, rig.NewAPI(c.base, "").Call(t.Context(), "AuthService/StartLogin", object{"email": owner}, nil))
	var token string
	eventually.NoError(t, 30*time.Second, "the mail with the link", func() (err error) {
		token, err = up.LinkToken(t.Context(), owner)
		if err == nil && !strings.HasPrefix(token, "corvo_login_") {
			err = errors.New("only that of the sign-up")
		}
		return err
	})
	if status, answer := c.owner.call(t.Context(), c.base, "AuthService/FinishLogin", `{"token":"`+token+`"}`); status != http.StatusOK {
		t.Fatalf("the owner signs in: %d %s", status, answer)
	}
	return c
}

type connection struct {
	ID      string `json:"id"`
	Enabled bool   `json:"enabled"`
	Details struct {
		EntityID     string `json:"spEntityId"`
		ACS          string `json:"acsUrl"`
		Metadata     string `json:"spMetadataUrl"`
		Certificates []struct {
			Fingerprint string `json:"fingerprint"`
		} `json:"certificates"`
	} `json:"samlDetails"`
	SAML struct {
		Certificates []string `json:"certificates"`
		SignRequests bool     `json:"signRequests"`
	} `json:"saml"`
}

type test struct {
	Succeeded bool     `json:"succeeded"`
	Problem   string   `json:"problem"`
	Email     string   `json:"email"`
	Groups    []string `json:"groups"`
	Role      string   `json:"role"`
}

// sso calls the SsoService with the management key.
func (c *corvo) sso(procedure string, in object) connection {
	c.t.Helper()
	var out struct {
		Connection connection `json:"connection"`
	}
	check(c.t, c.api.Call(c.t.Context(), "SsoService/"+procedure, in, &out))
	return out.Connection
}

func (c *corvo) enable(id string) {
	c.t.Helper()
	c.sso("UpdateSsoConnection", object{"connectionId": id, "enabled": true, "updateMask": "enabled"})
}

// try runs a test sign-in in the owner's browser, who is Ada at Keycloak.
func (c *corvo) try(id string) (page, test) {
	c.t.Helper()
	var started struct {
		URL string `json:"url"`
	}
	check(c.t, c.api.Call(c.t.Context(), "SsoService/StartTestLogin", object{"connectionId": id}, &started))
	p := c.owner.visit(started.URL)
	raw, err := json.Marshal(c.staged(id))
	check(c.t, err)
	var found test
	check(c.t, json.Unmarshal(raw, &found))
	return p, found
}

// staged is the last test of the staged settings, or of the live ones where there are none.
func (c *corvo) staged(id string) any {
	c.t.Helper()
	var out struct {
		Connections []struct {
			ID       string `json:"id"`
			LastTest any    `json:"lastTest"`
			Staged   *struct {
				LastTest any `json:"lastTest"`
			} `json:"staged"`
		} `json:"connections"`
	}
	check(c.t, c.api.Call(c.t.Context(), "SsoService/ListSsoConnections", object{}, &out))
	for _, got := range out.Connections {
		if got.ID == id && got.Staged != nil {
			return got.Staged.LastTest
		}
		if got.ID == id {
			return got.LastTest
		}
	}
	return nil
}

func (c *corvo) wantTrial(id, role string) {
	c.t.Helper()
	p, found := c.try(id)
	if !found.Succeeded || found.Role != role || found.Email != "ada@example.com" || p.status != http.StatusOK {
		c.t.Fatalf("test sign-in %+v, want the role %s\n%s", found, role, p)
	}
}

// signIn signs Ada in, in a browser of its own.
func (c *corvo) signIn() (*browser, page) {
	c.t.Helper()
	b := newBrowser(c.t)
	return b, b.visit(c.base + "/auth/oidc/start?tenant=" + c.name + "&next=/jobs")
}

// wantIn: signing in ends at the page asked for, as a member with the role.
func (c *corvo) wantIn(role string) *browser {
	c.t.Helper()
	b, p := c.signIn()
	if p.url.Path != "/jobs" { // Whatever is there: the console may not be built.
		c.t.Fatalf("signed in, Ada is at %s", p)
	}
	if status, answer := c.who(b); status != http.StatusOK || !strings.Contains(answer, "ada@example.com") {
		c.t.Fatalf("signed in, Ada is %d %s", status, answer)
	}
	if got := c.roles(); !slices.Equal(got, []string{role}) {
		c.t.Errorf("Ada's roles are %v, want %s", got, role)
	}
	return b
}

// wantOut: signing in ends at a page that says why not.
func (c *corvo) wantOut(status int, why string) page {
	c.t.Helper()
	b, p := c.signIn()
	if p.status != status || !strings.Contains(text(p.body), why) {
		c.t.Errorf("want status %d and %q, not\n%s", status, why, p)
	}
	if status, answer := c.who(b); status != http.StatusUnauthorized {
		c.t.Errorf("refused, Ada is %d %s", status, answer)
	}
	return p
}

func (c *corvo) who(b *browser) (int, string) {
	c.t.Helper()
	return b.call(c.t.Context(), c.base, "AuthService/GetCurrentIdentity", `{}`)
}

// roles are Ada's; nil: no member.
func (c *corvo) roles() []string {
	c.t.Helper()
	var out struct {
		Members []struct {
			Email string   `json:"email"`
			Roles []string `json:"roles"`
		} `json:"members"`
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	check(c.t, c.api.Call(ctx, "MemberService/ListMembers", object{}, &out))
	for _, m := range out.Members {
		if m.Email == "ada@example.com" {
			return m.Roles
		}
	}
	return nil
}
