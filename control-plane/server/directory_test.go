package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// scimToken is the id of a token of a new connection.
func (p *fixture) scimToken(t testing.TB) string { return p.directory(t).ID() }

// directoryConnection is a new connection. It is the only one of its tenant: there can't be
// one for each caller of the matrix.
func (p *fixture) directoryConnection(t testing.TB) string {
	p.in(t, func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.ListConnections(ctx, p.TenantID)
		for _, old := range all {
			err = errors.Join(err, tx.DeleteConnection(ctx, p.TenantID, old.ID))
		}
		return err
	})
	return p.connection(t)
}

// directory is the token of a new connection's directory.
func (p *fixture) directory(t testing.TB) apikey.Key {
	made := newKey(t, apikey.SCIM)
	digest := made.Digest()
	v := store.ScimToken{
		TenantID: p.TenantID, ID: made.ID(), ConnectionID: p.directoryConnection(t), Digest: hex.EncodeToString(digest[:]), CreatedAt: p.kit.Now(), ExpiresAt: p.kit.Now().Add(time.Hour),
	}
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertScimToken(ctx, v) })
	return made
}

// A directory's token opens its own door, for its own tenant, and no other one; no other key
// opens that door.
func TestDirectory_ItsTokenOpensItsOwnDoorOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a, b := s.newFixture(t, "tenant-a"), s.newFixture(t, "tenant-b")
	token := a.directory(t)
	ask := func(path string, key apikey.Key) (int, http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key.Reveal())
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header
	}
	status, h := ask("/scim/v2/Users", token)
	if status != http.StatusOK || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("X-Request-Id"), "req_") {
		t.Errorf("%d %v", status, h)
	}
	for _, path := range []string{"/scim/v2/Users/" + a.user(t, viewer).ID, "/scim/v2/Users/" + b.user(t, viewer).ID, "/scim/v2/" + b.TenantID + "/Users", "/scim/"} {
		if status, _ := ask(path, token); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	for i, key := range []apikey.Key{a.manage, a.jobs, newKey(t, apikey.SCIM)} {
		if status, h := ask("/scim/v2/Users", key); status != http.StatusUnauthorized || h.Get("WWW-Authenticate") == "" {
			t.Errorf("key %d: %d", i, status)
		}
	}
	for _, method := range []string{getTenant, listNamespaces} {
		if r := s.call(t, method, "{}", bearer(token)...); r.status != http.StatusUnauthorized {
			t.Errorf("%s by a directory: %s", method, fmt.Sprint(r.status, r.body))
		}
	}
}
