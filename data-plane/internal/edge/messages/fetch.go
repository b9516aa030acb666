package messages

import (
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"

	"encoding/json"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// Jobs are fetched jobs; nil if there are none.
func Jobs(grants []wire.FetchedJob) []*corvov1.FetchBatchJob {
	if len(grants) == 0 {
		return nil
	}
	out := make([]*corvov1.FetchBatchJob, len(grants))
	for i := range grants {
		out[i] = fetched(&grants[i])
	}
	return out
}

// Found is the answer to a fetch that found a job.
func Found(g *wire.FetchedJob) *corvov1.FetchResponse {
	j := fetched(g)
	return &corvov1.FetchResponse{
		Found: true, JobId: j.GetJobId(), Queue: j.GetQueue(), PayloadJson: j.GetPayloadJson(),
		Attempt: j.GetAttempt(), MaxRetries: j.GetMaxRetries(), LeaseDuration: j.GetLeaseDuration(),
		CheckpointJson: j.GetCheckpointJson(), TagsJson: j.GetTagsJson(), LeaseToken: j.GetLeaseToken(),
		Traceparent: j.GetTraceparent(), ExpireAt: j.GetExpireAt(), Agent: j.GetAgent(),
		BatchId: j.GetBatchId(), ChainId: j.GetChainId(), ChainStep: j.ChainStep,
	}
}

func fetched(g *wire.FetchedJob) *corvov1.FetchBatchJob {
	return &corvov1.FetchBatchJob{
		JobId: g.JobID, Queue: g.Queue, PayloadJson: string(g.Payload),
		Attempt: int32(g.Attempt), MaxRetries: int32(g.MaxRetries), LeaseDuration: int32(g.LeaseDuration),
		CheckpointJson: string(g.Checkpoint), TagsJson: tagsJSON(g.Tags), LeaseToken: g.LeaseToken,
		Traceparent: g.TraceParent, ExpireAt: Time(g.ExpireAt), Agent: agentState(g.Agent),
		BatchId: g.BatchID, ChainId: g.ChainID, ChainStep: chainStep(g.ChainStep),
	}
}

func tagsJSON(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	b, err := json.Marshal(tags)
	if err != nil {
		return "" // Strings always marshal.
	}
	return string(b)
}

func chainStep(step *int) *int32 {
	if step == nil {
		return nil
	}
	return new(int32(*step))
}

func agentState(a *wire.Agent) *corvov1.AgentState {
	if a == nil {
		return nil
	}
	return &corvov1.AgentState{
		MaxIterations: int32(a.MaxIterations), MaxCostUsd: dollars(a.MaxCostUSD), IterationTimeout: a.IterationTimeout,
		Iteration: int32(a.Iteration), TotalCostUsd: dollars(a.TotalCostUSD),
	}
}
