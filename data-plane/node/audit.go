package node

import (
	"context"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// auditPageMax is how many events one answer has at most; they are small.
const auditPageMax = 500

// readAudit reads the audit log of the shards that this node leads.
func (n *Node) readAudit(ctx context.Context, req *cellv1.ListAuditRequest) (*cellv1.ListAuditResponse, error) {
	s := n.groups.shard(req.GetGroup())
	if s == nil || !s.Group().Leading() {
		return nil, fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "this node doesn't lead shard %d", req.GetGroup())
	}
	limit := auditPageMax
	if asked := int(req.GetLimit()); asked > 0 && asked < limit {
		limit = asked
	}
	page, err := s.Service.TakeAudit(ctx, req.GetAfter(), limit)
	if err != nil {
		return nil, err
	}
	res := &cellv1.ListAuditResponse{Last: page.Last}
	for i := range page.Records {
		res.Events = append(res.Events, auditEvent(&page.Records[i]))
	}
	return res, nil
}

func auditEvent(r *records.AuditRecord) *cellv1.AuditEvent {
	return &cellv1.AuditEvent{
		Number: r.Number, NamespaceId: r.NS.String(), AtNs: r.At, Principal: r.By, PrincipalId: r.Owner, Peer: r.Peer, Action: r.Act,
		TargetType: r.Type, Target: r.Target, Detail: r.Detail, Affected: r.Affected, Refused: r.Refused, Interrupted: r.Interrupted,
	}
}
