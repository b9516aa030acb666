package acceptance

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// What Terraform 1.11 can't ask for (identities, list resources), asked of the provider by
// the protocol itself.

// server is a provider that can list, too.
type server interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
}

// protocol is a provider that speaks to a service, and its schemas.
type protocol struct {
	server

	t          *testing.T
	schemas    *tfprotov6.GetProviderSchemaResponse
	identities map[string]*tfprotov6.ResourceIdentitySchema
}

// speak configures a provider for a service, or for a proxy in front of it. Without a
// service, it only tells its schemas.
func speak(t *testing.T, s *service, endpoint string) *protocol {
	t.Helper()
	plain, err := factories()["corvo"]()
	if err != nil {
		t.Fatal(err)
	}
	lists, ok := plain.(server)
	if !ok {
		t.Fatal("the provider lists nothing")
	}
	p := &protocol{server: lists, t: t}
	schemas, err := p.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	p.schemas = schemas
	p.fine(err, schemas.Diagnostics)
	identities, err := p.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	p.fine(err, identities.Diagnostics)
	p.identities = identities.IdentitySchemas
	if s != nil {
		config := p.config(schemas.Provider, map[string]any{"endpoint": cmp.Or(endpoint, s.endpoint()), "token": s.token()})
		res, err := p.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.14.0", Config: config})
		p.fine(err, res.Diagnostics)
	}
	return p
}

func said(diags []*tfprotov6.Diagnostic) string {
	var lines []string
	for _, d := range diags {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			lines = append(lines, d.Summary+": "+d.Detail)
		}
	}
	return strings.Join(lines, "\n")
}

func (p *protocol) fine(err error, diags []*tfprotov6.Diagnostic) {
	p.t.Helper()
	if text := said(diags); err != nil || text != "" {
		p.t.Fatal(err, text)
	}
}

func (p *protocol) dynamic(of tftypes.Type, v tftypes.Value) *tfprotov6.DynamicValue {
	p.t.Helper()
	out, err := tfprotov6.NewDynamicValue(of, v)
	if err != nil {
		p.t.Fatal(err)
	}
	return &out
}

// config is a configuration, with null for what isn't given.
func (p *protocol) config(schema *tfprotov6.Schema, given map[string]any) *tfprotov6.DynamicValue {
	p.t.Helper()
	return p.dynamic(schema.ValueType(), valueOf(schema.ValueType(), given))
}

// valueOf writes texts, numbers, lists and maps of them as a value of a type.
func valueOf(of tftypes.Type, given any) tftypes.Value {
	switch kind := of.(type) {
	case tftypes.Object:
		fields, ok := given.(map[string]any)
		if !ok {
			break
		}
		values := map[string]tftypes.Value{}
		for name, field := range kind.AttributeTypes {
			values[name] = valueOf(field, fields[name])
		}
		return tftypes.NewValue(of, values)
	case tftypes.Map:
		fields, ok := given.(map[string]any)
		if !ok {
			break
		}
		values := map[string]tftypes.Value{}
		for name, v := range fields {
			values[name] = valueOf(kind.ElementType, v)
		}
		return tftypes.NewValue(of, values)
	case tftypes.Set:
		return elements(of, kind.ElementType, given)
	case tftypes.List:
		return elements(of, kind.ElementType, given)
	}
	return tftypes.NewValue(of, given)
}

func elements(of, element tftypes.Type, given any) tftypes.Value {
	items, ok := given.([]any)
	if !ok {
		return tftypes.NewValue(of, nil)
	}
	values := make([]tftypes.Value, len(items))
	for i, v := range items {
		values[i] = valueOf(element, v)
	}
	return tftypes.NewValue(of, values)
}

func (p *protocol) null(of tftypes.Type) *tfprotov6.DynamicValue {
	p.t.Helper()
	return p.dynamic(of, tftypes.NewValue(of, nil))
}

func (p *protocol) read(of tftypes.Type, v *tfprotov6.DynamicValue) tftypes.Value {
	p.t.Helper()
	out, err := v.Unmarshal(of)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// who reads an identity; empty if there is none.
func (p *protocol) who(typeName string, v *tfprotov6.ResourceIdentityData) (tenant, id string) {
	p.t.Helper()
	if v == nil {
		return "", ""
	}
	value, fields := p.read(p.identities[typeName].ValueType(), v.IdentityData), map[string]tftypes.Value{}
	if err := value.As(&fields); err != nil {
		p.t.Fatal(err)
	}
	for name, into := range map[string]*string{"tenant_id": &tenant, "id": &id} {
		if fields[name].IsNull() {
			continue
		}
		if err := fields[name].As(into); err != nil {
			p.t.Fatal(err)
		}
	}
	return tenant, id
}

func (p *protocol) identity(typeName, tenant, id string) *tfprotov6.ResourceIdentityData {
	p.t.Helper()
	given := map[string]any{"id": id}
	if tenant != "" {
		given["tenant_id"] = tenant
	}
	of := p.identities[typeName].ValueType()
	return &tfprotov6.ResourceIdentityData{IdentityData: p.dynamic(of, valueOf(of, given))}
}

// held is a resource's state, as Terraform keeps it.
type held struct {
	typeName string
	state    *tfprotov6.DynamicValue
	identity *tfprotov6.ResourceIdentityData
}

// plan is what an apply of a configuration would make of what there is.
func (p *protocol) plan(was held, config map[string]any) *tfprotov6.PlanResourceChangeResponse {
	p.t.Helper()
	schema := p.schemas.ResourceSchemas[was.typeName]
	of := schema.ValueType()
	prior := tftypes.NewValue(of, nil)
	if was.state != nil {
		prior = p.read(of, was.state)
	}
	plan, err := p.PlanResourceChange(p.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: was.typeName, PriorState: p.dynamic(of, prior), ProposedNewState: p.dynamic(of, p.proposed(schema.Block.Attributes, of, prior, config)),
		Config: p.config(schema, config), PriorIdentity: was.identity,
	})
	p.fine(err, plan.Diagnostics)
	return plan
}

