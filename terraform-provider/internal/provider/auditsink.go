package provider

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/objectvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

type auditSinkResource struct{ managed[auditSinkModel] }

// auditSinkModel has exactly one of HTTPS, S3 and Syslog.
type auditSinkModel struct {
	ID               types.String `tfsdk:"id"`
	Name             types.String `tfsdk:"name"`
	Format           types.String `tfsdk:"format"`
	Enabled          types.Bool   `tfsdk:"enabled"`
	FromBeginning    types.Bool   `tfsdk:"from_beginning"`
	HTTPS            *httpsSink   `tfsdk:"https"`
	S3               *s3Sink      `tfsdk:"s3"`
	Syslog           *syslogSink  `tfsdk:"syslog"`
	SecretsWOVersion types.Int64  `tfsdk:"secrets_wo_version"`
	State            types.String `tfsdk:"state"`
	LastError        types.String `tfsdk:"last_error"`
	ETag             types.String `tfsdk:"etag"`
	CreatedAt        types.String `tfsdk:"created_at"`
}

type httpsSink struct {
	URL             types.String `tfsdk:"url"`
	SigningSecretWO types.String `tfsdk:"signing_secret_wo"`
	AuthorizationWO types.String `tfsdk:"authorization_wo"`
}

type s3Sink struct {
	Endpoint          types.String `tfsdk:"endpoint"`
	Region            types.String `tfsdk:"region"`
	Bucket            types.String `tfsdk:"bucket"`
	Prefix            types.String `tfsdk:"prefix"`
	AccessKeyID       types.String `tfsdk:"access_key_id"`
	SecretAccessKeyWO types.String `tfsdk:"secret_access_key_wo"`
}

type syslogSink struct {
	Host  types.String `tfsdk:"host"`
	Port  types.Int64  `tfsdk:"port"`
	CAPEM types.String `tfsdk:"ca_pem"`
}

// Words of the attribute format.
const (
	formatNative = "native"
	formatOCSF   = "ocsf"
)

func newAuditSink() resource.Resource {
	r := new(auditSinkResource)
	r.managed = managed[auditSinkModel]{
		typeName: "corvo_audit_sink", schema: auditSinkSchema, called: func(m auditSinkModel) string { return "audit sink " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func auditSinkSchema() schema.Schema {
	text := func(required bool, about string) schema.StringAttribute {
		return schema.StringAttribute{Required: required, Optional: !required, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: about}
	}
	secret := func(required bool, about string) schema.StringAttribute {
		return schema.StringAttribute{Required: required, Optional: !required, WriteOnly: true, Sensitive: true, MarkdownDescription: about + " Write-only: never stored in a plan or the state."}
	}
	return schema.Schema{
		MarkdownDescription: "A place to which the tenant's audit log is sent, in order, each entry at least once: an HTTPS endpoint, an S3 bucket, or syslog over TLS. " +
			"Set exactly one of `https`, `s3` and `syslog`.\n\n" +
			"An apply that creates it, or changes where it sends, sends a test event first, and fails if that doesn't arrive. Secrets are sent to the service when the sink is created, " +
			"when its target changes, and when `secrets_wo_version` changes.",
		Attributes: map[string]schema.Attribute{
			"id":   stableText("`snk_…`, never changes."),
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{displayName()}, MarkdownDescription: "Unique among the tenant's sinks."},
			"format": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(formatNative), Validators: []validator.String{stringvalidator.OneOf(formatNative, formatOCSF)},
				MarkdownDescription: "`native`, which `corvo audit verify` can check, or `ocsf` (Open Cybersecurity Schema Framework 1.3). Default: `native`.",
			},
			"enabled": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true), MarkdownDescription: "Whether entries are sent. Those of the time between are sent later. Default: `true`.",
			},
			"from_beginning": schema.BoolAttribute{
				Optional: true, MarkdownDescription: "Whether creating it sends the entries that there are, too. Changing it later does nothing. Default: `false`.",
			},
			"https": schema.SingleNestedAttribute{
				Optional: true, MarkdownDescription: "Gets batches of lines by POST, signed as Standard Webhooks says.",
				Validators: []validator.Object{objectvalidator.ExactlyOneOf(path.MatchRoot("s3"), path.MatchRoot("syslog"))},
				Attributes: map[string]schema.Attribute{
					"url":               text(true, "`https://…`"),
					"signing_secret_wo": secret(true, "Signs the batches; at least 16 characters."),
					"authorization_wo":  secret(false, "Value of the header `Authorization`."),
				},
			},
			"s3": schema.SingleNestedAttribute{
				Optional: true, MarkdownDescription: "Gets an object for each batch.",
				Attributes: map[string]schema.Attribute{
					"endpoint":             text(true, "For example `https://s3.eu-central-1.amazonaws.com`."),
					"region":               text(true, "For example `eu-central-1`."),
					"bucket":               text(true, "Name of the bucket."),
					"prefix":               text(false, "Beginning of the objects' names."),
					"access_key_id":        text(true, "Id of a key that can write the objects."),
					"secret_access_key_wo": secret(true, "Secret of that key."),
				},
			},
			"syslog": schema.SingleNestedAttribute{
				Optional: true, MarkdownDescription: "Gets a message (RFC 5424) for each entry, over TLS (RFC 5425).",
				Attributes: map[string]schema.Attribute{
					"host": text(true, "Name of the server."),
					"port": schema.Int64Attribute{
						Optional: true, Computed: true, Default: int64default.StaticInt64(6514), Validators: []validator.Int64{int64validator.Between(1, 65535)},
						MarkdownDescription: "Default: `6514`.",
					},
					"ca_pem": text(false, "Certificates (PEM) that may have signed the server's. Default: the public ones."),
				},
			},
			"secrets_wo_version": schema.Int64Attribute{
				Optional: true, MarkdownDescription: "Any number; changing it sends the secrets again. After an import, the first number is only recorded.",
			},
			"state":      changingText("`active`, `failing` or `disabled`, as of the last refresh."),
			"last_error": changingText("Why it is failing; empty if it isn't."),
			"etag":       changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
			"created_at": stableText("RFC 3339."),
		},
	}
}

