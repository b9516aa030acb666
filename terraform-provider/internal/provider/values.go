package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// Words of the attribute status.
const (
	statusPending = "pending"
	statusReady   = "ready"
)

func status(s cloudv1.Sync) types.String {
	if s == cloudv1.Sync_SYNC_PENDING {
		return types.StringValue(statusPending)
	}
	return types.StringValue(statusReady)
}

// requestSpace is the name space of request ids: a random UUID, fixed for ever.
const requestSpace = "6f9a0d0e-5d0c-4d8e-9a55-0f3f7f6d8b52"

// deriveRequestID names a creation by what is to be created, so that a run that never
// heard the answer and its successor send the same one and meet the same object. Parts
// are quoted: no two lists of parts give the same text.
func deriveRequestID(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Quote(p))
	}
	return uuid.NewSHA1(uuid.MustParse(requestSpace), []byte(b.String())).String()
}

// randomRequestID names a creation that no earlier one may stand for.
func randomRequestID() string { return uuid.NewString() }

func timestamp(t *timestamppb.Timestamp) types.String {
	if t == nil {
		return types.StringNull()
	}
	return types.StringValue(t.AsTime().UTC().Format(time.RFC3339Nano))
}

// instant keeps the user's way of writing a time as long as it is the same time.
func instant(t *timestamppb.Timestamp, prior timetypes.RFC3339) timetypes.RFC3339 {
	if t == nil {
		return timetypes.NewRFC3339Null()
	}
	if !prior.IsNull() && !prior.IsUnknown() {
		if p, diags := prior.ValueRFC3339Time(); !diags.HasError() && p.Equal(t.AsTime()) {
			return prior
		}
	}
	return timetypes.NewRFC3339TimeValue(t.AsTime().UTC())
}

// toTimestamp is nil for null.
func toTimestamp(v timetypes.RFC3339) *timestamppb.Timestamp {
	t, diags := v.ValueRFC3339Time()
	if v.IsNull() || v.IsUnknown() || diags.HasError() {
		return nil
	}
	return timestamppb.New(t)
}

func toStrings(v types.Set) []string {
	out := make([]string, 0, len(v.Elements()))
	for _, e := range v.Elements() {
		if s, ok := e.(types.String); ok {
			out = append(out, s.ValueString())
		}
	}
	slices.Sort(out)
	return out
}

// toSet keeps empty and null as the user wrote them: the service does not tell them apart.
func toSet(items []string, prior types.Set) types.Set {
	if len(items) == 0 {
		if !prior.IsNull() && !prior.IsUnknown() && len(prior.Elements()) == 0 {
			return prior
		}
		return types.SetNull(types.StringType)
	}
	values := make([]attr.Value, len(items))
	for i, s := range items {
		values[i] = types.StringValue(s)
	}
	return types.SetValueMust(types.StringType, values)
}

func toStringMap(v types.Map) map[string]string {
	out := make(map[string]string, len(v.Elements()))
	for k, e := range v.Elements() {
		if s, ok := e.(types.String); ok {
			out[k] = s.ValueString()
		}
	}
	return out
}

// toMap keeps empty and null as the user wrote them.
func toMap(items map[string]string, prior types.Map) types.Map {
	if len(items) == 0 {
		if !prior.IsNull() && !prior.IsUnknown() && len(prior.Elements()) == 0 {
			return prior
		}
		return types.MapNull(types.StringType)
	}
	values := make(map[string]attr.Value, len(items))
	for k, s := range items {
		values[k] = types.StringValue(s)
	}
	return types.MapValueMust(types.StringType, values)
}

// flat writes a map as parts of a request id.
func flat(m map[string]string) []string {
	out := make([]string, 0, 2*len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k, m[k])
	}
	return out
}

// positiveDuration refuses 0s and -1s; the attribute's type refuses what is no duration.
type positiveDuration struct{ most time.Duration }

// Description implements validator.Describer.
func (v positiveDuration) Description(context.Context) string {
	if v.most > 0 {
		return fmt.Sprintf("a duration from 0s to %s", v.most)
	}
	return "a duration above 0s"
}

// MarkdownDescription implements validator.Describer.
func (v positiveDuration) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (v positiveDuration) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	d, err := time.ParseDuration(req.ConfigValue.ValueString())
	if err != nil {
		return // The type says it.
	}
	if d < 0 || v.most == 0 && d == 0 || v.most > 0 && d > v.most {
		resp.Diagnostics.AddAttributeError(req.Path, "Out of range", fmt.Sprintf("%s: must be %s.", req.ConfigValue.ValueString(), v.Description(ctx)))
	}
}

// warnPending says what a wait that ended too early means.
func warnPending(diags *diag.Diagnostics, what string, err error) {
	diags.AddWarning("Not in use everywhere yet",
		fmt.Sprintf("%s was saved, but the service didn't confirm within operation_timeout that it is in use everywhere (%v). "+
			"Its status is \"pending\"; the next apply continues waiting.", what, err))
}

// waitOnIfPending plans an update, which will only wait, for what is not in force yet.
// Volatile are the computed attributes that somebody else may change meanwhile.
func waitOnIfPending(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, volatile ...string) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var was types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("status"), &was)...)
	if was.ValueString() != statusPending {
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("status"), types.StringUnknown())...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("generation"), types.Int64Unknown())...)
	for _, name := range volatile {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), types.StringUnknown())...)
	}
}

// texts is words of the service as text.
func texts[W ~string](words []W) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

// oneOf is words as a description lists them: `a`, `b` or `c`.
func oneOf[W ~string](words []W) string {
	last := len(words) - 1
	return "`" + strings.Join(texts(words[:last]), "`, `") + "` or `" + string(words[last]) + "`"
}
