package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// replaysMax is how many creations of the same namespace within a day (create, destroy,
// create …) can be told apart by their request ids; after that ids are random, and an
// answer that was lost together with the provider's process is found as a name that is
// taken.
const replaysMax = 8

// adoptedAfter: an answer about a namespace older than this was given to an earlier run,
// which may be tried again for as long as adoptedUntil. What is older by then may be in use.
const (
	adoptedAfter = time.Minute
	adoptedUntil = 3 * time.Minute
)

type namespaceResource struct{ managed[namespaceModel] }

type namespaceModel struct {
	ID                 types.String    `tfsdk:"id"`
	TenantID           types.String    `tfsdk:"tenant_id"`
	Name               types.String    `tfsdk:"name"`
	Region             types.String    `tfsdk:"region"`
	Labels             types.Map       `tfsdk:"labels"`
	DeleteProtection   types.Bool      `tfsdk:"delete_protection"`
	Retention          *retentionModel `tfsdk:"retention"`
	EffectiveRetention types.Object    `tfsdk:"effective_retention"`
	Endpoint           types.String    `tfsdk:"endpoint"`
	Status             types.String    `tfsdk:"status"`
	Generation         types.Int64     `tfsdk:"generation"`
	ETag               types.String    `tfsdk:"etag"`
	CreatedAt          types.String    `tfsdk:"created_at"`
	UpdatedAt          types.String    `tfsdk:"updated_at"`
}

func newNamespace() resource.Resource {
	r := new(namespaceResource)
	r.managed = managed[namespaceModel]{
		typeName: "corvo_namespace", schema: namespaceSchema, called: func(m namespaceModel) string { return "namespace " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func namespaceSchema() schema.Schema {
	stable := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	return schema.Schema{
		MarkdownDescription: "A namespace isolates queues, jobs and keys within a tenant.\n\n" +
			"Destroying a namespace deletes its jobs and the keys that only work in it.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{Computed: true, PlanModifiers: stable, MarkdownDescription: "`ns_…`, never changes."},
			"tenant_id": schema.StringAttribute{
				Computed: true, PlanModifiers: stable, MarkdownDescription: "Id of the tenant (`tn_…`).",
			},
			"name": schema.StringAttribute{
				Required:            true,
				Validators:          []validator.String{namespaceName()},
				MarkdownDescription: "Unique in the tenant. Changing it renames the namespace in place; its id, jobs and keys stay the same.",
			},
			"region": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Validators:          []validator.String{stringvalidator.LengthBetween(1, 64)},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: "Region of the namespace. Default: the region of the tenant's placement. Changing it replaces the namespace.",
			},
			"labels": schema.MapAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          labelsForm(),
				MarkdownDescription: "Labels for your own use, at most 64. Keys match `^[a-z][a-z0-9._/-]{0,62}$`, values have up to 256 characters.",
			},
			"delete_protection": schema.BoolAttribute{
				Optional: true,
				Computed: true,
				Default:  booldefault.StaticBool(false),
				MarkdownDescription: "Whether destroying it is refused, here and for everybody else. To destroy it, apply `false` first. " +
					"Default: `false`.",
			},
			"retention": retentionSchema("How long finished jobs, events and usage are kept before they are deleted, which can't be undone; set at least one. "+
				"What is left out is what the tenant's plan says. A queue can have its own, `corvo_queue.retention`. More than the plan keeps is refused.", keptOfNamespaces()),
			"effective_retention": effectiveRetentionSchema("What counts: the namespace's retention, else the plan's, and never more than the plan's maximum. Null is no limit.", keptOfNamespaces()),
			"endpoint": schema.StringAttribute{
				Computed: true, PlanModifiers: stable,
				MarkdownDescription: "Base URL for workers and producers. Use it with a key of the namespace or the header `X-Corvo-Namespace`.",
			},
			"status": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "`ready` once every proxy uses the latest change, `pending` until then. An apply waits while it is `pending`.",
			},
			"generation": schema.Int64Attribute{Computed: true, MarkdownDescription: "Increases with every change that the data plane has to apply."},
			"etag":       schema.StringAttribute{Computed: true, MarkdownDescription: "Changes with every update; an apply refuses to overwrite an update it hasn't seen."},
			"created_at": schema.StringAttribute{Computed: true, PlanModifiers: stable, MarkdownDescription: "RFC 3339."},
			"updated_at": schema.StringAttribute{Computed: true, MarkdownDescription: "RFC 3339."},
		},
	}
}

