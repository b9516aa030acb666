package provider

import (
	"context"
	"iter"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// List resources are for terraform query (Terraform 1.14): they find what could be imported.

// lister lists the things T of a resource, of which M is the model.
type lister[T, M any] struct {
	configured

	typeName, about string
	identity        identity
	// filters are the attributes of a list block, and what they are about; required ones
	// are in need.
	filters map[string]string
	need    string
	each    func(ctx context.Context, c *cloud.Client, filter func(name string) string) iter.Seq2[T, error]
	// show gives what an import of it would, and how people call it.
	show func(T) (name string, m M)
}

// Metadata implements list.ListResource.
func (l *lister[T, M]) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = l.typeName
}

// ListResourceConfigSchema implements list.ListResource.
func (l *lister[T, M]) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse) {
	attributes := map[string]schema.Attribute{}
	for name, about := range l.filters {
		attributes[name] = schema.StringAttribute{Required: name == l.need, Optional: name != l.need, MarkdownDescription: about}
	}
	resp.Schema = schema.Schema{MarkdownDescription: l.about, Attributes: attributes}
}

// List implements list.ListResource.
func (l *lister[T, M]) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var diags diag.Diagnostics
	given := map[string]types.String{}
	for name := range l.filters {
		var v types.String
		diags.Append(req.Config.GetAttribute(ctx, path.Root(name), &v)...)
		given[name] = v
	}
	who, err := l.cloud.Identity(ctx)
	if err != nil {
		addError(&diags, "identify the token", err)
	}
	if diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	stream.Results = func(push func(list.ListResult) bool) {
		ctx, cancel := l.cloud.Operation(ctx)
		defer cancel()
		var n int64
		for v, err := range l.each(ctx, l.cloud, func(name string) string { return given[name].ValueString() }) {
			if err != nil {
				addError(&diags, "list "+l.typeName, err)
				push(list.ListResult{Diagnostics: diags})
				return
			}
			if n++; req.Limit > 0 && n > req.Limit || !push(l.result(ctx, req, who.TenantID, v)) {
				return
			}
		}
	}
}

func (l *lister[T, M]) result(ctx context.Context, req list.ListRequest, tenant string, v T) list.ListResult {
	result := req.NewListResult(ctx)
	name, m := l.show(v)
	result.DisplayName = name
	result.Diagnostics.Append(result.Resource.Set(ctx, m)...)
	l.identity.set(ctx, tenant, tfsdk.State(*result.Resource), result.Identity, &result.Diagnostics)
	if !req.IncludeResource {
		result.Resource = nil
	}
	return result
}

func newNamespaceList() list.ListResource {
	return &lister[*cloudv1.Namespace, namespaceModel]{
		typeName: "corvo_namespace", about: "Lists the tenant's namespaces.",
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.Namespace, error] {
			return listNamespaces(ctx, c)
		},
		show: func(v *cloudv1.Namespace) (string, namespaceModel) {
			return v.GetName(), namespaceModel{Labels: types.MapNull(types.StringType)}.from(v)
		},
	}
}

// queueIn is a queue with its namespace.
type queueIn struct {
	wire.Queue

	namespace *cloudv1.Namespace
}

func newQueueList() list.ListResource {
	return &lister[queueIn, queueModel]{
		typeName: "corvo_queue", about: "Lists the queues of a namespace.", need: "namespace", filters: map[string]string{"namespace": "Id (`ns_…`) or name of the namespace."},
		each: func(ctx context.Context, c *cloud.Client, filter func(string) string) iter.Seq2[queueIn, error] {
			return walk(func(string) (out []queueIn, _ string, _ error) {
				ns, err := findNamespace(ctx, c, filter("namespace"))
				if err != nil {
					return nil, "", err
				}
				queues, err := c.ListQueues(ctx, ns.GetName())
				for _, q := range queues {
					out = append(out, queueIn{q, ns})
				}
				return out, "", err
			})
		},
		show: func(v queueIn) (string, queueModel) {
			m := queueModel{Name: types.StringValue(v.Name), Namespace: types.StringValue(v.namespace.GetId())}
			m.fill(v.namespace, v.Queue)
			return v.namespace.GetName() + "/" + v.Name, m
		},
	}
}

func newAPIKeyList() list.ListResource {
	return &lister[*cloudv1.ApiKey, apiKeyModel]{
		typeName: "corvo_api_key", about: "Lists the API keys of service accounts that haven't been revoked.", identity: identity{attribute: "key_id"},
		filters: map[string]string{"owner_id": "Only keys of this service account (`sa_…`). Default: all keys."},
		each: func(ctx context.Context, c *cloud.Client, filter func(string) string) iter.Seq2[*cloudv1.ApiKey, error] {
			return func(yield func(*cloudv1.ApiKey, error) bool) {
				for k, err := range listKeys(ctx, c, filter("owner_id")) {
					personal := k.GetKind() == cloudv1.KeyKind_KEY_KIND_PERSONAL // Only its owner can change it.
					if !personal && !yield(k, err) {
						return
					}
				}
			}
		},
		show: func(v *cloudv1.ApiKey) (string, apiKeyModel) { return v.GetName(), importedKey(v) },
	}
}

