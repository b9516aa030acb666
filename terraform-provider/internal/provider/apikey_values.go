package provider

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

func kinds() map[apikey.Kind]cloudv1.KeyKind {
	return map[apikey.Kind]cloudv1.KeyKind{apikey.DataPlane: cloudv1.KeyKind_KEY_KIND_JOBS, apikey.Management: cloudv1.KeyKind_KEY_KIND_MANAGEMENT}
}

func toKind(v types.String) cloudv1.KeyKind { return kinds()[apikey.Kind(v.ValueString())] }

func fromKind(k cloudv1.KeyKind) types.String {
	for word, kind := range kinds() {
		if kind == k {
			return types.StringValue(string(word))
		}
	}
	if k == cloudv1.KeyKind_KEY_KIND_PERSONAL { // Only read: a person makes it.
		return types.StringValue(string(apikey.Personal))
	}
	return types.StringNull()
}

func versionType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{"created_at": types.StringType, "expires_at": types.StringType}}
}

func toVersions(versions []*cloudv1.ApiKeyVersion) types.List {
	items := make([]attr.Value, len(versions))
	for i, v := range versions {
		items[i] = types.ObjectValueMust(versionType().AttrTypes, map[string]attr.Value{
			"created_at": timestamp(v.GetCreatedAt()), "expires_at": timestamp(v.GetExpiresAt()),
		})
	}
	return types.ListValueMust(versionType(), items)
}

// retiringItem is a predecessor. ExpiresAt is null until its end is set.
type retiringItem struct {
	KeyID     types.String `tfsdk:"key_id"`
	ExpiresAt types.String `tfsdk:"expires_at"`
}

func retiringType() types.ObjectType {
	return types.ObjectType{AttrTypes: map[string]attr.Type{"key_id": types.StringType, "expires_at": types.StringType}}
}

func noRetiring() types.List { return toRetiring(nil) }

func toRetiring(items []retiringItem) types.List {
	values := make([]attr.Value, len(items))
	for i, item := range items {
		values[i] = types.ObjectValueMust(retiringType().AttrTypes, map[string]attr.Value{"key_id": item.KeyID, "expires_at": item.ExpiresAt})
	}
	return types.ListValueMust(retiringType(), values)
}

func retiringItems(l types.List) []retiringItem {
	var out []retiringItem
	_ = l.ElementsAs(context.Background(), &out, true) // Fails for a list that is unknown, which has none.
	return out
}

func addRetiring(l types.List, id string) types.List {
	return toRetiring(append(retiringItems(l), retiringItem{KeyID: types.StringValue(id), ExpiresAt: types.StringNull()}))
}

func unfinished(l types.List) bool {
	return slices.ContainsFunc(retiringItems(l), func(i retiringItem) bool { return i.ExpiresAt.IsNull() })
}

// stillRetiring drops predecessors whose end has come.
func stillRetiring(l types.List, now time.Time) types.List {
	return toRetiring(slices.DeleteFunc(retiringItems(l), func(i retiringItem) bool {
		at, err := time.Parse(time.RFC3339Nano, i.ExpiresAt.ValueString())
		return err == nil && at.Before(now)
	}))
}

// retire sets the end of predecessors that have none yet. What has no end works no more.
func retire(ctx context.Context, l types.List, overlap time.Duration, end func(ctx context.Context, id string, overlap time.Duration) (*timestamppb.Timestamp, error)) (types.List, error) {
	items := retiringItems(l)
	for i := 0; i < len(items); {
		if !items[i].ExpiresAt.IsNull() {
			i++
			continue
		}
		at, err := end(ctx, items[i].KeyID.ValueString(), overlap)
		if err != nil {
			return toRetiring(items), err
		}
		if at == nil {
			items = slices.Delete(items, i, i+1)
			continue
		}
		items[i].ExpiresAt = timestamp(at)
		i++
	}
	return toRetiring(items), nil
}

func retiringAttribute(about string) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed: true, MarkdownDescription: about,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"key_id":     schema.StringAttribute{Computed: true, MarkdownDescription: "`key_…`."},
			"expires_at": schema.StringAttribute{Computed: true, MarkdownDescription: "RFC 3339; null if the expiry isn't set yet. The next apply sets it."},
		}},
	}
}

func overlapAttribute(what string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, CustomType: timetypes.GoDurationType{}, Default: stringdefault.StaticString(overlapDefault),
		Validators:          []validator.String{positiveDuration{most: overlapMax}},
		MarkdownDescription: "How long the old " + what + " keeps working after a rotation, `0s` to `168h`. Default: `24h`.",
	}
}
