package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	tenantA = "tn_a"
	tenantB = "tn_b"
)

func event(w *cloudtest.World, tenantID, action string) store.AuditEvent {
	return store.AuditEvent{
		TenantID: tenantID, ID: w.IDs.New(ids.Audit, w.Now()), At: w.Now(), ActorType: "user", ActorID: "usr_1", Actor: "ada", Action: action,
		TargetType: "key", TargetID: "key_1", UserAgent: "bad\xff\x00agent", Changes: map[string]store.Change{"n": {Before: uint64(1<<63 + 1), After: []string{"é", "<"}}},
	}
}

func appendTo(w *cloudtest.World, tenantID, action string) error {
	e := event(w, tenantID, action)
	return w.Store.Tenant(context.Background(), tenantID, func(tx *store.Tx) error { return audit.Append(context.Background(), tx, e) })
}

func keys(w *cloudtest.World) audit.Keys { return audit.Keys{Store: w.Store, Seal: w.Seal, Now: w.Now} }

// chain reads a tenant's entries and demands that they are numbered from a number on and
// linked.
func chain(t *testing.T, w *cloudtest.World, tenantID string, first int64) []store.AuditEvent {
	t.Helper()
	var all []store.AuditEvent
	w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		all, err = tx.AuditFrom(ctx, tenantID, 0, 10000)
		return err
	})
	for i, e := range all {
		hash, err := auditlog.HashOf(audit.Line(e))
		if err != nil || hash != e.Hash || e.Seq != first+int64(i) || i > 0 && e.PrevHash != all[i-1].Hash || first == 1 && i == 0 && e.PrevHash != "" {
			t.Fatalf("entry %d is %d, prev %q, hash %q, want %q, %v", i, e.Seq, e.PrevHash, e.Hash, hash, err)
		}
	}
	return all
}

// Whoever writes at once, the chain has every entry once, and no gap is left by a
// transaction that failed.
func TestAppend_ManyAtOnceMakeOneChain(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		const writers, each = 6, 5
		errUndone := errors.New("undone")
		var all sync.WaitGroup
		errs := make(chan error, 4*writers*each)
		for i := range writers {
			all.Go(func() {
				for j := range each {
					errs <- appendTo(w, tenantA, fmt.Sprintf("a.%d.%d", i, j))
					errs <- appendTo(w, tenantB, fmt.Sprintf("b.%d.%d", i, j))
					e := event(w, tenantA, "undone")
					err := w.Store.Service(t.Context(), func(tx *store.Tx) error {
						if err := audit.Append(t.Context(), tx, e); err != nil {
							return err
						}
						return errUndone
					})
					if !errors.Is(err, errUndone) {
						errs <- err
					}
				}
			})
		}
		all.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, tenantID := range []string{tenantA, tenantB} {
			if n := len(chain(t, w, tenantID, 1)); n != writers*each {
				t.Errorf("%s has %d entries", tenantID, n)
			}
		}
	})
}

func TestAppend_AnEntryIsThereOnce(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		e := event(w, tenantA, "x.y")
		for i := range 2 {
			err := w.Store.Service(t.Context(), func(tx *store.Tx) error {
				if err := audit.Append(t.Context(), tx, e); i == 0 || !errors.Is(err, store.ErrExists) {
					return err
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := len(chain(t, w, tenantA, 1)); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

// Entries of before there were chains, and those that an older control plane writes beside
// this one, are chained in their order; doing it again changes nothing.
func TestChain_TakesEntriesThatAreInNone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		old := func(n int) {
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				for i := range n {
					for _, tenantID := range []string{tenantA, tenantB} {
						if err := tx.InsertAudit(ctx, event(w, tenantID, fmt.Sprintf("old.%d", i))); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		count := func(want int) {
			t.Helper()
			if n, err := audit.Chain(t.Context(), w.Store); n != want || err != nil {
				t.Fatalf("%d were chained, %v, want %d", n, err, want)
			}
		}
		old(300)
		count(600)
		count(0)
		if err := appendTo(w, tenantA, "new"); err != nil {
			t.Fatal(err)
		}
		old(2)
		count(4)
		all := chain(t, w, tenantA, 1)
		if len(all) != 303 || all[0].Action != "old.0" || all[299].Action != "old.299" || all[300].Action != "new" || all[302].Action != "old.1" {
			t.Errorf("%d entries, in another order", len(all))
		}
		chain(t, w, tenantB, 1)
	})
}

func heads(t *testing.T, w *cloudtest.World, tenantID string) (list []store.AuditHead) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = tx.AuditHeads(ctx, tenantID, 0, 1<<40, 100)
		return err
	})
	return list
}

func TestSignHeads_HourlyAndOnlyForNews(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		for i, step := range []struct {
			write bool
			wait  time.Duration
			want  int
		}{{true, 0, 1}, {true, time.Minute, 1}, {false, time.Hour, 2}, {false, 5 * time.Hour, 2}, {true, 0, 3}} {
			if step.write {
				if err := appendTo(w, tenantA, "x"); err != nil {
					t.Fatal(err)
				}
			}
			w.Advance(step.wait)
			if err := keys(w).SignHeads(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(heads(t, w, tenantA)); n != step.want {
				t.Errorf("step %d: %d heads, want %d", i, n, step.want)
			}
		}
	})
}

// Two processes that sign at once leave one key and one head.
func TestSignHeads_TwoAtOnce(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		if err := appendTo(w, tenantA, "x"); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := keys(w).SignHeads(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if n := len(heads(t, w, tenantA)); n != 1 {
			t.Errorf("%d heads", n)
		}
	})
}

