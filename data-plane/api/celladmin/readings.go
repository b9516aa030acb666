package celladmin

import (
	"context"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
)

// ReadingsFrom says which readings are wanted; the zero value is for all.
type ReadingsFrom struct {
	// Hour (since 1970): this one and later ones.
	Hour int64
	// Seq is what the last list said. Later readings, and those of hours that ended after
	// CompleteNs, the time up to which that list was complete, are wanted.
	Seq        uint64
	CompleteNs int64
}

// ShardReadings is what a shard counted.
type ShardReadings struct {
	Source     string
	Epoch      string
	CompleteNs int64  // Nothing will be added to hours that ended by then.
	Seq        uint64 // For the next ReadingsFrom.
	List       []*cellv1.Reading
}

// Readings lists what a shard counted for billing, page after page. Readings are
// cumulative: of one hour and namespace the one with the higher seq counts.
func (c *Client) Readings(ctx context.Context, shard uint32, from ReadingsFrom) (ShardReadings, error) {
	var out ShardReadings
	req := &cellv1.ListReadingsRequest{Shard: shard, FromHour: from.Hour, AfterSeq: from.Seq, AfterCompleteNs: from.CompleteNs}
	for {
		res, err := call(ctx, c, req, cellv1connect.CellServiceClient.ListReadings)
		if err != nil {
			return ShardReadings{}, err
		}
		more := false
		for _, r := range res.GetReadings() {
			out.Source, out.Epoch, out.CompleteNs, out.Seq = r.GetSource(), r.GetEpoch(), r.GetCompleteToNs(), res.GetSeq()
			out.List = append(out.List, r.GetList()...)
			more, req.Next = r.GetMore(), r.GetNext()
		}
		if !more {
			return out, nil
		}
	}
}
