package cloud_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// pod is a machine without a stored key: a service account, a trust, and the file in which a
// cluster gives it its token.
type pod struct {
	issuer         rig.Issuer
	api            rig.API
	tenant         string
	trust, subject string
	file           string
}

func newPod(ctx context.Context, t *testing.T, s *split, of rig.SignedUp) *pod {
	t.Helper()
	p := &pod{issuer: rig.NewIssuer(t), api: rig.NewAPI(s.control.URL, of.Token), tenant: of.Tenant, subject: "system:serviceaccount:prod:web", file: filepath.Join(t.TempDir(), "token")}
	if err := p.api.Call(ctx, "ServiceAccountService/CreateServiceAccount", map[string]any{"tenant": p.tenant, "name": "web", "roles": []string{"operator"}}, nil); err != nil {
		t.Fatal(err)
	}
	var made struct {
		Trust struct {
			ID string `json:"id"`
		} `json:"trust"`
	}
	if err := p.api.Call(ctx, "TrustService/CreateTrust", map[string]any{
		"tenant": p.tenant, "name": "web", "serviceAccount": "web", "provider": "TRUST_PROVIDER_KUBERNETES", "issuer": rig.IssuerURL, "audience": rig.Audience,
		"jwks": p.issuer.Keys(t), "conditions": []any{map[string]any{"claim": "sub", "values": []string{p.subject}}}, "keyLifeSeconds": "300",
	}, &made); err != nil {
		t.Fatal(err)
	}
	p.trust = made.Trust.ID
	p.project(t)
	return p
}

// project puts a new token into the pod's file, in one step as the kubelet does.
func (p *pod) project(t *testing.T) {
	t.Helper()
	next := p.file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(p.issuer.Token(t, p.subject)), 0o600), os.Rename(next, p.file)); err != nil {
		t.Fatal(err)
	}
}

type exchanged struct {
	Key       string `json:"key"`
	KeyID     string `json:"keyId"`
	TenantURL string `json:"tenantUrl"`
}

func (p *pod) exchange(ctx context.Context, t *testing.T) (k exchanged, err error) {
	t.Helper()
	return k, rig.NewAPI(p.api.URL, "").Call(ctx, "TrustService/ExchangeToken", map[string]any{"tenant": p.tenant, "token": p.issuer.Token(t, p.subject)}, &k)
}

