package provider

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// isNamespaceName goes by the validator of corvo_namespace.
func isNamespaceName(text string) bool {
	var resp validator.StringResponse
	namespaceName().ValidateString(context.Background(), validator.StringRequest{ConfigValue: types.StringValue(text)}, &resp)
	return !resp.Diagnostics.HasError()
}

// call gives the result of a function, or its error.
func call(t *testing.T, f function.Function, argument attr.Value) (attr.Value, *function.FuncError) {
	t.Helper()
	ctx := context.Background()
	var defined function.DefinitionResponse
	f.Definition(ctx, function.DefinitionRequest{}, &defined)
	result, err := defined.Definition.Return.NewResultData(ctx)
	if err != nil {
		t.Fatal(err)
	}
	resp := function.RunResponse{Result: result}
	f.Run(ctx, function.RunRequest{Arguments: function.NewArgumentsData([]attr.Value{argument})}, &resp)
	return resp.Result.Value(), resp.Error
}

func TestParseAPIKey_TellsKindAndIDAndNeverTheSecret(t *testing.T) {
	t.Parallel()
	for _, kind := range []apikey.Kind{apikey.DataPlane, apikey.Management, apikey.Personal, apikey.SCIM, apikey.Temporary} {
		k, err := apikey.Generate(kind)
		if err != nil {
			t.Fatal(err)
		}
		got, failure := call(t, parseAPIKey(), types.StringValue(k.Reveal()))
		if failure != nil {
			t.Fatal(failure)
		}
		fields := got.(types.Object).Attributes()
		if !fields["valid"].Equal(types.BoolValue(true)) || !fields["kind"].Equal(types.StringValue(string(kind))) || !fields["key_id"].Equal(types.StringValue(k.ID())) ||
			!fields["prefix"].Equal(types.StringValue(k.Reveal()[:len(k.Reveal())-49])) {
			t.Errorf("%s: %s", kind, got)
		}
		for _, broken := range []string{k.Reveal() + "x", k.Reveal()[1:], k.Reveal()[:len(k.Reveal())-1], "", "hunter2"} {
			got, failure := call(t, parseAPIKey(), types.StringValue(broken))
			if failure != nil || !got.(types.Object).Attributes()["valid"].Equal(types.BoolValue(false)) || !got.(types.Object).Attributes()["key_id"].IsNull() {
				t.Errorf("broken: %s %v", got, failure)
			}
		}
	}
}

func TestParseID_TellsKindAndTime(t *testing.T) {
	t.Parallel()
	const at = "2024-11-18T23:26:18.586Z"
	for id, want := range map[string][3]string{
		"ns_01JD0Z5W6T8RXVQ4K2M3N7P9SB":    {"namespace", "01JD0Z5W6T8RXVQ4K2M3N7P9SB", ""},
		"trust_01JD0Z5W6T8RXVQ4K2M3N7P9SB": {"trust", "01JD0Z5W6T8RXVQ4K2M3N7P9SB", ""},
		"role_01JD0Z5W6T8RXVQ4K2M3N7P9SB":  {"role", "01JD0Z5W6T8RXVQ4K2M3N7P9SB", ""},
		"role_owner":                       {"role", "", ""},
		"key_9f3KxQ2mZt7B":                 {"api_key", "", ""},
	} {
		got, failure := call(t, parseID(), types.StringValue(id))
		if failure != nil {
			t.Errorf("%s: %v", id, failure)
			continue
		}
		fields := got.(types.Object).Attributes()
		if !fields["kind"].Equal(types.StringValue(want[0])) || fields["ulid"].IsNull() != (want[1] == "") || fields["created_at"].IsNull() != (want[1] == "") {
			t.Errorf("%s: %s", id, got)
		}
		if made, _ := fields["created_at"].(types.String); want[1] != "" && !strings.HasPrefix(made.ValueString(), at[:4]) {
			t.Errorf("%s: made at %s", id, made)
		}
	}
	for _, id := range []string{"", "ns_", "ns_1", "xx_01JD0Z5W6T8RXVQ4K2M3N7P9SB", "key_01JD0Z5W6T8RXVQ4K2M3N7P9SB", "ns_01JD0Z5W6T8RXVQ4K2M3N7P9SU", "role_", "01JD0Z5W6T8RXVQ4K2M3N7P9SB"} {
		if got, failure := call(t, parseID(), types.StringValue(id)); failure == nil {
			t.Errorf("%q: %s", id, got)
		}
	}
}

func TestResourceName_IsANamespacesNameAndStaysDifferent(t *testing.T) {
	t.Parallel()
	list := func(parts ...string) attr.Value {
		values := make([]attr.Value, len(parts))
		for i, p := range parts {
			values[i] = types.StringValue(p)
		}
		return types.ListValueMust(types.StringType, values)
	}
	long := strings.Repeat("very-", 12) + "long"
	seen := map[string]bool{}
	for _, parts := range [][]string{{"Orders", "Prod"}, {"orders_api", "EU.West 1"}, {long, "a"}, {long, "b"}, {strings.Repeat("x", 40)}, {strings.Repeat("x", 41)}} {
		got, failure := call(t, resourceName(), list(parts...))
		name, _ := got.(types.String)
		if failure != nil || !isNamespaceName(name.ValueString()) || seen[name.ValueString()] {
			t.Errorf("%q: %s %v", parts, got, failure)
		}
		seen[name.ValueString()] = true
	}
	if !seen["orders-prod"] || !seen["orders-api-eu-west-1"] {
		t.Error(seen)
	}
	for _, parts := range [][]string{{}, {"", "-"}, {"1st"}, {"ab"}} {
		if got, failure := call(t, resourceName(), list(parts...)); failure == nil {
			t.Errorf("%q: %s", parts, got)
		}
	}
}
