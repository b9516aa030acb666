package cell

import (
	"context"
	"slices"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// ReadAudit reads the audit log of a shard that this node leads; for other shards its
// error is a NotLeader fault.
type ReadAudit func(context.Context, *cellv1.ListAuditRequest) (*cellv1.ListAuditResponse, error)

// ServeAudit sets the reader of this node's audit logs. Call it before serving.
func (m *Membership) ServeAudit(read ReadAudit) { m.audit = read }

// Audit asks a shard's leader, wherever that is. If it goesNoFurther, another node forwarded the
// call and it goes no further.
func (m *Membership) Audit(ctx context.Context, req *cellv1.ListAuditRequest, goesNoFurther bool) (*cellv1.ListAuditResponse, error) {
	if !slices.Contains(m.cell.View().Shards(), req.GetGroup()) || m.audit == nil {
		return nil, fault.New(fault.NotFound, "GROUP_NOT_FOUND", "the cell has no shard %d", req.GetGroup())
	}
	if goesNoFurther {
		return m.audit(ctx, req)
	}
	var res *cellv1.ListAuditResponse
	err := m.onLeader(ctx, req.GetGroup(), again,
		func(ctx context.Context) (err error) {
			res, err = m.audit(ctx, req)
			return err
		},
		func(ctx context.Context, leader cellv1connect.CellServiceClient) error {
			out, err := leader.ListAudit(ctx, carried(req))
			if err == nil {
				res = out.Msg
			}
			return err
		})
	return res, err
}
