package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oklog/ulid/v2"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// pure is a function that makes no call.
type pure struct {
	name       string
	definition function.Definition
	run        func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError
}

// Metadata implements function.Function.
func (f pure) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = f.name
}

// Definition implements function.Function.
func (f pure) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = f.definition
}

// Run implements function.Function.
func (f pure) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	resp.Error = f.run(ctx, req.Arguments, &resp.Result)
}

func permissionAllows() function.Function {
	return pure{
		name: "permission_allows",
		definition: function.Definition{
			Summary: "Whether a set of permissions contains one",
			MarkdownDescription: "Whether a set of permissions, such as `permissions` of a `corvo_role`, contains a permission. A misspelled name is an error and not `false`, " +
				"so that a `check` or a `precondition` can rely on the answer. Makes no call.",
			Parameters: []function.Parameter{
				function.SetParameter{Name: "role_permissions", ElementType: types.StringType, MarkdownDescription: "Names of permissions, for example `[\"job.enqueue\", \"queue.read\"]`."},
				function.StringParameter{Name: "permission", MarkdownDescription: "Name of a permission, for example `job.enqueue`; `corvo_permissions` lists them."},
			},
			Return: function.BoolReturn{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError {
			var held []string
			var wanted string
			if err := arguments.Get(ctx, &held, &wanted); err != nil {
				return err
			}
			if _, unknown := permission.SetOf(held); len(unknown) > 0 {
				slices.Sort(unknown)
				return function.NewArgumentFuncError(0, "not the name of a permission: "+strings.Join(unknown, ", ")+"; data.corvo_permissions lists them")
			}
			if _, ok := permission.Named(wanted); !ok {
				return function.NewArgumentFuncError(1, fmt.Sprintf("%q isn't the name of a permission; data.corvo_permissions lists them", wanted))
			}
			return result.Set(ctx, slices.Contains(held, wanted))
		},
	}
}

type parsedKey struct {
	Valid  bool         `tfsdk:"valid"`
	Kind   types.String `tfsdk:"kind"`
	KeyID  types.String `tfsdk:"key_id"`
	Prefix types.String `tfsdk:"prefix"`
}

func parseAPIKey() function.Function {
	return pure{
		name: "parse_api_key",
		definition: function.Definition{
			Summary: "What the text of an API key says",
			MarkdownDescription: "Kind, id and public prefix of an API key (`corvo_…`), never its secret. `valid` says whether the text is a whole key without a typing mistake, and nothing about " +
				"whether the key works; if it is false, the rest is null. Makes no call.",
			Parameters: []function.Parameter{function.StringParameter{Name: "key", MarkdownDescription: "The whole key."}},
			Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{
				"valid": types.BoolType, "kind": types.StringType, "key_id": types.StringType, "prefix": types.StringType,
			}},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError {
			var text string
			if err := arguments.Get(ctx, &text); err != nil {
				return err
			}
			k, err := apikey.Parse(text)
			if err != nil {
				return result.Set(ctx, parsedKey{Kind: types.StringNull(), KeyID: types.StringNull(), Prefix: types.StringNull()})
			}
			kind := string(k.Kind())
			return result.Set(ctx, parsedKey{
				Valid: true, Kind: types.StringValue(kind), KeyID: types.StringValue(k.ID()), Prefix: types.StringValue("corvo_" + kind + "_" + strings.TrimPrefix(k.ID(), "key_")),
			})
		},
	}
}

// idKinds are the beginnings of ids, and what they are ids of.
func idKinds() map[string]string {
	return map[string]string{
		"tn": "tenant", "ns": "namespace", "usr": "user", "inv": "invitation", "sso": "sso_connection", "sa": "service_account", "grp": "group", "role": "role", "bnd": "role_binding",
		"dom": "domain", "snk": "audit_sink", "trust": "trust", "key": "api_key",
	}
}

type parsedID struct {
	Kind      string       `tfsdk:"kind"`
	ULID      types.String `tfsdk:"ulid"`
	CreatedAt types.String `tfsdk:"created_at"`
}

func parseID() function.Function {
	return pure{
		name: "parse_id",
		definition: function.Definition{
			Summary: "What an id says",
			MarkdownDescription: "What kind of thing an id is of, such as `namespace` for `ns_…`, its ULID, and when it was made. Ids of API keys (`key_…`) and of roles that every tenant has " +
				"(`role_owner`) have no ULID: both are null. An id of no known kind is an error. Makes no call.",
			Parameters: []function.Parameter{function.StringParameter{Name: "id", MarkdownDescription: "For example `ns_01JD0Z5W6T8RXVQ4K2M3N7P9SB`."}},
			Return:     function.ObjectReturn{AttributeTypes: map[string]attr.Type{"kind": types.StringType, "ulid": types.StringType, "created_at": types.StringType}},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError {
			var text string
			if err := arguments.Get(ctx, &text); err != nil {
				return err
			}
			prefix, rest, _ := strings.Cut(text, "_")
			kind := idKinds()[prefix]
			made, err := ulid.ParseStrict(rest)
			switch {
			case kind != "" && err == nil && prefix != "key":
				return result.Set(ctx, parsedID{kind, types.StringValue(rest), types.StringValue(made.Timestamp().UTC().Format(time.RFC3339Nano))})
			case apikey.IsID(text) || prefix == "role" && fixedRole.MatchString(rest):
				return result.Set(ctx, parsedID{kind, types.StringNull(), types.StringNull()})
			}
			return function.NewArgumentFuncError(0, fmt.Sprintf("%q isn't the id of anything: an id is a prefix such as ns_ or sa_, and 26 letters and digits", apikey.Redact(text)))
		},
	}
}

var (
	fixedRole = regexp.MustCompile(`^[a-z]+$`)
	unnamable = regexp.MustCompile(`[^a-z0-9]+`)
)

// Bounds of a namespace's name; a queue's may be longer.
const (
	nameLeast = 3
	nameMost  = 40
	nameTail  = 7 // A hyphen and some of a digest.
)

func resourceName() function.Function {
	return pure{
		name: "resource_name",
		definition: function.Definition{
			Summary: "A name made of parts",
			MarkdownDescription: "A name that a namespace, queue or service account can have, made of parts: in lower case, joined with hyphens, other characters replaced by hyphens. A name " +
				"longer than 40 characters is cut, and ends with some of a digest of the whole, so that two long names stay different. Makes no call.",
			Parameters: []function.Parameter{function.ListParameter{Name: "parts", ElementType: types.StringType, MarkdownDescription: "For example `[\"Orders\", var.environment]`."}},
			Return:     function.StringReturn{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError {
			var parts []string
			if err := arguments.Get(ctx, &parts); err != nil {
				return err
			}
			name := nameOf(parts)
			if len(name) < nameLeast || name[0] < 'a' {
				return function.NewArgumentFuncError(0, fmt.Sprintf("%q can't be a name: it needs at least %d characters and begins with a letter", name, nameLeast))
			}
			return result.Set(ctx, name)
		},
	}
}

func nameOf(parts []string) string {
	name := strings.Trim(unnamable.ReplaceAllString(strings.ToLower(strings.Join(parts, "-")), "-"), "-")
	if len(name) <= nameMost {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:nameMost-nameTail], "-") + "-" + hex.EncodeToString(sum[:])[:nameTail-1]
}