// keys are the ids of those that the trust gave and that work.
func (p *pod) keys(ctx context.Context, t *testing.T) (ids []string) {
	t.Helper()
	var list struct {
		APIKeys []struct {
			ID, Kind  string
			RevokedAt string
		}
	}
	if err := p.api.Call(ctx, "ApiKeyService/ListApiKeys", map[string]any{"tenant": p.tenant, "showTemporary": true, "pageSize": 100}, &list); err != nil {
		t.Fatal(err)
	}
	for _, k := range list.APIKeys {
		if k.Kind == "KEY_KIND_TEMPORARY" && k.RevokedAt == "" {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

func (p *pod) revoke(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	if err := p.api.Call(ctx, "ApiKeyService/RevokeApiKey", map[string]any{"tenant": p.tenant, "keyId": id}, nil); err != nil {
		t.Fatal(err)
	}
}

// A key that was given for a token works at every proxy at once, and at none when it, or its
// trust, is taken back. It says then what is wrong.
func TestMachine_KeyForATokenWorksUntilItIsTakenBack(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	ctx := ctxFor(t, 2*time.Minute)
	p := newPod(ctx, t, s, s.signUp(ctx, t, "globex"))
	k, err := p.exchange(ctx, t)
	if err != nil {
		t.Fatal(err)
	}
	p.use(ctx, t, s, k)
	p.revoke(ctx, t, k.KeyID)
	p.wantRefused(ctx, t, s, k)

	if k, err = p.exchange(ctx, t); err != nil {
		t.Fatal(err)
	}
	p.use(ctx, t, s, k)
	if err := p.api.Call(ctx, "TrustService/DeleteTrust", map[string]any{"tenant": p.tenant, "trustId": p.trust}, nil); err != nil {
		t.Fatal(err)
	}
	p.wantRefused(ctx, t, s, k)
	var refused *rig.Refusal
	if _, err := p.exchange(ctx, t); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized || !strings.Contains(refused.Body, "token_exchange.refuse") {
		t.Errorf("a token of a trust that is gone: %v", err)
	}
}

// use takes a job from its beginning to its end through every proxy.
func (p *pod) use(ctx context.Context, t *testing.T, s *split, k exchanged) {
	t.Helper()
	for _, proxy := range s.Proxies {
		if err := lifecycle(ctx, rig.NewTenant(proxy.URL+"/t/"+p.tenant, k.Key)); err != nil {
			t.Errorf("through %s: %v", proxy.URL, err)
		}
	}
}

func (p *pod) wantRefused(ctx context.Context, t *testing.T, s *split, k exchanged) {
	t.Helper()
	for _, proxy := range s.Proxies {
		tenant := rig.NewTenant(proxy.URL+"/t/"+p.tenant, k.Key)
		eventually.NoError(t, time.Second, "the key is refused", func() error {
			var refused *rig.Refusal
			if _, err := tenant.Enqueue(ctx, "q", map[string]any{}); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized || !strings.Contains(refused.Body, "the API key") {
				return fmt.Errorf("through %s: %v", proxy.URL, err)
			}
			return nil
		})
	}
}

// worker is `corvo work --exchange` in a pod. Its command ends when the file exists that the
// job names.
func (p *pod) worker(ctx context.Context, t *testing.T, s *split) (run *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	corvo := newTerminal(t)
	run = corvo.command(ctx, "work", "q", "--exchange", "--endpoint", s.Proxies[0].URL, "--tenant", p.tenant, "--token-file", p.file, "--concurrency", "2", "-o", "json",
		"--", "sh", "-c", `gate=$(sed 's/.*"gate": *"\([^"]*\)".*/\1/'); while [ ! -e "$gate" ]; do sleep 0.05; done`)
	stderr = &bytes.Buffer{}
	run.Stdout, run.Stderr = &bytes.Buffer{}, stderr
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	return run, stderr
}

// A worker whose key is taken back exchanges the token that it has by then, and goes on with
// its job. When there is no key any more it ends, and says why.
func TestMachine_AWorkerGoesOnWithTheNextTokenAndEndsWithItsTrust(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	ctx := ctxFor(t, 2*time.Minute)
	of := s.signUp(ctx, t, "globex")
	p := newPod(ctx, t, s, of)
	producer := rig.NewTenant(s.Proxies[1].URL+"/t/globex", of.APIKey)
	run, stderr := p.worker(ctx, t, s)

	long, gate := p.enqueue(ctx, t, producer)
	await(ctx, t, producer, long, "active")
	first := p.keys(ctx, t)
	if len(first) != 1 {
		t.Fatalf("keys %v", first)
	}
	p.project(t)
	p.revoke(ctx, t, first[0])
	short, open := p.enqueue(ctx, t, producer)
	open()
	await(ctx, t, producer, short, "completed")
	if second := p.keys(ctx, t); len(second) != 1 || second[0] == first[0] {
		t.Errorf("keys %v, then %v", first, second)
	}
	gate()
	if job := await(ctx, t, producer, long, "completed"); job.Attempt != 1 {
		t.Errorf("%d attempts", job.Attempt)
	}

	if err := p.api.Call(ctx, "TrustService/DeleteTrust", map[string]any{"tenant": p.tenant, "trustId": p.trust}, nil); err != nil {
		t.Fatal(err)
	}
	p.project(t)
	_ = run.Wait() // Its exit code says it.
	if code := run.ProcessState.ExitCode(); code != 4 || !strings.Contains(stderr.String(), "the token wasn't accepted") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}

// The same over the end of a key, which takes the five minutes that the shortest one lives.
func TestMachine_AWorkerExchangesBeforeItsKeyEnds(t *testing.T) {
	if os.Getenv("CORVO_TEST_LONG") == "" {
		t.Skip("CORVO_TEST_LONG is not set: the shortest key lives five minutes")
	}
	t.Parallel()
	s := startSplit(t)
	ctx := ctxFor(t, 10*time.Minute)
	of := s.signUp(ctx, t, "globex")
	p := newPod(ctx, t, s, of)
	producer := rig.NewTenant(s.Proxies[1].URL+"/t/globex", of.APIKey)
	_, stderr := p.worker(ctx, t, s)
	long, gate := p.enqueue(ctx, t, producer)
	await(ctx, t, producer, long, "active")
	for began := time.Now(); time.Since(began) < 5*time.Minute+20*time.Second; {
		p.project(t)
		id, open := p.enqueue(ctx, t, producer)
		open()
		if job := await(ctx, t, producer, id, "completed"); job.Attempt != 1 {
			t.Errorf("%d attempts after %s\n%s", job.Attempt, time.Since(began), stderr)
		}
		time.Sleep(time.Second) // The pace of the jobs.
	}
	gate()
	if job := await(ctx, t, producer, long, "completed"); job.Attempt != 1 {
		t.Errorf("%d attempts\n%s", job.Attempt, stderr)
	}
}

// enqueue adds a job that runs until end is called.
func (p *pod) enqueue(ctx context.Context, t *testing.T, producer rig.Tenant) (id string, end func()) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "gate")
	id, err := producer.Enqueue(ctx, "q", map[string]any{"gate": name})
	if err != nil {
		t.Fatal(err)
	}
	return id, func() {
		t.Helper()
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func await(ctx context.Context, t *testing.T, tenant rig.Tenant, id, state string) (job rig.Job) {
	t.Helper()
	eventually.NoError(t, patience, "a job is "+state, func() (err error) {
		if job, err = tenant.Job(ctx, id); err == nil && job.State != state {
			err = fmt.Errorf("it is %s", job.State)
		}
		return err
	})
	return job
}
