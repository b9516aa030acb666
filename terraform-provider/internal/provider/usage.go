package provider

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// usageSource is corvo_usage.
type usageSource struct{ configured }

type usageModel struct {
	From        timetypes.RFC3339 `tfsdk:"from"`
	To          timetypes.RFC3339 `tfsdk:"to"`
	Interval    types.String      `tfsdk:"interval"`
	ByNamespace types.Bool        `tfsdk:"by_namespace"`
	Points      []usagePoint      `tfsdk:"points"`
	Total       *counts           `tfsdk:"total"`
	Forecast    *counts           `tfsdk:"forecast"`
	ClosedTo    types.String      `tfsdk:"closed_to"`
}

type usagePoint struct {
	Start       types.String `tfsdk:"start"`
	NamespaceID types.String `tfsdk:"namespace_id"`
	Namespace   types.String `tfsdk:"namespace"`
	Closed      types.Bool   `tfsdk:"closed"`
	counts
}

// counts are the numbers of all meters.
type counts struct {
	JobsEnqueued    types.Int64 `tfsdk:"jobs_enqueued"`
	Executions      types.Int64 `tfsdk:"executions"`
	PayloadBytes    types.Int64 `tfsdk:"payload_bytes"`
	StoredByteHours types.Int64 `tfsdk:"stored_byte_hours"`
	EgressBytes     types.Int64 `tfsdk:"egress_bytes"`
	StreamsPeak     types.Int64 `tfsdk:"streams_peak"`
}

func newUsageSource() datasource.DataSource { return &usageSource{} }

// Metadata implements datasource.DataSource.
func (s *usageSource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "corvo_usage"
}

// Schema implements datasource.DataSource.
func (s *usageSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	point := countAttributes()
	point["start"] = computed("When it begins (RFC 3339).")
	point["namespace_id"] = computed("Id of the namespace; null without `by_namespace`.")
	point["namespace"] = computed("Name of the namespace; null without `by_namespace`, and if the namespace was deleted.")
	point["closed"] = schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the numbers are final, but for corrections."}
	resp.Schema = schema.Schema{
		MarkdownDescription: "What was counted for billing. Without `from` and `to`: in the current month, with a forecast. The numbers change while jobs run, so use them in outputs and checks.",
		Attributes: map[string]schema.Attribute{
			"from":         spanEnd("Begin of the span", "to"),
			"to":           spanEnd("End of the span, which isn't in it", "from"),
			"interval":     schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.OneOf("day", "hour")}, MarkdownDescription: "`day` or `hour`: what a point is about. Default: `day`."},
			"by_namespace": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether each namespace has points of its own. Default: `false`."},
			"points": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The days or hours in which something was counted, the oldest first.", NestedObject: schema.NestedAttributeObject{Attributes: point},
			},
			"total":     schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "All points together.", Attributes: countAttributes()},
			"forecast":  schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "The whole month, if the last seven days go on; null with `from` and `to`.", Attributes: countAttributes()},
			"closed_to": computed("Hours that ended by then are final (RFC 3339)."),
		},
	}
}

func spanEnd(about, other string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, CustomType: timetypes.RFC3339Type{}, Validators: []validator.String{stringvalidator.AlsoRequires(path.MatchRoot(other))},
		MarkdownDescription: about + " (RFC 3339): the begin of a day or hour in UTC, as `interval` says. Needs `" + other + "`. Default: of the current month.",
	}
}

func countAttributes() map[string]schema.Attribute {
	number := func(about string) schema.Int64Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: about}
	}
	return map[string]schema.Attribute{
		"jobs_enqueued":     number("Jobs that came into existence."),
		"executions":        number("Attempts that ended."),
		"payload_bytes":     number("Bytes of the payloads of these jobs."),
		"stored_byte_hours": number("Bytes of payloads and results, times the hours for which they were stored."),
		"egress_bytes":      number("Bytes of responses and stream frames."),
		"streams_peak":      number("The most streams and waiting fetches at a time."),
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *usageSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *usageSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	var m usageModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	res, err := s.cloud.Usage().GetUsage(ctx, connect.NewRequest(&cloudv1.GetUsageRequest{
		From: toTimestamp(m.From), To: toTimestamp(m.To), Interval: m.Interval.ValueString(), ByNamespace: m.ByNamespace.ValueBool(),
	}))
	if err != nil {
		addFieldErrors(&resp.Diagnostics, "read corvo_usage", err, attributes{"from": "from", "to": "to", "interval": "interval"})
		return
	}
	m.answered(res.Msg)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (m *usageModel) answered(res *cloudv1.GetUsageResponse) {
	m.Points = make([]usagePoint, 0, len(res.GetPoints()))
	for _, p := range res.GetPoints() {
		m.Points = append(m.Points, usagePoint{
			Start: timestamp(p.GetStart()), NamespaceID: orNull(p.GetNamespaceId()), Namespace: orNull(p.GetNamespace()), Closed: types.BoolValue(p.GetClosed()), counts: countsOf(p.GetCounts()),
		})
	}
	total := countsOf(res.GetTotal())
	m.Total, m.ClosedTo = &total, timestamp(res.GetClosedTo())
	if res.GetForecast() != nil {
		forecast := countsOf(res.GetForecast())
		m.Forecast = &forecast
	}
}

func countsOf(c *cloudv1.Counts) counts {
	return counts{
		JobsEnqueued: types.Int64Value(c.GetJobsEnqueued()), Executions: types.Int64Value(c.GetExecutions()), PayloadBytes: types.Int64Value(c.GetPayloadBytes()),
		StoredByteHours: types.Int64Value(c.GetStoredByteHours()), EgressBytes: types.Int64Value(c.GetEgressBytes()), StreamsPeak: types.Int64Value(c.GetStreamsPeak()),
	}
}

// periodLayout is how a billing period is written: a month.
const periodLayout = "2006-01"

// monthValue refuses what is no month.
type monthValue struct{}

// Description implements validator.Describer.
func (monthValue) Description(context.Context) string { return "a month such as 2026-11" }

// MarkdownDescription implements validator.Describer.
func (v monthValue) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (v monthValue) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := time.Parse(periodLayout, req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Not a month", req.ConfigValue.ValueString()+": must be "+v.Description(ctx)+".")
	}
}

// periodOf is nil for null; the attribute's validator has checked the text.
func periodOf(v types.String) *timestamppb.Timestamp {
	t, err := time.Parse(periodLayout, v.ValueString())
	if err != nil {
		return nil
	}
	return timestamppb.New(t)
}

var _ datasource.DataSourceWithConfigure = (*usageSource)(nil)
