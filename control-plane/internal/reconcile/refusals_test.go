package reconcile_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

func TestRefusals_AreInTheLogOfTheirTenantOnceHoweverOftenTheyAreTold(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": cloudtest.SQLite(t), "postgres": cloudtest.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, url)
			r.administered(t)
			start := r.now().Add(-time.Hour).Truncate(time.Second)
			of := func(n int, edit func(*cellv1.Refusal)) *cellv1.Refusal {
				out := &cellv1.Refusal{Id: fmt.Sprint(n), TenantId: tenantID, Peer: "192.0.2.1", Times: 1, SinceNs: start.Add(time.Duration(n) * time.Second).UnixNano()}
				edit(out)
				return out
			}
			lacks := func(n int, principal, queue string) *cellv1.Refusal {
				return of(n, func(f *cellv1.Refusal) {
					f.Principal, f.NamespaceId, f.Queue, f.Permission = principal, nsID, queue, "job.enqueue"
				})
			}
			shown := func(n int, key string) *cellv1.Refusal {
				return of(n, func(f *cellv1.Refusal) { f.KeyId, f.Reason, f.Times = key, "expired", 3 })
			}
			told := []*cellv1.Refusal{
				lacks(1, keyID, "emails"), lacks(2, "user:"+aUser, ""), shown(3, keyID),
				of(4, func(f *cellv1.Refusal) { f.Peer, f.Reason = "198.51.100.0/24", "unknown key" }),
				of(5, func(f *cellv1.Refusal) { f.Principal, f.Reason = keyID, "address not allowed" }),
				// What is gone, or never was this tenant's.
				lacks(6, "key_000000000099", "emails"), lacks(7, "user:usr_01JD0000000000000000000099", ""), shown(8, "key_000000000099"),
				of(9, func(f *cellv1.Refusal) { f.TenantId, f.Reason = "tn_01JD0000000000000000000099", "no key" }),
				of(10, func(f *cellv1.Refusal) {
					f.Principal, f.NamespaceId, f.Permission = keyID, otherTenantNS, "job.enqueue"
				}),
				of(11, func(f *cellv1.Refusal) { f.TenantId, f.KeyId, f.Reason = otherTenant, keyID, "expired" }),
			}
			want := []string{
				"default ada@acme.test(user) access.refuse " + nsID + " map[permission:{<nil> job.enqueue}]",
				"default worker(key) access.refuse emails map[permission:{<nil> job.enqueue}]",
				" worker(key) access.refuse " + tenantID + " map[reason:{<nil> address not allowed}]",
				" 192.0.2.1(public) sign_in.refuse " + keyID + " map[reason:{<nil> expired} since:{<nil> " + start.Add(3*time.Second).UTC().Format(time.RFC3339) + "} times:{<nil> 3}]",
				" 198.51.100.0/24(public) sign_in.refuse " + tenantID + " map[reason:{<nil> unknown key}]",
			}
			slices.Sort(want)
			r.cell.set(func(f *fakeCell) {
				f.nodes = []*cellv1.NodeSightings{{NodeId: "a", Cursor: "1", Refusals: told}, {NodeId: "b", Cursor: "1", Refusals: told[2:]}}
			})
			check := func(what string) {
				t.Helper()
				if got := r.logOf(t, tenantID); !slices.Equal(got, want) {
					t.Errorf("%s: %q\nwant %q", what, got, want)
				}
				if got := r.logOf(t, otherTenant); len(got) != 0 {
					t.Errorf("%s: another tenant's log has %q", what, got)
				}
			}
			// Two control planes at once.
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					if err := reconcile.TakeSightings(r.loopOver(r.store), "main")(t.Context()); err != nil {
						t.Log(err) // One may have to read again.
					}
				})
			}
			both.Wait()
			take := reconcile.TakeSightings(r.loopOver(r.store), "main")
			r.ahead.Add(int64(time.Hour)) // Their lease has ended.
			for _, what := range []string{"told", "told by the same loop again"} {
				if err := take(t.Context()); err != nil {
					t.Fatal(err)
				}
				check(what)
			}
			r.ahead.Add(int64(time.Hour))
			if err := reconcile.TakeSightings(r.loopOver(r.store), "main")(t.Context()); err != nil { // After a restart.
				t.Fatal(err)
			}
			check("after a restart")
		})
	}
}
