package keycloak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const (
	// startMax is ample for a Java program that compiles itself on a busy machine.
	startMax = 5 * time.Minute
	admin    = "admin" // Its name and its password.
	password = "correct horse"
)

// server is the one Keycloak of all tests; each has realms of its own.
type server struct {
	once sync.Once
	url  string
	cmd  *exec.Cmd
}

// start gives its address; the first test waits until it answers.
func (s *server) start(t *testing.T) string {
	t.Helper()
	where := os.Getenv(variable)
	if where == "" {
		t.Skipf("needs Keycloak: run make test-keycloak, or set %s to the folder of an unpacked one", variable)
	}
	s.once.Do(func() {
		if strings.HasPrefix(where, "http://") {
			s.url = where
			return
		}
		address := rig.Addresses(t, 1)[0]
		host, port, _ := strings.Cut(address, ":")
		log, err := os.Create(filepath.Join(where, "corvo-test.log"))
		check(t, err)
		s.cmd = exec.Command(filepath.Join(where, "bin", "kc.sh"), "start-dev", "--db=dev-mem", "--cache=local", "--http-host="+host, "--http-port="+port)
		s.cmd.Env = append(os.Environ(), "KC_BOOTSTRAP_ADMIN_USERNAME="+admin, "KC_BOOTSTRAP_ADMIN_PASSWORD="+admin, "JAVA_OPTS_APPEND=-Xmx768m")
		s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = log, log, dieWithParent()
		check(t, s.cmd.Start())
		began := time.Now()
		eventually.NoError(t, startMax, "Keycloak serves (its log is "+log.Name()+")", func() error {
			res, err := http.Get("http://" + address + "/realms/master")
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("status %s", res.Status)
			}
			return nil
		})
		t.Logf("Keycloak started in %s", time.Since(began).Round(time.Second))
		s.url = "http://" + address
	})
	if s.url == "" {
		t.Fatal("Keycloak didn't start")
	}
	return s.url
}

// stop ends it. kc.sh becomes the Java program, so there is one process.
func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill() // It may have ended.
		_ = s.cmd.Wait()
	}
}

// realm is a company at Keycloak. What browsers and Corvo send to it goes through a proxy
// that counts; its administration doesn't.
type realm struct {
	t         *testing.T
	name      string
	direct    string
	public    string
	keysAsked atomic.Int64
}

// newRealm imports a realm: Ada, who is in the groups admins and readers, and the clients.
func newRealm(t *testing.T, clients ...object) *realm {
	t.Helper()
	r := &realm{t: t, direct: keycloak.start(t), name: "r" + fmt.Sprint(time.Now().UnixNano())}
	to, err := url.Parse(r.direct)
	check(t, err)
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Host = p.In.Host // Keycloak names itself by it.
		if strings.HasSuffix(p.In.URL.Path, "/protocol/openid-connect/certs") {
			r.keysAsked.Add(1)
		}
	}})
	t.Cleanup(front.Close)
	r.public = strings.Replace(front.URL, "127.0.0.1", "localhost", 1) // Another site than Corvo's.
	r.call(http.MethodPost, "/admin/realms", object{
		"realm": r.name, "enabled": true,
		"groups": []object{{"name": "admins"}, {"name": "readers"}},
		"users": []object{{
			"username": "ada", "email": "ada@example.com", "emailVerified": true, "firstName": "Ada", "lastName": "Łovelace O'Söhne", "enabled": true,
			"credentials": []object{{"type": "password", "value": password}}, "groups": []string{"admins", "readers"},
		}},
		"clients": clients,
	}, nil)
	t.Cleanup(func() { r.call(http.MethodDelete, r.admin(""), nil, nil) })
	return r
}

type object = map[string]any

func (r *realm) issuer() string { return r.public + "/realms/" + r.name }

func (r *realm) admin(path string) string { return "/admin/realms/" + r.name + path }

// call speaks to the administration. A string goes as it is.
func (r *realm) call(method, path string, in, out any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	defer cancel()
	form := url.Values{"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {admin}, "password": {admin}}
	var session struct {
		Token string `json:"access_token"`
	}
	r.exchange(ctx, http.MethodPost, "/realms/master/protocol/openid-connect/token", "", "application/x-www-form-urlencoded", []byte(form.Encode()), &session)
	kind, body := "application/json", []byte(nil)
	if text, ok := in.(string); ok {
		kind, body = "text/plain", []byte(text)
	} else if in != nil {
		var err error
		body, err = json.Marshal(in)
		check(r.t, err)
	}
	r.exchange(ctx, method, path, session.Token, kind, body, out)
}

func (r *realm) exchange(ctx context.Context, method, path, token, kind string, body []byte, out any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.direct+path, bytes.NewReader(body))
	check(r.t, err)
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	check(r.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	check(r.t, err)
	if res.StatusCode >= http.StatusBadRequest {
		r.t.Fatalf("%s %s: %s: %s", method, path, res.Status, raw)
	}
	if out != nil {
		check(r.t, json.Unmarshal(raw, out))
	}
}

type named struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	ProviderID string `json:"providerId"`
}

// leave takes Ada out of a group.
func (r *realm) leave(group string) {
	r.t.Helper()
	var users, groups []named
	r.call(http.MethodGet, r.admin("/users?username=ada"), nil, &users)
	r.call(http.MethodGet, r.admin("/groups?search="+group), nil, &groups)
	r.call(http.MethodDelete, r.admin("/users/"+users[0].ID+"/groups/"+groups[0].ID), nil, nil)
}

// addKey makes a signing key that is used from now on; those from before stay known.
func (r *realm) addKey() {
	r.t.Helper()
	r.call(http.MethodPost, r.admin("/components"), object{
		"name": "rolled " + fmt.Sprint(time.Now().UnixNano()), "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider",
		"config": object{"priority": []string{fmt.Sprint(time.Now().Unix())}, "enabled": []string{"true"}, "active": []string{"true"}, "algorithm": []string{"RS256"}, "keySize": []string{"2048"}},
	}, nil)
}

// forgetOldKeys removes the signing keys that the realm was made with.
func (r *realm) forgetOldKeys() {
	r.t.Helper()
	var all []named
	r.call(http.MethodGet, r.admin("/components?type=org.keycloak.keys.KeyProvider"), nil, &all)
	for _, k := range all {
		if k.ProviderID == "rsa-generated" && !strings.HasPrefix(k.Name, "rolled") {
			r.call(http.MethodDelete, r.admin("/components/"+k.ID), nil, nil)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
