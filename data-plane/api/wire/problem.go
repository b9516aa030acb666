package wire

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
