package cell

import (
	"testing"
	"time"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

func TestTokenKey_OneIdNeverMeansTwoKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(tokenKeyChange(testTokenKey(1)), tokenKeyChange(testTokenKey(2)))
	other := testTokenKey(1)
	other.PublicKey = digest(9)
	b.refused("KEY_CHANGED", tokenKeyChange(other))

	ends := testTokenKey(1)
	ends.NotAfterNs = 77
	b.must(tokenKeyChange(ends))
	if got, _ := b.machine.View().TokenKeyByID(ends.GetId()); got.GetNotAfterNs() != 77 {
		t.Errorf("stored %v", got)
	}
	gone := &cellv1.TokenKey{Id: ends.GetId(), Deleted: true}
	b.must(tokenKeyChange(gone), tokenKeyChange(gone))
	if _, ok := b.machine.View().TokenKeyByID(ends.GetId()); ok {
		t.Error("a deleted key is still there")
	}
}

func TestTokenKey_FormAndNumberAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, spoil := range []func(*cellv1.TokenKey){
		func(k *cellv1.TokenKey) { k.Id = "tk_" },
		func(k *cellv1.TokenKey) { k.Id = "tk_ABCDEFABCDEFABCDEFABCDEF" },
		func(k *cellv1.TokenKey) { k.PublicKey = k.PublicKey[:31] },
		func(k *cellv1.TokenKey) { k.Deleted, k.PublicKey = true, make([]byte, 33) },
		func(k *cellv1.TokenKey) { k.NotAfterNs = -1 },
	} {
		k := testTokenKey(1)
		spoil(k)
		b.refused("VALIDATION_ERROR", tokenKeyChange(k))
	}
	for i := range tokenKeysMax {
		b.must(tokenKeyChange(testTokenKey(i)))
	}
	b.refused("LIMIT_REACHED", tokenKeyChange(testTokenKey(tokenKeysMax)))
	b.must(tokenKeyChange(&cellv1.TokenKey{Id: testTokenKey(3).GetId(), Deleted: true}))
	b.must(tokenKeyChange(testTokenKey(tokenKeysMax)))
}

func TestUserCutoff_OnlyMovesForward(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(testTenant(1, "acme"))
	b.must(cutoffChange(tenantID(1), userID(1), 500))
	stored := b.must(cutoffChange(tenantID(1), userID(1), 400))
	if got := stored[0].GetUserCutoff().GetNotBeforeNs(); got != 500 {
		t.Errorf("watchers were told %d, want 500", got)
	}
	if list := b.machine.View().UserCutoffs(); len(list) != 1 || list[0].GetNotBeforeNs() != 500 {
		t.Errorf("stored %v", list)
	}
	b.refused("TENANT_NOT_FOUND", cutoffChange(tenantID(2), userID(1), 1))
	b.refused("TIME_AHEAD", cutoffChange(tenantID(1), userID(1), int64(2*cutoffAheadMax)))
	b.refused("VALIDATION_ERROR", cutoffChange(tenantID(1), "usr_1", 1))
	b.refused("VALIDATION_ERROR", cutoffChange(tenantID(1), userID(1), 0))
}

func TestUserCutoff_IsForgottenWhenNoTokenCanLive(t *testing.T) {
	t.Parallel()
	if cutoffKept <= usertoken.LifeMax+usertoken.SkewMax+cutoffAheadMax {
		t.Fatalf("a token may outlive its cutoff")
	}
	b := newBench(t)
	b.must(testTenant(1, "acme"))
	b.must(cutoffChange(tenantID(1), userID(1), 1))
	b.later = cutoffKept - time.Second
	b.must(cutoffChange(tenantID(1), userID(2), int64(b.later)))
	if list := b.machine.View().UserCutoffs(); len(list) != 2 {
		t.Fatalf("within its time: %v", list)
	}
	b.later = cutoffKept + time.Second
	b.must(cutoffChange(tenantID(1), userID(3), int64(b.later)))
	list := b.machine.View().UserCutoffs()
	if len(list) != 2 || list[0].GetUserId() != userID(2) || list[1].GetUserId() != userID(3) {
		t.Errorf("after its time: %v", list)
	}
	if err := b.machine.Reset(); err != nil {
		t.Fatal(err)
	}
	if again := b.machine.View().UserCutoffs(); len(again) != 2 {
		t.Errorf("read anew: %v", again)
	}
}

func TestUserCutoff_NumberIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(testTenant(1, "acme"))
	var changes []*cellv1.Change
	for i := range cutoffsMax {
		changes = append(changes, cutoffChange(tenantID(1), userID(i), 1))
		if len(changes) == changesMax || i == cutoffsMax-1 {
			b.must(changes...)
			changes = nil
		}
	}
	b.refused("LIMIT_REACHED", cutoffChange(tenantID(1), userID(cutoffsMax), 1))
	b.must(cutoffChange(tenantID(1), userID(0), 2)) // One that is known takes no room.
}
