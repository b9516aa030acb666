package cloud_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// restored is what --after-restore -o json prints.
type restored struct {
	DryRun bool           `json:"dry_run"`
	Ended  map[string]int `json:"ended"`
	Items  []restoredItem `json:"items"`
}

type restoredItem struct {
	Action, Kind, ID, Name, Why string
}

func (r restored) has(action, kind, id string) bool {
	return slices.ContainsFunc(r.Items, func(i restoredItem) bool { return i.Action == action && i.Kind == kind && i.ID == id })
}

// madeKey is the answer to CreateApiKey and RotateApiKey.
type madeKey struct {
	APIKey struct {
		ID string `json:"id"`
	} `json:"apiKey"`
	Secret string `json:"secret"`
}

// An hour-old copy of the database is put back: what happened since stays as the cell has it.
func TestRestore_AnOlderCopyIsBroughtUpToTheCell(t *testing.T) {
	t.Parallel()
	ctx := ctxFor(t, 3*time.Minute)
	s := &split{mail: startMailbox(t)}
	listen, file := rig.Addresses(t, 1)[0], filepath.Join(t.TempDir(), "control.db")
	s.Cell = rig.StartCell(t, rig.CellOptions{Proxies: 2, ProxyArgs: []string{"--control", "http://" + listen}})
	s.control = s.StartControl(rig.ControlOptions{Database: "sqlite:" + file, Listen: listen, PublicURL: s.Proxies[0].URL, SMTP: s.mail.Addr()})

	globex := s.signUp(ctx, t, "globex")
	api := rig.NewAPI(s.Proxies[1].URL, globex.Token)
	call := func(procedure string, in map[string]any, out any) {
		t.Helper()
		if err := api.Call(ctx, procedure, in, out); err != nil {
			t.Fatalf("%s: %v", procedure, err)
		}
	}
	newKey := func(name string) (k madeKey) {
		t.Helper()
		call("ApiKeyService/CreateApiKey", map[string]any{"name": name, "kind": "KEY_KIND_JOBS", "roles": []string{"viewer"}, "namespaces": []string{"default"}}, &k)
		return k
	}
	revoked, rotated := newKey("revoked"), newKey("rotated")
	call("MemberService/CreateInvitation", map[string]any{"email": "bob@example.com", "roles": []string{"viewer"}}, nil)
	for _, k := range []string{globex.APIKey, revoked.Secret, rotated.Secret} {
		s.wantStatus(ctx, t, "globex", k, http.StatusOK)
	}

	s.stopControl(t)
	older := filepath.Join(t.TempDir(), "copy.db")
	copyDatabase(t, file, older)
	s.control.Start()
	s.control.WaitReady(time.Minute)

	// The hour that the copy does not have.
	call("ApiKeyService/RevokeApiKey", map[string]any{"keyId": revoked.APIKey.ID}, nil)
	var fresh madeKey
	call("ApiKeyService/RotateApiKey", map[string]any{"keyId": rotated.APIKey.ID}, &fresh)
	added := newKey("added")
	var namespace struct {
		Namespace struct {
			ID string `json:"id"`
		} `json:"namespace"`
	}
	call("NamespaceService/CreateNamespace", map[string]any{"name": "later"}, &namespace)
	late := s.signUp(ctx, t, "late")
	s.wantStatus(ctx, t, "globex", revoked.Secret, http.StatusUnauthorized)
	s.wantStatus(ctx, t, "globex", rotated.Secret, http.StatusUnauthorized)
	for _, k := range []string{fresh.Secret, added.Secret} {
		s.wantStatus(ctx, t, "globex", k, http.StatusOK)
	}
	s.wantStatus(ctx, t, "late", late.APIKey, http.StatusOK)

	s.stopControl(t)
	copyDatabase(t, older, file)

	// Started normally, it notices: the incarnation is the same, its generations are older.
	s.control.Start()
	s.control.WaitReady(time.Minute)
	s.waitUnready(ctx, t)
	s.wantStatus(ctx, t, "globex", revoked.Secret, http.StatusUnauthorized)
	s.wantStatus(ctx, t, "globex", added.Secret, http.StatusOK)
	beside := s.afterRestore(t, "--dry-run")
	s.stopControl(t)

	dry, again := s.afterRestore(t, "--dry-run"), s.afterRestore(t, "--dry-run")
	if !dry.DryRun || !reflect.DeepEqual(dry, again) || !reflect.DeepEqual(dry.Items, beside.Items) {
		t.Errorf("a dry run changed what the next one says:\n%+v\n%+v", dry, again)
	}
	done := s.afterRestore(t)
	if !reflect.DeepEqual(done.Items, dry.Items) || !reflect.DeepEqual(done.Ended, dry.Ended) {
		t.Errorf("the dry run said something else:\n%+v\n%+v", dry, done)
	}
	for _, want := range []struct{ action, kind, id string }{
		{"updated", "key", revoked.APIKey.ID}, {"updated", "key", rotated.APIKey.ID}, {"adopted", "key", added.APIKey.ID},
		{"adopted", "namespace", namespace.Namespace.ID}, {"adopted", "tenant", late.TenantID}, {"revoked", "key", keyID(late.APIKey)},
	} {
		if !done.has(want.action, want.kind, want.id) {
			t.Errorf("no %v in %+v", want, done.Items)
		}
	}
	if done.Ended["invitations"] != 1 || done.Ended["token_signing_keys"] == 0 {
		t.Errorf("ended: %v", done.Ended)
	}
	if third := s.afterRestore(t); len(third.Items) != 0 || third.Ended["invitations"] != 0 || third.Ended["sessions"] != 0 {
		t.Errorf("nothing is left to do, and yet %+v", third)
	}

	s.control.Start()
	s.control.WaitReady(time.Minute)
	s.eventuallyStatus(ctx, t, "late", late.APIKey, http.StatusUnauthorized)
	s.wantStatus(ctx, t, "globex", revoked.Secret, http.StatusUnauthorized)
	s.wantStatus(ctx, t, "globex", rotated.Secret, http.StatusUnauthorized)
	for _, k := range []string{globex.APIKey, fresh.Secret, added.Secret} {
		s.wantStatus(ctx, t, "globex", k, http.StatusOK)
	}
	call("ApiKeyService/RevokeApiKey", map[string]any{"keyId": added.APIKey.ID}, nil)
	s.eventuallyStatus(ctx, t, "globex", added.Secret, http.StatusUnauthorized)
	var log struct {
		Events []struct {
			Action   string `json:"action"`
			TargetID string `json:"targetId"`
		} `json:"events"`
	}
	call("AuditService/ListAuditEvents", map[string]any{}, &log)
	for _, want := range []string{"tenant.restore", "key.restore", "namespace.restore"} {
		if !slices.ContainsFunc(log.Events, func(e struct {
			Action   string `json:"action"`
			TargetID string `json:"targetId"`
		}) bool {
			return e.Action == want
		}) {
			t.Errorf("no %s in the audit log: %+v", want, log.Events)
		}
	}
}

