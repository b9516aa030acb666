package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

func ctxFor(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// lifecycle enqueues, fetches and acks a job, without a second attempt.
func lifecycle(ctx context.Context, tenant rig.Tenant) error {
	id, err := tenant.Enqueue(ctx, "hello", map[string]any{"name": "Ada"})
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	job, ok, err := tenant.Fetch(ctx, "hello", "w", 5*time.Second)
	if err != nil || !ok || job.JobID != id {
		return fmt.Errorf("fetch: got %q of %q, %v", job.JobID, id, err)
	}
	return tenant.Ack(ctx, job)
}

func TestSignup_TwoCallsAndTheKeyWorksAtOnce(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	for i := range 5 { // The first call with each new key must work: no retry hides a race.
		name := fmt.Sprintf("acme-%d", i)
		done, err := u.SignUp(ctx, name+"@example.com", name)
		if err != nil {
			t.Fatal(err)
		}
		if !done.Ready {
			t.Error("the keys are not confirmed by the proxy")
		}
		if err := lifecycle(ctx, rig.NewTenant(done.TenantURL, done.APIKey)); err != nil {
			t.Fatalf("with the new key of %s: %v", name, err)
		}
	}
}

func TestSignup_TenantsOfOneServiceAreApart(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	a, err := u.SignUp(ctx, "ada@example.com", "alpha")
	if err != nil {
		t.Fatal(err)
	}
	b, err := u.SignUp(ctx, "bob@example.com", "beta")
	if err != nil {
		t.Fatal(err)
	}
	status, err := rig.NewTenant(b.TenantURL, a.APIKey).Call(ctx, http.MethodGet, "/api/v1/queues", nil, nil)
	if status != http.StatusForbidden {
		t.Errorf("alpha's key at beta's URL: %d, %v", status, err)
	}
	err = rig.NewAPI(u.API.URL, a.Token).Call(ctx, "NamespaceService/GetNamespace", map[string]any{"tenant": "beta", "namespace": "default"}, nil)
	wantRefusal(t, err, http.StatusNotFound)
}

func wantRefusal(t *testing.T, err error, status int) {
	t.Helper()
	var r *rig.Refusal
	if !errors.As(err, &r) || r.Status != status {
		t.Errorf("got %v, want status %d", err, status)
	}
}

func TestSignup_LinkWorksOnceAndNamesAreUnique(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	api := rig.NewAPI(u.API.URL, "")
	if err := api.Call(ctx, "SignupService/Start", map[string]any{"email": "ada@example.com", "tenant": "alpha"}, nil); err != nil {
		t.Fatal(err)
	}
	token, err := u.LinkToken(ctx, "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Call(ctx, "SignupService/Confirm", map[string]any{"token": token}, nil); err != nil {
		t.Fatal(err)
	}
	if err := api.Call(ctx, "SignupService/Confirm", map[string]any{"token": token}, nil); err == nil {
		t.Error("a link worked twice")
	} else if !strings.Contains(err.Error(), "LINK_USED") || !strings.Contains(err.Error(), "/signin") {
		t.Errorf("a used link does not tell the way out: %v", err)
	}
	for _, name := range []string{"alpha", "www", "A", "-x-", "a--b"} {
		err := api.Call(ctx, "SignupService/Start", map[string]any{"email": "eve@example.com", "tenant": name}, nil)
		if err == nil {
			t.Errorf("the name %q was accepted", name)
		}
	}
}

// A key that was shown works in the next call; one that was revoked is refused at
// every proxy within a second, an open stream included.
func TestKey_UsableWhenShownRefusedWhenRevoked(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	for range 10 {
		var made struct {
			APIKey struct{ ID string } `json:"apiKey"`
			Secret string              `json:"secret"`
		}
		err := u.API.Call(ctx, "ApiKeyService/CreateApiKey", map[string]any{
			"name": "worker", "kind": "KEY_KIND_JOBS", "namespaces": []string{"default"},
			"roles": []string{"producer", "worker"},
		}, &made)
		if err != nil {
			t.Fatal(err)
		}
		tenant := rig.NewTenant(u.Tenant.URL, made.Secret)
		if err := lifecycle(ctx, tenant); err != nil {
			t.Fatalf("the first calls with a new key: %v", err)
		}
		if err := u.API.Call(ctx, "ApiKeyService/RevokeApiKey", map[string]any{"keyId": made.APIKey.ID}, nil); err != nil {
			t.Fatal(err)
		}
		revoked := time.Now()
		for {
			_, err := tenant.Enqueue(ctx, "hello", nil)
			var refused *rig.Refusal
			if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
				break
			}
			if time.Since(revoked) > time.Second {
				t.Fatalf("a revoked key works a second later: %v", err)
			}
		}
	}
}

func BenchmarkSignupToFirstAckedJob(b *testing.B) {
	u := rig.StartUp(b, b.TempDir())
	ctx := ctxFor(b, 10*time.Minute)
	var worst time.Duration
	n := 0
	for b.Loop() {
		n++
		began := time.Now()
		name := fmt.Sprintf("bench-%d", n)
		done, err := u.SignUp(ctx, name+"@example.com", name)
		if err != nil {
			b.Fatal(err)
		}
		if err := lifecycle(ctx, rig.NewTenant(done.TenantURL, done.APIKey)); err != nil {
			b.Fatal(err)
		}
		worst = max(worst, time.Since(began))
	}
	b.ReportMetric(worst.Seconds()*1000, "worst-ms")
}
