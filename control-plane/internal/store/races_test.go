package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// together runs f n times at once and returns the results.
func together[T any](n int, f func(i int) T) []T {
	out := make([]T, n)
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			out[i] = f(i)
		})
	}
	start.Done()
	done.Wait()
	return out
}

func TestUpdate_NoneIsLostWhenManyReadAndWrite(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		const writers = 12
		errs := together(writers, func(int) error {
			return inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.GetNamespace(ctx, "tn_a", "ns_1")
				if err != nil {
					return err
				}
				n.Generation++
				return tx.UpdateNamespace(ctx, &n)
			})
		})
		wantErr(t, "update", errors.Join(errs...), nil)
		wantErr(t, "read", inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.GetNamespace(ctx, "tn_a", "ns_1")
			wantEqual(t, "generation and version", []int64{n.Generation, n.Version}, []int64{1 + writers, 1 + writers})
			return err
		}), nil)
	})
}

func TestUpdate_OfWhatSomebodyElseChangedIsStale(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		read := func() (n store.Namespace) {
			wantErr(t, "read", inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) (err error) {
				n, err = tx.GetNamespace(ctx, "tn_a", "ns_1")
				return err
			}), nil)
			return n
		}
		write := func(n store.Namespace) error {
			return inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error { return tx.UpdateNamespace(ctx, &n) })
		}
		mine, theirs := read(), read()
		wantErr(t, "first", write(mine), nil)
		wantErr(t, "second", write(theirs), store.ErrStale)
	})
}

// Two owners who remove each other must not both succeed: nobody could undo it.
func TestOwners_TheLastCannotGoHoweverManyTry(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		const owners = 6
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for i := range owners {
				id := fmt.Sprintf("usr_o%d", i)
				if err := errors.Join(tx.InsertUser(ctx, user(id, id+"@example.com")), tx.InsertMembership(ctx, membership("tn_a", id)), tx.InsertBinding(ctx, owning("tn_a", id))); err != nil {
					return err
				}
			}
			return tx.DeleteMembership(ctx, "tn_a", "usr_1")
		})
		errLast := errors.New("the last owner")
		errs := together(owners, func(i int) error {
			return inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
				if n, err := tx.CountOwners(ctx, "tn_a"); err != nil || n <= 1 {
					return errors.Join(err, errLast)
				}
				return tx.DeleteMembership(ctx, "tn_a", fmt.Sprintf("usr_o%d", i))
			})
		})
		refused := 0
		for _, err := range errs {
			if errors.Is(err, errLast) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		wantEqual(t, "refused", refused, 1)
	})
}

func TestOutbox_NoRowIsClaimedByTwo(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		const rows, holders = 60, 4
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			for i := range rows {
				if err := tx.InsertOutbox(ctx, outbox("tn_a", fmt.Sprintf("out_%03d", i), at(1))); err != nil {
					return err
				}
			}
			return nil
		})
		type claimed struct {
			ids []string
			err error
		}
		got := together(holders, func(i int) (c claimed) {
			for {
				var page []store.Outbox
				c.err = s.Service(t.Context(), func(tx *store.Tx) (err error) {
					page, err = tx.ClaimOutbox(t.Context(), fmt.Sprint("holder ", i), at(2), at(1000), 7)
					return err
				})
				if c.err != nil || len(page) == 0 {
					return c
				}
				for _, r := range page {
					c.ids = append(c.ids, r.ID)
				}
			}
		})
		var all []string
		for _, c := range got {
			wantErr(t, "claim", c.err, nil)
			all = append(all, c.ids...)
		}
		slices.Sort(all)
		if len(all) != rows || len(slices.Compact(all)) != rows {
			t.Errorf("%d claims of %d rows", len(all), rows)
		}
	})
}

func TestToken_UsedByManyIsUnusedForOne(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertToken(ctx, store.Token{Digest: "d", Purpose: "login", Subject: "usr_1", CreatedAt: at(1), ExpiresAt: at(9)})
		})
		used := together(8, func(i int) (v store.Token) {
			err := s.Service(t.Context(), func(tx *store.Tx) (err error) {
				v, err = tx.UseToken(t.Context(), "d", "login", at(2+i))
				return err
			})
			wantErr(t, "use", err, nil)
			return v
		})
		first := slices.DeleteFunc(used, func(v store.Token) bool { return !v.UsedAt.IsZero() })
		wantEqual(t, "saw it unused", len(first), 1)
	})
}

