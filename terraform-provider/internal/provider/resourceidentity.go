package provider

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// identity is how Terraform 1.12 and later tell one thing from another: by tenant and id,
// which stand beside the state. A state that was written before has none until the next
// refresh.
type identity struct {
	// attribute has the id; "id" if it isn't said.
	attribute string
	// lower: upper and lower case are the same.
	lower bool
	// changes: a rotation gives the resource another id.
	changes bool
}

type identityModel struct {
	TenantID types.String `tfsdk:"tenant_id"`
	ID       types.String `tfsdk:"id"`
}

func identitySchema() identityschema.Schema {
	return identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"tenant_id": identityschema.StringAttribute{OptionalForImport: true, Description: "Id of the tenant (tn_…). For an import: the token's tenant unless given."},
		"id":        identityschema.StringAttribute{RequiredForImport: true, Description: "What an import by id takes."},
	}}
}

// set tells who the state is about, once it is about something.
func (i identity) set(ctx context.Context, tenant string, state tfsdk.State, to *tfsdk.ResourceIdentity, diags *diag.Diagnostics) {
	if to == nil || state.Raw.IsNull() {
		return
	}
	var id types.String
	diags.Append(state.GetAttribute(ctx, path.Root(cmp.Or(i.attribute, "id")), &id)...)
	diags.Append(to.Set(ctx, i.of(tenant, id.ValueString()))...)
}

func (i identity) of(tenant, id string) identityModel {
	if i.lower {
		id = strings.ToLower(id)
	}
	return identityModel{TenantID: types.StringValue(tenant), ID: types.StringValue(id)}
}

// identified is the id that an import by identity names.
func identified(ctx context.Context, tenant string, given *tfsdk.ResourceIdentity, diags *diag.Diagnostics) string {
	var m identityModel
	diags.Append(given.Get(ctx, &m)...)
	if t := m.TenantID.ValueString(); t != "" && t != tenant && !diags.HasError() {
		diags.AddError("The token belongs to another tenant", fmt.Sprintf("The identity to import is of tenant %s, but the provider's token belongs to tenant %s.", t, tenant))
	}
	return m.ID.ValueString()
}
