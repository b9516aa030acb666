package wire

import (
	"strconv"
	"time"
)

// Problem is the body of every refusal: RFC 9457 members beside the error and
// code that existing clients read.
type Problem struct {
	Error        string         `json:"error"`
	Code         Code           `json:"code"`
	Type         string         `json:"type"`
	Title        string         `json:"title"`
	Status       int            `json:"status"`
	Detail       string         `json:"detail"`
	RequestID    string         `json:"request_id,omitempty"`
	Fields       []ProblemField `json:"fields,omitempty"`
	RetryAfterMS int64          `json:"retry_after_ms,omitempty"`
	Limit        *ProblemLimit  `json:"limit,omitempty"`
}

// ProblemLimit is the limit that was reached: one of the tenant's plan, or one that all
// tenants have.
type ProblemLimit struct {
	Name    string    `json:"name"`
	Value   int64     `json:"value"`
	Current int64     `json:"current,omitempty"`
	OpensAt time.Time `json:"opens_at,omitzero"`
}

// RetryAfterMSHeader is the metadata of a refused RPC that has what a problem has in
// retry_after_ms.
const RetryAfterMSHeader = "Retry-After-Ms"

// RetryAfter is how a refusal says when to come back: the header Retry-After, and the
// milliseconds. Both are rounded up, because who comes back too early is refused again.
// HTTP's header has whole seconds; only that of OVERLOADED has fractions, which the
// clients of the API contract read.
func RetryAfter(code Code, d time.Duration) (header string, ms int64) {
	ms = int64((d + time.Millisecond - 1) / time.Millisecond)
	if code == CodeOverloaded && ms%1000 != 0 {
		return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64), ms
	}
	return strconv.FormatInt((ms+999)/1000, 10), ms
}

// ProblemField is one refused member of a request.
type ProblemField struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Status is {"status": ...}, the answer of calls with nothing else to say.
type Status struct {
	Status string `json:"status"`
}
