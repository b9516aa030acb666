// Package wire is the HTTP/JSON API in Go: its words, its answers, and the requests that
// clients build.
//
// It is the one place where they are written down. The node's use cases answer with these
// types, the OpenAPI document is made from them (and from it the console's types), and the
// clients in this repository decode into them:
//
//	var job wire.Job
//	if err := json.NewDecoder(resp.Body).Decode(&job); err != nil { … }
//	if job.State == wire.Dead && job.DeadReason == wire.DeadMaxRetries { … }
//
// A refusal, any status from 400 on, is a Problem; compare its Code with the constants, or
// go by the status.
//
// Answers: a member with omitempty or omitzero is left out when it is zero. A time that is
// always there and may be null is a pointer. Clients ignore members that they do not know,
// and words: each list, such as States, has those of today. Requests: what is required is
// always written, everything else is left out when it is zero, which means the default;
// where zero means something else the member is a pointer.
//
// The package imports nothing of ours and must not know how jobs are kept. Its tests stand
// in the node's server package, which compares the words with the engine's and the requests
// with what it reads.
//
// Surprising: a job's priority is a number in answers and a word in requests and schedules,
// as the first clients had it; the number is the word's place in Priorities.
package wire

import "encoding/json"

// Dollars is an amount with all its digits, at most nine behind the point. "" is 0.
type Dollars = json.Number
