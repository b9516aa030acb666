package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// permissionAllows tells, without a call, whether a role's permissions have one.
type permissionAllows struct{}

// Metadata implements function.Function.
func (permissionAllows) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "permission_allows"
}

// Definition implements function.Function.
func (permissionAllows) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Whether a set of permissions contains one",
		MarkdownDescription: "Whether a set of permissions, such as `permissions` of a `corvo_role`, contains a permission. A misspelled name is an error and not `false`, " +
			"so that a `check` or a `precondition` can rely on the answer. Makes no call.",
		Parameters: []function.Parameter{
			function.SetParameter{Name: "role_permissions", ElementType: types.StringType, MarkdownDescription: "Names of permissions, for example `[\"job.enqueue\", \"queue.read\"]`."},
			function.StringParameter{Name: "permission", MarkdownDescription: "Name of a permission, for example `job.enqueue`; `corvo_permissions` lists them."},
		},
		Return: function.BoolReturn{},
	}
}

// Run implements function.Function.
func (permissionAllows) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var held []string
	var wanted string
	if resp.Error = req.Arguments.Get(ctx, &held, &wanted); resp.Error != nil {
		return
	}
	if _, unknown := permission.SetOf(held); len(unknown) > 0 {
		slices.Sort(unknown)
		resp.Error = function.NewArgumentFuncError(0, "not the name of a permission: "+strings.Join(unknown, ", ")+"; data.corvo_permissions lists them")
		return
	}
	if _, ok := permission.Named(wanted); !ok {
		resp.Error = function.NewArgumentFuncError(1, fmt.Sprintf("%q isn't the name of a permission; data.corvo_permissions lists them", wanted))
		return
	}
	resp.Error = resp.Result.Set(ctx, slices.Contains(held, wanted))
}
