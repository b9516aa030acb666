package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

func serviceAccountID() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^sa_[0-9A-Z]{26}$`), "must be the id of a service account (sa_…), for example corvo_service_account.….id")
}

// permissionName checks the form alone: the service may know more than this provider.
func permissionName() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z_]+\.[a-z_]+$`), "must be the name of a permission such as job.enqueue; the data source corvo_permissions lists them")
}

// queuePattern is a form that the service checks too.
func queuePattern() validator.String { return patternForm{} }

type patternForm struct{}

// Description implements validator.Describer.
func (patternForm) Description(context.Context) string {
	return "the name of a queue, which may end in *"
}

// MarkdownDescription implements validator.Describer.
func (v patternForm) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (patternForm) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := permission.CheckPattern(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Not a pattern of queues", fmt.Sprintf("%q %s.", req.ConfigValue.ValueString(), err))
	}
}

type networkForm struct{}

// Description implements validator.Describer.
func (networkForm) Description(context.Context) string { return "a network or an address" }

// MarkdownDescription implements validator.Describer.
func (v networkForm) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (networkForm) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, ok := clientnet.Network(req.ConfigValue.ValueString()); !ok {
		resp.Diagnostics.AddAttributeError(req.Path, "Not a network",
			fmt.Sprintf("%q must be a network such as 203.0.113.0/24 or 2001:db8::/32, or a single address.", req.ConfigValue.ValueString()))
	}
}

// networksAsWritten keeps the user's way of writing networks as long as they are the same.
func networksAsWritten(got []string, prior types.Set) types.Set {
	var meant []string
	for _, text := range toStrings(prior) {
		form, _ := clientnet.Network(text)
		meant = append(meant, form)
	}
	is := slices.Clone(got)
	slices.Sort(is)
	slices.Sort(meant)
	if len(is) > 0 && slices.Equal(is, slices.Compact(meant)) {
		return prior
	}
	return toSet(got, prior)
}

// replacesKey: after an import there is nothing to compare the first roles with.
func replacesKey(ctx context.Context, req planmodifier.SetRequest, resp *setplanmodifier.RequiresReplaceIfFuncResponse) {
	var version types.Int64
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("secret_wo_version"), &version)...)
	resp.RequiresReplace = !version.IsNull()
}

// widens reports whether a plan gives the key more namespaces. The service account of a key
// with roles has them in the namespaces that the key began with, and nowhere else.
func (r *apiKeyResource) widens(ctx context.Context, plan, state apiKeyModel) (bool, error) {
	had := state.Namespaces.Elements()
	switch {
	case plan.Roles.IsNull() || len(had) == 0:
		return false, nil
	case plan.Namespaces.IsUnknown() || len(plan.Namespaces.Elements()) == 0:
		return true, nil
	}
	added := slices.DeleteFunc(plan.Namespaces.Elements(), func(e attr.Value) bool { return slices.ContainsFunc(had, e.Equal) })
	if len(added) == 0 || slices.ContainsFunc(added, attr.Value.IsUnknown) {
		return len(added) > 0, nil
	}
	are, err := r.namespaceIDs(ctx, added)
	if err != nil {
		return false, err
	}
	were, err := r.namespaceIDs(ctx, had)
	return slices.ContainsFunc(are, func(id string) bool { return id == "" || !slices.Contains(were, id) }), err
}

// namespaceIDs are those of ids and names, empty for what doesn't exist.
func (r *apiKeyResource) namespaceIDs(ctx context.Context, words []attr.Value) ([]string, error) {
	ids := make([]string, len(words))
	for i, w := range words {
		text, ok := w.(types.String)
		if !ok {
			continue
		}
		var err error
		if ids[i], err = namespaceID(ctx, r.cloud, text.ValueString()); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Delete implements resource.Resource. The service account that was made for the key ends
// with it; that of an imported key was there before.
func (r *apiKeyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	r.managed.Delete(ctx, req, resp)
	var m apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if imported := wasImported(ctx, req.Private, &resp.Diagnostics); imported || m.Roles.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	// Somebody may have made other keys of the service account: then it is theirs.
	err := deleteServiceAccount(ctx, r.cloud, m.OwnerID.ValueString())
	if err != nil && !cloud.Is(err, cloud.Conflict) {
		addError(&resp.Diagnostics, "delete the service account of API key "+m.KeyID.ValueString(), err)
	}
}

func deleteServiceAccount(ctx context.Context, c *cloud.Client, id string) error {
	_, err := c.ServiceAccounts().DeleteServiceAccount(ctx, connect.NewRequest(&cloudv1.DeleteServiceAccountRequest{ServiceAccountId: id, AllowMissing: true}))
	if cloud.Is(err, cloud.NotFound) {
		return nil
	}
	return err
}

// UpgradeState implements resource.ResourceWithUpgradeState. Version 0 had the role of a
// management key in tenant_role.
func (r *apiKeyResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: {StateUpgrader: upgradeTenantRole}}
}

func upgradeTenantRole(_ context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
	var state map[string]any
	if err := json.Unmarshal(req.RawState.JSON, &state); err != nil {
		resp.Diagnostics.AddError("Couldn't read the state of an older version", err.Error())
		return
	}
	if role, ok := state["tenant_role"].(string); ok && role != "" {
		state["roles"] = []string{role}
	}
	if roles, ok := state["roles"].([]any); ok && len(roles) == 0 {
		state["roles"] = nil
	}
	delete(state, "tenant_role")
	raw, err := json.Marshal(state)
	if err != nil {
		resp.Diagnostics.AddError("Couldn't write the state of this version", err.Error())
		return
	}
	resp.DynamicValue = &tfprotov6.DynamicValue{JSON: raw}
}
