package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// windowMaxMS is the engine's longest window: 31 days.
const windowMaxMS = 31 * 24 * 3600 * 1000

type queueResource struct{ managed[queueModel] }

type queueModel struct {
	ID                 types.String         `tfsdk:"id"`
	Namespace          types.String         `tfsdk:"namespace"`
	NamespaceID        types.String         `tfsdk:"namespace_id"`
	Name               types.String         `tfsdk:"name"`
	Paused             types.Bool           `tfsdk:"paused"`
	MaxConcurrency     types.Int64          `tfsdk:"max_concurrency"`
	Throttle           *throttleModel       `tfsdk:"throttle"`
	Retry              *retryModel          `tfsdk:"retry"`
	Retention          *queueRetentionModel `tfsdk:"retention"`
	EffectiveRetention types.Object         `tfsdk:"effective_retention"`
}

type retryModel struct {
	MaxRetries  types.Int64  `tfsdk:"max_retries"`
	Backoff     types.String `tfsdk:"backoff"`
	BaseDelayMS types.Int64  `tfsdk:"base_delay_ms"`
	MaxDelayMS  types.Int64  `tfsdk:"max_delay_ms"`
}

type throttleModel struct {
	Limit    types.Int64 `tfsdk:"limit"`
	WindowMS types.Int64 `tfsdk:"window_ms"`
}

func newQueue() resource.Resource {
	r := new(queueResource)
	r.managed = managed[queueModel]{
		typeName: "corvo_queue", schema: queueSchema, called: func(m queueModel) string { return "queue " + m.ID.ValueString() },
		create: r.create, read: r.read, update: r.update, remove: r.remove, adopt: r.adopt,
	}
	return r
}

func queueSchema() schema.Schema {
	stable := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	return schema.Schema{
		MarkdownDescription: "A queue's settings. A queue is created with its first job; if it already exists, Terraform takes over its settings and its jobs stay.\n\n" +
			"**Destroying a queue deletes its jobs.**",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{Computed: true, PlanModifiers: stable, MarkdownDescription: "`namespace_id/name`."},
			"namespace": schema.StringAttribute{
				Required:   true,
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Id (`ns_…`) or name of the namespace. Prefer the id, `corvo_namespace.….id`: it doesn't change when the namespace is renamed. " +
					"Changing it replaces the queue.",
			},
			"namespace_id": schema.StringAttribute{Computed: true, PlanModifiers: stable, MarkdownDescription: "Id of the namespace."},
			"name": schema.StringAttribute{
				Required:            true,
				Validators:          []validator.String{queueName()},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name of the queue. Changing it replaces the queue.",
			},
			"paused": schema.BoolAttribute{
				Optional: true,
				Computed: true,
				MarkdownDescription: "Whether the queue is paused: jobs can be enqueued but aren't handed out. If left out, Terraform doesn't change it, so people can pause and resume " +
					"by hand without the next plan undoing it.",
			},
			"max_concurrency": schema.Int64Attribute{
				Optional:            true,
				Validators:          []validator.Int64{int64validator.Between(1, 1_000_000)},
				MarkdownDescription: "How many jobs can be active at a time. Default: no limit.",
			},
			"throttle": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "How many jobs can start in a time window. Default: no limit.",
				Attributes: map[string]schema.Attribute{
					"limit": schema.Int64Attribute{
						Required: true, Validators: []validator.Int64{int64validator.Between(1, 1_000_000_000)}, MarkdownDescription: "Jobs per window.",
					},
					"window_ms": schema.Int64Attribute{
						Required: true, Validators: []validator.Int64{int64validator.Between(1, windowMaxMS)}, MarkdownDescription: "Length of the window in milliseconds, at most 31 days.",
					},
				},
			},
			"retry": retrySchema(),
			"retention": retentionSchema("How long finished jobs of the queue are kept before they are deleted, which can't be undone; set at least one. "+
				"What is left out is what the namespace says, `corvo_namespace.retention`. More than the tenant's plan keeps is refused.", keptOfQueues()),
			"effective_retention": effectiveRetentionSchema("What counts: the queue's retention, else the namespace's, and never more than the plan's maximum. Null is no limit.", keptOfQueues()),
		},
	}
}