func namespaceName() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z][a-z0-9-]{1,38}[a-z0-9]$`),
		"must be 3 to 40 characters: lowercase letters, digits and hyphens, starting with a letter and not ending with a hyphen")
}

func labelsForm() []validator.Map {
	return []validator.Map{
		mapvalidator.SizeAtMost(64),
		mapvalidator.KeysAre(stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z][a-z0-9._/-]{0,62}$`),
			"must be at most 63 lowercase letters, digits, dots, underscores, slashes and hyphens, starting with a letter")),
		mapvalidator.ValueStringsAre(stringvalidator.UTF8LengthAtMost(256)),
	}
}

// namespaceFields is where the service's complaints about a field belong.
func namespaceFields() attributes {
	return attributes{"name": "name", "region": "region", "labels": "labels", "delete_protection": "delete_protection", "retention": "retention"}
}

// ModifyPlan makes an apply of what is still pending: it will only wait.
func (r *namespaceResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	waitOnIfPending(ctx, req, resp, "etag", "updated_at")
}

func (r *namespaceResource) create(ctx context.Context, o operation[namespaceModel], m namespaceModel) {
	began := time.Now()
	ns, err := r.insert(ctx, m)
	if err != nil {
		addFieldErrors(o.diags, "create namespace "+m.Name.ValueString(), r.explainTaken(ctx, m, err), namespaceFields())
		return
	}
	if created := ns.GetCreatedAt().AsTime(); began.Sub(created) > adoptedAfter {
		o.diags.AddWarning("An earlier run already created it",
			fmt.Sprintf("Namespace %s (%s) was created at %s by an identical request whose response never reached the state. Terraform manages it from now on.",
				ns.GetName(), ns.GetId(), created.UTC().Format(time.RFC3339)))
	}
	o.save(m.from(ns))
	o.save(m.from(r.await(ctx, ns, o.diags)))
}

// insert asks for the namespace under a request id that follows from what is asked, so
// that a run whose predecessor died before the answer came meets what that one made. The
// service keeps answers for a day: one about a namespace that has been destroyed since, or
// that is somebody else's, is not ours, and the next id is tried. If the name is taken, the
// service refuses that.
func (r *namespaceResource) insert(ctx context.Context, m namespaceModel) (*cloudv1.Namespace, error) {
	id, err := r.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	began, labels := time.Now(), toStringMap(m.Labels)
	for attempt := 0; ; attempt++ {
		requestID := randomRequestID()
		if attempt < replaysMax {
			parts := []string{"namespace", id.TenantID, m.Name.ValueString(), m.Region.ValueString(), m.DeleteProtection.String(), fmt.Sprint(numbers(m.Retention.message())), fmt.Sprint(attempt)}
			requestID = deriveRequestID(append(parts, flat(labels)...)...)
		}
		made, err := r.cloud.Namespaces().CreateNamespace(ctx, connect.NewRequest(&cloudv1.CreateNamespaceRequest{
			RequestId: requestID, Name: m.Name.ValueString(), Labels: labels,
			DeleteProtection: m.DeleteProtection.ValueBool(), Region: m.Region.ValueString(), Retention: m.Retention.message(),
		}))
		if err != nil {
			return nil, err
		}
		ns, err := r.get(ctx, made.Msg.GetNamespace().GetId())
		if err != nil && (!cloud.Is(err, cloud.NotFound) || attempt > replaysMax) {
			// The namespace exists; reading it again is what the next apply does.
			ns, err = made.Msg.GetNamespace(), nil // Creation succeeded, and that is what counts.
		}
		if err == nil && (attempt >= replaysMax || r.isOurs(ns, m, ageAt(began, made.Header(), ns))) {
			return ns, nil
		}
	}
}

