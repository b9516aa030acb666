package cloud_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/pgtest"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// startOne is a cell of one node and a control plane on a database.
func startOne(t *testing.T, database string) *split { return startSmall(t, database, 1) }

func startSmall(t *testing.T, database string, proxies int) *split {
	t.Helper()
	s := &split{mail: startMailbox(t)}
	listen := rig.Addresses(t, 1)[0]
	s.Cell = rig.StartCell(t, rig.CellOptions{Nodes: 1, Proxies: proxies, ProxyArgs: []string{"--control", "http://" + listen}})
	s.control = s.StartControl(rig.ControlOptions{
		Database: database, Listen: listen, PublicURL: s.Proxies[0].URL, SMTP: s.mail.Addr(),
	})
	return s
}

func (s *split) signUpOne(ctx context.Context, t *testing.T, name string) rig.SignedUp {
	t.Helper()
	done, err := signUpUntil(ctx, s.linkToken, name, 0, []string{s.control.URL})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// revive kills a control plane without warning and starts it again.
func (s *split) revive(p *rig.CellControl) {
	p.Kill()
	p.Start()
	p.WaitReady(30 * time.Second)
}

// whole are statements that count incomplete changes: each must return zero.
var whole = map[string]string{
	"tenants with another number of namespaces than one": "SELECT count(*) FROM tenants t WHERE (SELECT count(*) FROM namespaces n WHERE n.tenant_id = t.tenant_id) <> 1",
	"tenants without an owner":                           "SELECT count(*) FROM tenants t WHERE NOT EXISTS (SELECT 1 FROM memberships m WHERE m.tenant_id = t.tenant_id)",
	"tenants with less than two keys":                    "SELECT count(*) FROM tenants t WHERE (SELECT count(*) FROM api_keys k WHERE k.tenant_id = t.tenant_id) < 2",
	"tenants that are not confirmed":                     "SELECT count(*) FROM tenants WHERE observed < generation",
	"namespaces that are not confirmed":                  "SELECT count(*) FROM namespaces WHERE observed < generation",
	"keys that are not confirmed":                        "SELECT count(*) FROM api_keys WHERE observed < generation",
	"keys that were not made exactly once":               "SELECT count(*) FROM api_keys k WHERE (SELECT count(*) FROM audit a WHERE a.tenant_id = k.tenant_id AND a.target_id = k.id AND a.action = 'key.create') <> 1",
	"revocations that were not written down once":        "SELECT count(*) FROM api_keys k WHERE k.revoked_at > 0 AND (SELECT count(*) FROM audit a WHERE a.tenant_id = k.tenant_id AND a.target_id = k.id AND a.action = 'key.revoke') <> 1",
	"rows in the outbox":                                 "SELECT count(*) FROM outbox",
}

func wantWhole(t *testing.T, database string) {
	t.Helper()
	for what, count := range whole {
		eventually.NoError(t, patience, what, func() error { return wantZero(pgtest.Query(t, database, count)) })
	}
}

type notZero string

func (n notZero) Error() string { return string(n) }

func wantZero(text string) error {
	if text != "0" {
		return notZero(text)
	}
	return nil
}

// Two control planes share a database. One after the other is killed in the middle of
// everything; programs repeat their calls at the other one.
func TestControl_TwoOnOneDatabaseAndOneIsKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many processes")
	}
	database := pgtest.Start(t)
	s := startOne(t, database)
	ctx := ctxFor(t, 2*time.Minute)
	second := s.StartControl(rig.ControlOptions{
		Database: database, Listen: rig.Addresses(t, 1)[0], PublicURL: s.Proxies[0].URL, SMTP: s.mail.Addr(),
	})
	urls := []string{s.control.URL, second.URL}
	c := startChurn(ctx, t, false, s.signUpOne(ctx, t, "globex"), urls...)
	stop := make(chan struct{})
	var signing sync.WaitGroup
	made := make([][]rig.SignedUp, 2)
	for i := range made {
		signing.Go(func() {
			made[i] = signUps(ctx, t, s.linkToken, []string{"left", "right"}[i], stop, urls[i], urls[1-i])
		})
	}
	c.more(10)
	s.revive(s.control)
	c.more(10)
	s.revive(second)
	c.more(10)
	close(stop)
	signing.Wait()
	c.audit(ctx, 2)
	for _, done := range append(made[0], made[1]...) {
		eventually.NoError(t, patience, "the key of "+done.Tenant, func() error { _, err := tryKey(ctx, rig.NewTenant(done.TenantURL, ""), done.APIKey); return err })
	}
	wantWhole(t, database)
	t.Logf("%d and %d sign-ups", len(made[0]), len(made[1]))
}