func auditSinkFields() attributes {
	return attributes{"name": "name", "format": "format", "enabled": "enabled", "https": "https", "s3": "s3", "syslog": "syslog"}
}

func (r *auditSinkResource) create(ctx context.Context, o operation[auditSinkModel], m auditSinkModel) {
	var given auditSinkModel // Secrets stand in the configuration only.
	if o.diags.Append(o.config.Get(ctx, &given)...); o.diags.HasError() {
		return
	}
	t := m.target(given)
	res, err := r.cloud.Audit().CreateAuditSink(ctx, connect.NewRequest(withTarget(t, &cloudv1.CreateAuditSinkRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), Format: t.GetFormat(), FromBeginning: m.FromBeginning.ValueBool(),
	})))
	if err != nil {
		addFieldErrors(o.diags, "create audit sink "+m.Name.ValueString(), r.importable(ctx, err, m.Name.ValueString()), auditSinkFields())
		return
	}
	made := m.from(res.Msg.GetSink())
	o.save(made)
	if !m.Enabled.ValueBool() {
		r.update(ctx, o, m, made)
	}
}

// importable names the id of the sink that has the name: an import needs it.
func (r *auditSinkResource) importable(ctx context.Context, err error, name string) error {
	if !cloud.Is(err, cloud.Exists) {
		return err
	}
	if v, findErr := r.find(ctx, name); findErr == nil {
		return importable(err, v.GetId())
	}
	return err
}

// find takes snk_… or a name.
func (r *auditSinkResource) find(ctx context.Context, idOrName string) (*cloudv1.AuditSink, error) {
	for v, err := range listSinks(ctx, r.cloud) {
		if err != nil {
			return nil, err
		}
		if v.GetId() == idOrName || v.GetName() == idOrName {
			return v, nil
		}
	}
	return nil, &cloud.Error{Kind: cloud.NotFound, Call: "ListAuditSinks", Message: fmt.Sprintf("no audit sink has the id or name %q", idOrName)}
}

