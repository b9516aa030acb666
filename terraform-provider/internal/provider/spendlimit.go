package provider

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type spendLimitResource struct {
	managed[spendLimitModel]
}

type spendLimitModel struct {
	ID            types.String `tfsdk:"id"`
	Amount        types.Int64  `tfsdk:"amount"`
	Currency      types.String `tfsdk:"currency"`
	Action        types.String `tfsdk:"action"`
	AlertPercents types.Set    `tfsdk:"alert_percents"`
	ETag          types.String `tfsdk:"etag"`
}

func newSpendLimit() resource.Resource {
	r := new(spendLimitResource)
	r.managed = managed[spendLimitModel]{
		typeName: "corvo_spend_limit", schema: spendLimitSchema,
		called: func(spendLimitModel) string { return "the tenant's spend limit" },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

// alertsDefault are the percentages that corvo spend-limit set has, too.
func alertsDefault() types.Set {
	return types.SetValueMust(types.Int64Type, []attr.Value{types.Int64Value(80), types.Int64Value(100)})
}

func spendLimitSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "What the tenant wants to spend in a month at most. A tenant has one: use this resource once. It takes over a limit that is there already, and destroying it removes the limit.",
		Attributes: map[string]schema.Attribute{
			"id": stableText("The tenant's id."),
			"amount": schema.Int64Attribute{
				Required: true, Validators: []validator.Int64{int64validator.AtLeast(1)},
				MarkdownDescription: "Amount per calendar month (UTC), before tax, in the currency's smallest unit: `20000` is $200.",
			},
			"currency": changingText("Currency of the amount (ISO 4217, lower case): the one that the plan is billed in."),
			"action": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("alert"), Validators: []validator.String{stringvalidator.OneOf("alert", "hold", "reject")},
				MarkdownDescription: "What happens when the limit is reached: `alert` only sends emails, `hold` starts no more attempts until the next month or a higher limit, " +
					"`reject` also refuses new jobs. Nothing that was enqueued is lost. Default: `alert`.",
			},
			"alert_percents": schema.SetAttribute{
				ElementType: types.Int64Type, Optional: true, Computed: true, Default: setdefault.StaticValue(alertsDefault()),
				Validators:          []validator.Set{setvalidator.SizeAtMost(5), setvalidator.ValueInt64sAre(int64validator.Between(1, 100))},
				MarkdownDescription: "Percentages of the amount at which emails go to owners and members with the billing role, at most five; `[]` for no emails. Default: `[80, 100]`.",
			},
			"etag": changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
		},
	}
}

// create takes over the limit that is there, if there is one.
func (r *spendLimitResource) create(ctx context.Context, o operation[spendLimitModel], m spendLimitModel) {
	r.put(ctx, o, m, "")
}

func (r *spendLimitResource) read(ctx context.Context, m *spendLimitModel, _ *diag.Diagnostics) error {
	res, err := r.cloud.Usage().GetSpendLimit(ctx, connect.NewRequest(&cloudv1.GetSpendLimitRequest{}))
	if err != nil {
		return err
	}
	if res.Msg.GetLimit().GetAmount() == 0 {
		return &cloud.Error{Kind: cloud.NotFound, Call: "GetSpendLimit", Message: "the tenant has no spend limit"}
	}
	id, err := r.cloud.Identity(ctx)
	if err == nil {
		*m = spendLimitFrom(id.TenantID, res.Msg.GetLimit())
	}
	return err
}

func (r *spendLimitResource) update(ctx context.Context, o operation[spendLimitModel], plan, state spendLimitModel) {
	r.put(ctx, o, plan, state.ETag.ValueString())
}

func (r *spendLimitResource) put(ctx context.Context, o operation[spendLimitModel], m spendLimitModel, etag string) {
	want := &cloudv1.SpendLimit{Amount: m.Amount.ValueInt64(), Action: m.Action.ValueString(), AlertPercents: percentsOf(m.AlertPercents), Etag: etag}
	id, err := r.cloud.Identity(ctx)
	if err != nil {
		addError(o.diags, "identify the token", err)
		return
	}
	res, err := r.cloud.Usage().SetSpendLimit(ctx, connect.NewRequest(&cloudv1.SetSpendLimitRequest{Limit: want}))
	if err == nil {
		o.save(spendLimitFrom(id.TenantID, res.Msg.GetLimit()))
		return
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		var now spendLimitModel
		if getErr := r.read(ctx, &now, o.diags); getErr == nil && now.wants(m) {
			o.save(now)
			return
		}
	}
	addFieldErrors(o.diags, "set the spend limit", err, spendLimitFields())
}

func spendLimitFields() attributes {
	return attributes{"limit.amount": "amount", "limit.action": "action", "limit.alert_percents": "alert_percents"}
}

// wants tells whether two say the same, whoever wrote them and when.
func (m spendLimitModel) wants(other spendLimitModel) bool {
	return m.Amount.Equal(other.Amount) && m.Action.Equal(other.Action) && m.AlertPercents.Equal(other.AlertPercents)
}

func (r *spendLimitResource) remove(ctx context.Context, _ spendLimitModel, diags *diag.Diagnostics) {
	if _, err := r.cloud.Usage().SetSpendLimit(ctx, connect.NewRequest(&cloudv1.SetSpendLimitRequest{Limit: &cloudv1.SpendLimit{}})); err != nil {
		addError(diags, "remove the spend limit", err)
	}
}

// adopt takes the tenant by its name or id.
func (r *spendLimitResource) adopt(ctx context.Context, tenant string, diags *diag.Diagnostics) (m spendLimitModel, ok bool) {
	id, err := r.cloud.Identity(ctx)
	if err == nil && tenant != id.TenantID && tenant != id.Tenant {
		diags.AddError("The token belongs to another tenant", fmt.Sprintf("A spend limit is imported by its tenant's name or id. The provider's token belongs to tenant %q (%s), not to %q.", id.Tenant, id.TenantID, tenant))
		return m, false
	}
	if err == nil {
		err = r.read(ctx, &m, diags)
	}
	if err != nil {
		addError(diags, "import the spend limit", err)
	}
	return m, err == nil
}

func spendLimitFrom(tenantID string, l *cloudv1.SpendLimit) spendLimitModel {
	percents := make([]attr.Value, 0, len(l.GetAlertPercents()))
	for _, n := range l.GetAlertPercents() {
		percents = append(percents, types.Int64Value(int64(n)))
	}
	return spendLimitModel{
		ID: types.StringValue(tenantID), Amount: types.Int64Value(l.GetAmount()), Currency: types.StringValue(l.GetCurrency()), Action: types.StringValue(l.GetAction()),
		AlertPercents: types.SetValueMust(types.Int64Type, percents), ETag: types.StringValue(l.GetEtag()),
	}
}

// percentsOf relies on the attribute's validators: they are from 1 to 100.
func percentsOf(v types.Set) []int32 {
	out := make([]int32, 0, len(v.Elements()))
	for _, e := range v.Elements() {
		if n, ok := e.(types.Int64); ok {
			out = append(out, int32(n.ValueInt64()))
		}
	}
	return out
}
