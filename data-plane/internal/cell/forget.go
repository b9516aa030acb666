package cell

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

const (
	// forgetMax records end in one entry.
	forgetMax = 500
	// forgetEvery is how often the leader looks for records to end; forgetPause is the
	// pause between two entries while there are more, because each is a change to every
	// proxy.
	forgetEvery = time.Minute
	forgetPause = time.Second
)

// tombstone records a deletion and which control plane made it, if one did.
type tombstone struct {
	generation uint64
	source     string
}

func (g tombstone) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, g.generation), g.source...)
}

// markDeleted writes a record's tombstone. Deleted records never return, so each has one
// at most.
func (e *edit) markDeleted(id string) {
	e.set(e.tombstone(e.now.UnixNano(), id), e.writer.encode())
}

// deletion reads a tombstone.
func (e *edit) deletion(at int64, id string) (g tombstone, found bool) {
	b := e.get(e.tombstone(at, id))
	if b == nil {
		return tombstone{}, false
	}
	if len(b) < 8 {
		statedb.Check(fmt.Errorf("the record of a deletion has %d bytes", len(b)))
	}
	return tombstone{binary.BigEndian.Uint64(b), string(b[8:])}, true
}

// forget removes the records of what was deleted long ago, and returns those removed. A
// record that is not as the leader saw it stays.
func (e *edit) forget(in *cellv1.Forget) *cellv1.Forget {
	out := &cellv1.Forget{}
	for _, g := range in.GetGone() {
		if g.GetAtNs() > e.now.Add(-celladmin.TombstonesKept).UnixNano() {
			continue
		}
		if e.forgetOne(g.GetId(), g.GetAtNs()) {
			out.Gone = append(out.Gone, g)
		}
	}
	return out
}

func (e *edit) forgetOne(id string, at int64) bool {
	switch {
	case strings.HasPrefix(id, tenantIDPrefix):
		return e.forgetTenant(id, at)
	case strings.HasPrefix(id, keyIDPrefix):
		return e.forgetKey(id, at)
	default:
		return e.forgetNamespace(id, at)
	}
}

// forgetTenant: everything in it must be gone first.
func (e *edit) forgetTenant(id string, at int64) bool {
	g, found := e.deletion(at, id)
	if !found {
		return false
	}
	for _, family := range []byte{famKey, famNamespace} {
		if e.number(e.own(family, id)) > 0 {
			return false
		}
	}
	if g.generation > 0 {
		// A control plane numbers all its writes from one counter, so one floor serves the
		// sources of all forgotten tenants.
		seen := e.number(e.key(famSource, g.source))
		g.generation = max(g.generation, seen)
		e.remove(e.key(famSource, g.source))
	}
	e.remove(e.own(famKey, id))
	e.remove(e.own(famNamespace, id))
	e.remove(e.key(famTenant, id))
	e.close(g, at, id)
	return true
}

func (e *edit) forgetKey(id string, at int64) bool {
	var k cellv1.Key
	known := e.record(e.key(famKey, id), &k)
	if known && !k.GetRevoked() {
		if _, found := e.deletion(at, k.GetTenantId()); !found {
			return false
		}
		e.remove(e.key(famKey, id))
		e.died(&keyQuota, k.GetTenantId())
		return true
	}
	g, found := e.deletion(at, id)
	if !found {
		return false
	}
	e.remove(e.key(famKey, id))
	e.close(g, at, id)
	return true
}

// forgetNamespace: only when its shard has nothing left of it.
func (e *edit) forgetNamespace(text string, at int64) bool {
	id := statedb.Must(job.ParseNamespace(text)) // validate has seen it.
	var n cellv1.Namespace
	known := e.record(e.layout.namespace(id), &n)
	if known && !n.GetSwept() {
		return false
	}
	if known && !n.GetDeleted() {
		if _, found := e.deletion(at, n.GetTenantId()); !found {
			return false
		}
		e.forgetLivingNamespace(id, &n)
		return true
	}
	g, found := e.deletion(at, text)
	if !found {
		return false
	}
	e.remove(e.layout.namespace(id))
	e.close(g, at, text)
	return true
}

// forgetLivingNamespace ends one that goes with its tenant.
func (e *edit) forgetLivingNamespace(id job.Namespace, n *cellv1.Namespace) {
	e.died(&namespaceQuota, n.GetTenantId())
	ended := &cellv1.Namespace{Id: n.GetId(), TenantId: n.GetTenantId(), Name: n.GetName(), Shard: n.GetShard(), Deleted: true}
	e.liveNamespace(id, ended, n, true)
	e.remove(e.layout.namespace(id))
}

// close removes a tombstone, and keeps the generation of the deletion.
func (e *edit) close(g tombstone, at int64, id string) {
	e.remove(e.tombstone(at, id))
	if g.generation == 0 {
		return
	}
	key := e.key(famMeta, metaControl)
	var known cellv1.GetIndexResponse
	if e.record(key, &known); known.GetForgottenGeneration() < g.generation {
		known.ForgottenGeneration = g.generation
		e.setRecord(key, &known)
	}
}