func (r *auditSinkResource) get(ctx context.Context, id string) (*cloudv1.AuditSink, error) {
	res, err := r.cloud.Audit().GetAuditSink(ctx, connect.NewRequest(&cloudv1.GetAuditSinkRequest{SinkId: id}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetSink(), nil
}

func (r *auditSinkResource) read(ctx context.Context, m *auditSinkModel, _ *diag.Diagnostics) error {
	v, err := r.get(ctx, m.ID.ValueString())
	if err == nil {
		*m = m.from(v)
	}
	return err
}

func (r *auditSinkResource) update(ctx context.Context, o operation[auditSinkModel], plan, state auditSinkModel) {
	var given auditSinkModel
	if o.diags.Append(o.config.Get(ctx, &given)...); o.diags.HasError() {
		return
	}
	t, was := plan.target(auditSinkModel{}), state.target(auditSinkModel{})
	same := map[string]bool{"name": t.GetName() == was.GetName(), "format": t.GetFormat() == was.GetFormat(), "enabled": t.GetEnabled() == was.GetEnabled()}
	renewed := o.renews(plan.SecretsWOVersion, state.SecretsWOVersion)
	same[targetName(t)] = !renewed && proto.Equal(t.GetHttps(), was.GetHttps()) && proto.Equal(t.GetS3(), was.GetS3()) && proto.Equal(t.GetSyslog(), was.GetSyslog())
	mask := maskOf(same)
	if len(mask.GetPaths()) == 0 { // What is left is nothing that the service knows.
		state.FromBeginning, state.SecretsWOVersion = plan.FromBeginning, plan.SecretsWOVersion
		o.save(state)
		return
	}
	req := &cloudv1.UpdateAuditSinkRequest{
		SinkId: state.ID.ValueString(), Etag: state.ETag.ValueString(), UpdateMask: mask, Name: t.GetName(), Format: t.GetFormat(), Enabled: t.GetEnabled(),
	}
	if !same[targetName(t)] {
		req = withTarget(plan.target(given), req)
	}
	res, err := r.cloud.Audit().UpdateAuditSink(ctx, connect.NewRequest(req))
	if err == nil {
		o.save(plan.from(res.Msg.GetSink()))
		return
	}
	if isEtagConflict(err) && !renewed { // Perhaps the change is our own, and only its answer was lost.
		v, getErr := r.get(ctx, state.ID.ValueString())
		if now := plan.from(v); getErr == nil && proto.Equal(now.target(auditSinkModel{}), t) {
			o.save(now)
			return
		}
	}
	addFieldErrors(o.diags, "change audit sink "+state.Name.ValueString(), err, auditSinkFields())
}

func (r *auditSinkResource) remove(ctx context.Context, m auditSinkModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Audit().DeleteAuditSink(ctx, connect.NewRequest(&cloudv1.DeleteAuditSinkRequest{SinkId: m.ID.ValueString(), AllowMissing: true}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "destroy audit sink "+m.Name.ValueString(), err)
	}
}

// adopt takes snk_… or a name.
func (r *auditSinkResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (auditSinkModel, bool) {
	v, err := r.find(ctx, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import audit sink %q (use its id, snk_…, or its name)", id), err)
	}
	return auditSinkModel{}.from(v), err == nil
}

// target is what the model says of a sink, with the secrets of a configuration.
func (m auditSinkModel) target(secrets auditSinkModel) *cloudv1.AuditSink {
	v := &cloudv1.AuditSink{Name: m.Name.ValueString(), Format: cloudv1.AuditFormat_AUDIT_FORMAT_NATIVE, Enabled: m.Enabled.ValueBool()}
	if m.Format.ValueString() == formatOCSF {
		v.Format = cloudv1.AuditFormat_AUDIT_FORMAT_OCSF
	}
	switch {
	case m.HTTPS != nil:
		h := &cloudv1.HttpsAuditSink{Url: m.HTTPS.URL.ValueString()}
		if s := secrets.HTTPS; s != nil {
			h.SigningSecret, h.Authorization = s.SigningSecretWO.ValueString(), s.AuthorizationWO.ValueString()
		}
		v.Target = &cloudv1.AuditSink_Https{Https: h}
	case m.S3 != nil:
		b := &cloudv1.S3AuditSink{
			Endpoint: m.S3.Endpoint.ValueString(), Region: m.S3.Region.ValueString(), Bucket: m.S3.Bucket.ValueString(), Prefix: m.S3.Prefix.ValueString(),
			AccessKeyId: m.S3.AccessKeyID.ValueString(),
		}
		if s := secrets.S3; s != nil {
			b.SecretAccessKey = s.SecretAccessKeyWO.ValueString()
		}
		v.Target = &cloudv1.AuditSink_S3{S3: b}
	case m.Syslog != nil:
		v.Target = &cloudv1.AuditSink_Syslog{Syslog: &cloudv1.SyslogAuditSink{
			Host: m.Syslog.Host.ValueString(), Port: int32(m.Syslog.Port.ValueInt64()), CaPem: m.Syslog.CAPEM.ValueString(), // The port was validated.
		}}
	}
	return v
}

func targetName(v *cloudv1.AuditSink) string {
	switch {
	case v.GetS3() != nil:
		return "s3"
	case v.GetSyslog() != nil:
		return "syslog"
	}
	return "https"
}

// withTarget puts the target of a sink into a request.
func withTarget[R *cloudv1.CreateAuditSinkRequest | *cloudv1.UpdateAuditSinkRequest](v *cloudv1.AuditSink, req R) R {
	switch r := any(req).(type) {
	case *cloudv1.CreateAuditSinkRequest:
		switch targetName(v) {
		case "https":
			r.Target = &cloudv1.CreateAuditSinkRequest_Https{Https: v.GetHttps()}
		case "s3":
			r.Target = &cloudv1.CreateAuditSinkRequest_S3{S3: v.GetS3()}
		default:
			r.Target = &cloudv1.CreateAuditSinkRequest_Syslog{Syslog: v.GetSyslog()}
		}
	case *cloudv1.UpdateAuditSinkRequest:
		switch targetName(v) {
		case "https":
			r.Target = &cloudv1.UpdateAuditSinkRequest_Https{Https: v.GetHttps()}
		case "s3":
			r.Target = &cloudv1.UpdateAuditSinkRequest_S3{S3: v.GetS3()}
		default:
			r.Target = &cloudv1.UpdateAuditSinkRequest_Syslog{Syslog: v.GetSyslog()}
		}
	}
	return req
}

func (m auditSinkModel) from(v *cloudv1.AuditSink) auditSinkModel {
	now := auditSinkModel{
		ID: types.StringValue(v.GetId()), Name: types.StringValue(v.GetName()), Format: types.StringValue(formatNative), Enabled: types.BoolValue(v.GetEnabled()),
		FromBeginning: m.FromBeginning, SecretsWOVersion: m.SecretsWOVersion,
		State:     types.StringValue(strings.ToLower(strings.TrimPrefix(v.GetState().String(), "AUDIT_SINK_STATE_"))),
		LastError: types.StringValue(v.GetLastError()), ETag: types.StringValue(v.GetEtag()), CreatedAt: timestamp(v.GetCreatedAt()),
	}
	if v.GetFormat() == cloudv1.AuditFormat_AUDIT_FORMAT_OCSF {
		now.Format = types.StringValue(formatOCSF)
	}
	switch h, b, l := v.GetHttps(), v.GetS3(), v.GetSyslog(); {
	case h != nil:
		now.HTTPS = &httpsSink{URL: types.StringValue(h.GetUrl())}
	case b != nil:
		now.S3 = &s3Sink{
			Endpoint: types.StringValue(b.GetEndpoint()), Region: types.StringValue(b.GetRegion()), Bucket: types.StringValue(b.GetBucket()), Prefix: orNull(b.GetPrefix()),
			AccessKeyID: types.StringValue(b.GetAccessKeyId()),
		}
		if m.S3 != nil && strings.TrimRight(m.S3.Endpoint.ValueString(), "/") == b.GetEndpoint() {
			now.S3.Endpoint = m.S3.Endpoint // As it was written.
		}
	case l != nil:
		now.Syslog = &syslogSink{Host: types.StringValue(l.GetHost()), Port: types.Int64Value(int64(l.GetPort())), CAPEM: orNull(l.GetCaPem())}
	}
	return now
}
