package state

import "github.com/corvo-cloud/corvo/data-plane/internal/records"

func (q *queueRecord) generation() records.Generation {
	if q.hasConfig {
		return q.config.Generation()
	}
	return records.Generation{Own: q.gen}
}
