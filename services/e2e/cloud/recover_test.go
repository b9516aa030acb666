package cloud_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// Two of three nodes are lost for good, and the third was away for the last changes. It goes on
// alone; the control plane writes again what it lacks, and the proxies follow it, also when the
// lost nodes come back with their folders.
func TestRecover_OneNodeGoesOnWithWhatTheControlPlaneKnows(t *testing.T) {
	t.Parallel()
	ctx := ctxFor(t, 3*time.Minute)
	s := &split{mail: startMailbox(t)}
	listen, file := rig.Addresses(t, 1)[0], filepath.Join(t.TempDir(), "control.db")
	s.Cell = rig.StartCell(t, rig.CellOptions{Proxies: 2, ProxyArgs: []string{"--control", "http://" + listen}})
	s.control = s.StartControl(rig.ControlOptions{Database: "sqlite:" + file, Listen: listen, PublicURL: s.Proxies[0].URL, SMTP: s.mail.Addr()})
	globex := s.signUp(ctx, t, "globex")
	api := rig.NewAPI(s.Proxies[1].URL, globex.Token)
	newKey := func(name string) (k madeKey) {
		t.Helper()
		in := map[string]any{"name": name, "kind": "KEY_KIND_JOBS", "roles": []string{"viewer"}, "namespaces": []string{"default"}}
		if err := api.Call(ctx, "ApiKeyService/CreateApiKey", in, &k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	revoked := newKey("revoked")

	s.Nodes[0].Kill()
	late := s.signUp(ctx, t, "late")
	added := newKey("added")
	if err := api.Call(ctx, "ApiKeyService/RevokeApiKey", map[string]any{"keyId": revoked.APIKey.ID}, nil); err != nil {
		t.Fatal(err)
	}
	s.wantStatus(ctx, t, "globex", revoked.Secret, http.StatusUnauthorized)
	s.Nodes[1].Kill()
	s.Nodes[2].Kill()

	if stdout, stderr, exit := rig.Run(t, time.Minute, "node", "recover", "--data", s.Nodes[0].Dir, "--accept-loss"); exit != 0 {
		t.Fatalf("recover: exit %d\n%s\n%s", exit, stdout, stderr)
	}
	s.Nodes[0].Alone()
	s.Nodes[0].Start()
	s.Nodes[0].WaitReady(time.Minute)
	lost := func() {
		t.Helper()
		s.eventuallyStatus(ctx, t, "late", late.APIKey, http.StatusOK)
		s.eventuallyStatus(ctx, t, "globex", added.Secret, http.StatusOK)
		s.eventuallyStatus(ctx, t, "globex", revoked.Secret, http.StatusUnauthorized)
		s.wantStatus(ctx, t, "globex", globex.APIKey, http.StatusOK)
	}
	lost()

	// A job that only the new cell has.
	through := func(i int) rig.Tenant { return rig.NewTenant(s.Proxies[i].URL+"/t/late", late.APIKey) }
	id, err := through(0).Enqueue(ctx, "mail", "hello")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes[1:] {
		n.Start()
	}
	for _, n := range s.Nodes[1:] {
		n.WaitReady(time.Minute) // Together they are most of the old cell.
	}
	for range 20 {
		for i := range s.Proxies {
			if job, err := through(i).Job(ctx, id); err != nil || job.State != "pending" {
				t.Fatalf("the job is %+v, %v", job, err)
			}
		}
		time.Sleep(50 * time.Millisecond) // Proxies look at nodes twice a second.
	}
	lost()
	after := newKey("after")
	s.wantStatus(ctx, t, "globex", after.Secret, http.StatusOK)
}
