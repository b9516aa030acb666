package server

import (
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// dollarsField reads a number of dollars.
func dollarsField[T any](name, doc string, at func(*T) *int64) shape.Field[T] {
	return shape.Field[T]{Name: name, Doc: doc, Schema: shape.Schema{Type: "number"}, Read: func(_ *shape.Decoder, _ string, v []byte, into *T) string {
		if k := shape.KindOf(v); k < '0' || k > '9' || v[0] == '-' {
			return "must be an amount in dollars, 0 or more"
		}
		n, err := job.ParseDollars(string(v))
		if err != nil {
			return err.Error()
		}
		*at(into) = n
		return ""
	}}
}

var usageShape = shape.New("UsageReport",
	tokensField("input_tokens", func(in *queue.UsageReport) *int64 { return &in.InputTokens }),
	tokensField("output_tokens", func(in *queue.UsageReport) *int64 { return &in.OutputTokens }),
	tokensField("cache_creation_tokens", func(in *queue.UsageReport) *int64 { return &in.CacheCreationTokens }),
	tokensField("cache_read_tokens", func(in *queue.UsageReport) *int64 { return &in.CacheReadTokens }),
	dollarsField("cost_usd", "Cost in dollars.", func(in *queue.UsageReport) *int64 { return &in.Cost }),
	shape.Text("model", "Name of the model.", func(in *queue.UsageReport) *string { return &in.Model }),
	shape.Text("provider", "Provider of the model.", func(in *queue.UsageReport) *string { return &in.Provider }),
	shape.Enum("kind", "total (default): the numbers count from the start of the attempt and replace earlier ones for the same model; "+
		"delta: they are added.", wire.UsageKinds(), func(in *queue.UsageReport) *wire.UsageKind { return &in.Kind }),
)

func tokensField(name string, at func(*queue.UsageReport) *int64) shape.Field[queue.UsageReport] {
	return shape.Int(name, "Tokens.", func(in *queue.UsageReport, n int) { *at(in) = int64(n) })
}

// usageField reads a report; one of zeros and no name says nothing.
func usageField[T any](at func(*T) **queue.UsageReport) shape.Field[T] {
	f := shape.Object("usage", "Model usage.", usageShape, func(into *T) *queue.UsageReport {
		*at(into) = new(queue.UsageReport)
		return *at(into)
	})
	read := f.Read
	f.Read = func(d *shape.Decoder, path string, v []byte, into *T) string {
		msg := read(d, path, v, into)
		if u := *at(into); u != nil && u.Empty() {
			*at(into) = nil
		}
		return msg
	}
	return f
}

var usageParams = []shape.Param{
	shape.TextParam("period", "Period such as 24h (default) or 7d, in whole hours."),
	shape.TextParam("group_by", "queue (default), model or provider."),
}

func (c *call) usageSummary() error {
	var d shape.Decoder
	q := c.query(&d)
	if err := d.Err(); err != nil {
		return err
	}
	return c.answer(c.place.Local.UsageSummary(c.r.Context(), c.who.Caller, queue.UsageQuery{Period: q.Get("period"), GroupBy: q.Get("group_by")}))
}
