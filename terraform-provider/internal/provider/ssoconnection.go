package provider

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/objectvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// connectionResource is a tenant's identity provider. What people sign in with is changed in
// two steps by the service: the change is staged, and after a test sign-in somebody switches.
// Terraform cannot sign in, so to it the staged settings are the settings.
type connectionResource struct{ managed[connectionModel] }

// connectionModel has exactly one of OIDC and SAML.
type connectionModel struct {
	ID                    types.String   `tfsdk:"id"`
	Name                  types.String   `tfsdk:"name"`
	OIDC                  *oidcSettings  `tfsdk:"oidc"`
	SAML                  *samlSettings  `tfsdk:"saml"`
	ClientSecretWOVersion types.Int64    `tfsdk:"client_secret_wo_version"`
	GroupsClaim           types.String   `tfsdk:"groups_claim"`
	DefaultRole           types.String   `tfsdk:"default_role"`
	GroupMappings         []groupMapping `tfsdk:"group_mappings"`
	Enabled               types.Bool     `tfsdk:"enabled"`
	Staged                types.Bool     `tfsdk:"staged"`
	LoginURL              types.String   `tfsdk:"login_url"`
	RedirectURI           types.String   `tfsdk:"redirect_uri"`
	OldRedirectURI        types.String   `tfsdk:"old_redirect_uri"`
	SPEntityID            types.String   `tfsdk:"sp_entity_id"`
	SPMetadataURL         types.String   `tfsdk:"sp_metadata_url"`
	SPCertificate         types.String   `tfsdk:"sp_certificate"`
	ETag                  types.String   `tfsdk:"etag"`
	CreatedAt             types.String   `tfsdk:"created_at"`
}

type oidcSettings struct {
	Issuer         types.String `tfsdk:"issuer"`
	ClientID       types.String `tfsdk:"client_id"`
	ClientSecretWO types.String `tfsdk:"client_secret_wo"`
	Scopes         types.Set    `tfsdk:"scopes"`
}

type samlSettings struct {
	MetadataXML       types.String `tfsdk:"metadata_xml"`
	MetadataURL       types.String `tfsdk:"metadata_url"`
	EntityID          types.String `tfsdk:"entity_id"`
	SSOURL            types.String `tfsdk:"sso_url"`
	Certificates      types.List   `tfsdk:"certificates"`
	SignRequests      types.Bool   `tfsdk:"sign_requests"`
	WantEncrypted     types.Bool   `tfsdk:"want_encrypted"`
	AllowIdPInitiated types.Bool   `tfsdk:"allow_idp_initiated"`
	EmailAttribute    types.String `tfsdk:"email_attribute"`
	NameAttribute     types.String `tfsdk:"name_attribute"`
}

type groupMapping struct {
	Group types.String `tfsdk:"group"`
	Role  types.String `tfsdk:"role"`
}