// What was changed in the database gets no signature, and holds nobody else up.
func TestSignHeads_RefuseAChainThatWasChanged(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	for range 3 {
		for _, tenantID := range []string{tenantA, tenantB} {
			if err := appendTo(w, tenantID, "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.EndAuditChain(ctx, tenantA, 3, strings.Repeat("0", 64))
	})
	err := keys(w).SignHeads(t.Context())
	if !audit.IsBroken(err) || !strings.Contains(err.Error(), tenantA) {
		t.Errorf("%v", err)
	}
	if a, b := len(heads(t, w, tenantA)), len(heads(t, w, tenantB)); a != 0 || b != 1 {
		t.Errorf("%d and %d heads", a, b)
	}
}

// Old entries go in order; a signed head says where the chain begins then.
func TestExpire_ASignedHeadSaysWhereTheChainBegins(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		const retention = 10 * 24 * time.Hour
		k := keys(w)
		for range 20 {
			if err := errors.Join(appendTo(w, tenantA, "x"), appendTo(w, tenantB, "x"), k.SignHeads(t.Context())); err != nil {
				t.Fatal(err)
			}
			w.Advance(24 * time.Hour)
		}
		if n, err := k.Expire(t.Context(), retention); n != 2*10 || err != nil {
			t.Fatalf("%d deleted, %v", n, err)
		}
		if n, err := k.Expire(t.Context(), retention); n != 0 || err != nil {
			t.Fatalf("again: %d deleted, %v", n, err)
		}
		left := chain(t, w, tenantA, 11)
		all := heads(t, w, tenantA)
		last := all[len(all)-1]
		if len(left) != 10 || last.FirstSeq != 11 || last.FirstAfter != left[0].PrevHash || last.Seq != 20 || last.Hash != left[9].Hash {
			t.Errorf("%d entries are left, the last head is %+v", len(left), last)
		}
		// All of them, and then new ones.
		w.Advance(1000 * time.Hour)
		if n, err := k.Expire(t.Context(), retention); n != 2*10 || err != nil {
			t.Fatalf("%d deleted, %v", n, err)
		}
		if err := errors.Join(appendTo(w, tenantA, "y"), k.SignHeads(t.Context())); err != nil {
			t.Fatal(err)
		}
		if left := chain(t, w, tenantA, 21); len(left) != 1 || left[0].PrevHash != last.Hash {
			t.Errorf("%+v, want one entry that follows %s", left, last.Hash)
		}
		if n, err := k.Expire(t.Context(), retention); n != 0 || err != nil {
			t.Errorf("%d deleted, %v", n, err)
		}
	})
}

// A tenant says itself how long its entries are kept, and what is left still proves itself.
func TestExpire_ATenantsOwnRetentionCounts(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		const day = 24 * time.Hour
		k := keys(w)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.InsertTenant(ctx, store.Tenant{ID: tenantA, Name: "acme", Plan: "free", Version: 1}),
				tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: tenantA, AuditRetention: 15 * day, Version: 1}))
		})
		for range 20 {
			if err := errors.Join(appendTo(w, tenantA, "x"), appendTo(w, tenantB, "x"), k.SignHeads(t.Context())); err != nil {
				t.Fatal(err)
			}
			w.Advance(day)
		}
		if n, err := k.Expire(t.Context(), 10*day); n != 5+10 || err != nil {
			t.Fatalf("%d deleted, %v", n, err)
		}
		for tenant, first := range map[string]int64{tenantA: 6, tenantB: 11} {
			all := heads(t, w, tenant)
			if left := chain(t, w, tenant, first); len(left) != int(21-first) || all[len(all)-1].FirstSeq != first {
				t.Errorf("tenant %s: %d entries are left, the last head is %+v", tenant, len(left), all[len(all)-1])
			}
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { // Shorter than everywhere.
			p, err := tx.GetSignInPolicy(ctx, tenantA)
			p.AuditRetention = 3 * day
			return errors.Join(err, tx.UpdateSignInPolicy(ctx, &p))
		})
		if n, err := k.Expire(t.Context(), 10*day); n != 12 || err != nil {
			t.Errorf("%d deleted, %v", n, err)
		}
		if err := errors.Join(appendTo(w, tenantA, "y"), k.SignHeads(t.Context())); err != nil {
			t.Errorf("the chain no longer verifies: %v", err)
		}
	})
}