// Two people want the same name at two control planes at once: one gets it, complete, and
// the other is refused.
func TestControl_OneNameAtTwoControlPlanesIsGivenOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many processes")
	}
	database := pgtest.Start(t)
	s := startOne(t, database)
	ctx := ctxFor(t, time.Minute)
	second := s.StartControl(rig.ControlOptions{
		Database: database, Listen: rig.Addresses(t, 1)[0], PublicURL: s.Proxies[0].URL, SMTP: s.mail.Addr(),
	})
	urls := []string{s.control.URL, second.URL}
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		tokens := make([]string, 2)
		for i, who := range []string{"ada", "bob"} {
			address := who + "-" + name + "@example.com"
			if err := rig.NewAPI(urls[i], "").Call(ctx, "SignupService/Start", map[string]any{"email": address, "tenant": "name-" + name}, nil); err != nil {
				t.Fatal(err)
			}
			var err error
			if tokens[i], err = s.linkToken(ctx, address); err != nil {
				t.Fatal(err)
			}
		}
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() {
				errs[i] = rig.NewAPI(urls[i], "").Call(ctx, "SignupService/Confirm", map[string]any{"token": tokens[i]}, nil)
			})
		}
		both.Wait()
		if errs[0] != nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		if errs[0] != nil {
			t.Fatalf("nobody got %s: %v, %v", name, errs[0], errs[1])
		}
		wantRefusal(t, errs[1], http.StatusConflict)
	}
	wantWhole(t, database)
}

// A control plane on SQLite is killed again and again. Every call that was answered
// holds, and a call that was not is repeated.
func TestControl_KilledAtRandomMomentsOnSQLite(t *testing.T) {
	t.Parallel()
	s := startOne(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"))
	ctx := ctxFor(t, 2*time.Minute)
	c := startChurn(ctx, t, false, s.signUpOne(ctx, t, "globex"), s.control.URL)
	stop := make(chan struct{})
	var signing sync.WaitGroup
	var made []rig.SignedUp
	signing.Go(func() { made = signUps(ctx, t, s.linkToken, "acme", stop, s.control.URL) })
	for i := range 6 {
		c.more(3 + i)
		s.revive(s.control)
	}
	c.more(5)
	close(stop)
	signing.Wait()
	c.audit(ctx, 2)
	for _, done := range made {
		eventually.NoError(t, patience, "the key of "+done.Tenant, func() error { _, err := tryKey(ctx, rig.NewTenant(done.TenantURL, ""), done.APIKey); return err })
	}
	t.Logf("%d sign-ups", len(made))
}

// The database server goes away under a running control plane and comes back: the control
// plane reports it, and recovers without help.
func TestControl_OutlivesItsDatabaseServer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many processes")
	}
	server := pgtest.StartOwn(t)
	s := startOne(t, server.URL)
	ctx := ctxFor(t, 2*time.Minute)
	c := startChurn(ctx, t, false, s.signUpOne(ctx, t, "globex"), s.control.URL)
	for range 2 {
		c.more(5)
		server.Stop(t)
		eventually.NoError(t, patience, "not ready", func() error { return wantStatus(s.control.URL+"/readyz", http.StatusServiceUnavailable) })
		if err := wantStatus(s.control.URL+"/healthz", http.StatusOK); err != nil {
			t.Errorf("it is alive: %v", err)
		}
		if err := rig.NewAPI(s.control.URL, "").Call(ctx, "SignupService/CheckName", map[string]any{"tenant": "initech"}, nil); err == nil {
			t.Error("a call was answered without a database")
		} else if strings.Contains(err.Error(), "postgres") || strings.Contains(err.Error(), "socket") {
			t.Errorf("a caller is told of the database's place: %v", err)
		}
		server.Start(t)
		eventually.NoError(t, patience, "ready", func() error { return wantStatus(s.control.URL+"/readyz", http.StatusOK) })
	}
	c.more(5)
	c.audit(ctx, 2)
	wantWhole(t, server.URL)
}

