package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
)

func TestRepeat_TheSameRequestAtTheSameTimeIsOne(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		sameRequests(t, newStage(t))
	})
	t.Run("postgres", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a PostgreSQL server")
		}
		t.Parallel()
		sameRequests(t, newStageOn(t, cloudtest.Postgres(t)))
	})
}

func sameRequests(t *testing.T, s *stage) {
	t.Helper()
	p := s.newFixture(t, "acme")
	made := newKey(t, "mg")
	digest := made.Digest()
	for procedure, tc := range map[string]struct{ body, action string }{
		"/corvo.cloud.v1.NamespaceService/CreateNamespace": {`{"requestId":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","name":"orders"}`, "namespace.create"},
		createKey: {fmt.Sprintf(`{"requestId":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","name":"tf","kind":"KEY_KIND_MANAGEMENT","roles":["viewer"],"keyId":%q,"digest":%q}`,
			made.ID(), b64(digest[:])), "key.create"},
	} {
		before := s.count(t, p, tc.action)
		replies := make([]reply, 8)
		var all sync.WaitGroup
		for i := range replies {
			all.Go(func() { replies[i] = s.call(t, procedure, tc.body, bearer(p.manage)...) })
		}
		all.Wait()
		for _, r := range replies {
			if r.status != http.StatusOK || idOf(t, r) != idOf(t, replies[0]) {
				t.Errorf("%s: %d %s, the first %s", procedure, r.status, r.body, replies[0].body)
			}
		}
		if n := s.count(t, p, tc.action) - before; n != 1 {
			t.Errorf("%s: it happened %d times", procedure, n)
		}
	}
}

// idOf is the id of the one resource in an answer.
func idOf(t *testing.T, r reply) any {
	t.Helper()
	for _, v := range r.json(t) {
		if m, ok := v.(map[string]any); ok {
			return m["id"]
		}
	}
	return nil
}

// count is how often an action is in the audit log.
func (s *stage) count(t *testing.T, p *fixture, action string) int {
	t.Helper()
	r := s.call(t, "/corvo.cloud.v1.AuditService/ListAuditEvents", fmt.Sprintf(`{"action":%q}`, action), bearer(p.manage)...)
	events, _ := r.json(t)["events"].([]any)
	return len(events)
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