func newConnection() resource.Resource {
	r := new(connectionResource)
	r.managed = managed[connectionModel]{
		typeName: "corvo_sso_connection", schema: connectionSchema, called: func(m connectionModel) string { return "SSO connection " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func connectionSchema() schema.Schema {
	optional := func(about string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: about}
	}
	flag := func(about string) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false), MarkdownDescription: about + " Default: `false`."}
	}
	given := optional
	read := func(about string) schema.StringAttribute {
		a := optional(about)
		a.Computed = true
		return a
	}
	beside := func(names ...string) validator.String {
		var all []path.Expression
		for _, n := range names {
			all = append(all, path.MatchRelative().AtParent().AtName(n))
		}
		return stringvalidator.ConflictsWith(all...)
	}
	xml, address := given("The provider's metadata, as a document."), given("Where the provider's metadata is. It is read once, when this is set or changed.")
	xml.Validators = append(xml.Validators, beside("metadata_url", "entity_id", "sso_url", "certificates"))
	address.Validators = append(address.Validators, beside("entity_id", "sso_url", "certificates"))
	otherType := []planmodifier.Object{objectplanmodifier.RequiresReplaceIf(func(_ context.Context, req planmodifier.ObjectRequest, resp *objectplanmodifier.RequiresReplaceIfFuncResponse) {
		resp.RequiresReplace = req.PlanValue.IsNull() != req.StateValue.IsNull()
	}, "A connection stays OpenID Connect or SAML.", "A connection stays OpenID Connect or SAML.")}
	role := func(required bool, about string) schema.StringAttribute {
		return schema.StringAttribute{Required: required, Optional: !required, Validators: []validator.String{roleWord()}, MarkdownDescription: about}
	}
	return schema.Schema{
		MarkdownDescription: "The tenant's own identity provider, by OpenID Connect (`oidc`) or SAML 2.0 (`saml`); set exactly one.\n\n" +
			"**Somebody must sign in once before it counts.** Create it with `enabled = false`, register `redirect_uri` with the provider, run a test sign-in in the console, and then set " +
			"`enabled = true`. Changing `oidc`, `saml` or `groups_claim` of an enabled connection only stages the change (`staged`): people sign in as before until somebody has run a test " +
			"sign-in and switched, in the console. Destroying it removes the members who came through it.\n\n" +
			"**Group mappings are part of the connection.** The first that matches decides, and the service knows them as one list in order, so there is no resource for a single one.",
		Attributes: map[string]schema.Attribute{
			"id":   stableText("`sso_…`, never changes."),
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{displayName()}, MarkdownDescription: "Name shown to people."},
			"oidc": schema.SingleNestedAttribute{
				Optional: true, PlanModifiers: otherType, Validators: []validator.Object{objectvalidator.ExactlyOneOf(path.MatchRoot("saml"))}, MarkdownDescription: "OpenID Connect.",
				Attributes: map[string]schema.Attribute{
					"issuer":    schema.StringAttribute{Required: true, MarkdownDescription: "The provider's issuer URL."},
					"client_id": schema.StringAttribute{Required: true, MarkdownDescription: "Id of the client that was registered with the provider."},
					"client_secret_wo": schema.StringAttribute{
						Optional: true, WriteOnly: true, Sensitive: true,
						MarkdownDescription: "Secret of that client. Write-only: used when the connection is created and when `client_secret_wo_version` changes, and never stored in a plan or the state.",
					},
					"scopes": schema.SetAttribute{
						Optional: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.SizeAtLeast(1)}, MarkdownDescription: "Requested in addition to `openid`, `email` and `profile`.",
					},
				},
			},
			"saml": schema.SingleNestedAttribute{
				Optional: true, PlanModifiers: otherType,
				MarkdownDescription: "SAML 2.0. May be empty (`{}`) at first, if the provider needs `sp_metadata_url` before it has metadata of its own.",
				Attributes: map[string]schema.Attribute{
					"metadata_xml": xml,
					"metadata_url": address,
					"entity_id":    read("The provider's entity ID. Default: from the metadata."),
					"sso_url":      read("The provider's sign-on URL (HTTP-Redirect binding). Default: from the metadata."),
					"certificates": schema.ListAttribute{
						Optional: true, Computed: true, ElementType: types.StringType, Validators: []validator.List{listvalidator.SizeBetween(1, 5)},
						MarkdownDescription: "The provider's signing certificates (PEM): several while it replaces one. Default: from the metadata.",
					},
					"sign_requests": schema.BoolAttribute{
						Optional: true, Computed: true, MarkdownDescription: "Whether requests to the provider are signed. Default: `false`, or `true` if the metadata asks for it, which can't be declined.",
					},
					"want_encrypted":      flag("Whether responses without an encrypted assertion are refused."),
					"allow_idp_initiated": flag("Whether people may start at the provider, not only here."),
					"email_attribute":     optional("Attribute with a person's email address. Default: the usual ones."),
					"name_attribute":      optional("Attribute with a person's name. Default: the usual ones."),
				},
			},
			"client_secret_wo_version": schema.Int64Attribute{
				Optional: true, MarkdownDescription: "Any number; changing it sends `client_secret_wo` again. After an import, the first number is only recorded.",
			},
			"groups_claim": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("groups"), Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Claim or SAML attribute that lists a person's groups. Default: `groups`.",
			},
			"default_role": role(false, "Role of people in none of the mapped groups: the name of a role that every tenant has, such as `viewer`, or the id of one of its own. Default: they can't sign in."),
			"group_mappings": schema.ListNestedAttribute{
				Optional: true, Validators: []validator.List{listvalidator.SizeAtLeast(1)}, MarkdownDescription: "Roles of people by their groups at the provider; the first that matches decides.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"group": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: "As the provider writes it."},
					"role":  role(true, "Name of a role that every tenant has, or id of one of its own."),
				}},
			},
			"enabled":          flag("Whether people can sign in through it. Needs a successful test sign-in with these settings."),
			"staged":           schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether these settings wait for a test sign-in and a switch, while people sign in with older ones."},
			"login_url":        stableText("Where people start."),
			"redirect_uri":     stableText("To be registered with the provider: the redirect URI, or the ACS URL of SAML."),
			"old_redirect_uri": changingText("The redirect URI that people still sign in with, in a connection from before each tenant had its own: register `redirect_uri` beside it and run a test sign-in, which makes this empty (with a staged change, the switch does). If Terraform registers the redirect URI at the provider, register both: `compact([….redirect_uri, ….old_redirect_uri])`."),
			"sp_entity_id":     stableText("SAML: our entity ID (audience). Else empty."),
			"sp_metadata_url":  stableText("SAML: our metadata. Else empty."),
			"sp_certificate":   stableText("SAML: our certificate (PEM). Else empty."),
			"etag":             changingText("Changes with every update; an apply refuses to overwrite an update it hasn't seen."),
			"created_at":       stableText("RFC 3339."),
		},
	}
}

