package cell

import (
	"context"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

// ReadReadings reads what was counted by a shard that this node leads; for other shards its
// error is a NotLeader fault.
type ReadReadings = readShard[cellv1.ListReadingsRequest, cellv1.ListReadingsResponse]

// ServeReadings sets the reader of what this node's shards counted. Call it before serving.
func (m *Membership) ServeReadings(read ReadReadings) { m.readings = read }

// Readings is what was counted for billing: by a shard, asked on its leader, or by the
// proxies, of which any node tells.
func (m *Membership) Readings(ctx context.Context, req *cellv1.ListReadingsRequest, goesNoFurther bool) (*cellv1.ListReadingsResponse, error) {
	if req.GetShard() == 0 {
		return m.proxyReadings(ctx, req, goesNoFurther), nil
	}
	return m.readings.fromLeader(ctx, m, req.GetShard(), req, goesNoFurther, cellv1connect.CellServiceClient.ListReadings)
}
