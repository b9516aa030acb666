package queue

import (
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Check lists what Enqueue would refuse about the input. A handler that found
// problems of its own uses it to report all of them at once.
func (in *EnqueueInput) Check(c Caller, now time.Time) []fault.Field { return in.validate(c, now) }

// Check lists what Fetch would refuse about the input.
func (in *FetchInput) Check() []fault.Field { return in.validate() }

// Check lists what SetQueue would refuse about the queue's name and the settings.
func (in *QueueSettings) Check(name string) []fault.Field { return in.validate(name) }
