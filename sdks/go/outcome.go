package corvo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// A handler may return one of the errors of this file instead of a failure. They are
// found by errors.As, so they may be wrapped.

// outcomeError is an outcome that an error carries.
type outcomeError struct {
	out   outcome
	cause error // What encoding the outcome ran into, or what the handler failed with.
	word  string
}

func (e *outcomeError) Error() string {
	if e.cause != nil {
		return e.word + ": " + e.cause.Error()
	}
	return e.word
}

func (e *outcomeError) Unwrap() error { return e.cause }

// Terminal fails the attempt for good: the job is dead, whatever attempts are left.
func Terminal(err error) error {
	return &outcomeError{word: "terminal", cause: err, out: outcome{kind: outcomeFail, message: err.Error(), terminal: true}}
}

// retryDelayMax is the server's limit.
const retryDelayMax = 30 * 24 * time.Hour

// RetryIn fails the attempt; the next one is due after d instead of the backoff. A delay
// below zero is none, and one of more than 30 days is 30 days.
func RetryIn(d time.Duration, err error) error {
	d = min(max(d, 0), retryDelayMax)
	return &outcomeError{word: "retry in " + d.String(), cause: err, out: outcome{kind: outcomeFail, message: err.Error(), delay: &d}}
}

// Continue asks for another iteration of an agent job, which finds checkpoint.
func Continue(checkpoint any) error { return iterate(wire.AgentContinue, "", checkpoint) }

// HoldFor ends an iteration of an agent job and lets a person decide whether there is
// another one, which finds checkpoint.
func HoldFor(reason string, checkpoint any) error { return iterate(wire.AgentHold, reason, checkpoint) }

func iterate(status wire.AgentStatus, reason string, checkpoint any) error {
	raw, err := json.Marshal(checkpoint)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	return &outcomeError{word: string(status), out: outcome{
		kind: outcomeAck, ack: &corvov1.AckBatchItem{AgentStatus: string(status), HoldReason: reason, CheckpointJson: string(raw)},
	}}
}

// ExitChain completes the job with result and leaves out the remaining steps of its
// chain.
func ExitChain(result any, reason string) error {
	raw, err := encodeResult(result)
	if err != nil {
		return err
	}
	return &outcomeError{word: string(wire.StepExit), out: outcome{
		kind: outcomeAck, result: raw, ack: &corvov1.AckBatchItem{StepStatus: string(wire.StepExit), ExitReason: reason},
	}}
}

// requestedOutcome is the outcome that a handler's error asks for, if it does.
func requestedOutcome(err error) (outcome, bool) {
	var v *outcomeError
	if !errors.As(err, &v) {
		return outcome{}, false
	}
	return v.out, true
}

// The server's limits on the parts of an outcome. It cuts errors itself; what else is too
// long it refuses.
const (
	resultBytesMax     = 256 << 10
	errorBytesMax      = 16 << 10
	backtraceBytesMax  = 64 << 10
	holdReasonBytesMax = 1 << 10
	exitReasonBytesMax = 4 << 10
	modelBytesMax      = 128 // Of its provider, too.
)

// sendable is the outcome as a frame can carry it. Protobuf refuses text that is not
// UTF-8 and the server a frame of 4 MiB; either ends the stream, with all that shares the
// frame, each time it is sent. Text is mended and cut. JSON can't be: the attempt fails.
func (o outcome) sendable() outcome {
	if o.kind == outcomeNone {
		return outcome{kind: outcomeFail, message: "the attempt ended without an outcome"}
	}
	err := errors.Join(
		checkJSON("result", o.result, resultBytesMax),
		checkJSON("checkpoint", []byte(o.ack.GetCheckpointJson()), checkpointBytesMax))
	if err != nil {
		return outcome{kind: outcomeFail, message: err.Error()}
	}
	o.message, o.backtrace = cut(o.message, errorBytesMax), cut(o.backtrace, backtraceBytesMax)
	if o.ack != nil {
		o.ack = proto.CloneOf(o.ack) // It belongs to an error, which may be returned again.
		o.ack.HoldReason, o.ack.ExitReason = cut(o.ack.HoldReason, holdReasonBytesMax), cut(o.ack.ExitReason, exitReasonBytesMax)
	}
	return o
}

// checkJSON: encoding/json takes text that is not UTF-8 for valid in json.RawMessage.
func checkJSON(what string, raw []byte, limit int) error {
	if len(raw) > limit {
		return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the %s is %d bytes long, at most %d are allowed", what, len(raw), limit)}
	}
	if !utf8.Valid(raw) {
		return &Error{Code: CodeInvalid, Message: fmt.Sprintf("the %s is not valid UTF-8", what)}
	}
	return nil
}

// cut mends text and takes its first n bytes, less a character that they end in.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s[:min(len(s), n)], "\uFFFD")
	return strings.ToValidUTF8(s[:min(len(s), n)], "")
}

// ackItem is how a completed attempt is told.
func (t *task) ackItem() *corvov1.AckBatchItem {
	return &corvov1.AckBatchItem{
		JobId: t.lease.GetJobId(), LeaseToken: t.lease.GetLeaseToken(), ResultJson: string(t.out.result), Usage: t.usage(),
		AgentStatus: t.out.ack.GetAgentStatus(), HoldReason: t.out.ack.GetHoldReason(), CheckpointJson: t.out.ack.GetCheckpointJson(),
		StepStatus: t.out.ack.GetStepStatus(), ExitReason: t.out.ack.GetExitReason(),
	}
}

// failItem is how a failed or returned attempt is told.
func (t *task) failItem() *corvov1.LifecycleFailItem {
	f := &corvov1.LifecycleFailItem{
		JobId: t.lease.GetJobId(), LeaseToken: t.lease.GetLeaseToken(), Error: t.out.message, Backtrace: t.out.backtrace,
		Release: t.out.kind == outcomeRelease, Terminal: t.out.terminal, Usage: t.usage(),
	}
	if t.out.delay != nil {
		f.DelayMs = new(t.out.delay.Milliseconds())
	}
	return f
}

// Usage is what a model was used for in an attempt.
type Usage struct {
	Model, Provider                         string
	Input, Output, CacheCreation, CacheRead int64 // Tokens.
	CostUSD                                 float64
}

// Usage says what the attempt has used of a model so far. The last word counts; it is
// told with the attempt's outcome. A report that the server refuses, such as one with a
// negative number, is left out with an error in the log.
func (j *Job[A]) Usage(u Usage) {
	if j.task == nil {
		return
	}
	j.task.worker.mu.Lock()
	defer j.task.worker.mu.Unlock()
	j.task.used = &corvov1.UsageReport{
		Model: cut(u.Model, modelBytesMax), Provider: cut(u.Provider, modelBytesMax), InputTokens: u.Input, OutputTokens: u.Output,
		CacheCreationTokens: u.CacheCreation, CacheReadTokens: u.CacheRead, CostUsd: u.CostUSD, Kind: string(wire.UsageTotal),
	}
}

// usage is called with mu held.
func (t *task) usage() *corvov1.UsageReport { return t.used }