// keyID is the public part of a key.
func keyID(secret string) string {
	_, after, _ := strings.Cut(secret, "_")
	return "key_" + after[strings.Index(after, "_")+1:][:12]
}

func (s *split) stopControl(t *testing.T) {
	t.Helper()
	s.control.Signal(syscall.SIGTERM)
	if code := s.control.WaitExit(time.Minute); code != 0 {
		t.Fatalf("the control plane ended with %d: %s", code, s.control.Stderr())
	}
}

func (s *split) afterRestore(t *testing.T, flags ...string) (r restored) {
	t.Helper()
	p := s.control.Run(append([]string{"--after-restore", "-o", "json"}, flags...)...)
	if code := p.WaitExit(time.Minute); code != 0 {
		t.Fatalf("--after-restore %v ended with %d: %s", flags, code, p.Stderr())
	}
	if err := json.Unmarshal([]byte(p.Stdout()), &r); err != nil {
		t.Fatalf("%v: %s", err, p.Stdout())
	}
	return r
}

// waitUnready waits until the control plane says that its database is an older copy.
func (s *split) waitUnready(ctx context.Context, t *testing.T) {
	t.Helper()
	for {
		body := ""
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.control.URL+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			b := make([]byte, 4096)
			n, _ := res.Body.Read(b) // What is there so far is enough.
			body = string(b[:n])
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode == http.StatusServiceUnavailable && strings.Contains(body, "--after-restore") {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("it did not notice: %s", body)
		}
		time.Sleep(10 * time.Millisecond) // Bounded by ctx.
	}
}

