package provider

import (
	"context"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// invoicePreviewSource is corvo_invoice_preview.
type invoicePreviewSource struct{ configured }

type invoicePreviewModel struct {
	Period        types.String  `tfsdk:"period"`
	Plan          types.String  `tfsdk:"plan"`
	PeriodStart   types.String  `tfsdk:"period_start"`
	PeriodEnd     types.String  `tfsdk:"period_end"`
	State         types.String  `tfsdk:"state"`
	Currency      types.String  `tfsdk:"currency"`
	Lines         []invoiceLine `tfsdk:"lines"`
	Total         types.Int64   `tfsdk:"total"`
	ForecastTotal types.Int64   `tfsdk:"forecast_total"`
}

type invoiceLine struct {
	Item        types.String `tfsdk:"item"`
	Title       types.String `tfsdk:"title"`
	Plan        types.String `tfsdk:"plan"`
	PlanVersion types.Int64  `tfsdk:"plan_version"`
	From        types.String `tfsdk:"from"`
	To          types.String `tfsdk:"to"`
	Quantity    types.Int64  `tfsdk:"quantity"`
	Included    types.Int64  `tfsdk:"included"`
	Per         types.Int64  `tfsdk:"per"`
	UnitAmount  types.Int64  `tfsdk:"unit_amount"`
	Amount      types.Int64  `tfsdk:"amount"`
}

func newInvoicePreviewSource() datasource.DataSource { return &invoicePreviewSource{} }

// Metadata implements datasource.DataSource.
func (s *invoicePreviewSource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "corvo_invoice_preview"
}

// Schema implements datasource.DataSource.
func (s *invoicePreviewSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	number := func(about string) schema.Int64Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: about}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The invoice of a month before it is made, from what was counted in the hours that are final. Amounts are before tax, in the currency's smallest unit: `4900` is $49.",
		Attributes: map[string]schema.Attribute{
			"period":       schema.StringAttribute{Optional: true, Validators: []validator.String{monthValue{}}, MarkdownDescription: "The month, such as `2026-11`, in UTC. Default: the current one."},
			"plan":         schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: "As if the tenant had this plan all month. Default: the plans that it had."},
			"period_start": computed("Begin of the month (RFC 3339)."),
			"period_end":   computed("End of the month (RFC 3339), which isn't in it."),
			"state":        computed("`draft`, `final` or `paid`."),
			"currency":     computed("Currency of the amounts (ISO 4217, lower case)."),
			"lines": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "What makes the total.", NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"item":         computed("`base` or a meter, such as `jobs_enqueued`."),
					"title":        computed("Name for people."),
					"plan":         computed("The plan whose price it is: a month can have several."),
					"plan_version": number("Version of the plan."),
					"from":         computed("When it begins (RFC 3339)."),
					"to":           computed("When it ends (RFC 3339)."),
					"quantity":     number("What was counted; hours for `base`."),
					"included":     number("So many cost nothing."),
					"per":          number("Beyond, so many cost `unit_amount`."),
					"unit_amount":  number("Price of `per`."),
					"amount":       number("What the line costs."),
				}},
			},
			"total":          number("All lines together."),
			"forecast_total": number("What the whole month will cost if the last seven days go on; `0` for a past month."),
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *invoicePreviewSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *invoicePreviewSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	var m invoicePreviewModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	res, err := s.cloud.Usage().PreviewInvoice(ctx, connect.NewRequest(&cloudv1.PreviewInvoiceRequest{Period: periodOf(m.Period), Plan: m.Plan.ValueString()}))
	if err != nil {
		addFieldErrors(&resp.Diagnostics, "read corvo_invoice_preview", err, attributes{"period": "period", "plan": "plan"})
		return
	}
	m.answered(res.Msg)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (m *invoicePreviewModel) answered(res *cloudv1.PreviewInvoiceResponse) {
	inv := res.GetInvoice()
	m.PeriodStart, m.PeriodEnd, m.State, m.Currency = timestamp(inv.GetPeriodStart()), timestamp(inv.GetPeriodEnd()), types.StringValue(inv.GetState()), types.StringValue(inv.GetCurrency())
	m.Total, m.ForecastTotal = types.Int64Value(inv.GetTotal()), types.Int64Value(res.GetForecastTotal())
	m.Lines = make([]invoiceLine, 0, len(inv.GetLines()))
	for _, l := range inv.GetLines() {
		m.Lines = append(m.Lines, invoiceLine{
			Item: types.StringValue(l.GetItem()), Title: types.StringValue(l.GetTitle()), Plan: types.StringValue(l.GetPlan()), PlanVersion: types.Int64Value(int64(l.GetPlanVersion())),
			From: timestamp(l.GetFrom()), To: timestamp(l.GetTo()), Quantity: types.Int64Value(l.GetQuantity()), Included: types.Int64Value(l.GetIncluded()), Per: types.Int64Value(l.GetPer()),
			UnitAmount: types.Int64Value(l.GetUnitAmount()), Amount: types.Int64Value(l.GetAmount()),
		})
	}
}

var _ datasource.DataSourceWithConfigure = (*invoicePreviewSource)(nil)
