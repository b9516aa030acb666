package cloud_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// A whole service is killed in the middle of sign-ups and keys. What was answered holds
// after the next start, no tenant is half made, and the name of a sign-up whose
// email was lost with the service is still available.
func TestUp_KilledDuringSignUpKeepsWhatItAnswered(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	ctx := ctxFor(t, 2*time.Minute)
	var answered []rig.SignedUp
	var unanswered []string
	keys := make(map[string]string) // Secrets of the demo tenant by id.
	u := rig.StartUp(t, data)
	for round := range 3 {
		var mu sync.Mutex // Guards answered, unanswered, keys.
		var working sync.WaitGroup
		for worker := range 3 {
			working.Go(func() {
				for n := 0; ; n++ {
					name := fmt.Sprintf("r%d-w%d-%d", round, worker, n)
					done, err := u.SignUp(ctx, name+"@example.com", name)
					mu.Lock()
					if err != nil {
						unanswered = append(unanswered, name)
						mu.Unlock()
						return
					}
					answered = append(answered, done)
					mu.Unlock()
				}
			})
		}
		working.Go(func() {
			for {
				var made keyAnswer
				if u.API.Call(ctx, "ApiKeyService/CreateApiKey", jobsKey(), &made) != nil {
					return
				}
				mu.Lock()
				keys[made.APIKey.ID] = made.Secret
				mu.Unlock()
			}
		})
		eventually.NoError(t, patience, "some sign-ups", func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(answered) < 3*(round+1) {
				return notZero(fmt.Sprint(len(answered)))
			}
			return nil
		})
		u.Kill()
		working.Wait()
		u = rig.StartUp(t, data)
	}
	for _, done := range answered {
		eventually.NoError(t, patience, "the key of "+done.Tenant, func() error {
			_, err := tryKey(ctx, rig.NewTenant(u.API.URL+"/t/"+done.Tenant, ""), done.APIKey)
			return err
		})
		wantWholeTenant(ctx, t, rig.NewAPI(u.API.URL, done.Token))
	}
	for id, secret := range keys {
		eventually.NoError(t, patience, "key "+id, func() error { _, err := tryKey(ctx, u.Tenant, secret); return err })
	}
	for _, name := range unanswered {
		wantAllOrNothing(ctx, t, u, name)
	}
	t.Logf("%d sign-ups and %d keys were answered, %d sign-ups were not", len(answered), len(keys), len(unanswered))
}

// wantWholeTenant: a sign-up makes one namespace and two keys, confirmed.
func wantWholeTenant(ctx context.Context, t *testing.T, api rig.API) {
	t.Helper()
	eventually.NoError(t, patience, "a whole tenant", func() error {
		var list struct {
			APIKeys    []keyShown `json:"apiKeys"`
			Namespaces []keyShown `json:"namespaces"`
		}
		if err := api.Call(ctx, "ApiKeyService/ListApiKeys", map[string]any{}, &list); err != nil {
			return err
		}
		if err := api.Call(ctx, "NamespaceService/ListNamespaces", map[string]any{}, &list); err != nil {
			return err
		}
		if len(list.APIKeys) != 2 || len(list.Namespaces) != 1 || !list.APIKeys[0].observed() || !list.APIKeys[1].observed() || !list.Namespaces[0].observed() {
			return notZero(fmt.Sprintf("%+v", list))
		}
		return nil
	})
}

// wantAllOrNothing: the name is free, and a sign-up gets it; or it was made before the
// answer was lost, and its owner can sign in.
func wantAllOrNothing(ctx context.Context, t *testing.T, u *rig.Up, name string) {
	base := u.API.URL
	t.Helper()
	api := rig.NewAPI(base, "")
	mails := func(ctx context.Context, address string) (string, error) { return u.LinkToken(ctx, address) }
	done, err := signUpUntil(ctx, mails, name, 0, []string{base})
	if err == nil {
		wantWholeTenant(ctx, t, rig.NewAPI(base, done.Token))
		return
	}
	wantRefusal(t, err, http.StatusConflict)
	if err := api.Call(ctx, "AuthService/StartLogin", map[string]any{"email": name + "@example.com"}, nil); err != nil {
		t.Fatal(err)
	}
	var token string
	eventually.NoError(t, patience, name+" is taken, so its owner can sign in", func() (err error) {
		token, err = u.LinkToken(ctx, name+"@example.com")
		if err == nil && !strings.HasPrefix(token, "corvo_login_") { // A mail of before the kill may still arrive.
			err = notZero("another mail")
		}
		return err
	})
	var in struct {
		Tenants []string `json:"tenants"`
	}
	if err := api.Call(ctx, "AuthService/FinishLogin", map[string]any{"token": token}, &in); err != nil || len(in.Tenants) != 1 || in.Tenants[0] != name {
		t.Errorf("the owner of %s signs in and finds %v, %v", name, in.Tenants, err)
	}
}

// browser is a console that is signed in: a session's cookie, and the tokens it gets for it.
type browser struct {
	base string
	// replica of the control plane that gets its calls; empty: the one behind base.
	replica string
	client  *http.Client
}

