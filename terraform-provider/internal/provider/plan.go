package provider

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

type planSource struct{ configured }

type planModel struct {
	Name         types.String `tfsdk:"name"`
	Version      types.Int64  `tfsdk:"version"`
	Title        types.String `tfsdk:"title"`
	Currency     types.String `tfsdk:"currency"`
	BaseAmount   types.Int64  `tfsdk:"base_amount"`
	State        types.String `tfsdk:"state"`
	NextPlan     types.String `tfsdk:"next_plan"`
	NextPlanAt   types.String `tfsdk:"next_plan_at"`
	Entitlements types.Map    `tfsdk:"entitlements"`
}

func newPlanSource() datasource.DataSource { return &planSource{} }

// Metadata implements datasource.DataSource.
func (s *planSource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "corvo_plan"
}

// Schema implements datasource.DataSource.
func (s *planSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The tenant's plan, and what it gives with the tenant's overrides.",
		Attributes: map[string]schema.Attribute{
			"name":         computed("Name of the plan, such as `free`."),
			"version":      schema.Int64Attribute{Computed: true, MarkdownDescription: "Version of the plan that the tenant has."},
			"title":        computed("Name for people."),
			"currency":     computed("Currency of the prices (ISO 4217, lower case)."),
			"base_amount":  schema.Int64Attribute{Computed: true, MarkdownDescription: "Price of a month, in the currency's smallest unit."},
			"state":        computed("`active`, `past_due`, `restricted` or `suspended`."),
			"next_plan":    computed("The plan to which it changes at the end of the month; null: none."),
			"next_plan_at": computed("When it changes (RFC 3339); null: it doesn't."),
			"entitlements": schema.MapAttribute{
				Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "Limits by name, such as `namespaces_max`, and features, such as `feature.sso`, as 1 or 0. What has no limit isn't in it.",
			},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *planSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *planSource) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	res, err := s.cloud.Plans().GetSubscription(ctx, connect.NewRequest(&cloudv1.GetSubscriptionRequest{}))
	if err != nil {
		addError(&resp.Diagnostics, "read corvo_plan", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, planOf(res.Msg.GetSubscription()))...)
}

func planOf(s *cloudv1.Subscription) planModel {
	values := make(map[string]attr.Value)
	for _, e := range s.GetEntitlements() {
		if !e.GetUnlimited() {
			values[e.GetName()] = types.Int64Value(e.GetValue())
		}
	}
	p := s.GetPlan()
	m := planModel{
		Name: types.StringValue(p.GetName()), Version: types.Int64Value(int64(p.GetVersion())), Title: types.StringValue(p.GetTitle()),
		Currency: types.StringValue(p.GetCurrency()), BaseAmount: types.Int64Value(p.GetBaseAmount()), State: types.StringValue(s.GetState()),
		Entitlements: types.MapValueMust(types.Int64Type, values),
	}
	if s.GetNextPlan() != "" {
		m.NextPlan, m.NextPlanAt = types.StringValue(s.GetNextPlan()), timestamp(s.GetNextPlanAt())
	}
	return m
}

var _ datasource.DataSourceWithConfigure = (*planSource)(nil)
