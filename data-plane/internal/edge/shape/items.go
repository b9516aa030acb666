package shape

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Items keeps a batch in step with its results when some items never reach the
// use case, because what they name can not exist.
type Items[T any] struct {
	In   []T
	At   []int   // At[k] is the place of In[k] in the request.
	Errs []error // One per item of the request.
}

// NewItems makes Items for a request of n.
func NewItems[T any](n int) *Items[T] {
	return &Items[T]{In: make([]T, 0, n), At: make([]int, 0, n), Errs: make([]error, n)}
}

// ID reads the job id of item i; an id that none can have is an outcome of its own.
func (b *Items[T]) ID(i int, text string) (job.ID, bool) {
	id, err := job.ParseID(text)
	if err != nil {
		b.Errs[i] = ErrNoJob()
		return id, false
	}
	return id, true
}

// Add puts what the use case gets of item i.
func (b *Items[T]) Add(i int, in T) {
	b.In = append(b.In, in)
	b.At = append(b.At, i)
}

// Settle takes the results of the use case, one per item that was added.
func (b *Items[T]) Settle(errs []error) {
	for k, err := range errs {
		b.Errs[b.At[k]] = err
	}
}

// ErrNoJob refuses what names a job that does not exist.
func ErrNoJob() error { return fault.New(fault.NotFound, "NOT_FOUND", "the job does not exist") }
