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

// A tenant asks for it; its people's reads are entries then, and those of its machines are not.
func TestAudit_PeoplesReadsOfPayloadsAreEnteredWhereTheTenantWantsIt(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, 2*time.Minute)
	b := signIn(ctx, t, u)
	id, err := u.Enqueue(ctx, "letters", map[string]any{"to": "ada"})
	if err != nil {
		t.Fatal(err)
	}
	read := func() {
		t.Helper()
		token, err := b.token(ctx) // A change of the policy ends older ones.
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URL+"/api/v1/jobs/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if status, body := answerOf(t, req); status != http.StatusOK && status != http.StatusUnauthorized {
			t.Fatalf("%d %s", status, body)
		}
		if _, err := u.Job(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	read()
	in := map[string]any{"tenant": "demo", "policy": map[string]any{"auditPayloadReads": true, "auditRetentionSeconds": "31536000"}, "updateMask": "auditPayloadReads,auditRetentionSeconds"}
	if err := b.call(ctx, "PolicyService/UpdateSignInPolicy", in, nil); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, patience, "an entry of the read", func() error {
		read() // The cell learns of the change in a moment.
		got, err := entries(ctx, b.call, "demo", "payload.read")
		want := entry{ActorType: "user", Actor: "demo@corvo.localhost", Action: "payload.read", TargetID: id, Namespace: "default"}
		if err == nil && len(got) == 0 {
			err = fmt.Errorf("none yet")
		}
		if err == nil && (len(got) != 1 || got[0] != want) {
			t.Fatalf("entered: %+v, want %+v once", got, want)
		}
		return err
	})
}