// roleWord is a role as the service writes it, so that no plan differs by spelling alone.
func roleWord() validator.String {
	names := []string{`role_[0-9A-Z]{26}`}
	for _, r := range permission.Roles() {
		names = append(names, regexp.QuoteMeta(r.Name))
	}
	return stringvalidator.RegexMatches(regexp.MustCompile(`^(`+strings.Join(names, "|")+`)$`), "must be the name of a role that every tenant has, such as viewer, or the id (role_…) of one of its own")
}

func connectionFields() attributes {
	return attributes{
		"name": "name", "issuer": "oidc", "client_id": "oidc", "client_secret": "oidc", "scopes": "oidc", "saml": "saml", "groups_claim": "groups_claim", "default_role": "default_role",
		"group_mappings": "group_mappings", "enabled": "enabled",
	}
}

func (r *connectionResource) create(ctx context.Context, o operation[connectionModel], m connectionModel) {
	if m.Enabled.ValueBool() {
		o.diags.AddAttributeError(path.Root("enabled"), "Nobody has tried this connection yet",
			"Create it with enabled = false, run a test sign-in in the console (Sign-on), and set enabled = true afterwards.")
		return
	}
	secret := r.secret(ctx, o)
	if o.diags.HasError() {
		return
	}
	req := &cloudv1.CreateSsoConnectionRequest{
		RequestId: randomRequestID(), Name: m.Name.ValueString(), GroupsClaim: m.GroupsClaim.ValueString(), DefaultRole: m.DefaultRole.ValueString(), GroupMappings: m.mappings(),
	}
	if m.OIDC != nil {
		req.Type, req.Issuer, req.ClientId, req.ClientSecret, req.Scopes = cloudv1.SsoType_SSO_TYPE_OIDC, m.OIDC.Issuer.ValueString(), m.OIDC.ClientID.ValueString(), secret, toStrings(m.OIDC.Scopes)
	} else {
		req.Type, req.Saml = cloudv1.SsoType_SSO_TYPE_SAML, m.SAML.request()
	}
	res, err := r.cloud.Connections().CreateSsoConnection(ctx, connect.NewRequest(req))
	if err != nil {
		addFieldErrors(o.diags, "create SSO connection "+m.Name.ValueString(), err, connectionFields())
		return
	}
	o.save(m.from(res.Msg.GetConnection()))
}

