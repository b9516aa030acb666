package server

import (
	"encoding/json"

	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// stepShape, chainShape and batchShape are the parts of an enqueue that are about
// other jobs than the one that is enqueued.
//
//nolint:gochecknoglobals // Constant tables.
var (
	stepShape = newShape("ChainStep",
		textField("queue", "Queue name. Optional for the first step, which uses the job's queue.", func(in *queue.StepInput) *string { return &in.Queue }),
		anyField("payload", "An object, to which the previous job's id and result are added. Any other value is moved to payload.",
			func(in *queue.StepInput) *json.RawMessage { return &in.Payload }),
	).strictly()

	chainShape = newShape("ChainRequest",
		listField("steps", "The steps in order; the enqueued job is the first.", queue.ChainStepsMax, stepShape,
			func(in *queue.ChainInput) *[]queue.StepInput { return &in.Steps }).must(),
		onFailureField(),
		objectField("on_exit", "Enqueued after the last step, or when a worker acks with step_status exit.", stepShape, func(in *queue.ChainInput) *queue.StepInput {
			in.OnExit = new(queue.StepInput)
			return in.OnExit
		}),
	).strictly()

	newBatchShape = newShape("BatchRequest", callbackFields()...).strictly()
	batchShape    = newShape("BatchOptions", append(callbackFields(),
		boolField("open", "More jobs can join until you seal the batch.", func(in *queue.BatchOptions) *bool { return &in.Open }),
	)...).strictly()
)

func callbackFields() []field[queue.BatchOptions] {
	return []field[queue.BatchOptions]{
		textField("callback_queue", "Queue of the callback job, which is enqueued when all jobs of the batch have ended; leave out for no callback.",
			func(in *queue.BatchOptions) *string { return &in.CallbackQueue }),
		anyField("callback_payload", "An object, to which the batch's counts are added. Any other value is moved to payload.",
			func(in *queue.BatchOptions) *json.RawMessage { return &in.CallbackPayload }),
	}
}

// onFailureField reads a job, or the word that generation-1 clients send.
func onFailureField() field[queue.ChainInput] {
	f := objectField("on_failure", `Enqueued when a step becomes dead. Or a string: "stop" (enqueue nothing) or "continue" (run the next step anyway).`,
		stepShape, func(in *queue.ChainInput) *queue.StepInput {
			in.OnFailure = new(queue.StepInput)
			return in.OnFailure
		})
	f.schema = schema{OneOf: []schema{{Ref: refOf(stepShape.name)}, {Type: "string", Examples: []any{"stop", "continue"}}}}
	object := f.read
	f.read = func(d *decoder, path string, v []byte, into *queue.ChainInput) string {
		if kindOf(v) != '"' {
			return object(d, path, v, into)
		}
		switch unquote(v) {
		case "", "stop":
		case "continue":
			into.GoOn = true
		default:
			return `must be a job, "stop" or "continue"`
		}
		return ""
	}
	return f
}

func chainField() field[queue.EnqueueInput] {
	return objectField("chain", "Steps that run after the job.", chainShape, func(in *queue.EnqueueInput) *queue.ChainInput {
		in.Chain = new(queue.ChainInput)
		return in.Chain
	})
}

// chainStep is nil for a job that is in no chain.
func chainStep(p *queue.Places) *int {
	if p.Chain.IsZero() {
		return nil
	}
	return &p.ChainStep
}

// idOrNone is "" for an id that is not set.
func idOrNone[T interface {
	IsZero() bool
	String() string
}](id T) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
