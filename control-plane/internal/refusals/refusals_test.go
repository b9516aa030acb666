package refusals_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestLog_TheFirstAtOnceThenACountEveryTenMinutes(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		tn, owner := w.Tenant(t, "acme", "ada@acme.test")
		l := refusals.New(w.Kit)
		note := func(n int, permission string) {
			for range n {
				l.Note(refusals.Refusal{
					Action: refusals.Access, Caller: access.Caller{TenantID: tn.ID, UserID: owner.ID, Name: owner.Email, RequestID: "req_1"},
					Target: change.Target{Type: "tenant", ID: tn.ID, Name: tn.Name, TenantID: tn.ID}, Field: "permission", Value: permission,
				})
			}
		}
		var lines []string
		write := func(want ...string) {
			t.Helper()
			if err := l.Write(t.Context()); err != nil {
				t.Fatal(err)
			}
			var now []string
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				all, err := tx.AuditFrom(ctx, tn.ID, 0, 100)
				for _, e := range all {
					now = append(now, fmt.Sprint(e.Actor, " ", e.Action, " ", e.Changes["permission"].After, " ", e.Changes["times"].After))
				}
				return err
			})
			if got := now[len(lines):]; !slices.Equal(got, want) {
				t.Errorf("written %q, want %q", got, want)
			}
			lines = now
		}
		note(3, "key.write")
		write("ada@acme.test access.refuse key.write 3")
		note(5, "key.write")
		note(1, "sso.write")
		write("ada@acme.test access.refuse sso.write <nil>")
		w.Advance(9 * time.Minute)
		note(2, "key.write")
		write()
		w.Advance(time.Minute)
		write("ada@acme.test access.refuse key.write 7")
		w.Advance(time.Hour)
		write()
		note(1, "key.write")
		write("ada@acme.test access.refuse key.write <nil>")
		// A tenant that doesn't exist has no log.
		l.Note(refusals.Refusal{Action: refusals.SignIn, TenantName: "nobody", Field: "reason", Value: "x"})
		write()
	})
}
