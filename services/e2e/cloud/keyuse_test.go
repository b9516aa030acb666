package cloud_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// A key that only workers use, at the tenant URL, is no unused key.
func TestReview_AKeyThatAWorkerUsesIsShownAsUsed(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, 2*time.Minute)
	b := signIn(ctx, t, u)
	before := time.Now()
	type principal struct {
		PrincipalID string    `json:"principalId"`
		Type        string    `json:"type"`
		LastUsedAt  time.Time `json:"lastUsedAt"`
	}
	create := func(name string) (id, secret string) {
		var made struct {
			APIKey struct{ ID string }
			Secret string
		}
		in := map[string]any{"tenant": "demo", "name": name, "kind": "KEY_KIND_JOBS", "roles": []string{"worker", "producer"}}
		if err := b.call(ctx, "ApiKeyService/CreateApiKey", in, &made); err != nil {
			t.Fatal(err)
		}
		return made.APIKey.ID, made.Secret
	}
	used, secret := create("worker")
	idle, _ := create("idle")
	worker := u.Tenant
	worker.Key = secret
	if _, err := worker.Call(ctx, http.MethodPost, "/api/v1/fetch", map[string]any{"queues": []string{"emails"}, "worker_id": "w", "timeout": 1}, nil); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, patience, "the key was used", func() error {
		var review struct{ Principals []principal }
		if err := b.call(ctx, "AccessService/ListAccessReview", map[string]any{"tenant": "demo", "pageSize": 100}, &review); err != nil {
			return err
		}
		at := func(id string) time.Time {
			i := slices.IndexFunc(review.Principals, func(p principal) bool { return p.PrincipalID == id })
			if i < 0 {
				t.Fatalf("%s isn't in the review", id)
			}
			return review.Principals[i].LastUsedAt
		}
		if !at(idle).IsZero() {
			t.Fatalf("the other key was used at %s", at(idle))
		}
		if at(used).Before(before.Add(-time.Minute)) {
			return fmt.Errorf("last used at %s", at(used))
		}
		return nil
	})
	var shown struct {
		APIKey struct {
			Versions []struct{ LastUsedAt time.Time }
		}
	}
	if err := b.call(ctx, "ApiKeyService/GetApiKey", map[string]any{"tenant": "demo", "keyId": used}, &shown); err != nil || len(shown.APIKey.Versions) != 1 || shown.APIKey.Versions[0].LastUsedAt.IsZero() {
		t.Errorf("the key's secret: %+v, %v", shown, err)
	}
}
