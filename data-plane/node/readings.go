package node

import (
	"context"
	"fmt"
	"math"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// readReadings reads what was counted by the shards that this node leads.
func (n *Node) readReadings(ctx context.Context, req *cellv1.ListReadingsRequest) (*cellv1.ListReadingsResponse, error) {
	s := n.groups.shard(req.GetShard())
	if s == nil || !s.Group().Leading() {
		return nil, fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node doesn't lead shard %d", req.GetShard())
	}
	page, err := s.Readings(ctx, stateread.ReadingsFrom{
		Hour: uint64(max(req.GetFromHour(), 0)), Seq: req.GetAfterSeq(), Complete: req.GetAfterCompleteNs(), Next: req.GetNext(),
	})
	if err != nil {
		return nil, err
	}
	of := &cellv1.Readings{
		Source: fmt.Sprintf("shard/%d", req.GetShard()), Epoch: n.cell.ID(), CompleteToNs: page.Complete, More: page.Next != nil, Next: page.Next,
	}
	for i := range page.List {
		of.List = append(of.List, readingOf(&page.List[i]))
	}
	return &cellv1.ListReadingsResponse{Readings: []*cellv1.Readings{of}, Seq: page.Seq}, nil
}

func readingOf(r *stateread.Reading) *cellv1.Reading {
	return &cellv1.Reading{
		NamespaceId: r.NS.String(), Hour: int64(r.Hour), Seq: r.Seq,
		JobsEnqueued: signed(r.Jobs), Executions: signed(r.Executions), PayloadBytes: signed(r.PayloadBytes), StoredByteHours: signed(r.StoredByteHours),
		OpenJobs: signed(r.OpenJobs), StoredBytes: signed(r.StoredBytes),
	}
}

// signed is a count on the wire, or the largest that fits.
func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