// retrySchema has no empty form: reading the queue back could not tell it from none.
func retrySchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Retry defaults for jobs that don't set their own; set at least one. " +
			"Jobs that are already enqueued keep theirs.",
		Attributes: map[string]schema.Attribute{
			"max_retries": schema.Int64Attribute{
				Optional: true,
				Validators: []validator.Int64{int64validator.AtLeast(1), int64validator.AtLeastOneOf(
					path.MatchRoot("retry").AtName("backoff"), path.MatchRoot("retry").AtName("base_delay_ms"),
					path.MatchRoot("retry").AtName("max_delay_ms"),
				)},
				MarkdownDescription: "Total number of attempts, including the first. Default: 3.",
			},
			"backoff": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.OneOf(texts(wire.Backoffs())...)},
				MarkdownDescription: "How the delay between attempts grows: " + oneOf(wire.Backoffs()) + ". Default: `exponential`.",
			},
			"base_delay_ms": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)}, MarkdownDescription: "The first delay in milliseconds. Default: 5 seconds.",
			},
			"max_delay_ms": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)}, MarkdownDescription: "The longest delay in milliseconds. Default: 10 minutes.",
			},
		},
	}
}

func queueName() validator.String {
	return stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`),
		"must be 1 to 128 characters: letters, digits, dots, underscores and hyphens, starting with a letter or digit")
}

func queueFields() attributes {
	return attributes{"name": "name", "queue": "name", "paused": "paused", "max_concurrency": "max_concurrency", "throttle": "throttle", "limit": "throttle", "window_ms": "throttle",
		"max_retries": "retry", "retry_backoff": "retry", "retry_base_delay": "retry", "retry_base_delay_ms": "retry", "retry_max_delay": "retry", "retry_max_delay_ms": "retry",
		"retention": "retention"}
}

// ModifyPlan tells another namespace from another way of writing the same one: the first
// needs another queue, the second must not cost the jobs of this one.
func (r *queueResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var was, is, id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("namespace"), &was)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("namespace_id"), &id)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("namespace"), &is)...)
	if resp.Diagnostics.HasError() || is.Equal(was) || is.Equal(id) {
		return
	}
	if !is.IsUnknown() && !isNamespaceID(is.ValueString()) {
		ns, err := findNamespace(ctx, r.cloud, is.ValueString())
		switch {
		case err == nil && ns.GetId() == id.ValueString():
			return
		case cloud.Is(err, cloud.NotFound):
			resp.Diagnostics.AddAttributeError(path.Root("namespace"), "Can't tell whether this is the same namespace",
				fmt.Sprintf("Namespace %q doesn't exist yet. If the queue's namespace is about to get that name, replacing the queue would delete its jobs. "+
					"Use the namespace's id instead (corvo_namespace.….id, now %s), which doesn't change.", is.ValueString(), id.ValueString()))
			return
		case err != nil:
			addError(&resp.Diagnostics, "look up namespace "+is.ValueString(), err)
			return
		}
	}
	resp.RequiresReplace = append(resp.RequiresReplace, path.Root("namespace"))
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("namespace_id"), types.StringUnknown())...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("id"), types.StringUnknown())...)
}

func (r *queueResource) create(ctx context.Context, o operation[queueModel], m queueModel) {
	r.put(ctx, o, "create", m, nil)
}

func (r *queueResource) update(ctx context.Context, o operation[queueModel], m, planned queueModel) {
	r.put(ctx, o, "change", m, &planned)
}

// put writes the queue's settings. planned is the queue that the plan was made for; nil
// takes over whatever there is.
func (r *queueResource) put(ctx context.Context, o operation[queueModel], verb string, m queueModel, planned *queueModel) {
	doing := fmt.Sprintf("%s queue %s", verb, m.Name.ValueString())
	ns, err := r.readyNamespace(ctx, m.place())
	if err != nil {
		addFieldErrors(o.diags, doing+": find its namespace", err, attributes{"namespace": "namespace"})
		return
	}
	q, err := r.write(ctx, ns, &m, planned)
	if err != nil {
		addFieldErrors(o.diags, doing, err, queueFields())
		return
	}
	m.fill(ns, q)
	o.save(m)
}

// place is the namespace's id as soon as the plan knows it: another namespace may have the
// name by now, and its queues are not this one.
func (m queueModel) place() string {
	if id := m.NamespaceID.ValueString(); id != "" {
		return id
	}
	return m.Namespace.ValueString()
}

// errStale ends an apply whose plan was made for other settings.
var errStale = errors.New("its settings changed after this plan was made; that change was kept. Run plan again to see it, then apply")

// staleTries bounds how often a queue that changes under the apply is looked at again.
const staleTries = 3

// write sends the settings on the condition that the queue still is what the plan was made
// for, or already what it asks for: the answer of an earlier try may have been lost.
func (r *queueResource) write(ctx context.Context, ns *cloudv1.Namespace, m, planned *queueModel) (wire.Queue, error) {
	name := m.Name.ValueString()
	if planned == nil {
		return r.cloud.PutQueue(ctx, ns.GetName(), name, "", m.settings())
	}
	for range staleTries {
		now, err := r.cloud.GetQueue(ctx, ns.GetName(), name)
		if err != nil {
			return wire.Queue{}, err
		}
		there := queueModel{Name: m.Name}
		there.fill(ns, now)
		if !there.hasSettings(planned, m) && !there.hasSettings(m, m) {
			return wire.Queue{}, errStale
		}
		q, err := r.cloud.PutQueue(ctx, ns.GetName(), name, now.ETag, m.settings())
		if !isQueueChanged(err) {
			return q, err
		}
	}
	return wire.Queue{}, errStale
}

// hasSettings compares what the configuration describes: a pause that it leaves to people
// is unknown in the plan.
func (m *queueModel) hasSettings(want, plan *queueModel) bool {
	return m.MaxConcurrency.Equal(want.MaxConcurrency) && reflect.DeepEqual(m.Throttle, want.Throttle) &&
		reflect.DeepEqual(m.Retry, want.Retry) && reflect.DeepEqual(m.Retention, want.Retention) && (plan.Paused.IsUnknown() || m.Paused.Equal(want.Paused))
}

// readyNamespace waits for a namespace that was made a moment ago: until the proxies know
// it they refuse everything about it.
func (r *queueResource) readyNamespace(ctx context.Context, nameOrID string) (*cloudv1.Namespace, error) {
	ns, err := findNamespace(ctx, r.cloud, nameOrID)
	if err != nil {
		return nil, err
	}
	if ns, err = awaitNamespace(ctx, r.cloud, ns); err != nil {
		return nil, fmt.Errorf("namespace %s isn't in use everywhere yet; apply again later: %w", nameOrID, err)
	}
	return ns, nil
}

func (r *queueResource) read(ctx context.Context, m *queueModel, _ *diag.Diagnostics) error {
	return r.find(ctx, m.NamespaceID.ValueString(), m)
}

func (r *queueResource) find(ctx context.Context, namespace string, m *queueModel) error {
	ns, err := findNamespace(ctx, r.cloud, namespace)
	if err != nil {
		return err
	}
	q, err := r.cloud.GetQueue(ctx, ns.GetName(), m.Name.ValueString())
	if err != nil {
		return err
	}
	m.fill(ns, q)
	return nil
}

func (r *queueResource) remove(ctx context.Context, m queueModel, diags *diag.Diagnostics) {
	ns, err := findNamespace(ctx, r.cloud, m.NamespaceID.ValueString())
	if cloud.Is(err, cloud.NotFound) {
		return // The queue ended with its namespace.
	}
	if err == nil {
		err = r.cloud.DeleteQueue(ctx, ns.GetName(), m.Name.ValueString())
	}
	if err != nil {
		addError(diags, "destroy queue "+m.ID.ValueString(), err)
	}
}

// adopt takes namespace/name, the namespace by name or id.
func (r *queueResource) adopt(ctx context.Context, id string, diags *diag.Diagnostics) (m queueModel, ok bool) {
	namespace, name, ok := strings.Cut(id, "/")
	if !ok || namespace == "" || name == "" {
		diags.AddError("Invalid import ID", fmt.Sprintf("%q isn't namespace/name. The namespace can be a name or an id (ns_…).", id))
		return m, false
	}
	m.Name = types.StringValue(name)
	if err := r.find(ctx, namespace, &m); err != nil {
		addError(diags, "import queue "+id, err)
		return m, false
	}
	m.Namespace = m.NamespaceID
	return m, true
}

// settings is what is wanted. An unknown pause is one that the configuration leaves to
// others.
func (m queueModel) settings() wire.QueueRequest {
	in := wire.QueueRequest{MaxConcurrency: int(m.MaxConcurrency.ValueInt64()), Retention: m.Retention.settings()}
	if !m.Paused.IsUnknown() {
		in.Paused = m.Paused.ValueBoolPointer()
	}
	if m.Throttle != nil {
		in.Throttle = &wire.QueueThrottle{Limit: int(m.Throttle.Limit.ValueInt64()), WindowMS: m.Throttle.WindowMS.ValueInt64()}
	}
	if r := m.Retry; r != nil {
		if !r.MaxRetries.IsNull() {
			in.MaxRetries = new(int(r.MaxRetries.ValueInt64()))
		}
		in.RetryBackoff = wire.Backoff(r.Backoff.ValueString())
		in.RetryBaseDelayMS, in.RetryMaxDelayMS = r.BaseDelayMS.ValueInt64Pointer(), r.MaxDelayMS.ValueInt64Pointer()
	}
	return in
}

// fill takes what the service says, and leaves the user's way of naming the namespace.
func (m *queueModel) fill(ns *cloudv1.Namespace, q wire.Queue) {
	m.NamespaceID = types.StringValue(ns.GetId())
	m.ID = types.StringValue(ns.GetId() + "/" + m.Name.ValueString())
	m.Paused = types.BoolValue(q.Paused)
	m.MaxConcurrency = types.Int64Null()
	if q.MaxConcurrency > 0 {
		m.MaxConcurrency = types.Int64Value(int64(q.MaxConcurrency))
	}
	m.Throttle = nil
	if q.RateLimit > 0 {
		m.Throttle = &throttleModel{Limit: types.Int64Value(int64(q.RateLimit)), WindowMS: types.Int64Value(q.RateWindowMS)}
	}
	m.Retention, m.EffectiveRetention = queueRetentionOf(q.Retention), effectiveOfQueue(q.EffectiveRetention)
	m.Retry = nil
	if q.MaxRetries != nil || q.RetryBackoff != "" || q.RetryBaseDelayMS != nil || q.RetryMaxDelayMS != nil {
		m.Retry = &retryModel{BaseDelayMS: types.Int64PointerValue(q.RetryBaseDelayMS), MaxDelayMS: types.Int64PointerValue(q.RetryMaxDelayMS)}
		if q.MaxRetries != nil {
			m.Retry.MaxRetries = types.Int64Value(int64(*q.MaxRetries))
		}
		if q.RetryBackoff != "" {
			m.Retry.Backoff = types.StringValue(string(q.RetryBackoff))
		}
	}
}

// isNamespaceID tells ids from names: names have no underscore.
func isNamespaceID(text string) bool { return strings.HasPrefix(text, "ns_") }

var _ resource.ResourceWithModifyPlan = (*queueResource)(nil)