// isOurs tells the namespace of this creation from one that was asked for in the same words
// and was renamed since, is in use, or belongs to another block.
func (r *namespaceResource) isOurs(ns *cloudv1.Namespace, m namespaceModel, age time.Duration) bool {
	return ns.GetName() == m.Name.ValueString() && age < adoptedUntil && r.cloud.Claim(ns.GetId())
}

// ageAt is how old ns was when its creation began, by the clock of whoever answered: this
// machine's may be wrong.
func ageAt(began time.Time, answer http.Header, ns *cloudv1.Namespace) time.Duration {
	now, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return now.Sub(ns.GetCreatedAt().AsTime()) - time.Since(began)
}

// explainTaken tells how to go on when the name belongs to a namespace that this state
// does not know.
func (r *namespaceResource) explainTaken(ctx context.Context, m namespaceModel, err error) error {
	var e *cloud.Error
	if !errors.As(err, &e) || e.Kind != cloud.Exists {
		return err
	}
	if ns, getErr := r.get(ctx, m.Name.ValueString()); getErr == nil {
		e.Help = fmt.Sprintf("To manage the existing namespace, import it: terraform import <address> %s", ns.GetId())
	}
	return e
}

func (r *namespaceResource) read(ctx context.Context, m *namespaceModel, _ *diag.Diagnostics) error {
	ns, err := r.get(ctx, m.ID.ValueString())
	if err == nil {
		r.cloud.Claim(ns.GetId())
		*m = m.from(ns)
	}
	return err
}

func (r *namespaceResource) update(ctx context.Context, o operation[namespaceModel], plan, state namespaceModel) {
	ns, err := r.change(ctx, plan, state)
	if err != nil {
		addFieldErrors(o.diags, "change namespace "+state.Name.ValueString(), err, namespaceFields())
		return
	}
	r.cloud.Claim(ns.GetId())
	o.save(plan.from(ns))
	o.save(plan.from(r.await(ctx, ns, o.diags)))
}

func (r *namespaceResource) change(ctx context.Context, plan, state namespaceModel) (*cloudv1.Namespace, error) {
	req := &cloudv1.UpdateNamespaceRequest{
		Namespace: state.ID.ValueString(), Etag: state.ETag.ValueString(), UpdateMask: &fieldmaskpb.FieldMask{},
		Name: plan.Name.ValueString(), Labels: toStringMap(plan.Labels), DeleteProtection: plan.DeleteProtection.ValueBool(),
		Retention: plan.Retention.message(),
	}
	if !plan.Name.Equal(state.Name) {
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "name")
	}
	if !maps.Equal(req.GetLabels(), toStringMap(state.Labels)) {
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "labels")
	}
	if !plan.DeleteProtection.Equal(state.DeleteProtection) {
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "delete_protection")
	}
	if !sameRetention(req.GetRetention(), state.Retention.message()) {
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "retention")
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return r.get(ctx, state.ID.ValueString())
	}
	res, err := r.cloud.Namespaces().UpdateNamespace(ctx, connect.NewRequest(req))
	if err == nil {
		return res.Msg.GetNamespace(), nil
	}
	if isEtagConflict(err) {
		// Perhaps the change is our own, and only its answer was lost.
		ns, getErr := r.get(ctx, state.ID.ValueString())
		if getErr == nil && ns.GetName() == req.GetName() && maps.Equal(ns.GetLabels(), req.GetLabels()) &&
			ns.GetDeleteProtection() == req.GetDeleteProtection() && sameRetention(ns.GetRetention(), req.GetRetention()) {
			return ns, nil
		}
	}
	return nil, err
}

func (r *namespaceResource) remove(ctx context.Context, m namespaceModel, diags *diag.Diagnostics) {
	if m.DeleteProtection.ValueBool() {
		diags.AddAttributeError(path.Root("delete_protection"), "The namespace is protected from deletion",
			fmt.Sprintf("Namespace %s (%s) has delete_protection, so nothing was destroyed. To destroy it, set delete_protection = false, apply, and then destroy.",
				m.Name.ValueString(), m.ID.ValueString()))
		return
	}
	_, err := r.cloud.Namespaces().DeleteNamespace(ctx, connect.NewRequest(&cloudv1.DeleteNamespaceRequest{
		Namespace: m.ID.ValueString(), Etag: m.ETag.ValueString(), AllowMissing: true,
	}))
	if err != nil && !cloud.Is(err, cloud.NotFound) {
		addError(diags, "destroy namespace "+m.Name.ValueString(), err)
	}
}