// secret takes the client secret out of the configuration: the only place where it stands.
func (r *connectionResource) secret(ctx context.Context, o operation[connectionModel]) string {
	var given connectionModel
	o.diags.Append(o.config.Get(ctx, &given)...)
	if given.OIDC == nil {
		return ""
	}
	return given.OIDC.ClientSecretWO.ValueString()
}

func (r *connectionResource) read(ctx context.Context, m *connectionModel, _ *diag.Diagnostics) error {
	v, err := findConnection(ctx, r.cloud, m.ID.ValueString())
	if err == nil {
		*m = m.from(v)
	}
	return err
}

// findConnection takes sso_…; names need not be unique.
func findConnection(ctx context.Context, c *cloud.Client, id string) (*cloudv1.SsoConnection, error) {
	for v, err := range listConnections(ctx, c) {
		if err != nil {
			return nil, err
		}
		if v.GetId() == id {
			return v, nil
		}
	}
	return nil, &cloud.Error{Kind: cloud.NotFound, Call: "ListSsoConnections", Message: fmt.Sprintf("no SSO connection has the id %q", id)}
}

// changes names what differs from the state, in the words of a mask.
func (m connectionModel) changes(was connectionModel) map[string]bool {
	same := map[string]bool{
		"name": m.Name.Equal(was.Name), "groups_claim": m.GroupsClaim.Equal(was.GroupsClaim), "default_role": m.DefaultRole.Equal(was.DefaultRole),
		"group_mappings": slices.Equal(m.GroupMappings, was.GroupMappings), "enabled": m.Enabled.Equal(was.Enabled),
	}
	switch {
	case m.OIDC != nil && was.OIDC != nil:
		same["issuer"], same["client_id"] = m.OIDC.Issuer.Equal(was.OIDC.Issuer), m.OIDC.ClientID.Equal(was.OIDC.ClientID)
		same["scopes"] = slices.Equal(toStrings(m.OIDC.Scopes), toStrings(was.OIDC.Scopes))
	case m.SAML != nil && was.SAML != nil:
		m.SAML.changes(*was.SAML, same)
	}
	return same
}

// changes: what the metadata says is unknown to a plan, and comes with the metadata.
func (s samlSettings) changes(was samlSettings, same map[string]bool) {
	kept := func(name string, now, before attr.Value) {
		same["saml."+name] = now.IsUnknown() || now.Equal(before)
	}
	switch {
	case !s.MetadataXML.IsNull():
		kept("metadata_xml", s.MetadataXML, was.MetadataXML)
	case !s.MetadataURL.IsNull():
		kept("metadata_url", s.MetadataURL, was.MetadataURL)
	case !was.MetadataURL.IsNull(): // The service forgets the address with the first of these that is given.
		same["saml.entity_id"], same["saml.sso_url"], same["saml.certificates"] = false, false, false
	default:
		kept("entity_id", s.EntityID, was.EntityID)
		kept("sso_url", s.SSOURL, was.SSOURL)
		kept("certificates", s.Certificates, was.Certificates)
	}
	kept("sign_requests", s.SignRequests, was.SignRequests)
	kept("want_encrypted", s.WantEncrypted, was.WantEncrypted)
	kept("allow_idp_initiated", s.AllowIdPInitiated, was.AllowIdPInitiated)
	kept("email_attribute", s.EmailAttribute, was.EmailAttribute)
	kept("name_attribute", s.NameAttribute, was.NameAttribute)
}

