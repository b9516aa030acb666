package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadDue lists up to limit rows that wait for lease or for calendar time, with
// from <= time < to, in order.
func ReadDue(g *statedb.Group, lease bool, from, to int64, limit int) ([]keys.Due, error) {
	space := keys.In(g.Prefix())
	lower, upper := space.DueBetween(lease, from, to)
	var out []keys.Due
	err := g.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		d, err := space.ParseDue(key)
		if err != nil {
			return false, err
		}
		out = append(out, d)
		return len(out) < limit, nil
	})
	return out, err
}
