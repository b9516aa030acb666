package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/node"
)

// Exit codes. Scripts depend on them: append only.
const (
	ExitOK       = 0
	ExitFail     = 1 // Anything without a code of its own.
	ExitUsage    = 2 // The command line or the request is wrong.
	ExitNotFound = 3 // No such job or queue; for fetch: no job was ready.
	ExitAuth     = 4 // No key, a bad key, or a key that may not do this.
	ExitConflict = 5 // The job or queue is not in a state that allows it; a lease was lost.
	ExitRate     = 6 // A limit was reached; retry later.
	ExitTimeout  = 7 // No answer in time: a write may or may not have happened.
	ExitPartial  = 8 // Some items succeeded and some did not.

	ExitStopped = node.ExitStopped // 70: the server stopped itself; somebody has to look.
	ExitStuck   = node.ExitStuck   // 75: the server's shutdown was cut off; start again.
	ExitVersion = node.ExitVersion // 78: this program doesn't speak the version of the data.
)

// Failure is an error as a person or a script reads it.
type Failure struct {
	Exit      int
	Code      wire.Code // Of a refusal, or a word of ours; stable.
	What      string    // What happened.
	Why       string
	Fix       string // What to do about it.
	RequestID string
	Status    int // HTTP status, 0 without an answer.
	Fields    []wire.ProblemField
}

func (f *Failure) Error() string {
	if f.Why == "" {
		return f.What
	}
	return f.What + ": " + f.Why
}

func usagef(format string, args ...any) *Failure {
	return &Failure{Exit: ExitUsage, Code: "USAGE", What: fmt.Sprintf(format, args...)}
}

// toFailure gives every error a code. The parser's errors are usage, and Failures
// already, but for two; any other went wrong on the way, such as a write to a full disk.
func toFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	if f, ok := parserFailure(err); ok {
		return f
	}
	return &Failure{Exit: ExitFail, Code: "FAILED", What: err.Error()}
}

