package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// managed is what all resources do alike; M is the model of one. The functions are what it
// does in its own way, each within the time of one operation. They report what went wrong
// to diags, if they have it, and else as an error.
type managed[M any] struct {
	configured

	typeName string
	schema   func() schema.Schema
	identity identity
	create   func(ctx context.Context, o operation[M], plan M)
	update   func(ctx context.Context, o operation[M], plan, state M)
	// read brings a model up to date. If the error is cloud.NotFound, the resource is gone.
	read func(ctx context.Context, m *M, diags *diag.Diagnostics) error
	// called is what errors of read call it.
	called func(m M) string
	remove func(ctx context.Context, m M, diags *diag.Diagnostics)
	// adopt makes the model of what an import names; false: it reported why it did not.
	adopt func(ctx context.Context, id string, diags *diag.Diagnostics) (M, bool)
}

// operation is a creation or change under way.
type operation[M any] struct {
	config tfsdk.Config
	diags  *diag.Diagnostics
	// save puts what is known so far into the state: if a later step fails, the next apply
	// goes on from there.
	save func(M)
	// imported: it was there before Terraform.
	imported bool
}

// renews reports whether the number of a secret asks to send the secret again. After an
// import there is nothing to compare the first number with: the service may have the secret.
func (o operation[M]) renews(plan, state types.Int64) bool {
	return !plan.Equal(state) && !(state.IsNull() && o.imported)
}

// importedMark stands in the private part of the state of what was imported.
const importedMark = "imported"

// private is what the framework keeps beside a state.
type private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

func wasImported(ctx context.Context, of private, diags *diag.Diagnostics) bool {
	mark, problems := of.GetKey(ctx, importedMark)
	diags.Append(problems...)
	return mark != nil
}

// Metadata implements resource.Resource.
func (r *managed[M]) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = r.typeName
	resp.ResourceBehavior.MutableIdentity = r.identity.changes
}

// Schema implements resource.Resource.
func (r *managed[M]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.schema()
}

// IdentitySchema implements resource.ResourceWithIdentity.
func (r *managed[M]) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identitySchema()
}

// Create implements resource.Resource.
func (r *managed[M]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	tenant := r.tenant(ctx, &resp.Diagnostics)
	var plan M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.create(ctx, operation[M]{config: req.Config, diags: &resp.Diagnostics, save: func(m M) { resp.Diagnostics.Append(resp.State.Set(ctx, m)...) }}, plan)
	r.identity.set(ctx, tenant, resp.State, resp.Identity, &resp.Diagnostics)
}

// Update implements resource.Resource.
func (r *managed[M]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	tenant := r.tenant(ctx, &resp.Diagnostics)
	var plan, state M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	imported := wasImported(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	r.update(ctx, operation[M]{req.Config, &resp.Diagnostics, func(m M) { resp.Diagnostics.Append(resp.State.Set(ctx, m)...) }, imported}, plan, state)
	r.identity.set(ctx, tenant, resp.State, resp.Identity, &resp.Diagnostics)
}

// Read implements resource.Resource.
func (r *managed[M]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	tenant := r.tenant(ctx, &resp.Diagnostics)
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	called := r.called(m)
	switch err := r.read(ctx, &m, &resp.Diagnostics); {
	case err == nil:
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
		r.identity.set(ctx, tenant, resp.State, resp.Identity, &resp.Diagnostics)
	case cloud.Is(err, cloud.NotFound):
		r.identity.set(ctx, tenant, req.State, resp.Identity, &resp.Diagnostics) // A state of before identities has none.
		resp.State.RemoveResource(ctx)
	default:
		addError(&resp.Diagnostics, "read "+called, err)
	}
}

// Delete implements resource.Resource.
func (r *managed[M]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if !resp.Diagnostics.HasError() {
		r.remove(ctx, m, &resp.Diagnostics)
	}
}

// ImportState implements resource.ResourceWithImportState.
func (r *managed[M]) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	ctx, cancel := r.cloud.Operation(ctx)
	defer cancel()
	tenant := r.tenant(ctx, &resp.Diagnostics)
	id := req.ID
	if id == "" && req.Identity != nil {
		id = identified(ctx, tenant, req.Identity, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if m, ok := r.adopt(ctx, id, &resp.Diagnostics); ok {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedMark, []byte("true"))...)
		r.identity.set(ctx, tenant, resp.State, resp.Identity, &resp.Diagnostics)
	}
}

// tenant is the id of the token's. It is asked for before anything is changed, and once.
func (r *managed[M]) tenant(ctx context.Context, diags *diag.Diagnostics) string {
	id, err := r.cloud.Identity(ctx)
	if err != nil {
		addError(diags, "identify the token", err)
	}
	return id.TenantID
}

// synced is a record that the proxies have to learn.
type synced interface {
	GetEtag() string
	GetSync() cloudv1.Sync
}

// awaitReady returns a record as it is once it is ready, or as it was last seen.
func awaitReady[T synced](ctx context.Context, c *cloud.Client, is T, get func(context.Context) (T, error)) (T, error) {
	if is.GetSync() != cloudv1.Sync_SYNC_PENDING {
		return is, nil
	}
	err := c.Wait(ctx, func(ctx context.Context) (bool, error) {
		now, err := get(ctx)
		if err != nil {
			return false, err
		}
		is = now
		return now.GetSync() != cloudv1.Sync_SYNC_PENDING, nil
	})
	return is, err
}
