package wire

// Code is the stable word of a refusal. More may come: go by the HTTP status for those
// you do not know.
type Code string

// Codes of refusals.
const (
	CodeValidation        Code = "VALIDATION_ERROR" // The fields of the problem say what is wrong.
	CodeParse             Code = "PARSE_ERROR"      // The body is not what its content type says.
	CodeNotFound          Code = "NOT_FOUND"
	CodeMethodNotAllowed  Code = "METHOD_NOT_ALLOWED"
	CodeNamespaceNotFound Code = "NAMESPACE_NOT_FOUND"
	CodeConflict          Code = "CONFLICT" // The thing is not in a state that allows it.
	CodeQueueChanged      Code = "QUEUE_CHANGED"
	CodeQueueDraining     Code = "QUEUE_DRAINING"
	CodeBatchClosed       Code = "BATCH_CLOSED"
	CodeTooManyBatches    Code = "TOO_MANY_BATCHES"
	CodeTooManyDependents Code = "TOO_MANY_DEPENDENTS"
	CodeTooManyOperations Code = "TOO_MANY_OPERATIONS"
	CodeTooManySchedules  Code = "TOO_MANY_SCHEDULES"
	CodeLeaseLost         Code = "LEASE_LOST" // The lease token is not that of the current attempt.
	CodeNotActive         Code = "NOT_ACTIVE" // No worker has the job.
	CodeUnauthorized      Code = "UNAUTHORIZED"
	CodeForbidden         Code = "FORBIDDEN"
	CodeCrossOrigin       Code = "CROSS_ORIGIN"
	CodeTokenExpired      Code = "TOKEN_EXPIRED"
	CodeTokenWithdrawn    Code = "TOKEN_WITHDRAWN"
	CodeOverloaded        Code = "OVERLOADED"
	CodeRateLimited       Code = "RATE_LIMITED"
	CodePlanLimit         Code = "PLAN_LIMIT" // The limit of the problem names it and says when more is allowed.
	CodeBudgetExceeded    Code = "BUDGET_EXCEEDED"
	CodeDiskFull          Code = "DISK_FULL"
	CodeSearchTooBroad    Code = "SEARCH_TOO_BROAD"
	CodePayloadTooLarge   Code = "PAYLOAD_TOO_LARGE"
	CodeHeadersTooLarge   Code = "HEADERS_TOO_LARGE"
	CodeMembership        Code = "MEMBERSHIP_ERROR"
	CodeCellVersion       Code = "CELL_VERSION"       // Nothing was done: the upgrade of the cell is not complete.
	CodeLeaderUnavailable Code = "LEADER_UNAVAILABLE" // Nothing was done.
	CodeNotLeader         Code = "NOT_LEADER"         // On worker streams.
	CodeForwardLoop       Code = "FORWARD_LOOP"       // Nothing was done.
	CodeListBehind        Code = "LIST_BEHIND"
	CodeRebuilding        Code = "REBUILDING"
	CodeStarting          Code = "STARTING"
	CodeClockSkew         Code = "CLOCK_SKEW"       // Nothing was done.
	CodeAuthStateStale    Code = "AUTH_STATE_STALE" // Nothing was done.
	CodeUnhealthy         Code = "UNHEALTHY"
	CodeUnknownOutcome    Code = "UNKNOWN_OUTCOME" // It may or may not have been done: send it again with the same idempotency key.
	CodeRequestTimeout    Code = "REQUEST_TIMEOUT"
	CodeCanceled          Code = "CANCELED"
	CodeUnsupported       Code = "UNSUPPORTED"
	CodeInternal          Code = "INTERNAL_ERROR"
)

// Codes lists those of problems: all but CodeNotLeader.
func Codes() []Code {
	return []Code{
		CodeValidation, CodeParse, CodeNotFound, CodeMethodNotAllowed, CodeNamespaceNotFound, CodeConflict, CodeQueueChanged, CodeQueueDraining,
		CodeBatchClosed, CodeTooManyBatches, CodeTooManyDependents, CodeTooManyOperations, CodeTooManySchedules, CodeLeaseLost, CodeNotActive,
		CodeUnauthorized, CodeForbidden, CodeCrossOrigin, CodeTokenExpired, CodeTokenWithdrawn, CodeOverloaded, CodeRateLimited, CodePlanLimit, CodeBudgetExceeded,
		CodeDiskFull, CodeSearchTooBroad, CodePayloadTooLarge, CodeHeadersTooLarge, CodeMembership, CodeCellVersion, CodeLeaderUnavailable, CodeForwardLoop, CodeListBehind, CodeRebuilding,
		CodeStarting, CodeClockSkew, CodeAuthStateStale, CodeUnhealthy, CodeUnknownOutcome, CodeRequestTimeout, CodeCanceled, CodeUnsupported, CodeInternal,
	}
}
