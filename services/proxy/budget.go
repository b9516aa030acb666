package proxy

import "sync"

// tenantPart: one tenant may hold this fraction of the memory for bodies.
const tenantPart = 4

// budget counts the bytes of bodies in memory, in all and for each tenant.
type budget struct {
	most, mostOfOne int64

	mu sync.Mutex
	// Guarded by mu.
	all      int64
	byTenant map[string]int64
}

// newBudget leaves one tenant room for two bodies whatever the limits are.
func newBudget(l Limits) *budget {
	return &budget{
		most: l.BufferBytesMax, mostOfOne: max(l.BufferBytesMax/tenantPart, 2*l.BodyBytesMax),
		byTenant: map[string]int64{},
	}
}

// add counts bytes that are held, or released if n is negative, and reports whether
// the total is within the limits.
func (b *budget) add(tenant string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all += n
	of := b.byTenant[tenant] + n
	if of == 0 {
		delete(b.byTenant, tenant)
	} else {
		b.byTenant[tenant] = of
	}
	return b.all <= b.most && of <= b.mostOfOne
}
