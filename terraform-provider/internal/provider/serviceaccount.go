package provider

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type serviceAccountResource struct{ managed[serviceAccountModel] }

type serviceAccountModel struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	Description  types.String `tfsdk:"description"`
	Disabled     types.Bool   `tfsdk:"disabled"`
	ForceDestroy types.Bool   `tfsdk:"force_destroy"`
	ETag         types.String `tfsdk:"etag"`
	CreatedAt    types.String `tfsdk:"created_at"`
	CreatedBy    types.String `tfsdk:"created_by"`
}

func newServiceAccount() resource.Resource {
	r := new(serviceAccountResource)
	r.managed = managed[serviceAccountModel]{
		typeName: "corvo_service_account", schema: serviceAccountSchema,
		called: func(m serviceAccountModel) string { return "service account " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func serviceAccountSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A service account is a machine: it owns API keys (`corvo_api_key`), and may do what its roles say (`corvo_role_binding`).",
		Attributes: map[string]schema.Attribute{
			"id": stableText("`sa_…`, never changes."),
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{displayName()}, MarkdownDescription: "Unique among the tenant's service accounts.",
			},
			"description": describedAttribute(),
			"disabled": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether its keys stop working, within a second. They work again when it is enabled. Default: `false`.",
			},
			"force_destroy": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether destroying it revokes its keys. If not, destroying it is refused while it has keys. Default: `false`.",
			},
			"etag":       changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
			"created_at": stableText("RFC 3339."),
			"created_by": stableText("Id of the user or service account that created it."),
		},
	}
}

func serviceAccountFields() attributes {
	return attributes{"name": "name", "description": "description", "disabled": "disabled"}
}

func (r *serviceAccountResource) create(ctx context.Context, o operation[serviceAccountModel], m serviceAccountModel) {
	res, err := r.cloud.ServiceAccounts().CreateServiceAccount(ctx, connect.NewRequest(&cloudv1.CreateServiceAccountRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), Description: m.Description.ValueString(),
	}))
	if err != nil {
		addFieldErrors(o.diags, "create service account "+m.Name.ValueString(), importable(err, m.Name.ValueString()), serviceAccountFields())
		return
	}
	made := m.from(res.Msg.GetServiceAccount())
	o.save(made)
	if m.Disabled.ValueBool() {
		r.update(ctx, o, m, made)
	}
}

func (r *serviceAccountResource) read(ctx context.Context, m *serviceAccountModel, _ *diag.Diagnostics) error {
	a, err := findServiceAccount(ctx, r.cloud, m.ID.ValueString())
	if err == nil {
		*m = m.from(a)
	}
	return err
}

func (r *serviceAccountResource) update(ctx context.Context, o operation[serviceAccountModel], plan, state serviceAccountModel) {
	mask := maskOf(map[string]bool{
		"name": plan.Name.Equal(state.Name), "description": plan.Description.Equal(state.Description), "disabled": plan.Disabled.Equal(state.Disabled),
	})
	if len(mask.GetPaths()) == 0 { // force_destroy is nothing that the service knows.
		state.ForceDestroy = plan.ForceDestroy
		o.save(state)
		return
	}
	res, err := r.cloud.ServiceAccounts().UpdateServiceAccount(ctx, connect.NewRequest(&cloudv1.UpdateServiceAccountRequest{
		ServiceAccountId: state.ID.ValueString(), Etag: state.ETag.ValueString(), UpdateMask: mask,
		Name: plan.Name.ValueString(), Description: plan.Description.ValueString(), Disabled: plan.Disabled.ValueBool(),
	}))
	if err == nil {
		o.save(plan.from(res.Msg.GetServiceAccount()))
		return
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		a, getErr := findServiceAccount(ctx, r.cloud, state.ID.ValueString())
		if now := plan.from(a); getErr == nil && now.Name.Equal(plan.Name) && now.Description.Equal(plan.Description) && now.Disabled.Equal(plan.Disabled) {
			o.save(now)
			return
		}
	}
	addFieldErrors(o.diags, "change service account "+state.Name.ValueString(), err, serviceAccountFields())
}

func (r *serviceAccountResource) remove(ctx context.Context, m serviceAccountModel, diags *diag.Diagnostics) {
	_, err := r.cloud.ServiceAccounts().DeleteServiceAccount(ctx, connect.NewRequest(&cloudv1.DeleteServiceAccountRequest{
		ServiceAccountId: m.ID.ValueString(), RevokeKeys: m.ForceDestroy.ValueBool(), AllowMissing: true,
	}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "destroy service account "+m.Name.ValueString(), withHelp(err, "HAS_KEYS",
			"Revoke its keys first, or set force_destroy = true and apply, and then destroy."))
	}
}

// adopt takes sa_… or a name.
func (r *serviceAccountResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (serviceAccountModel, bool) {
	a, err := findServiceAccount(ctx, r.cloud, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import service account %q (use its id, sa_…, or its name)", id), err)
	}
	return serviceAccountModel{ForceDestroy: types.BoolValue(false)}.from(a), err == nil
}

func findServiceAccount(ctx context.Context, c *cloud.Client, idOrName string) (*cloudv1.ServiceAccount, error) {
	res, err := c.ServiceAccounts().GetServiceAccount(ctx, connect.NewRequest(&cloudv1.GetServiceAccountRequest{ServiceAccount: idOrName}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetServiceAccount(), nil
}

func (m serviceAccountModel) from(a *cloudv1.ServiceAccount) serviceAccountModel {
	return serviceAccountModel{
		ID: types.StringValue(a.GetId()), Name: types.StringValue(a.GetName()), Description: types.StringValue(a.GetDescription()),
		Disabled: types.BoolValue(a.GetDisabled()), ForceDestroy: m.ForceDestroy, ETag: types.StringValue(a.GetEtag()),
		CreatedAt: timestamp(a.GetCreatedAt()), CreatedBy: types.StringValue(a.GetCreatedBy()),
	}
}
