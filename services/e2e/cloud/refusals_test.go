package cloud_test

import (
	"context"
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

// What is refused at a tenant's URL, by nodes and by proxies, each of which tells two nodes, is
// in the tenant's audit log once, also if the control plane starts again and is told all of it
// again. Other tenants see nothing of it.
func TestSplit_RefusalsAtTheTenantURLAreInTheAuditLogOnce(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	ctx := ctxFor(t, 5*time.Minute)
	globex, initech := s.signUp(ctx, t, "globex"), s.signUp(ctx, t, "initech")
	api := func(of rig.SignedUp) rig.API { return rig.NewAPI(s.Proxies[0].URL, of.Token) }
	create := func(name string) (id, secret string) {
		t.Helper()
		var made struct {
			APIKey struct{ ID string }
			Secret string
		}
		in := map[string]any{"tenant": "globex", "name": name, "kind": "KEY_KIND_JOBS", "roles": []string{"worker"}}
		if err := api(globex).Call(ctx, "ApiKeyService/CreateApiKey", in, &made); err != nil {
			t.Fatal(err)
		}
		return made.APIKey.ID, made.Secret
	}
	refused := func(proxy int, key string, status int) {
		t.Helper()
		_, err := rig.NewTenant(s.Proxies[proxy].URL+"/t/globex", key).Enqueue(ctx, "emails", map[string]any{})
		if no := new(rig.Refusal); !errors.As(err, &no) || no.Status != status {
			t.Fatalf("%v, want status %d", err, status)
		}
	}
	_, worker := create("worker")
	revoked, gone := create("gone")
	if err := api(globex).Call(ctx, "ApiKeyService/RevokeApiKey", map[string]any{"tenant": "globex", "keyId": revoked}, nil); err != nil {
		t.Fatal(err)
	}
	refused(0, worker, http.StatusForbidden)
	refused(0, gone, http.StatusUnauthorized)
	refused(1, "", http.StatusUnauthorized)
	refused(1, initech.APIKey, http.StatusForbidden)

	logOf := func(ctx context.Context, of rig.SignedUp) (lines []string, err error) {
		for _, action := range []string{"access.refuse", "sign_in.refuse"} {
			all, err := entries(ctx, api(of).Call, of.Tenant, action)
			if err != nil {
				return nil, err
			}
			for _, e := range all {
				lines = append(lines, fmt.Sprintf("%s %s %s %s %s", e.Action, e.ActorType, e.Actor, e.TargetID, e.Namespace))
			}
		}
		slices.Sort(lines)
		return lines, nil
	}
	wants := func(what string, of rig.SignedUp, want ...string) {
		t.Helper()
		slices.Sort(want)
		eventually.NoError(t, patience, what, func() error {
			got, err := logOf(ctx, of)
			if err == nil && len(got) > len(want) {
				t.Fatalf("%s: %q, want %q", what, got, want)
			}
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("so far %q, want %q", got, want)
			}
			return err
		})
	}
	ofRevoked := "sign_in.refuse public 127.0.0.0/24 " + revoked + " "
	ofGlobex := []string{
		"access.refuse key worker " + globex.NamespaceID + " default",
		ofRevoked,
		"sign_in.refuse public 127.0.0.0/24 " + globex.TenantID + " ", // Without a key,
		"sign_in.refuse public 127.0.0.0/24 " + globex.TenantID + " ", // and with initech's.
	}
	wants("what globex was refused, and strangers at its URL", globex, ofGlobex...)
	got, err := logOf(ctx, initech)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], "access.refuse key ") || !strings.HasSuffix(got[0], initech.TenantID+" ") {
		t.Errorf("initech's log: %q", got)
	}

	s.control.Kill()
	refused(1, gone, http.StatusUnauthorized) // Of the other proxy, which counts by itself.
	s.control.Start()
	s.control.WaitReady(30 * time.Second)
	wants("after the control plane came back", globex, append(ofGlobex, ofRevoked)...)
}