// forgotten is the highest generation of all that the cell has forgotten.
func (e *edit) forgotten() uint64 {
	var known cellv1.GetIndexResponse
	e.record(e.key(famMeta, metaControl), &known)
	return known.GetForgottenGeneration()
}

// swept records that the shard of a deleted namespace has nothing left of it.
func (e *edit) swept(text string) *cellv1.Namespace {
	id := statedb.Must(job.ParseNamespace(text)) // validate has seen it.
	n := &cellv1.Namespace{}
	known := e.record(e.layout.namespace(id), n)
	var t cellv1.Tenant
	tenant := e.record(e.key(famTenant, n.GetTenantId()), &t)
	if !known || !n.GetDeleted() && tenant && !t.GetDeleted() {
		refuse(fault.NotFound, "NAMESPACE_NOT_FOUND", "deleted namespace %s not found", text)
	}
	n.Swept = true
	e.setRecord(e.layout.namespace(id), n)
	return n
}

// Swept tells the meta group's leader that the shard of a deleted namespace has nothing
// left of it. If the cell knows that already, or does not know the namespace, nothing is
// written.
func (m *Membership) Swept(ctx context.Context, ns job.Namespace) error {
	if n, known := m.cell.View().NamespaceByID(ns); !known || n.GetSwept() {
		return nil
	}
	req := &cellv1.ApplyRequest{Changes: []*cellv1.Change{{Change: &cellv1.Change_SweptNamespaceId{SweptNamespaceId: ns.String()}}}}
	return m.onLeader(ctx, GroupID, again,
		func(ctx context.Context) error {
			_, err := m.cell.Apply(ctx, req)
			return err
		},
		func(ctx context.Context, leader cellv1connect.CellServiceClient) error {
			_, err := leader.Apply(ctx, carried(req))
			return err
		})
}

// due finds records to end, as of now: the oldest first, at most forgetMax.
func (m *Machine) due(now time.Time) ([]*cellv1.Gone, error) {
	v := m.View()
	var out []*cellv1.Gone
	tenants := make(map[string]int64)
	from, to := m.key(famTombstone), m.tombstone(now.Add(-celladmin.TombstonesKept).UnixNano()+1, "")
	snap := m.store.View()
	err := snap.Scan(from, to, func(key, _ []byte) (bool, error) {
		at, id, err := m.parseTombstone(key)
		if err != nil {
			return false, err
		}
		switch {
		case strings.HasPrefix(id, tenantIDPrefix):
			tenants[id] = at
		case strings.HasPrefix(id, keyIDPrefix) || v.mayForget(id):
			out = append(out, &cellv1.Gone{Id: id, AtNs: at})
		}
		return len(out) < forgetMax, nil
	})
	if err := errors.Join(err, snap.Close()); err != nil {
		return nil, fmt.Errorf("look for records to remove: %w", err)
	}
	if len(tenants) > 0 {
		out = append(out, v.goneTenants(tenants)...)
	}
	return out[:min(len(out), forgetMax)], nil
}

// mayForget is false for a namespace of which its shard still has something.
func (v *View) mayForget(text string) bool {
	id, err := job.ParseNamespace(text)
	if err != nil {
		return false
	}
	n, known := v.namespaces.get(id)
	return !known || n.GetSwept()
}

// goneTenants lists what is left in deleted tenants, then the tenants.
func (v *View) goneTenants(tenants map[string]int64) (out []*cellv1.Gone) {
	held := make(map[string]bool) // A shard still has something of them.
	for n := range v.namespaces.all() {
		at, gone := tenants[n.GetTenantId()]
		switch {
		case !gone || n.GetDeleted():
		case n.GetSwept():
			out = append(out, &cellv1.Gone{Id: n.GetId(), AtNs: at})
		default:
			held[n.GetTenantId()] = true
		}
	}
	for k := range v.keys.all() {
		if at, gone := tenants[k.GetTenantId()]; gone && !k.GetRevoked() {
			out = append(out, &cellv1.Gone{Id: k.GetId(), AtNs: at})
		}
	}
	if len(out) >= forgetMax {
		return out
	}
	for id, at := range tenants {
		if !held[id] {
			out = append(out, &cellv1.Gone{Id: id, AtNs: at})
		}
	}
	return out
}

// forgetDeleted removes the records of what was deleted long ago, until the term ends.
// It proposes nothing while there are none (law 7).
func (c *Cell) forgetDeleted(ctx context.Context) {
	for ctx.Err() == nil {
		rest := c.forgetEvery
		ended, err := c.forgetOnce(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			c.logger.Warn("can't remove records of old deletions; retrying", "err", err)
		case ended > 0:
			c.logger.Info("removed records of old deletions", "records", ended)
			rest = min(rest, forgetPause)
		}
		_ = pause(ctx, rest) // The loop sees the end.
	}
}

func (c *Cell) forgetOnce(ctx context.Context) (int, error) {
	gone, err := c.machine.due(time.Unix(0, c.group.Now().Calendar))
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	res, err := c.propose(ctx, &cellv1.ApplyRequest{Changes: []*cellv1.Change{{Change: &cellv1.Change_Forget{Forget: &cellv1.Forget{Gone: gone}}}}})
	if err != nil {
		return 0, err
	}
	return len(res.GetStored()[0].GetForget().GetGone()), nil
}