func TestSignup_WrongCodesAtOnceAreAllCounted(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		const tries = 10
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertSignup(ctx, store.Signup{ID: "1", Email: "e", TenantName: "n", Digest: "d", CreatedAt: at(1), ExpiresAt: at(2)})
		})
		errs := together(tries, func(int) error {
			return s.Service(t.Context(), func(tx *store.Tx) error {
				v, err := tx.GetSignup(t.Context(), "1")
				if err != nil {
					return err
				}
				v.Attempts++
				return tx.UpdateSignup(t.Context(), v)
			})
		})
		wantErr(t, "try", errors.Join(errs...), nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			v, err := tx.GetSignup(ctx, "1")
			wantEqual(t, "attempts", v.Attempts, tries)
			return err
		})
	})
}

func TestNames_OneOfManyCallersGetsIt(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		errs := together(8, func(i int) error {
			return s.Service(t.Context(), func(tx *store.Tx) error {
				_, err := tx.GetTenantByName(t.Context(), "acme")
				if err == nil {
					return store.ErrExists
				}
				if !errors.Is(err, store.ErrNotFound) {
					return err
				}
				return tx.InsertTenant(t.Context(), tenant(fmt.Sprint("tn_", i), "acme"))
			})
		})
		won := slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, store.ErrExists) })
		if len(won) != 1 || won[0] != nil {
			t.Errorf("without ErrExists: %v, want one nil", won)
		}
	})
}

func TestSettings_NumbersAreGivenOnce(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		got := together(10, func(int) (n int64) {
			err := s.Service(t.Context(), func(tx *store.Tx) (err error) {
				n, err = tx.RaiseSetting(t.Context(), "gen", at(1))
				return err
			})
			wantErr(t, "raise", err, nil)
			return n
		})
		slices.Sort(got)
		wantEqual(t, "numbers", got, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	})
}

func TestLease_OneOfManyHoldsIt(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		held := together(6, func(i int) (ok bool) {
			err := s.Service(t.Context(), func(tx *store.Tx) (err error) {
				_, ok, err = tx.TakeLease(t.Context(), "sweep", fmt.Sprint(i), at(1), at(9))
				return err
			})
			wantErr(t, "take", err, nil)
			return ok
		})
		wantEqual(t, "holders", len(slices.DeleteFunc(held, func(ok bool) bool { return !ok })), 1)
	})
}

func TestRead_SeesOneSnapshotWhileOthersWrite(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		err := s.ReadTenant(t.Context(), "tn_a", func(tx *store.Tx) error {
			before, err := tx.CountNamespaces(t.Context(), "tn_a")
			if err != nil {
				return err
			}
			err = inTenant(t, s, "tn_a", func(ctx context.Context, w *store.Tx) error {
				return w.InsertNamespace(ctx, namespace("tn_a", "ns_9", "new"))
			})
			if err != nil {
				return err
			}
			after, err := tx.CountNamespaces(t.Context(), "tn_a")
			wantEqual(t, "after", after, before)
			return err
		})
		wantErr(t, "read", err, nil)
		for what, read := range map[string]func(context.Context, func(*store.Tx) error) error{
			"ReadService": s.ReadService,
			"ReadTenant":  func(ctx context.Context, f func(*store.Tx) error) error { return s.ReadTenant(ctx, "tn_a", f) },
		} {
			err := read(t.Context(), func(tx *store.Tx) error { return tx.InsertNamespace(t.Context(), namespace("tn_a", "ns_8", "other")) })
			if err == nil {
				t.Errorf("%s wrote", what)
			}
		}
	})
}

func TestTransaction_ThatFailsOrPanicsLeavesNothing(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		errMine := errors.New("mine")
		err := s.Service(t.Context(), func(tx *store.Tx) error {
			return errors.Join(tx.InsertTenant(t.Context(), tenant("tn_a", "acme")), errMine)
		})
		wantErr(t, "the caller's error", err, errMine)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = s.Service(t.Context(), func(tx *store.Tx) error { // It panics.
				_ = tx.InsertTenant(t.Context(), tenant("tn_a", "acme")) // Seen below.
				panic("mine")
			})
		}()
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.GetTenant(ctx, "tn_a")
			wantErr(t, "afterwards", err, store.ErrNotFound)
			return nil
		})
	})
}

