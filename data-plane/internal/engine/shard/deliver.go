package shard

import (
	"fmt"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// tellBytes is what a job that learns of an ending costs an entry: mostly its head, at
// worst a body of 256 KiB. One ending tells so many that it fills an entry.
const tellBytes = 4096

// addDelivery fires the row by which jobs learn how another one ended, or leaves it for a
// later entry: an entry tells no more jobs than fit into one, however many end at once.
func (t *term) addDelivery(b *batch, d keys.Due) error {
	if b.fired >= entryBytesMax {
		t.due.leave(d.At, b.now.Calendar)
		return nil
	}
	n, err := stateread.CountDependents(t.shard.store, d)
	if err != nil {
		return fmt.Errorf("count those who wait for job %s: %w", d.ID, err)
	}
	b.fired += n * tellBytes
	b.append(&command.Fire{Due: d})
	return nil
}