// fromTransport explains a request that got no answer.
func fromTransport(ctx context.Context, method, base string, err error) *Failure {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f := interruption("stopped before the server responded")
		if method != http.MethodGet {
			f.Exit, f.Fix = ExitTimeout, fixOfUnknown(method)
		}
		return f
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		f := &Failure{Exit: ExitTimeout, Code: "TIMEOUT", What: "" + base + " didn't respond in time",
			Fix: "check `corvo status`, or raise --timeout"}
		if method != "GET" {
			f.Why = "the request may have taken effect"
		}
		return f
	case errors.As(err, new(*lostError)):
		return &Failure{Exit: ExitTimeout, Code: wire.CodeUnknownOutcome, What: "lost the connection to " + base + " before it responded",
			Why: rootCause(err), Fix: fixOfUnknown(method)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Failure{Exit: ExitFail, Code: "UNREACHABLE", What: "can't reach " + base, Why: "nothing is listening there",
			Fix: "start a server with `corvo server`, or set --server or CORVO_URL"}
	default:
		var dns *net.DNSError
		fix := "check --server or CORVO_URL"
		if errors.As(err, &dns) {
			fix = "the host name can't be resolved; " + fix
		}
		return &Failure{Exit: ExitFail, Code: "UNREACHABLE", What: "can't reach " + base, Why: rootCause(err), Fix: fix}
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func rootCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// fromReply turns an answer of status 400 and above into a Failure.
func fromReply(r *reply, method string) *Failure {
	var p wire.Problem
	_ = json.Unmarshal(r.body, &p) // Not JSON: a proxy's own page; the status alone speaks.
	if isGatewayStatus(r.status) && (p.Code == "" || p.Error == "") {
		// Only a server of ours promises that nothing was done. A gateway says the same
		// of a server that it lost after it had sent it the call.
		p.Code = wire.CodeUnknownOutcome
	}
	if r.status == 404 && p.Code == "" && p.Error == "" {
		return &Failure{Exit: ExitFail, Code: "BAD_ANSWER", Status: r.status, What: "no Corvo API at this address",
			Fix: "check that --server or CORVO_URL is the address of a Corvo server or tenant"}
	}
	f := &Failure{Status: r.status, Code: cmp.Or(p.Code, wire.Code(fmt.Sprintf("HTTP_%d", r.status))), Exit: exitOf(r.status, p.Code), Fix: fixOf(r, p.Code, method),
		RequestID: cmp.Or(p.RequestID, r.header.Get("X-Request-Id"), r.header.Get("X-Corvo-Request-Id")), Fields: p.Fields,
		What: cmp.Or(p.Error, fmt.Sprintf("the server responded with status %d", r.status))}
	if len(f.Fields) > 0 {
		// The text repeats the fields for clients that show nothing else.
		f.What, _, _ = strings.Cut(f.What, "; "+f.Fields[0].Field+": ")
	}
	return f
}

func isGatewayStatus(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

func exitOf(status int, code wire.Code) int {
	// An enqueue is never refused with 409, but these are conflicts to a script.
	switch code {
	case wire.CodeQueueDraining, wire.CodeBatchClosed, wire.CodeTooManyDependents, wire.CodeTooManyBatches:
		return ExitConflict
	}
	switch status {
	case 400, 413, 422:
		return ExitUsage
	case 401, 403:
		return ExitAuth
	case 404, 410:
		return ExitNotFound
	case 408, 504:
		return ExitTimeout
	case 409:
		return ExitConflict
	case 429:
		return ExitRate
	}
	if code == wire.CodeUnknownOutcome {
		return ExitTimeout
	}
	return ExitFail
}

func fixOfUnknown(method string) string {
	if method == http.MethodGet {
		return "retry in a moment"
	}
	return "it may have taken effect: check before you repeat it"
}

func fixOf(r *reply, code wire.Code, method string) string {
	switch {
	case code == wire.CodeUnknownOutcome:
		return fixOfUnknown(method)
	case code == wire.CodeQueueDraining:
		return "let it take jobs again with `corvo resume QUEUE`"
	case r.status == 401:
		return "set CORVO_API_KEY or use --api-key-file"
	case r.status == 403:
		return "use a key of the tenant in the URL whose role allows this; pause, retry and cancel need an operator"
	case r.status == 404:
		return "check the id, the namespace and the key"
	case r.status == 429:
		if after := r.header.Get("Retry-After"); after != "" {
			return "retry after " + after + " s"
		}
		return "retry more slowly"
	case r.status == 503:
		return "nothing was changed; retry in a moment"
	}
	return ""
}

// report writes a Failure to stderr: one JSON line for machines, lines of talk
// for people.
func (s *session) report(f *Failure, machine bool) {
	if machine {
		s.reportJSON(f)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, " %s\n", f.What)
	if f.Why != "" {
		fmt.Fprintf(&b, "  why: %s\n", f.Why)
	}
	for _, field := range f.Fields {
		if strings.Contains(f.What, field.Message) {
			continue // Said already: the control plane's message lists them.
		}
		fmt.Fprintf(&b, "  %s: %s\n", field.Field, field.Message)
	}
	if f.Fix != "" {
		fmt.Fprintf(&b, "  fix: %s\n", f.Fix)
	}
	if f.RequestID != "" {
		fmt.Fprintf(&b, "  request id: %s\n", f.RequestID)
	}
	fmt.Fprint(s.proc.Stderr, s.paint(styleBad, "error:"), printable(b.String()))
}

func (s *session) reportJSON(f *Failure) {
	line, err := marshal(struct {
		Error     string              `json:"error"`
		Code      wire.Code           `json:"code"`
		Why       string              `json:"why,omitempty"`
		Hint      string              `json:"hint,omitempty"`
		RequestID string              `json:"request_id,omitempty"`
		Status    int                 `json:"status,omitempty"`
		ExitCode  int                 `json:"exit_code"`
		Fields    []wire.ProblemField `json:"fields,omitempty"`
	}{f.What, f.Code, f.Why, f.Fix, f.RequestID, f.Status, f.Exit, f.Fields})
	if err != nil {
		panic(fmt.Sprintf("encode an error report: %v", err)) // Strings and numbers only.
	}
	fmt.Fprintf(s.proc.Stderr, "%s\n", line)
}
