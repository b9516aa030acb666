package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// Environment variables that stand in for the provider block.
const (
	envEndpoint = "CORVO_ENDPOINT"
	envToken    = "CORVO_TOKEN"
	envTenant   = "CORVO_TENANT"
)

type corvoProvider struct{ version string }

// New makes the provider's constructor, as the plugin server wants it.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &corvoProvider{version: version} }
}

type providerModel struct {
	Endpoint         types.String         `tfsdk:"endpoint"`
	Token            types.String         `tfsdk:"token"`
	Tenant           types.String         `tfsdk:"tenant"`
	MaxRetries       types.Int64          `tfsdk:"max_retries"`
	RequestTimeout   timetypes.GoDuration `tfsdk:"request_timeout"`
	OperationTimeout timetypes.GoDuration `tfsdk:"operation_timeout"`
	CAPEM            types.String         `tfsdk:"ca_pem"`
	AllowHTTP        types.Bool           `tfsdk:"allow_http"`
	Anonymous        types.Bool           `tfsdk:"anonymous"`
}

// Metadata implements provider.Provider.
func (p *corvoProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "corvo"
	resp.Version = p.version
}

// Schema implements provider.Provider.
func (p *corvoProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Namespaces, queues, API keys, and who may do what, of [Corvo Cloud](https://corvo.cloud). Needs Terraform 1.11 or newer.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Base URL of the service. Default: the environment variable `CORVO_ENDPOINT`. " +
					"`http://` is only accepted for this machine; see `allow_http`.",
			},
			"token": schema.StringAttribute{
				Optional:  true,
				Sensitive: true,
				MarkdownDescription: "A management key (`corvo_mg_…`), or a temporary key (`corvo_tmp_…`, see `corvo_access_token`). " +
					"Default: the environment variable `CORVO_TOKEN`, which keeps it out of files.",
			},
			"tenant": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Name or id (`tn_…`) of the tenant that the token must belong to, so that a token of the wrong " +
					"tenant changes nothing. Default: the environment variable `CORVO_TENANT`; without either, any tenant.",
			},
			"max_retries": schema.Int64Attribute{
				Optional:            true,
				Validators:          []validator.Int64{int64validator.Between(0, 50)},
				MarkdownDescription: "How often a call is retried after a temporary failure (connection, 429, 503). Default: `8`.",
			},
			"request_timeout": schema.StringAttribute{
				Optional:            true,
				CustomType:          timetypes.GoDurationType{},
				Validators:          []validator.String{positiveDuration{}},
				MarkdownDescription: "Timeout of one attempt of a call. Default: `30s`.",
			},
			"operation_timeout": schema.StringAttribute{
				Optional:   true,
				CustomType: timetypes.GoDurationType{},
				Validators: []validator.String{positiveDuration{}},
				MarkdownDescription: "Timeout of a change to a resource, including the wait until every proxy uses it. " +
					"A change that isn't in use everywhere by then has `status = \"pending\"`; the next apply continues waiting. Default: `10m`.",
			},
			"ca_pem": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Certificate authorities (PEM) to trust in addition to the system's.",
			},
			"allow_http": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Allow `http://` to other machines. The token is then sent in plain text: " +
					"use it only on a private network. Default: `false`.",
			},
			"anonymous": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Use no token, not even `CORVO_TOKEN`. With such a provider block only the ephemeral resource " +
					"`corvo_access_token` works, whose key is then the `token` of another block. Default: `false`.",
			},
		},
	}
}