// status is what both proxies answer to a key; 0 if they differ.
func (s *split) status(ctx context.Context, t *testing.T, tenant, key string) (code int) {
	t.Helper()
	for i, p := range s.Proxies {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/t/"+tenant+"/api/v1/queues", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if i > 0 && res.StatusCode != code {
			return 0
		}
		code = res.StatusCode
	}
	return code
}

func (s *split) wantStatus(ctx context.Context, t *testing.T, tenant, key string, want int) {
	t.Helper()
	if got := s.status(ctx, t, tenant, key); got != want {
		t.Errorf("key %s of %s: %d, want %d at both proxies", keyID(key), tenant, got, want)
	}
}

func (s *split) eventuallyStatus(ctx context.Context, t *testing.T, tenant, key string, want int) {
	t.Helper()
	eventually.True(t, patience, fmt.Sprintf("key %s of %s is answered %d", keyID(key), tenant, want), func() bool {
		return s.status(ctx, t, tenant, key) == want
	})
}

// copyDatabase copies a SQLite database that no process has open.
func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm"} {
		raw, err := os.ReadFile(from + end)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = os.RemoveAll(to + end)
		case err == nil:
			err = os.WriteFile(to+end, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The same in one process: it says what is wrong where one looks, and has the command that it names.
func TestUp_AnOlderCopyIsBroughtUpToTheCell(t *testing.T) {
	t.Parallel()
	ctx, data := ctxFor(t, 3*time.Minute), t.TempDir()
	file, older := filepath.Join(data, "control.db"), filepath.Join(t.TempDir(), "copy.db")
	run := func() *rig.Up { return rig.StartUp(t, data) }
	stop := func(u *rig.Up) {
		t.Helper()
		u.Signal(syscall.SIGTERM)
		if code := u.WaitExit(time.Minute); code != 0 {
			t.Fatalf("it ended with %d: %s", code, u.Stderr())
		}
	}
	stop(run())
	copyDatabase(t, file, older)
	u := run()
	var added madeKey
	if err := u.API.Call(ctx, "ApiKeyService/CreateApiKey", jobsKey(), &added); err != nil {
		t.Fatal(err)
	}
	stop(u)
	copyDatabase(t, older, file)

	u = run()
	readyz := func() (status int, said string) {
		res, err := http.Get(u.API.URL + "/readyz")
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
	eventually.True(t, time.Minute, "it says that the database is older", func() bool {
		status, said := readyz()
		return status == http.StatusOK && strings.Contains(said, "--after-restore") // Jobs go on.
	})
	stop(u)

	out, errs, code := rig.Run(t, time.Minute, "up", "--data", data, "--listen", "127.0.0.1:0", "--after-restore", "-o", "json")
	if code != 0 {
		t.Fatalf("--after-restore ended with %d: %s", code, errs)
	}
	var done restored
	if err := json.Unmarshal([]byte(out), &done); err != nil || !done.has("adopted", "key", added.APIKey.ID) {
		t.Errorf("%v: %s", err, out)
	}
	u = run()
	if status, said := readyz(); status != http.StatusOK || strings.Contains(said, "reason") {
		t.Errorf("afterwards: %d %s", status, said)
	}
	if _, err := rig.NewTenant(u.URL, added.Secret).Enqueue(ctx, "mail", "hello"); err != nil {
		t.Errorf("the key that only the cell had: %v", err)
	}
}
