package cell

import (
	"context"
	"slices"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// ReadAudit reads the audit log of a shard that this node leads; for other shards its
// error is a NotLeader fault.
type ReadAudit = readShard[cellv1.ListAuditRequest, cellv1.ListAuditResponse]

// ServeAudit sets the reader of this node's audit logs. Call it before serving.
func (m *Membership) ServeAudit(read ReadAudit) { m.audit = read }

// Audit asks a shard's leader, wherever that is. If it goesNoFurther, another node forwarded the
// call and it goes no further.
func (m *Membership) Audit(ctx context.Context, req *cellv1.ListAuditRequest, goesNoFurther bool) (*cellv1.ListAuditResponse, error) {
	return m.audit.fromLeader(ctx, m, req.GetGroup(), req, goesNoFurther, cellv1connect.CellServiceClient.ListAudit)
}

// readShard reads something of a shard that this node leads.
type readShard[Req, Res any] func(context.Context, *Req) (*Res, error)

// fromLeader reads it on the node that leads the shard.
func (read readShard[Req, Res]) fromLeader(
	ctx context.Context, m *Membership, shard uint32, req *Req, goesNoFurther bool,
	method func(cellv1connect.CellServiceClient, context.Context, *connect.Request[Req]) (*connect.Response[Res], error),
) (res *Res, err error) {
	if !slices.Contains(m.cell.View().Shards(), shard) || read == nil {
		return nil, fault.New(fault.NotFound, "GROUP_NOT_FOUND", "the cell has no shard %d", shard)
	}
	if goesNoFurther {
		return read(ctx, req)
	}
	err = m.onLeader(ctx, shard, again,
		func(ctx context.Context) (err error) {
			res, err = read(ctx, req)
			return err
		},
		func(ctx context.Context, leader cellv1connect.CellServiceClient) error {
			out, err := method(leader, ctx, carried(req))
			if err == nil {
				res = out.Msg
			}
			return err
		})
	return res, err
}