// adopt takes ns_… or a name.
func (r *namespaceResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (namespaceModel, bool) {
	ns, err := r.get(ctx, id)
	if err != nil {
		addError(diags, fmt.Sprintf("import namespace %q (use its id, ns_…, or its name)", id), err)
	}
	return namespaceModel{Labels: types.MapNull(types.StringType)}.from(ns), err == nil
}

// get finds a living namespace by name or id.
func (r *namespaceResource) get(ctx context.Context, nameOrID string) (*cloudv1.Namespace, error) {
	return findNamespace(ctx, r.cloud, nameOrID)
}

func findNamespace(ctx context.Context, c *cloud.Client, nameOrID string) (*cloudv1.Namespace, error) {
	res, err := c.Namespaces().GetNamespace(ctx, connect.NewRequest(&cloudv1.GetNamespaceRequest{Namespace: nameOrID}))
	if err != nil {
		return nil, err
	}
	ns := res.Msg.GetNamespace()
	if ns.GetSync() == cloudv1.Sync_SYNC_DELETING {
		return nil, &cloud.Error{Kind: cloud.NotFound, Call: "GetNamespace", Message: "the namespace is being deleted"}
	}
	return ns, nil
}

// namespaceID is the id of a namespace by id or name; empty if there is none.
func namespaceID(ctx context.Context, c *cloud.Client, word string) (string, error) {
	if isNamespaceID(word) {
		return word, nil
	}
	ns, err := findNamespace(ctx, c, word)
	if cloud.Is(err, cloud.NotFound) {
		return "", nil
	}
	return ns.GetId(), err
}

// await returns the namespace as it is once it is ready, or as it was last seen with a
// warning. What somebody else changed during the wait is left for the next plan to show.
func (r *namespaceResource) await(ctx context.Context, ns *cloudv1.Namespace, diags *diag.Diagnostics) *cloudv1.Namespace {
	ready, err := awaitNamespace(ctx, r.cloud, ns)
	if err != nil {
		warnPending(diags, "Namespace "+ns.GetName(), err)
	}
	if ready.GetEtag() != ns.GetEtag() {
		ns.Sync = ready.GetSync()
		return ns
	}
	return ready
}

func awaitNamespace(ctx context.Context, c *cloud.Client, ns *cloudv1.Namespace) (*cloudv1.Namespace, error) {
	return awaitReady(ctx, c, ns, func(ctx context.Context) (*cloudv1.Namespace, error) { return findNamespace(ctx, c, ns.GetId()) })
}

// from is the state of ns, with labels as the user wrote them in m.
func (m namespaceModel) from(ns *cloudv1.Namespace) namespaceModel {
	return namespaceModel{
		ID:                 types.StringValue(ns.GetId()),
		TenantID:           types.StringValue(ns.GetTenantId()),
		Name:               types.StringValue(ns.GetName()),
		Region:             types.StringValue(ns.GetRegion()),
		Labels:             toMap(ns.GetLabels(), m.Labels),
		DeleteProtection:   types.BoolValue(ns.GetDeleteProtection()),
		Retention:          retentionOf(ns.GetRetention()),
		EffectiveRetention: effective(keptOfNamespaces(), numbers(ns.GetEffectiveRetention())...),
		Endpoint:           types.StringValue(ns.GetEndpoint()),
		Status:             status(ns.GetSync()),
		Generation:         types.Int64Value(int64(ns.GetGeneration())), // Counts from 1.
		ETag:               types.StringValue(ns.GetEtag()),
		CreatedAt:          timestamp(ns.GetCreatedAt()),
		UpdatedAt:          timestamp(ns.GetUpdatedAt()),
	}
}

var _ resource.ResourceWithModifyPlan = (*namespaceResource)(nil)
