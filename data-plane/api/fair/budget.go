package fair

import "sync"

// Budget is an amount, of bytes or calls for example, that is taken and given back. As
// long as some is left anybody may take it. When nothing is left, those may still take
// who have less than their share of it: the amount divided by the weights of all who have
// something. So the whole may be exceeded, but never doubled.
type Budget[K comparable] struct {
	most   int64
	weight func(K) int64

	mu sync.Mutex // Guards what follows.
	// used is what was taken, weights those of everybody who took something.
	used, weights int64
	by            map[K]*part
}

type part struct{ used, weight int64 }

// NewBudget makes a budget of most, which weight divides; without it all weigh the same.
func NewBudget[K comparable](most int64, weight func(K) int64) *Budget[K] {
	return &Budget[K]{most: most, weight: weight, by: make(map[K]*part)}
}

// Take takes n for k, or nothing.
func (b *Budget[K]) Take(k K, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.by[k]
	if !known {
		p = &part{weight: weightOf(b.weight, k)}
	}
	if !b.fits(p, known, n) {
		return false
	}
	if !known {
		b.by[k] = p
		b.weights += p.weight
	}
	p.used += n
	b.used += n
	return true
}

func (b *Budget[K]) fits(p *part, known bool, n int64) bool {
	if b.used+n <= b.most {
		return true
	}
	if b.used+n > 2*b.most {
		return false
	}
	weights := b.weights
	if !known {
		weights += p.weight
	}
	// Who has nothing may take one thing, however small the shares are.
	return p.used == 0 || p.used+n <= b.most*p.weight/weights
}

// Give gives back what k took.
func (b *Budget[K]) Give(k K, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.by[k]
	if !known {
		return
	}
	p.used -= n
	b.used -= n
	if p.used <= 0 {
		b.used -= p.used // What was given twice.
		b.weights -= p.weight
		delete(b.by, k)
	}
}

// Used is what was taken and not given back.
func (b *Budget[K]) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
