package provider

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// Verifying is a resource of its own: the record can only be made after the domain, and the
// domain only be verified after the record.
type domainVerificationResource struct {
	managed[domainVerificationModel]
}

type domainVerificationModel struct {
	ID         types.String `tfsdk:"id"`
	DomainID   types.String `tfsdk:"domain_id"`
	VerifiedAt types.String `tfsdk:"verified_at"`
}

func newDomainVerification() resource.Resource {
	r := new(domainVerificationResource)
	r.managed = managed[domainVerificationModel]{
		typeName: "corvo_domain_verification", schema: domainVerificationSchema,
		called: func(m domainVerificationModel) string { return "domain " + m.DomainID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func domainVerificationSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Waits until the TXT record of a `corvo_domain` is in DNS, and verifies the domain. Make it depend on the record. " +
			"If the domain stops being verified, the next apply verifies it again. Destroying this changes nothing; a domain ends with `corvo_domain`.",
		Attributes: map[string]schema.Attribute{
			"id":          stableText("That of the domain."),
			"domain_id":   fixedText(true, "Id of the domain, `dom_…`."),
			"verified_at": stableText("RFC 3339."),
		},
	}
}

func (r *domainVerificationResource) create(ctx context.Context, o operation[domainVerificationModel], m domainVerificationModel) {
	var refused error
	err := r.cloud.Wait(ctx, func(ctx context.Context) (bool, error) {
		res, err := r.cloud.Domains().VerifyDomain(ctx, connect.NewRequest(&cloudv1.VerifyDomainRequest{DomainId: m.DomainID.ValueString()}))
		var e *cloud.Error
		if errors.As(err, &e) && e.Reason == "RECORD_NOT_FOUND" { // Records take their time.
			refused = err
			return false, nil
		}
		if err == nil {
			o.save(verificationState(res.Msg.GetDomain()))
		}
		return err == nil, err
	})
	if err != nil {
		if refused != nil && errors.Is(err, context.DeadlineExceeded) {
			err = refused // What was waited for says more.
		}
		addError(o.diags, "verify domain "+m.DomainID.ValueString(), err)
	}
}

func (r *domainVerificationResource) read(ctx context.Context, m *domainVerificationModel, _ *diag.Diagnostics) error {
	d, err := findDomain(ctx, r.cloud, m.DomainID.ValueString())
	if err == nil && !isVerified(d) {
		return &cloud.Error{Kind: cloud.NotFound} // To be done again.
	}
	if err == nil {
		*m = verificationState(d)
	}
	return err
}

// update has nothing to do: every change replaces.
func (r *domainVerificationResource) update(_ context.Context, o operation[domainVerificationModel], plan, _ domainVerificationModel) {
	o.save(plan)
}

func (r *domainVerificationResource) remove(context.Context, domainVerificationModel, *diag.Diagnostics) {
}

// adopt takes a domain's dom_… or name.
func (r *domainVerificationResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (domainVerificationModel, bool) {
	d, err := findDomain(ctx, r.cloud, id)
	if err == nil && !isVerified(d) {
		err = fmt.Errorf("the domain %s isn't verified; create the resource instead of importing it", d.GetName())
	}
	if err != nil {
		addError(diags, fmt.Sprintf("import the verification of domain %q (use the domain's id, dom_…, or its name)", id), err)
	}
	return verificationState(d), err == nil
}

func verificationState(d *cloudv1.Domain) domainVerificationModel {
	return domainVerificationModel{ID: types.StringValue(d.GetId()), DomainID: types.StringValue(d.GetId()), VerifiedAt: timestamp(d.GetVerifiedAt())}
}