// try plans and applies a configuration over what there is, and tells what went wrong. A
// replacement destroys first.
func (p *protocol) try(was held, config map[string]any) (held, string) {
	p.t.Helper()
	schema := p.schemas.ResourceSchemas[was.typeName]
	plan := p.plan(was, config)
	if len(plan.RequiresReplace) > 0 && was.state != nil {
		p.destroy(was)
		return p.try(held{typeName: was.typeName}, config)
	}
	prior := was.state
	if prior == nil {
		prior = p.null(schema.ValueType())
	}
	done, err := p.ApplyResourceChange(p.t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: was.typeName, PriorState: prior, PlannedState: plan.PlannedState, Config: p.config(schema, config), PlannedPrivate: plan.PlannedPrivate, PlannedIdentity: plan.PlannedIdentity,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return held{was.typeName, done.NewState, done.NewIdentity}, said(done.Diagnostics)
}

func (p *protocol) apply(was held, config map[string]any) held {
	p.t.Helper()
	now, problem := p.try(was, config)
	if problem != "" {
		p.t.Fatal(problem)
	}
	return now
}

// settled fails if there is anything to change.
func (p *protocol) settled(is held, config map[string]any) {
	p.t.Helper()
	of := p.schemas.ResourceSchemas[is.typeName].ValueType()
	differences, err := p.read(of, p.plan(is, config).PlannedState).Diff(p.read(of, is.state))
	if err != nil || len(differences) > 0 {
		p.t.Errorf("%s: a second plan changes %v %v", is.typeName, differences, err)
	}
}

// proposed is what Terraform proposes: what is configured, but for what is write-only; else
// what was, of what the provider computes.
func (p *protocol) proposed(attributes []*tfprotov6.SchemaAttribute, of tftypes.Type, prior tftypes.Value, config map[string]any) tftypes.Value {
	p.t.Helper()
	before := map[string]tftypes.Value{}
	if !prior.IsNull() {
		if err := prior.As(&before); err != nil {
			p.t.Fatal(err)
		}
	}
	o, _ := of.(tftypes.Object)
	values := map[string]tftypes.Value{}
	for _, a := range attributes {
		kind := o.AttributeTypes[a.Name]
		fields, single := config[a.Name].(map[string]any)
		was, known := before[a.Name]
		switch {
		case a.NestedType != nil && a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeSingle && single:
			if !known {
				was = tftypes.NewValue(kind, nil)
			}
			values[a.Name] = p.proposed(a.NestedType.Attributes, kind, was, fields)
		case config[a.Name] != nil && !a.WriteOnly:
			values[a.Name] = valueOf(kind, config[a.Name])
		case a.Computed && known:
			values[a.Name] = was
		default:
			values[a.Name] = tftypes.NewValue(kind, nil)
		}
	}
	return tftypes.NewValue(of, values)
}

func (p *protocol) refresh(was held) held {
	p.t.Helper()
	res, err := p.ReadResource(p.t.Context(), &tfprotov6.ReadResourceRequest{TypeName: was.typeName, CurrentState: was.state, CurrentIdentity: was.identity})
	p.fine(err, res.Diagnostics)
	return held{was.typeName, res.NewState, res.NewIdentity}
}

func (p *protocol) destroy(was held) {
	p.t.Helper()
	of := p.schemas.ResourceSchemas[was.typeName].ValueType()
	res, err := p.ApplyResourceChange(context.WithoutCancel(p.t.Context()), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: was.typeName, PriorState: was.state, PlannedState: p.null(of), Config: p.null(of), PlannedIdentity: was.identity,
	})
	p.fine(err, res.Diagnostics)
}

// adopt imports by id or by identity.
func (p *protocol) adopt(typeName, id string, identity *tfprotov6.ResourceIdentityData) (held, string) {
	p.t.Helper()
	res, err := p.ImportResourceState(p.t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: typeName, ID: id, Identity: identity})
	if err != nil {
		p.t.Fatal(err)
	}
	if len(res.ImportedResources) == 0 {
		return held{}, said(res.Diagnostics)
	}
	first := res.ImportedResources[0]
	return held{typeName, first.State, first.Identity}, said(res.Diagnostics)
}

// list gives what a list resource finds, by id.
func (p *protocol) list(typeName string, limit int64, config map[string]any) (map[string]*tfprotov6.ListResourceResult, error) {
	p.t.Helper()
	stream, err := p.ListResource(p.t.Context(), &tfprotov6.ListResourceRequest{
		TypeName: typeName, Config: p.config(p.schemas.ListResourceSchemas[typeName], config), IncludeResource: true, Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	found := map[string]*tfprotov6.ListResourceResult{}
	for result := range stream.Results {
		if text := said(result.Diagnostics); text != "" {
			return nil, fmt.Errorf("%s", text)
		}
		_, id := p.who(typeName, result.Identity)
		found[id] = &result
	}
	return found, nil
}