func (r *connectionResource) update(ctx context.Context, o operation[connectionModel], plan, state connectionModel) {
	same := plan.changes(state)
	renewed := plan.OIDC != nil && o.renews(plan.ClientSecretWOVersion, state.ClientSecretWOVersion)
	req := &cloudv1.UpdateSsoConnectionRequest{
		ConnectionId: state.ID.ValueString(), Etag: state.ETag.ValueString(), Name: plan.Name.ValueString(), GroupsClaim: plan.GroupsClaim.ValueString(),
		DefaultRole: plan.DefaultRole.ValueString(), GroupMappings: plan.mappings(), Enabled: plan.Enabled.ValueBool(),
	}
	if renewed {
		same["client_secret"] = false
		if req.ClientSecret = r.secret(ctx, o); o.diags.HasError() {
			return
		}
	}
	if req.UpdateMask = maskOf(same); len(req.GetUpdateMask().GetPaths()) == 0 { // What is left is nothing that the service knows.
		state.ClientSecretWOVersion = plan.ClientSecretWOVersion
		if plan.SAML != nil && state.SAML != nil {
			state.SAML.MetadataXML = plan.SAML.MetadataXML
		}
		o.save(state)
		return
	}
	if plan.OIDC != nil {
		req.Issuer, req.ClientId, req.Scopes = plan.OIDC.Issuer.ValueString(), plan.OIDC.ClientID.ValueString(), toStrings(plan.OIDC.Scopes)
	} else {
		req.Saml = plan.SAML.or(*state.SAML).request()
	}
	res, err := r.cloud.Connections().UpdateSsoConnection(ctx, connect.NewRequest(req))
	if err == nil {
		now := plan.from(res.Msg.GetConnection())
		if now.Staged.ValueBool() && !state.Staged.ValueBool() {
			o.diags.AddWarning("People sign in as before until somebody switches",
				fmt.Sprintf("The new settings of %s are staged. Run a test sign-in and switch to them, in the console (Sign-on).", plan.Name.ValueString()))
		}
		o.save(now)
		return
	}
	if isEtagConflict(err) && !renewed { // Perhaps the change is our own, and only its answer was lost.
		v, getErr := findConnection(ctx, r.cloud, state.ID.ValueString())
		if getErr == nil {
			if now := plan.from(v); len(maskOf(plan.changes(now)).GetPaths()) == 0 {
				o.save(now)
				return
			}
		}
	}
	addFieldErrors(o.diags, "change SSO connection "+state.Name.ValueString(), withHelp(err, "SSO_TEST_NEEDED",
		"Terraform can't sign in. Run a test sign-in in the console (Sign-on), and apply again."), connectionFields())
}

func (r *connectionResource) remove(ctx context.Context, m connectionModel, diags *diag.Diagnostics) {
	_, err := r.cloud.Connections().DeleteSsoConnection(ctx, connect.NewRequest(&cloudv1.DeleteSsoConnectionRequest{ConnectionId: m.ID.ValueString()}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "destroy SSO connection "+m.Name.ValueString(), err)
	}
}

