package provider

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// queueRetentionModel is what is kept of one queue, retentionModel of a namespace.
type queueRetentionModel struct {
	CompletedSeconds types.Int64 `tfsdk:"completed_seconds"`
	DeadSeconds      types.Int64 `tfsdk:"dead_seconds"`
	CancelledSeconds types.Int64 `tfsdk:"cancelled_seconds"`
	FinishedMax      types.Int64 `tfsdk:"finished_max"`
}

type retentionModel struct {
	CompletedSeconds types.Int64 `tfsdk:"completed_seconds"`
	DeadSeconds      types.Int64 `tfsdk:"dead_seconds"`
	CancelledSeconds types.Int64 `tfsdk:"cancelled_seconds"`
	FinishedMax      types.Int64 `tfsdk:"finished_max"`
	EventsSeconds    types.Int64 `tfsdk:"events_seconds"`
	EventsBytesMax   types.Int64 `tfsdk:"events_bytes_max"`
	UsageSeconds     types.Int64 `tfsdk:"usage_seconds"`
}

// kept is one number of a retention.
type kept struct {
	name, doc string
	from, to  int64
}

func keptOfQueues() []kept {
	const least, most = 60, 3660 * 24 * 3600
	return []kept{
		{"completed_seconds", "How long completed jobs are kept, by when they ended.", least, most},
		{"dead_seconds", "How long dead jobs are kept.", least, most},
		{"cancelled_seconds", "How long cancelled jobs are kept.", least, most},
		{"finished_max", "How many finished jobs of a queue are kept, whatever their age. The oldest are deleted first.", 1, 1_000_000_000},
	}
}

func keptOfNamespaces() []kept {
	const least, most = 60, 3660 * 24 * 3600
	return append(keptOfQueues(),
		kept{"events_seconds", "How long events are kept.", least, most},
		kept{"events_bytes_max", "How many bytes of events are kept. The oldest are deleted first.", 1 << 20, 1 << 40},
		kept{"usage_seconds", "How long recorded usage is kept.", least, most},
	)
}

// retentionSchema has no empty form: reading it back could not tell it from none.
func retentionSchema(doc string, all []kept) schema.Attribute {
	out := make(map[string]schema.Attribute)
	for i, k := range all {
		checks := []validator.Int64{int64validator.Between(k.from, k.to)}
		if i == 0 {
			var others []path.Expression
			for _, k := range all[1:] {
				others = append(others, path.MatchRoot("retention").AtName(k.name))
			}
			checks = append(checks, int64validator.AtLeastOneOf(others...))
		}
		out[k.name] = schema.Int64Attribute{Optional: true, Validators: checks, MarkdownDescription: fmt.Sprintf("%s From %d to %d.", k.doc, k.from, k.to)}
	}
	return schema.SingleNestedAttribute{Optional: true, MarkdownDescription: doc, Attributes: out}
}

func effectiveRetentionSchema(doc string, all []kept) schema.Attribute {
	out := make(map[string]schema.Attribute)
	for _, k := range all {
		out[k.name] = schema.Int64Attribute{Computed: true, MarkdownDescription: k.doc}
	}
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: doc, Attributes: out}
}

// effective shows numbers in the order of all; 0 is no limit, which is null.
func effective(all []kept, numbers ...int64) types.Object {
	kinds, values := make(map[string]attr.Type), make(map[string]attr.Value)
	for i, k := range all {
		kinds[k.name], values[k.name] = types.Int64Type, number(numbers[i])
	}
	return types.ObjectValueMust(kinds, values)
}

// number is null for 0, which says that nothing was set.
func number(n int64) types.Int64 {
	if n == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(n)
}

func (m *retentionModel) message() *cloudv1.Retention {
	if m == nil {
		return nil
	}
	return &cloudv1.Retention{
		CompletedSeconds: m.CompletedSeconds.ValueInt64(), DeadSeconds: m.DeadSeconds.ValueInt64(), CancelledSeconds: m.CancelledSeconds.ValueInt64(),
		FinishedMax: m.FinishedMax.ValueInt64(), EventsSeconds: m.EventsSeconds.ValueInt64(), EventsBytesMax: m.EventsBytesMax.ValueInt64(),
		UsageSeconds: m.UsageSeconds.ValueInt64(),
	}
}

func numbers(r *cloudv1.Retention) []int64 {
	return []int64{
		r.GetCompletedSeconds(), r.GetDeadSeconds(), r.GetCancelledSeconds(), r.GetFinishedMax(), r.GetEventsSeconds(), r.GetEventsBytesMax(), r.GetUsageSeconds(),
	}
}

// sameRetention compares what was set; nothing set and no retention are the same.
func sameRetention(a, b *cloudv1.Retention) bool { return slices.Equal(numbers(a), numbers(b)) }

func retentionOf(r *cloudv1.Retention) *retentionModel {
	if sameRetention(r, nil) {
		return nil
	}
	return &retentionModel{
		CompletedSeconds: number(r.GetCompletedSeconds()), DeadSeconds: number(r.GetDeadSeconds()), CancelledSeconds: number(r.GetCancelledSeconds()),
		FinishedMax: number(r.GetFinishedMax()), EventsSeconds: number(r.GetEventsSeconds()), EventsBytesMax: number(r.GetEventsBytesMax()),
		UsageSeconds: number(r.GetUsageSeconds()),
	}
}

// The queue's own API counts in milliseconds.
func (m *queueRetentionModel) settings() *wire.QueueRetention {
	if m == nil {
		return nil
	}
	return &wire.QueueRetention{
		CompletedMS: m.CompletedSeconds.ValueInt64() * 1000, DeadMS: m.DeadSeconds.ValueInt64() * 1000, CancelledMS: m.CancelledSeconds.ValueInt64() * 1000,
		FinishedMax: m.FinishedMax.ValueInt64(),
	}
}

func queueRetentionOf(r *wire.QueueRetention) *queueRetentionModel {
	if r == nil {
		return nil
	}
	return &queueRetentionModel{
		CompletedSeconds: number(r.CompletedMS / 1000), DeadSeconds: number(r.DeadMS / 1000), CancelledSeconds: number(r.CancelledMS / 1000),
		FinishedMax: number(r.FinishedMax),
	}
}

func effectiveOfQueue(r wire.QueueRetention) types.Object {
	return effective(keptOfQueues(), r.CompletedMS/1000, r.DeadMS/1000, r.CancelledMS/1000, r.FinishedMax)
}
