package cell

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// tokenKey writes or removes a key that verifies user tokens. The id is derived
// from the key, so one id never means two keys.
func (e *edit) tokenKey(k *cellv1.TokenKey) {
	key := e.key(famTokenKey, k.GetId())
	var old cellv1.TokenKey
	known := e.record(key, &old)
	switch {
	case k.GetDeleted() && !known:
		return
	case k.GetDeleted():
		e.remove(key)
		e.uncount(famTokenKey, k.GetId())
		return
	case !known:
		e.count(famTokenKey, "token keys", tokenKeysMax)
	case !bytes.Equal(old.GetPublicKey(), k.GetPublicKey()):
		refuse(fault.Conflict, "KEY_CHANGED", "token key %s already has another public key; use a new id for a new key", k.GetId())
	}
	e.setRecord(key, k)
}

// userCutoff ends a user's older tokens. A later call with an earlier time changes
// nothing: what was cut off stays so.
func (e *edit) userCutoff(in *cellv1.UserCutoff) *cellv1.UserCutoff {
	e.requireTenant(in.GetTenantId(), false)
	if in.GetNotBeforeNs() > e.now.Add(cutoffAheadMax).UnixNano() {
		refuse(fault.Conflict, "TIME_AHEAD", "not_before_ns is more than %v ahead of the cell's clock", cutoffAheadMax)
	}
	if e.cutoffs == nil {
		e.cutoffs = &cellv1.UserCutoffs{}
		e.record(e.key(famMeta, metaCutoffs), e.cutoffs)
	}
	out, _ := proto.Clone(in).(*cellv1.UserCutoff)
	if i, ok := slices.BinarySearchFunc(e.cutoffs.GetList(), out, compareCutoffs); ok {
		out.NotBeforeNs = max(out.NotBeforeNs, e.cutoffs.GetList()[i].GetNotBeforeNs())
	}
	e.cutoffs.List = withCutoff(e.cutoffs.GetList(), out, e.now)
	if len(e.cutoffs.GetList()) > cutoffsMax {
		refuse(fault.Exhausted, "LIMIT_REACHED", "the cell already remembers %d cut-off users, its limit; try again in up to %v", cutoffsMax, cutoffKept)
	}
	return out
}

// withCutoff returns list with c added, without cutoffs whose tokens have all
// expired. It never changes list.
func withCutoff(list []*cellv1.UserCutoff, c *cellv1.UserCutoff, now time.Time) []*cellv1.UserCutoff {
	oldest := now.Add(-cutoffKept).UnixNano()
	out := make([]*cellv1.UserCutoff, 0, len(list)+1)
	for _, old := range list {
		if old.GetNotBeforeNs() >= oldest && compareCutoffs(old, c) != 0 {
			out = append(out, old)
		}
	}
	i, _ := slices.BinarySearchFunc(out, c, compareCutoffs)
	return slices.Insert(out, i, c)
}

func compareCutoffs(a, b *cellv1.UserCutoff) int {
	return cmp.Or(cmp.Compare(a.GetTenantId(), b.GetTenantId()), cmp.Compare(a.GetUserId(), b.GetUserId()))
}
