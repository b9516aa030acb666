package provider

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type domainResource struct{ managed[domainModel] }

type domainModel struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	ConnectionID types.String `tfsdk:"connection_id"`
	TXTName      types.String `tfsdk:"txt_name"`
	TXTValue     types.String `tfsdk:"txt_value"`
	Verified     types.Bool   `tfsdk:"verified"`
	ETag         types.String `tfsdk:"etag"`
	CreatedAt    types.String `tfsdk:"created_at"`
}

func newDomain() resource.Resource {
	r := new(domainResource)
	r.managed = managed[domainModel]{
		typeName: "corvo_domain", schema: domainSchema, called: func(m domainModel) string { return "domain " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func domainSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A domain of the tenant. Once it is verified, the sign-in page offers single sign-on to people with an email address of it. " +
			"Add the TXT record to DNS and verify with `corvo_domain_verification`. Destroying a domain releases it; its record never counts again.",
		Attributes: map[string]schema.Attribute{
			"id": stableText("`dom_…`, never changes."),
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplaceIf(otherDomain, "Another name is another domain.", "Another name is another domain.")},
				MarkdownDescription: "For example `company.com`; upper and lower case are the same. A subdomain is a domain of its own. Changing it replaces the domain.",
			},
			"connection_id": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(""),
				MarkdownDescription: "The SSO connection that people of the domain sign in through (`sso_…`). Default: empty, the tenant's enabled ones.",
			},
			"txt_name":   stableText("Name of the TXT record, without a dot at the end."),
			"txt_value":  stableText("Value of the TXT record."),
			"verified":   schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it is verified, as of the last refresh."},
			"etag":       changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
			"created_at": stableText("RFC 3339."),
		},
	}
}

// otherDomain: releasing a domain ends its record for good, which no spelling is worth.
func otherDomain(_ context.Context, req planmodifier.StringRequest, resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
	plain := func(name types.String) string { return strings.TrimSuffix(strings.TrimSpace(name.ValueString()), ".") }
	resp.RequiresReplace = req.PlanValue.IsUnknown() || !strings.EqualFold(plain(req.PlanValue), plain(req.StateValue))
}

func domainFields() attributes {
	return attributes{"name": "name", "connection_id": "connection_id"}
}

func (r *domainResource) create(ctx context.Context, o operation[domainModel], m domainModel) {
	res, err := r.cloud.Domains().CreateDomain(ctx, connect.NewRequest(&cloudv1.CreateDomainRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), ConnectionId: m.ConnectionID.ValueString(),
	}))
	if err != nil {
		addFieldErrors(o.diags, "add domain "+m.Name.ValueString(), importable(err, m.Name.ValueString()), domainFields())
		return
	}
	o.save(m.from(res.Msg.GetDomain()))
}

func (r *domainResource) read(ctx context.Context, m *domainModel, _ *diag.Diagnostics) error {
	d, err := findDomain(ctx, r.cloud, m.ID.ValueString())
	if err == nil {
		*m = m.from(d)
	}
	return err
}

func (r *domainResource) update(ctx context.Context, o operation[domainModel], plan, state domainModel) {
	if plan.ConnectionID.Equal(state.ConnectionID) { // The name is written in another way.
		state.Name = plan.Name
		o.save(state)
		return
	}
	res, err := r.cloud.Domains().UpdateDomain(ctx, connect.NewRequest(&cloudv1.UpdateDomainRequest{
		DomainId: state.ID.ValueString(), Etag: state.ETag.ValueString(), ConnectionId: plan.ConnectionID.ValueString(),
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"connection_id"}},
	}))
	if err == nil {
		o.save(plan.from(res.Msg.GetDomain()))
		return
	}
	if isEtagConflict(err) { // Perhaps the change is our own, and only its answer was lost.
		d, getErr := findDomain(ctx, r.cloud, state.ID.ValueString())
		if now := plan.from(d); getErr == nil && now.ConnectionID.Equal(plan.ConnectionID) {
			o.save(now)
			return
		}
	}
	addFieldErrors(o.diags, "change domain "+state.Name.ValueString(), err, domainFields())
}

func (r *domainResource) remove(ctx context.Context, m domainModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Domains().DeleteDomain(ctx, connect.NewRequest(&cloudv1.DeleteDomainRequest{DomainId: m.ID.ValueString(), AllowMissing: true}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "release domain "+m.Name.ValueString(), err)
	}
}

// adopt takes dom_… or a name.
func (r *domainResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (domainModel, bool) {
	d, err := findDomain(ctx, r.cloud, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import domain %q (use its id, dom_…, or its name)", id), err)
	}
	return domainModel{}.from(d), err == nil
}

func findDomain(ctx context.Context, c *cloud.Client, idOrName string) (*cloudv1.Domain, error) {
	res, err := c.Domains().GetDomain(ctx, connect.NewRequest(&cloudv1.GetDomainRequest{DomainId: idOrName}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetDomain(), nil
}

// from keeps the name as it was written: a domain's never changes, only its spelling.
func (m domainModel) from(d *cloudv1.Domain) domainModel {
	name := m.Name
	if name.IsNull() {
		name = types.StringValue(d.GetName())
	}
	return domainModel{
		ID: types.StringValue(d.GetId()), Name: name, ConnectionID: types.StringValue(d.GetConnectionId()),
		TXTName: types.StringValue(d.GetTxtName()), TXTValue: types.StringValue(d.GetTxtValue()), Verified: types.BoolValue(isVerified(d)),
		ETag: types.StringValue(d.GetEtag()), CreatedAt: timestamp(d.GetCreatedAt()),
	}
}

// isVerified: a missing record is a warning, and no end yet.
func isVerified(d *cloudv1.Domain) bool {
	return d.GetState() == cloudv1.DomainState_DOMAIN_STATE_VERIFIED || d.GetState() == cloudv1.DomainState_DOMAIN_STATE_RECORD_MISSING
}
