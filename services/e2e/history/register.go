package history

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Register is a value that several clients write and read at the same time. Every call
// must look as if it had happened at one moment between its beginning and its answer (INV-18).
type Register struct {
	began time.Time
	mu    sync.Mutex // Guards calls.
	calls []porcupine.Operation
}

// access is one call. Of a read, value is what it answered.
type access struct {
	write bool
	value int
}

// NewRegister is a register whose value is 0.
func NewRegister() *Register { return &Register{began: time.Now()} }

// Wrote records a write. Without known it may happen at any time from begun on, or never.
func (r *Register) Wrote(client, value int, begun time.Time, known bool) {
	end := int64(math.MaxInt64)
	if known {
		end = time.Since(r.began).Nanoseconds()
	}
	r.add(client, access{true, value}, begun, end)
}

// Read records a read that was answered.
func (r *Register) Read(client, value int, begun time.Time) {
	r.add(client, access{false, value}, begun, time.Since(r.began).Nanoseconds())
}

func (r *Register) add(client int, a access, begun time.Time, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, porcupine.Operation{ClientId: client, Input: a, Call: begun.Sub(r.began).Nanoseconds(), Return: end})
}

// Check returns what is wrong, if anything.
func (r *Register) Check() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, written := map[int]bool{}, 0
	for _, c := range r.calls {
		switch a := c.Input.(access); {
		case !a.write:
			seen[a.value] = true
		case c.Return != math.MaxInt64:
			written++
		}
	}
	if len(r.calls) > 0 && (len(seen) == 0 || written == 0) {
		return []string{fmt.Sprintf("INV-18 was not looked at: of %d calls, %d writes were answered, and %d values read", len(r.calls), written, len(seen))}
	}
	// A write that may never have happened, and that nobody saw, bounds nothing.
	calls := slices.DeleteFunc(slices.Clone(r.calls), func(c porcupine.Operation) bool {
		a := c.Input.(access)
		return a.write && c.Return == math.MaxInt64 && !seen[a.value]
	})
	model := porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			a := input.(access)
			return a.write || state == a.value, a.value
		},
	}
	if porcupine.CheckOperations(model, calls) {
		return nil
	}
	return []string{fmt.Sprintf("INV-18: no order of these calls explains their answers: %+v", calls)}
}