func newServiceAccountList() list.ListResource {
	return &lister[*cloudv1.ServiceAccount, serviceAccountModel]{
		typeName: "corvo_service_account", about: "Lists the tenant's service accounts.",
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.ServiceAccount, error] {
			return listServiceAccounts(ctx, c)
		},
		show: func(v *cloudv1.ServiceAccount) (string, serviceAccountModel) {
			return v.GetName(), serviceAccountModel{ForceDestroy: types.BoolValue(false)}.from(v)
		},
	}
}

func newRoleList() list.ListResource {
	return &lister[*cloudv1.Role, roleModel]{
		typeName: "corvo_role", about: "Lists the tenant's own roles.",
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.Role, error] {
			return func(yield func(*cloudv1.Role, error) bool) {
				for v, err := range listRoles(ctx, c) {
					if !v.GetFixed() && !yield(v, err) {
						return
					}
				}
			}
		},
		show: func(v *cloudv1.Role) (string, roleModel) { return v.GetName(), roleModel{}.from(v) },
	}
}

func newRoleBindingList() list.ListResource {
	return &lister[*cloudv1.RoleBinding, roleBindingModel]{
		typeName: "corvo_role_binding", about: "Lists who has which role where.",
		filters: map[string]string{
			"principal_id": "Only roles of this user, service account or group (`usr_…`, `sa_…`, `grp_…`). Default: everybody's.",
			"role_id":      "Only this role (`role_…`). Default: all roles.",
		},
		each: func(ctx context.Context, c *cloud.Client, filter func(string) string) iter.Seq2[*cloudv1.RoleBinding, error] {
			return listBindings(ctx, c, filter("principal_id"), filter("role_id"))
		},
		show: func(v *cloudv1.RoleBinding) (string, roleBindingModel) {
			return v.GetPrincipal() + ": " + v.GetRole(), roleBindingModel{}.from(v)
		},
	}
}

func newGroupList() list.ListResource {
	return &lister[*cloudv1.Group, groupModel]{
		typeName: "corvo_group", about: "Lists the tenant's groups.",
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.Group, error] {
			return listGroups(ctx, c)
		},
		show: func(v *cloudv1.Group) (string, groupModel) { return v.GetName(), groupState(v) },
	}
}

func newMemberList() list.ListResource {
	return &lister[*cloudv1.Member, memberModel]{
		typeName: "corvo_member", about: "Lists the tenant's members, without those who are only invited.", identity: identity{attribute: "email", lower: true},
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.Member, error] {
			return listMembers(ctx, c)
		},
		show: func(v *cloudv1.Member) (string, memberModel) {
			return v.GetEmail(), memberModel{}.joined(v, setOf(v.GetRoles()))
		},
	}
}

func newTrustList() list.ListResource {
	return &lister[*cloudv1.Trust, trustModel]{
		typeName: "corvo_trust", about: "Lists the tenant's trusts in tokens of outside issuers.",
		filters: map[string]string{"service_account_id": "Only those of this service account (`sa_…`). Default: all."},
		each: func(ctx context.Context, c *cloud.Client, filter func(string) string) iter.Seq2[*cloudv1.Trust, error] {
			return listTrusts(ctx, c, filter("service_account_id"))
		},
		show: func(v *cloudv1.Trust) (string, trustModel) { return v.GetName(), importedTrust(v) },
	}
}

func newConnectionList() list.ListResource {
	return &lister[*cloudv1.SsoConnection, connectionModel]{
		typeName: "corvo_sso_connection", about: "Lists the tenant's SSO connections.",
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.SsoConnection, error] {
			return listConnections(ctx, c)
		},
		show: func(v *cloudv1.SsoConnection) (string, connectionModel) {
			return v.GetName(), connectionModel{}.from(v)
		},
	}
}

func newDomainList() list.ListResource {
	return &lister[*cloudv1.Domain, domainModel]{
		typeName: "corvo_domain", about: "Lists the tenant's domains.",
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.Domain, error] {
			return listDomains(ctx, c)
		},
		show: func(v *cloudv1.Domain) (string, domainModel) { return v.GetName(), domainModel{}.from(v) },
	}
}

func newAuditSinkList() list.ListResource {
	return &lister[*cloudv1.AuditSink, auditSinkModel]{
		typeName: "corvo_audit_sink", about: "Lists where the audit log is sent.",
		each: func(ctx context.Context, c *cloud.Client, _ func(string) string) iter.Seq2[*cloudv1.AuditSink, error] {
			return listSinks(ctx, c)
		},
		show: func(v *cloudv1.AuditSink) (string, auditSinkModel) { return v.GetName(), auditSinkModel{}.from(v) },
	}
}

// importedKey is a key as an import gives it.
func importedKey(k *cloudv1.ApiKey) apiKeyModel {
	none := types.SetNull(types.StringType)
	m := apiKeyModel{
		RotationOverlap: timetypes.NewGoDurationValueFromStringMust(overlapDefault), Retiring: noRetiring(), Roles: none, Namespaces: none, Permissions: none, Queues: none, CIDRs: none,
	}
	m.fill(k, setOf(k.GetNamespaceIds()))
	return m
}

// importedTrust is a trust as an import gives it.
func importedTrust(v *cloudv1.Trust) trustModel {
	none := types.SetNull(types.StringType)
	return trustModel{Permissions: none, Namespaces: none, Queues: none, CIDRs: none}.from(v, setOf(v.GetNamespaceIds()))
}

var _ list.ListResourceWithConfigure = (*lister[*cloudv1.Role, roleModel])(nil)