// adopt takes sso_….
func (r *connectionResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (connectionModel, bool) {
	v, err := findConnection(ctx, r.cloud, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import SSO connection %q (use its id, sso_…)", id), err)
		return connectionModel{}, false
	}
	return connectionModel{}.from(v), true
}

func (m connectionModel) mappings() []*cloudv1.GroupMapping {
	var out []*cloudv1.GroupMapping
	for _, g := range m.GroupMappings {
		out = append(out, &cloudv1.GroupMapping{Group: g.Group.ValueString(), Role: g.Role.ValueString()})
	}
	return out
}

// or takes what the plan leaves open from the state: what the metadata said stays when the
// metadata goes.
func (s samlSettings) or(was samlSettings) samlSettings {
	if s.EntityID.IsUnknown() {
		s.EntityID = was.EntityID
	}
	if s.SSOURL.IsUnknown() {
		s.SSOURL = was.SSOURL
	}
	if s.Certificates.IsUnknown() {
		s.Certificates = was.Certificates
	}
	return s
}

// request leaves out what the metadata says.
func (s samlSettings) request() *cloudv1.SamlSettings {
	out := &cloudv1.SamlSettings{
		MetadataXml: s.MetadataXML.ValueString(), MetadataUrl: s.MetadataURL.ValueString(), SignRequests: s.SignRequests.ValueBool(), WantEncrypted: s.WantEncrypted.ValueBool(),
		AllowIdpInitiated: s.AllowIdPInitiated.ValueBool(), EmailAttribute: s.EmailAttribute.ValueString(), NameAttribute: s.NameAttribute.ValueString(),
	}
	if out.GetMetadataXml() == "" && out.GetMetadataUrl() == "" {
		out.EntityId, out.SsoUrl, out.Certificates = s.EntityID.ValueString(), s.SSOURL.ValueString(), listTexts(s.Certificates)
	}
	return out
}

func listTexts(l types.List) []string {
	var out []string
	for _, e := range l.Elements() {
		if s, ok := e.(types.String); ok {
			out = append(out, s.ValueString())
		}
	}
	return out
}

func toList(items []string) types.List {
	values := make([]attr.Value, len(items))
	for i, s := range items {
		values[i] = types.StringValue(s)
	}
	return types.ListValueMust(types.StringType, values)
}

// from takes what the service says: of settings that wait for a switch, the new ones.
func (m connectionModel) from(v *cloudv1.SsoConnection) connectionModel {
	details := v.GetSamlDetails()
	now := connectionModel{
		ID: types.StringValue(v.GetId()), Name: types.StringValue(v.GetName()), ClientSecretWOVersion: m.ClientSecretWOVersion, GroupsClaim: types.StringValue(v.GetGroupsClaim()),
		DefaultRole: orNull(v.GetDefaultRole()), Enabled: types.BoolValue(v.GetEnabled()), Staged: types.BoolValue(v.GetStaged() != nil),
		LoginURL: types.StringValue(v.GetLoginUrl()), RedirectURI: types.StringValue(v.GetRedirectUri()), OldRedirectURI: types.StringValue(v.GetOldRedirectUri()), SPEntityID: types.StringValue(details.GetSpEntityId()),
		SPMetadataURL: types.StringValue(details.GetSpMetadataUrl()), SPCertificate: types.StringValue(details.GetSpCertificate()),
		ETag: types.StringValue(v.GetEtag()), CreatedAt: timestamp(v.GetCreatedAt()),
	}
	for _, g := range v.GetGroupMappings() {
		now.GroupMappings = append(now.GroupMappings, groupMapping{Group: types.StringValue(g.GetGroup()), Role: types.StringValue(g.GetRole())})
	}
	issuer, clientID, scopes, saml := v.GetIssuer(), v.GetClientId(), v.GetScopes(), v.GetSaml()
	if c := v.GetStaged(); c != nil {
		issuer, clientID, scopes, saml = c.GetIssuer(), c.GetClientId(), c.GetScopes(), c.GetSaml()
		now.GroupsClaim = types.StringValue(c.GetGroupsClaim())
	}
	if v.GetType() != cloudv1.SsoType_SSO_TYPE_SAML {
		prior := types.SetNull(types.StringType)
		if m.OIDC != nil {
			prior = m.OIDC.Scopes
		}
		now.OIDC = &oidcSettings{Issuer: types.StringValue(issuer), ClientID: types.StringValue(clientID), Scopes: toSet(scopes, prior)}
		return now
	}
	now.SAML = &samlSettings{
		MetadataURL: orNull(saml.GetMetadataUrl()), EntityID: types.StringValue(saml.GetEntityId()), SSOURL: types.StringValue(saml.GetSsoUrl()), Certificates: toList(saml.GetCertificates()),
		SignRequests: types.BoolValue(saml.GetSignRequests()), WantEncrypted: types.BoolValue(saml.GetWantEncrypted()), AllowIdPInitiated: types.BoolValue(saml.GetAllowIdpInitiated()),
		EmailAttribute: orNull(saml.GetEmailAttribute()), NameAttribute: orNull(saml.GetNameAttribute()),
	}
	if m.SAML != nil {
		now.SAML.MetadataXML = m.SAML.MetadataXML // It isn't given back.
	}
	return now
}
