package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// entry is one entry of the audit log, as the console reads it.
type entry struct {
	ActorType string `json:"actorType"`
	Actor     string `json:"actor"`
	Action    string `json:"action"`
	TargetID  string `json:"targetId"`
	Namespace string `json:"namespace"`
}

// entries are all of a tenant's with that action.
func entries(ctx context.Context, call func(ctx context.Context, procedure string, in, out any) error, tenant, action string) (all []entry, err error) {
	for token := ""; ; {
		var page struct {
			Events        []entry `json:"events"`
			NextPageToken string  `json:"nextPageToken"`
		}
		in := map[string]any{"tenant": tenant, "action": action, "pageSize": 100, "pageToken": token}
		if err := call(ctx, "AuditService/ListAuditEvents", in, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		if token = page.NextPageToken; token == "" {
			return all, nil
		}
	}
}

// A browser's token belongs to a person: its actions are recorded under their email
// address, those of a key under its name.
func TestAudit_WhatIsDoneInTheConsoleIsEnteredUnderThePersonsAddress(t *testing.T) {
	t.Parallel()
	u := rig.StartUp(t, t.TempDir())
	ctx := ctxFor(t, time.Minute)
	b := signIn(ctx, t, u)
	token, err := b.token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.URL+"/api/v1/queues/by-person/pause", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if status, body := answerOf(t, req); status != http.StatusOK {
		t.Fatalf("paused with a browser's token: %d %s", status, body)
	}
	if _, err := u.Call(ctx, http.MethodPost, "/api/v1/queues/by-key/pause", nil, nil); err != nil {
		t.Fatal(err)
	}
	want := map[string]entry{
		"by-person": {ActorType: "user", Actor: "demo@corvo.localhost", Action: "queue.pause", TargetID: "by-person", Namespace: "default"},
		"by-key":    {ActorType: "key", Actor: "development", Action: "queue.pause", TargetID: "by-key", Namespace: "default"},
	}
	eventually.NoError(t, patience, "both entries", func() error {
		got, err := entries(ctx, b.call, "demo", "queue.pause")
		if err == nil && len(got) != len(want) {
			err = fmt.Errorf("there are %d entries", len(got))
		}
		if err != nil {
			return err
		}
		for _, e := range got {
			if e != want[e.TargetID] {
				t.Errorf("entered: %+v, want %+v", e, want[e.TargetID])
			}
		}
		return nil
	})
}

// Queues are deleted one after the other while the leader of their shard is killed three
// times. Calls are repeated until a deletion is confirmed, which happens once: each deleted
// queue is one entry, whoever was the leader.
func TestAudit_LeadersAreKilledBetweenActsAndEachIsEnteredOnce(t *testing.T) {
	t.Parallel()
	const queues, kills = 60, 3
	s := startSplit(t)
	ctx := ctxFor(t, 3*time.Minute)
	done := s.signUp(ctx, t, "globex")
	producer := rig.NewTenant(s.Proxies[0].URL+"/t/globex", done.APIKey)
	tenant := rig.NewTenant(s.Proxies[0].URL+"/t/globex", done.Token)
	tenant.Namespace = done.Namespace
	state, err := s.Admin.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := celladmin.FindNamespace(state, done.TenantID, done.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	shard := ns.GetShard()
	name := func(i int) string { return fmt.Sprintf("old-%02d", i) }
	for i := range queues {
		if _, err := producer.Enqueue(ctx, name(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	var back *rig.CellNode
	for i := range queues {
		if i%(queues/kills) == queues/kills/2 {
			if back != nil { // Two of three are enough, one is not.
				back.Start()
				back.WaitReady(30 * time.Second)
			}
			n := s.Nodes[s.Leader(shard, 20*time.Second)]
			n.Kill()
			back = n
		}
		eventually.NoError(t, patience, "the deletion of "+name(i), func() error {
			_, err := tenant.Call(ctx, http.MethodDelete, "/api/v1/queues/"+name(i)+"?confirm=true", nil, nil)
			var refused *rig.Refusal
			if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
				return nil // The call before did it, and its answer was lost.
			}
			return err
		})
	}
	api := rig.NewAPI(s.control.URL, done.Token)
	var got []entry
	eventually.NoError(t, patience, "the last entry", func() (err error) {
		got, err = entries(ctx, api.Call, "globex", "queue.delete")
		if err == nil && !slices.ContainsFunc(got, func(e entry) bool { return e.TargetID == name(queues-1) }) {
			err = fmt.Errorf("there are %d entries", len(got))
		}
		return err
	})
	times := make(map[string]int)
	for _, e := range got {
		times[e.TargetID]++
	}
	for i := range queues {
		if times[name(i)] != 1 {
			t.Errorf("the deletion of %s is entered %d times", name(i), times[name(i)])
		}
	}
	if len(got) != queues {
		t.Errorf("%d entries for %d deletions", len(got), queues)
	}
}
