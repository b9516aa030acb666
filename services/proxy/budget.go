package proxy

import "sync"

// tenantPart: one tenant may have this fraction of a budget.
const tenantPart = 4

// budget counts something, the bytes of bodies in memory or the calls that are held, in all
// and for each tenant.
type budget struct {
	most, mostOfOne int64

	mu sync.Mutex
	// Guarded by mu.
	all      int64
	byTenant map[string]int64
}

// newBudget leaves one tenant room for leastOfOne whatever the limit is.
func newBudget(most, leastOfOne int64) *budget {
	return &budget{most: most, mostOfOne: max(most/tenantPart, leastOfOne), byTenant: map[string]int64{}}
}

// add counts what is held, or released if n is negative, and reports whether
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