// Configure implements provider.Provider.
func (p *corvoProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var m providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	refuseUnknown(m, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	client, err := cloud.New(cloud.Options{
		Endpoint:         orEnv(m.Endpoint, envEndpoint),
		Token:            orEnv(m.Token, envToken),
		AllowHTTP:        m.AllowHTTP.ValueBool(),
		Anonymous:        m.Anonymous.ValueBool(),
		CAPEM:            m.CAPEM.ValueString(),
		MaxRetries:       int(orInt(m.MaxRetries, cloud.DefaultMaxRetries)),
		RequestTimeout:   orDuration(m.RequestTimeout, cloud.DefaultRequestTimeout),
		OperationTimeout: orDuration(m.OperationTimeout, cloud.DefaultOperationTimeout),
		UserAgent:        fmt.Sprintf("terraform-provider-corvo/%s terraform/%s", p.version, req.TerraformVersion),
	})
	if err != nil {
		addOptionError(&resp.Diagnostics, err)
		return
	}
	if want := orEnv(m.Tenant, envTenant); want != "" && !m.Anonymous.ValueBool() {
		guardTenant(ctx, client, want, &resp.Diagnostics)
		if resp.Diagnostics.HasError() {
			return
		}
	}
	resp.ResourceData, resp.DataSourceData, resp.EphemeralResourceData, resp.ListResourceData = client, client, client, client
}

// refuseUnknown: an endpoint that becomes known only during apply cannot be planned with.
func refuseUnknown(m providerModel, diags *diag.Diagnostics) {
	for name, v := range map[string]attr.Value{
		"endpoint": m.Endpoint, "token": m.Token, "tenant": m.Tenant, "max_retries": m.MaxRetries, "request_timeout": m.RequestTimeout,
		"operation_timeout": m.OperationTimeout, "ca_pem": m.CAPEM, "allow_http": m.AllowHTTP, "anonymous": m.Anonymous,
	} {
		if v.IsUnknown() {
			diags.AddAttributeError(path.Root(name), "Value isn't known before apply",
				fmt.Sprintf("The provider is configured before anything is created, but %s depends on a resource that doesn't exist yet. "+
					"Use a fixed value, a variable or an environment variable.", name))
		}
	}
}

func addOptionError(diags *diag.Diagnostics, err error) {
	var oe *cloud.OptionError
	if errors.As(err, &oe) {
		diags.AddAttributeError(path.Root(oe.Option), "Invalid provider configuration", oe.Option+": "+oe.Problem)
		return
	}
	diags.AddError("Invalid provider configuration", err.Error())
}

func guardTenant(ctx context.Context, client *cloud.Client, want string, diags *diag.Diagnostics) {
	ctx, cancel := client.Operation(ctx)
	defer cancel()
	id, err := client.Identity(ctx)
	if err != nil {
		addError(diags, "identify the token", err)
		return
	}
	if want != id.TenantID && want != id.Tenant {
		diags.AddAttributeError(path.Root("tenant"), "The token belongs to another tenant",
			fmt.Sprintf("The provider is configured for tenant %q, but the token belongs to tenant %q (%s). Nothing was changed. "+
				"Use a management key of tenant %q, or change tenant in the provider block or CORVO_TENANT.", want, id.Tenant, id.TenantID, want))
	}
}

func orEnv(v types.String, name string) string {
	if v.IsNull() {
		return os.Getenv(name)
	}
	return v.ValueString()
}

func orInt(v types.Int64, otherwise int64) int64 {
	if v.IsNull() {
		return otherwise
	}
	return v.ValueInt64()
}

// orDuration relies on the attribute's type, which has checked the text.
func orDuration(v timetypes.GoDuration, otherwise time.Duration) time.Duration {
	d, diags := v.ValueGoDuration()
	if v.IsNull() || diags.HasError() {
		return otherwise
	}
	return d
}

// Resources implements provider.Provider.
func (p *corvoProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		newNamespace, newQueue, newAPIKey, newServiceAccount, newRole, newRoleBinding, newGroup, newGroupMember, newGroupMembers, newMember, newTenantSettings, newDomain, newDomainVerification,
		newAuditSink, newTrust, newConnection, newSCIMToken, newSpendLimit,
	}
}

// DataSources implements provider.Provider.
func (p *corvoProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource { return &identitySource{} },
		newRoleSource, newRolesSource, newPermissionsSource, newServiceAccountSource, newServiceAccountsSource, newAPIKeysSource, newMemberSource, newMembersSource,
		newGroupSource, newGroupsSource, newTrustSource, newTrustsSource, newConnectionSource, newDomainSource, newAuditHeadSource, newPlanSource, newUsageSource,
		newInvoicePreviewSource,
	}
}

// ListResources implements provider.ProviderWithListResources.
func (p *corvoProvider) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{
		newNamespaceList, newQueueList, newAPIKeyList, newServiceAccountList, newRoleList, newRoleBindingList, newGroupList, newMemberList, newTrustList, newConnectionList, newDomainList,
		newAuditSinkList,
	}
}

// EphemeralResources implements provider.ProviderWithEphemeralResources.
func (p *corvoProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		func() ephemeral.EphemeralResource { return &secretResource{} },
		func() ephemeral.EphemeralResource { return &accessTokenResource{} },
		func() ephemeral.EphemeralResource { return &runKeyResource{} },
	}
}

// Functions implements provider.ProviderWithFunctions.
func (p *corvoProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{permissionAllows, parseAPIKey, parseID, resourceName}
}

var (
	_ provider.ProviderWithEphemeralResources = (*corvoProvider)(nil)
	_ provider.ProviderWithFunctions          = (*corvoProvider)(nil)
	_ provider.ProviderWithListResources      = (*corvoProvider)(nil)
)

// configured is the client that every resource is handed, embedded by each.
type configured struct{ cloud *cloud.Client }

func (c *configured) set(data any, diags *diag.Diagnostics) {
	if data == nil {
		return // Terraform only validates.
	}
	client, ok := data.(*cloud.Client)
	if !ok {
		diags.AddError("Bug in the provider", fmt.Sprintf("got %T as a client; report this to the provider's developers", data))
		return
	}
	c.cloud = client
}

// Configure implements resource.ResourceWithConfigure.
func (c *configured) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	c.set(req.ProviderData, &resp.Diagnostics)
}