func wantStatus(url string, want int) error {
	client := &http.Client{Timeout: 5 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != want {
		return notZero(res.Status)
	}
	return nil
}

// The cell is down while keys are made: the answers say that they wait, and they work
// when the cell is back.
func TestControl_KeysMadeWhileTheCellIsDownWorkAfterwards(t *testing.T) {
	t.Parallel()
	s := startOne(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"))
	ctx := ctxFor(t, time.Minute)
	done := s.signUpOne(ctx, t, "globex")
	api := rig.NewAPI(s.control.URL, done.Token)
	s.Nodes[0].Kill()
	made := make([]keyAnswer, 4)
	var making sync.WaitGroup
	for i := range made {
		making.Go(func() {
			if err := api.Call(ctx, "ApiKeyService/CreateApiKey", jobsKey(), &made[i]); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	making.Wait()
	for _, m := range made {
		if m.APIKey.observed() {
			t.Errorf("key %s is said to be confirmed while the cell is down", m.APIKey.ID)
		}
	}
	var revoked keyAnswer
	if err := api.Call(ctx, "ApiKeyService/RevokeApiKey", map[string]any{"keyId": made[0].APIKey.ID}, &revoked); err != nil {
		t.Fatal(err)
	}
	s.Nodes[0].Start()
	s.Nodes[0].WaitReady(30 * time.Second)
	tenant := rig.NewTenant(done.TenantURL, "")
	for _, m := range made[1:] {
		eventually.NoError(t, patience, "key "+m.APIKey.ID, func() error { _, err := tryKey(ctx, tenant, m.Secret); return err })
	}
	if status, err := tryKey(ctx, tenant, made[0].Secret); status != http.StatusUnauthorized {
		t.Errorf("a key that was revoked before the cell knew it: %d %v", status, err)
	}
}

func jobsKey() map[string]any {
	return map[string]any{
		"requestId": uuid(), "name": "worker", "kind": "KEY_KIND_JOBS", "namespaces": []string{"default"},
		"roles": []string{"producer", "worker", "viewer"},
	}
}

// A key waits for a proxy that hangs. The proxy is restarted: the key is confirmed, and
// it works.
func TestControl_KeyThatWaitsForAProxyIsConfirmedAfterItsRestart(t *testing.T) {
	t.Parallel()
	s := startOne(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"))
	ctx := ctxFor(t, time.Minute)
	done := s.signUpOne(ctx, t, "globex")
	api := rig.NewAPI(s.control.URL, done.Token)
	s.Proxies[0].Signal(syscall.SIGSTOP)
	var made keyAnswer
	answered := make(chan error, 1)
	go func() { answered <- api.Call(ctx, "ApiKeyService/CreateApiKey", jobsKey(), &made) }()
	select {
	case err := <-answered:
		if err != nil {
			t.Fatal(err)
		}
		if made.APIKey.observed() {
			t.Error("a key was confirmed by a proxy that hangs")
		}
	case <-time.After(500 * time.Millisecond): // It waits.
	}
	s.Proxies[0].Kill()
	s.Proxies[0].Start()
	s.WaitServing(0, 30*time.Second)
	if made.APIKey.ID == "" {
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	if made.APIKey.observed() {
		if _, err := tryKey(ctx, rig.NewTenant(done.TenantURL, ""), made.Secret); err != nil {
			t.Fatalf("a confirmed key: %v", err)
		}
	}
	eventually.NoError(t, patience, "the key works", func() error { _, err := tryKey(ctx, rig.NewTenant(done.TenantURL, ""), made.Secret); return err })
	eventually.NoError(t, patience, "the key is confirmed", func() error {
		var now keyAnswer
		if err := api.Call(ctx, "ApiKeyService/GetApiKey", map[string]any{"keyId": made.APIKey.ID}, &now); err != nil {
			return err
		}
		if !now.APIKey.observed() {
			return notZero("pending")
		}
		return nil
	})
}

// The cell's only node is killed again and again. A key that is confirmed is known to
// the proxy, even right after the node came back and nobody watches it yet.
func TestControl_ConfirmedKeysAreKnownWhileTheNodeRestarts(t *testing.T) {
	t.Parallel()
	s := startOne(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"))
	ctx := ctxFor(t, time.Minute)
	c := startChurn(ctx, t, true, s.signUpOne(ctx, t, "globex"), s.control.URL)
	for range 6 {
		c.more(4)
		s.Nodes[0].Kill()
		time.Sleep(700 * time.Millisecond) // So that the proxy's attempts have become rare.
		s.Nodes[0].Start()
		s.Nodes[0].WaitReady(30 * time.Second)
	}
	c.more(4)
	c.audit(ctx, 2)
}

// One of two proxies is gone. Keys wait for it only until the cell notices, and are then
// confirmed and revoked without it.
func TestControl_DeadProxyHoldsUpNoKey(t *testing.T) {
	t.Parallel()
	s := startSmall(t, "sqlite:"+filepath.Join(t.TempDir(), "control.db"), 2)
	ctx := ctxFor(t, time.Minute)
	done := s.signUpOne(ctx, t, "globex")
	api := rig.NewAPI(s.control.URL, done.Token)
	s.Proxies[1].Kill()
	began := time.Now()
	var made, ended keyAnswer
	if err := api.Call(ctx, "ApiKeyService/CreateApiKey", jobsKey(), &made); err != nil {
		t.Fatal(err)
	}
	if !made.APIKey.observed() {
		t.Errorf("a key waits for a proxy that died %s ago", time.Since(began))
	}
	if status, err := tryKey(ctx, rig.NewTenant(done.TenantURL, ""), made.Secret); status != http.StatusOK {
		t.Errorf("the key: %d %v", status, err)
	}
	if err := api.Call(ctx, "ApiKeyService/RevokeApiKey", map[string]any{"keyId": made.APIKey.ID}, &ended); err != nil {
		t.Fatal(err)
	}
	if !ended.APIKey.observed() {
		t.Error("its end waits")
	}
	// The dead one has the key on its disk, still good.
	s.Proxies[1].Start()
	s.WaitServing(1, 30*time.Second)
	tenant := rig.NewTenant(s.Proxies[1].URL+"/t/globex", "")
	if status, err := tryKey(ctx, tenant, made.Secret); status != http.StatusUnauthorized {
		t.Errorf("the revoked key at the proxy that came back: %d %v", status, err)
	}
}
