package messages

import (
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"

	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// ackItem is what AckRequest and AckBatchItem have in common.
type ackItem interface {
	GetLeaseToken() string
	GetResultJson() string
	GetCheckpointJson() string
	GetUsage() *corvov1.UsageReport
	GetAgentStatus() string
	GetHoldReason() string
	GetStepStatus() string
	GetExitReason() string
}

// Ack reads one ack of the job id.
func Ack(d *shape.Decoder, id job.ID, m ackItem, workerID string) queue.AckInput {
	return queue.AckInput{
		JobID: id, Token: m.GetLeaseToken(), WorkerID: workerID,
		Result:     jsonText(d, "result_json", m.GetResultJson()),
		Checkpoint: jsonText(d, "checkpoint_json", m.GetCheckpointJson()),
		Usage:      usage(d, "usage", m.GetUsage()),

		AgentStatus: wire.AgentStatus(m.GetAgentStatus()), HoldReason: m.GetHoldReason(),
		StepStatus: wire.StepStatus(m.GetStepStatus()), ExitReason: m.GetExitReason(),
	}
}

// Acks reads a list of acks: an item that is wrong in itself gets its own outcome and does not
// stop the others.
func Acks(list []*corvov1.AckBatchItem, workerID string) *shape.Items[queue.AckInput] {
	acks := shape.NewItems[queue.AckInput](len(list))
	for i, m := range list {
		id, ok := acks.ID(i, m.GetJobId())
		if !ok {
			continue
		}
		var d shape.Decoder
		in := Ack(&d, id, m, workerID)
		if err := d.Err(); err != nil {
			acks.Errs[i] = err
			continue
		}
		acks.Add(i, in)
	}
	return acks
}

// Outcomes are the results of acks and how many there are without an error; word is how
// an error is shown.
func Outcomes(list []*corvov1.AckBatchItem, errs []error, word func(error) (code, text string)) ([]*corvov1.ItemOutcome, int32) {
	out := make([]*corvov1.ItemOutcome, len(errs))
	var acked int32
	for i, err := range errs {
		out[i] = &corvov1.ItemOutcome{JobId: list[i].GetJobId()}
		if err == nil {
			acked++
			continue
		}
		out[i].Code, out[i].Error = word(err)
	}
	return out, acked
}

// failItem is what FailRequest and LifecycleFailItem have in common.
type failItem interface {
	GetLeaseToken() string
	GetError() string
	GetBacktrace() string
	GetRelease() bool
	GetTerminal() bool
	GetUsage() *corvov1.UsageReport
}

// Fail reads one fail of the job id.
func Fail(d *shape.Decoder, id job.ID, m failItem, delayMS *int64) queue.FailInput {
	return queue.FailInput{
		JobID: id, Token: m.GetLeaseToken(), Error: m.GetError(), Backtrace: m.GetBacktrace(),
		Release: m.GetRelease(), Terminal: m.GetTerminal(), Delay: span(d, "delay_ms", delayMS, time.Millisecond),
		Usage: usage(d, "usage", m.GetUsage()),
	}
}

// Fails reads a list of fails, each for itself.
func Fails(list []*corvov1.LifecycleFailItem, workerID string) *shape.Items[queue.FailInput] {
	fails := shape.NewItems[queue.FailInput](len(list))
	for i, m := range list {
		id, ok := fails.ID(i, m.GetJobId())
		if !ok {
			continue
		}
		var d shape.Decoder
		in := Fail(&d, id, m, m.DelayMs)
		in.WorkerID = workerID
		if err := d.Err(); err != nil {
			fails.Errs[i] = err
			continue
		}
		fails.Add(i, in)
	}
	return fails
}

// usage reads a report; one of zeros and no name says nothing.
func usage(d *shape.Decoder, path string, m *corvov1.UsageReport) *queue.UsageReport {
	if m == nil {
		return nil
	}
	u := &queue.UsageReport{
		InputTokens: m.GetInputTokens(), OutputTokens: m.GetOutputTokens(),
		CacheCreationTokens: m.GetCacheCreationTokens(), CacheReadTokens: m.GetCacheReadTokens(),
		Cost:  dollarsFrom(d, shape.Join(path, "cost_usd"), m.GetCostUsd()),
		Model: m.GetModel(), Provider: m.GetProvider(), Kind: wire.UsageKind(m.GetKind()),
	}
	if u.Empty() {
		return nil
	}
	return u
}

// Heartbeats are those of one message. They keep the ids as they were sent beside the inputs.
type Heartbeats struct {
	In    []queue.HeartbeatInput                   // For the use case.
	names []string                                 // names[i] is In[i]'s id as sent.
	lost  map[string]*corvov1.HeartbeatJobResponse // Of ids that can not exist.
	list  string                                   // How the message calls the heartbeats.
	wrong shape.Decoder                            // What of their news could not be read.
}

// ReadHeartbeats reads the heartbeats that stand in a message under the name list. The
// news of one that can't be read are left out, since its worker is alive; Err tells.
func ReadHeartbeats(list string, m map[string]*corvov1.HeartbeatJobUpdate, workerID string, leaseSeconds int32) Heartbeats {
	hb := Heartbeats{list: list}
	for name, u := range m {
		id, err := job.ParseID(name)
		if err != nil {
			if hb.lost == nil {
				hb.lost = make(map[string]*corvov1.HeartbeatJobResponse)
			}
			hb.lost[name] = beat(u.GetLeaseToken(), wire.HeartbeatOutcome{Status: wire.HeartbeatLost})
			continue
		}
		at := fmt.Sprintf("%s[%q]", hb.list, name)
		in := queue.HeartbeatInput{JobID: id, Token: u.GetLeaseToken(), WorkerID: workerID, Lease: time.Duration(leaseSeconds) * time.Second}
		var own shape.Decoder
		news := in
		news.Progress = jsonText(&own, shape.Join(at, "progress_json"), u.GetProgressJson())
		news.Checkpoint = jsonText(&own, shape.Join(at, "checkpoint_json"), u.GetCheckpointJson())
		news.Usage = usage(&own, shape.Join(at, "usage"), u.GetUsage())
		if len(own.Problems) == 0 {
			in = news // Else it has none, but the worker is alive.
		}
		hb.wrong.Also("", own.Problems, shape.AsIs)
		hb.In = append(hb.In, in)
		hb.names = append(hb.names, name)
	}
	return hb
}

// Err joins err, of the use case, with what is wrong with the encoding.
func (hb *Heartbeats) Err(err error) error {
	return hb.wrong.AndAlso(err, func(path string) string {
		id, member, ok := strings.Cut(strings.TrimPrefix(path, "jobs."), ".")
		if !ok {
			return Path(path) // Of all jobs.
		}
		return fmt.Sprintf("%s[%q].%s", hb.list, id, Path(member))
	})
}

// Response is the answer to all of them, given the outcomes of In.
func (hb *Heartbeats) Response(outcomes []wire.HeartbeatOutcome) map[string]*corvov1.HeartbeatJobResponse {
	if len(hb.In)+len(hb.lost) == 0 {
		return nil
	}
	out := make(map[string]*corvov1.HeartbeatJobResponse, len(hb.In)+len(hb.lost))
	maps.Copy(out, hb.lost)
	for i, o := range outcomes {
		out[hb.names[i]] = beat(hb.In[i].Token, o)
	}
	return out
}

func beat(token string, o wire.HeartbeatOutcome) *corvov1.HeartbeatJobResponse {
	o = queue.ToHolder(token, o)
	return &corvov1.HeartbeatJobResponse{Status: string(o.Status), BudgetExceeded: o.BudgetExceeded}
}
