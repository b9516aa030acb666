package tokenkeys

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

func newKeys(t *testing.T, now *time.Time) Keys {
	t.Helper()
	w := cloudtest.New(t)
	return Keys{Store: w.Store, Seal: w.Seal, Now: func() time.Time { return *now }, Calendar: func(context.Context) time.Time { return *now }}
}

func signing(t *testing.T, k Keys) (ed25519.PrivateKey, string) {
	t.Helper()
	private, id, err := k.Signing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return private, id
}

func publics(t *testing.T, k Keys) (list []string) {
	t.Helper()
	var all []Public
	err := k.Store.Service(t.Context(), func(tx *store.Tx) (err error) {
		all, err = k.Public(t.Context(), tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !p.NotAfter.After(k.Now()) || usertoken.KeyID(p.Key) != p.ID {
			t.Errorf("%+v at %v", p, k.Now())
		}
		list = append(list, p.ID)
	}
	return list
}

func TestKeys_AreKnownToCellsBeforeAndAfterTheirYear(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	k := newKeys(t, &now)
	_, first := signing(t, k)
	if got := publics(t, k); !slices.Equal(got, []string{first}) {
		t.Errorf("in June: %v", got)
	}
	now = time.Date(2026, time.December, 15, 0, 0, 0, 0, time.UTC)
	both := publics(t, k)
	if _, id := signing(t, k); id != first || len(both) != 2 || both[0] != first {
		t.Errorf("in December %s signs and cells know %v", id, both)
	}
	now = time.Date(2027, time.January, 1, 0, 0, 1, 0, time.UTC)
	if _, id := signing(t, k); id != both[1] {
		t.Errorf("in the new year %s signs, want %s, which cells know", id, both[1])
	}
	if got := publics(t, k); !slices.Contains(got, first) || !slices.Contains(got, both[1]) {
		t.Errorf("one second into the year cells should take %v, got %v", both, got)
	}
	now = now.Add(overlap)
	if got := publics(t, k); slices.Contains(got, first) {
		t.Errorf("last year's key is still handed out: %v", got)
	}
}

func TestKeys_OfTwoThatMakeOneTheFirstCounts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	k := newKeys(t, &now)
	got := make([]string, 4)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { _, got[i], _ = k.Signing(t.Context()) })
	}
	all.Wait()
	for _, id := range got {
		if id == "" || id != got[0] {
			t.Fatalf("%v", got)
		}
	}
}

func TestKeys_LieSealedInTheDatabase(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	k := newKeys(t, &now)
	private, _ := signing(t, k)
	var text string
	err := k.Store.ReadService(t.Context(), func(tx *store.Tx) (err error) {
		text, err = tx.GetSetting(t.Context(), settingPrefix+"2026")
		return err
	})
	if err != nil || strings.Contains(text, string(private.Seed())) {
		t.Errorf("%q, %v", text, err)
	}
	if k.Seal, err = seal.New(seal.NewKey()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Signing(t.Context()); err == nil {
		t.Error("opened with another master key")
	}
}

func rotate(t *testing.T, k Keys) (r Rotation) {
	t.Helper()
	err := k.Store.Service(t.Context(), func(tx *store.Tx) (err error) {
		r, err = k.Rotate(t.Context(), tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func carried(t *testing.T, k Keys) (is bool) {
	t.Helper()
	err := k.Store.ReadService(t.Context(), func(tx *store.Tx) (err error) {
		is, err = k.Carried(t.Context(), tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestRotate_LeavesNoKeyOfBeforeAndHasCellsTold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.December, 15, 0, 0, 0, 0, time.UTC)
	k := newKeys(t, &now)
	before := publics(t, k)
	if !carried(t, k) {
		t.Fatal("before a rotation something waits")
	}
	r := rotate(t, k)
	after := publics(t, k)
	if !slices.Equal(r.Old, before) || !slices.Equal(r.New, after) || len(after) != 2 {
		t.Errorf("%+v, cells should take %v and then %v", r, before, after)
	}
	for _, id := range before {
		if slices.Contains(after, id) {
			t.Errorf("%s survived, next year's too must end", id)
		}
	}
	if _, id := signing(t, k); id != after[0] {
		t.Errorf("%s signs, want %s", id, after[0])
	}
	if carried(t, k) {
		t.Error("nothing waits to be carried to cells")
	}
	rotate(t, k) // Twice is well.
}

func TestRotate_NeedsNotOpenWhatItReplaces(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	k := newKeys(t, &now)
	signing(t, k)
	var err error
	if k.Seal, err = seal.New(seal.NewKey()); err != nil {
		t.Fatal(err)
	}
	if r := rotate(t, k); len(r.Old) != 0 || len(r.New) != 1 {
		t.Errorf("%+v", r)
	}
	signing(t, k)
}
