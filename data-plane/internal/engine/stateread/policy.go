package stateread

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// ReadPolicies lists the approval policies of a namespace, the oldest first.
func ReadPolicies(g *statedb.Group, ns job.Namespace) ([]records.Policy, error) {
	var out []records.Policy
	from, to := keys.In(g.Prefix()).Policies(ns)
	err := g.Scan(from, to, func(_, v []byte) (bool, error) {
		p, err := records.DecodePolicy(v)
		out = append(out, p)
		return true, err
	})
	return out, err
}
