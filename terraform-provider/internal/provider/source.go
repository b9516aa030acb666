package provider

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// findSource is a data source of one thing that an attribute names; S is how it is shown.
type findSource[S any] struct {
	configured

	typeName, about string
	// by is the attribute that names it: it stays as it was written.
	by   string
	item map[string]schema.Attribute
	find func(ctx context.Context, c *cloud.Client, asked string) (S, error)
}

// Metadata implements datasource.DataSource.
func (s *findSource[S]) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = s.typeName
}

// Schema implements datasource.DataSource.
func (s *findSource[S]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := maps.Clone(s.item)
	attributes[s.by] = schema.StringAttribute{
		Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: s.item[s.by].GetMarkdownDescription() + " An id works, too.",
	}
	resp.Schema = schema.Schema{MarkdownDescription: s.about, Attributes: attributes}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *findSource[S]) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *findSource[S]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	var asked types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(s.by), &asked)...)
	if resp.Diagnostics.HasError() {
		return
	}
	found, err := s.find(ctx, s.cloud, asked.ValueString())
	if err != nil {
		addError(&resp.Diagnostics, "read "+s.typeName+" "+asked.ValueString(), err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, found)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(s.by), asked)...)
}

// listSource is a data source of everything of a kind; S is how one is shown.
type listSource[S any] struct {
	configured

	typeName, about string
	// items is the attribute that has the list.
	items string
	item  map[string]schema.Attribute
	// filters are attributes that may be set, and what they are about.
	filters map[string]string
	list    func(ctx context.Context, c *cloud.Client, filter func(name string) string) ([]S, error)
}

// Metadata implements datasource.DataSource.
func (s *listSource[S]) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = s.typeName
}

// Schema implements datasource.DataSource.
func (s *listSource[S]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := map[string]schema.Attribute{s.items: schema.ListNestedAttribute{
		Computed: true, MarkdownDescription: "The list.", NestedObject: schema.NestedAttributeObject{Attributes: s.item},
	}}
	for name, about := range s.filters {
		attributes[name] = schema.StringAttribute{Optional: true, MarkdownDescription: about}
	}
	resp.Schema = schema.Schema{MarkdownDescription: s.about, Attributes: attributes}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *listSource[S]) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	s.set(req.ProviderData, &resp.Diagnostics)
}

// Read implements datasource.DataSource.
func (s *listSource[S]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	ctx, cancel := s.cloud.Operation(ctx)
	defer cancel()
	given := map[string]types.String{}
	for name := range s.filters {
		var v types.String
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(name), &v)...)
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), v)...)
		given[name] = v
	}
	if resp.Diagnostics.HasError() {
		return
	}
	found, err := s.list(ctx, s.cloud, func(name string) string { return given[name].ValueString() })
	if err != nil {
		addError(&resp.Diagnostics, "read "+s.typeName, err)
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(s.items), found)...)
}

var (
	_ datasource.DataSourceWithConfigure = (*findSource[shownRole])(nil)
	_ datasource.DataSourceWithConfigure = (*listSource[shownRole])(nil)
)
