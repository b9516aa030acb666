package shard

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// refusals are the namespaces of which the shard took nothing lately: each is let be for a while,
// and holds up no other one.
type refusals map[job.Namespace]refusal

type refusal struct {
	err   error
	until time.Time
}

func (r refusals) add(ns job.Namespace, err error, pause time.Duration) {
	r[ns] = refusal{err, time.Now().Add(pause)}
}

// still is why a namespace is let be, or nil.
func (r refusals) still(ns job.Namespace) error {
	if last := r[ns]; time.Now().Before(last.until) {
		return last.err
	}
	delete(r, ns)
	return nil
}
