package server

import (
	"encoding/json"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
)

// onFailureField reads a job, or the word that generation-1 clients send.
func onFailureField() shape.Field[queue.ChainInput] {
	f := shape.Object("on_failure", `Enqueued when a step becomes dead. Or a string: "stop" (enqueue nothing) or "continue" (run the next step anyway).`,
		stepShape, func(in *queue.ChainInput) *wire.ChainStep {
			in.OnFailure = new(wire.ChainStep)
			return in.OnFailure
		})
	f.Schema = shape.Schema{OneOf: []shape.Schema{{Ref: shape.Ref(stepShape.Name)}, {Type: "string", Examples: []any{"stop", "continue"}}}}
	object := f.Read
	f.Read = func(d *shape.Decoder, path string, v []byte, into *queue.ChainInput) string {
		if shape.KindOf(v) != '"' {
			return object(d, path, v, into)
		}
		switch shape.Unquote(v) {
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

func chainField() shape.Field[queue.EnqueueInput] {
	return shape.Object("chain", "Steps that run after the job.", chainShape, func(in *queue.EnqueueInput) *queue.ChainInput {
		in.Chain = new(queue.ChainInput)
		return in.Chain
	})
}

// stepShape and chainShape are the part of an enqueue that is about the jobs after it.
var (
	stepShape = shape.New("ChainStep",
		shape.Text("queue", "Queue name. Optional for the first step, which uses the job's queue.", func(in *wire.ChainStep) *string { return &in.Queue }),
		shape.RawJSON("payload", "An object, to which the previous job's id and result are added. Any other value is moved to payload.",
			func(in *wire.ChainStep) *json.RawMessage { return &in.Payload }),
	).Strictly()

	chainShape = shape.New("ChainRequest",
		shape.List("steps", "The steps in order; the enqueued job is the first.", queue.ChainStepsMax, stepShape,
			func(in *queue.ChainInput) *[]wire.ChainStep { return &in.Steps }).Must(),
		onFailureField(),
		shape.Object("on_exit", "Enqueued after the last step, or when a worker acks with step_status exit.", stepShape, func(in *queue.ChainInput) *wire.ChainStep {
			in.OnExit = new(wire.ChainStep)
			return in.OnExit
		}),
	).Strictly()
)