func signIn(ctx context.Context, t *testing.T, u *rig.Up) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{base: u.API.URL, client: &http.Client{Jar: jar, Transport: &http.Transport{}}}
	_, token, ok := strings.Cut(u.SignInURL, "#token=")
	if !ok {
		t.Fatalf("no token in %s", u.SignInURL)
	}
	if err := b.call(ctx, "AuthService/FinishLogin", map[string]any{"token": token}, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) call(ctx context.Context, procedure string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(b.replica, b.base)+"/corvo.cloud.v1."+procedure, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", b.base)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return notZero(procedure + ": " + res.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// token is what the console shows at the tenant's URL.
func (b *browser) token(ctx context.Context) (string, error) {
	var minted struct {
		Token string `json:"token"`
	}
	err := b.call(ctx, "AuthService/MintToken", map[string]any{"tenant": "demo", "namespace": "default"}, &minted)
	return minted.Token, err
}

// watch opens the event stream and returns when it has begun.
func (b *browser) watch(ctx context.Context, tenantURL, token string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, tenantURL+"/api/v1/events", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := b.client.Do(req)
	if err == nil && res.StatusCode != http.StatusOK {
		err = notZero("events: " + res.Status)
	}
	return res, err
}

// Open consoles, those that read their events and those that stopped reading, do not
// hold up a Ctrl-C.
func TestUp_CtrlCEndsOpenConsolesInTime(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	b := signIn(ctx, t, u)
	token, err := b.token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	history := rig.NewHistory()
	load := rig.StartLoad(history, rig.LoadOptions{}, u.Tenant)
	var reading sync.WaitGroup
	for i := range 20 {
		res, err := b.watch(ctx, u.Tenant.URL, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() }) // Broken by then.
		if i%2 == 0 {
			continue // It reads nothing, ever.
		}
		began := make(chan struct{})
		reading.Go(func() {
			lines := bufio.NewScanner(res.Body)
			lines.Scan()
			close(began)
			for lines.Scan() {
			}
			_ = lines.Err() // The service has ended, in the middle of a line or not.
		})
		<-began
	}
	// Pages that load while the service ends.
	reading.Go(func() {
		for b.call(ctx, "NamespaceService/ListNamespaces", map[string]any{"tenant": "demo"}, nil) == nil {
		}
	})
	waitAcked(t, history, 300)
	asked := time.Now()
	u.Signal(syscall.SIGINT)
	if code := u.WaitExit(3 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("ended after %s", time.Since(asked).Round(time.Millisecond))
	load.Stop()
	reading.Wait()
}

// Consoles that come and go, with a new token every now and then, and workers that hang
// up in the middle of a fetch: afterwards no goroutine and no connection of theirs is
// left. SIGQUIT has the process tell what it has, and ends it.
func TestUp_ClientsThatHangUpLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("counts open files in /proc")
	}
	ctx := ctxFor(t, 2*time.Minute)
	fresh := goroutines(t, rig.StartUp(t, t.TempDir()))

	u := rig.StartUp(t, t.TempDir())
	before := openFiles(t, u)
	b := signIn(ctx, t, u)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for n := range 125 {
				token, err := b.token(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := b.watch(ctx, u.Tenant.URL, token)
				if err != nil {
					t.Error(err)
					return
				}
				_ = res.Body.Close() // In the middle of it.
				hangUp(ctx, u, time.Duration(n%4)*2*time.Millisecond)
			}
		})
	}
	clients.Wait()
	b.client.CloseIdleConnections()
	eventually.NoError(t, patience, "every connection is closed", func() error {
		if now := openFiles(t, u); now > before+100 { // A thousand clients came; the databases keep some files open.
			return notZero(fmt.Sprintf("%d open files, %d before", now, before))
		}
		return nil
	})
	if after := goroutines(t, u); after > fresh+30 {
		t.Errorf("%d goroutines, %d in a fresh service; see its standard error", after, fresh)
	}
}

// hangUp asks for a job of an empty queue and goes away.
func hangUp(ctx context.Context, u *rig.Up, after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	_, _, _ = u.Fetch(ctx, "empty", "w", 50*time.Second) // It is cut off.
}

func openFiles(t *testing.T, u *rig.Up) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", u.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// goroutines ends a service and counts its goroutines.
func goroutines(t *testing.T, u *rig.Up) int {
	t.Helper()
	u.Signal(syscall.SIGQUIT)
	u.WaitExit(10 * time.Second)
	n := strings.Count(u.Stderr(), "\ngoroutine ")
	if n < 50 {
		t.Fatalf("a service told of %d goroutines:\n%s", n, u.Stderr())
	}
	return n
}

// The key file of `up` is the one that `control` and its commands read: a new first line
// seals from the next start on, and the old one goes when reseal says so.
func TestUp_ChangesItsMasterKey(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "control.key")
	ctx := ctxFor(t, 3*time.Minute)
	u := rig.StartUp(t, data)
	restart := func(keys ...string) {
		u.Signal(syscall.SIGTERM)
		if code := u.WaitExit(30 * time.Second); code != 0 {
			t.Fatalf("exit %d\n%s", code, u.Stderr())
		}
		if err := os.WriteFile(file, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		u = rig.StartUp(t, data)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, second := strings.TrimSpace(string(text)), strings.Repeat("5e", 32)
	restart(second, first)
	database := "sqlite:" + filepath.Join(data, "control.db")
	eventually.NoError(t, patience, "the old key is removable", func() error {
		out, talk, exit := rig.Run(t, time.Minute, "control", "reseal", "--database", database, "--master-key-file", file, "-o", "json")
		if exit != 0 {
			return fmt.Errorf("exit %d\n%s%s", exit, out, talk)
		}
		var report struct {
			OldKeys []struct {
				Removable bool `json:"removable"`
			} `json:"old_keys"`
		}
		err := json.Unmarshal([]byte(out), &report)
		if err == nil && (len(report.OldKeys) != 1 || !report.OldKeys[0].Removable) {
			t.Fatalf("reseal says %s", out)
		}
		return err
	})
	restart(second)
	if _, err := u.SignUp(ctx, "after@example.com", "after"); err != nil {
		t.Fatal(err)
	}
}