func TestSignups_ManyAtOnceAllSucceed(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		const many = 40
		errs := together(many, func(i int) error {
			tn, usr := fmt.Sprintf("tn_%02d", i), fmt.Sprintf("usr_%02d", i)
			return s.Service(t.Context(), func(tx *store.Tx) error {
				ctx := t.Context()
				if _, err := tx.GetTenantByName(ctx, tn); !errors.Is(err, store.ErrNotFound) {
					return errors.Join(err, store.ErrExists)
				}
				if _, err := tx.GetUserByEmail(ctx, usr); !errors.Is(err, store.ErrNotFound) {
					return errors.Join(err, store.ErrExists)
				}
				if _, err := tx.CountRate(ctx, "signups", at(1)); err != nil {
					return err
				}
				return errors.Join(
					tx.InsertUser(ctx, user(usr, usr)), tx.InsertTenant(ctx, tenant(tn, tn)), tx.InsertMembership(ctx, membership(tn, usr)), tx.InsertBinding(ctx, owning(tn, usr)),
					tx.InsertNamespace(ctx, namespace(tn, "ns_"+tn, "default")), tx.InsertKey(ctx, key(tn, "key_"+tn)),
					tx.InsertAudit(ctx, store.AuditEvent{TenantID: tn, ID: "aud_1", At: at(1)}), tx.InsertOutbox(ctx, outbox(tn, "out_"+tn, at(1))),
				)
			})
		})
		wantErr(t, "sign up", errors.Join(errs...), nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			list, err := tx.ListTenants(ctx, store.Page{})
			wantEqual(t, "tenants", len(list), many)
			n, rateErr := tx.CountRate(ctx, "signups", at(1))
			wantEqual(t, "counted", n, many+1)
			return errors.Join(err, rateErr)
		})
	})
}

// A role that is given while its member is removed goes with the membership, whichever is first.
func TestBindings_NoneIsLeftForAMemberWhoIsRemovedMeanwhile(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		for round := range 20 {
			id := fmt.Sprintf("usr_race_%d", round)
			service(t, s, func(ctx context.Context, tx *store.Tx) error {
				return errors.Join(tx.InsertUser(ctx, user(id, id+"@example.com")), tx.InsertMembership(ctx, membership("tn_a", id)))
			})
			together(4, func(i int) error {
				return s.Tenant(t.Context(), "tn_a", func(tx *store.Tx) error {
					if i == 0 {
						return tx.DeleteMembership(t.Context(), "tn_a", id)
					}
					if _, err := tx.GetMembership(t.Context(), "tn_a", id); err != nil {
						return err
					}
					b := store.Binding{TenantID: "tn_a", ID: fmt.Sprintf("bnd_%d_%d", round, i), PrincipalID: id, RoleID: store.RoleOwner, Queues: fmt.Sprint("q", i), CreatedAt: at(1)}
					return tx.InsertBinding(t.Context(), b)
				})
			})
			service(t, s, func(ctx context.Context, tx *store.Tx) error {
				if _, err := tx.GetMembership(ctx, "tn_a", id); err == nil {
					return nil // The removal lost, and says so to who asked for it.
				}
				left, err := tx.CountBindings(ctx, "tn_a", id)
				wantEqual(t, "bindings of who is no member", left, 0)
				return err
			})
		}
	})
}

// Who only goes on behind what others write comes to an end while they write on.
func TestFollow_LosesOnlyAgainstWhoWritesTheSame(t *testing.T) {
	url := cloudtest.Postgres(t)
	s := open(t, url)
	twoTenants(t, s)
	hours := func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.ChangedHours(ctx, store.ChangedHour{}, 10)
		return err
	}
	hour := int64(0)
	closing := func(ctx context.Context, tx *store.Tx) error { // Reads what the other writes, and writes what it reads.
		if _, err := tx.GetSetting(ctx, "position"); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		hour++
		return tx.ReviseUsage(ctx, store.UsageHour{UsageKey: store.UsageKey{TenantID: "tn_a", NamespaceID: "ns_1", Hour: hour}, ClosedAt: at(7)}, store.Counts{Executions: 1})
	}
	for name, c := range map[string]struct {
		write     func(context.Context, func(*store.Tx) error) error
		meanwhile func(context.Context, *store.Tx) error
		again     bool
	}{
		"behind a closing":         {s.Follow, closing, false},
		"a closing, in a full one": {s.Service, closing, true},
		"behind another follower":  {s.Follow, func(ctx context.Context, tx *store.Tx) error { return tx.PutSetting(ctx, "position", "2", at(2)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			service(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.PutSetting(ctx, "position", "0", at(1)) })
			runs := 0
			wantErr(t, "write", c.write(t.Context(), func(tx *store.Tx) error {
				if err := hours(t.Context(), tx); err != nil {
					return err
				}
				if runs++; runs == 1 {
					service(t, s, func(ctx context.Context, tx *store.Tx) error { return c.meanwhile(ctx, tx) })
				}
				return tx.PutSetting(t.Context(), "position", "1", at(3))
			}), nil)
			if (runs > 1) != c.again {
				t.Errorf("it ran %d times", runs)
			}
		})
	}
}
